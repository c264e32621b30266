//! Errors between the agent and its kernel.

use std::fmt;
use std::io;

use netlink_packet_core::{DecodeError, DoneMessage, ErrorMessage, NlasIterator};
use nix::errno::Errno;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum NetlinkError {
    #[error("cannot open a netlink socket")]
    Open { source: io::Error },
    #[error("cannot ask the kernel to {what}")]
    Send {
        what: &'static str,
        source: io::Error,
    },
    #[error("no answer from the kernel, asked to {what}")]
    Receive {
        what: &'static str,
        source: io::Error,
    },
    #[error("cannot parse the kernel's answer, asked to {what}: {source}")]
    Decode {
        what: &'static str,
        source: DecodeError,
    },
    #[error("the kernel refused to {what}")]
    Refused {
        what: &'static str,
        source: KernelError,
    },
    #[error("the kernel's tables kept changing, asked to {what}")]
    NeverSteady { what: &'static str },
}

/// The kernel's refusal, with its reason if it gives one.
#[derive(Debug)]
pub struct KernelError {
    pub errno: Errno,
    pub reason: Option<String>,
}

impl NetlinkError {
    /// What the kernel answered, if it did.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Refused { source, .. } => Some(source.errno),
            _ => None,
        }
    }

    /// Whether there was no room for the question or the answer, so that it is unknown how far the kernel came.
    pub fn is_overrun(&self) -> bool {
        match self {
            Self::Send { source, .. } | Self::Receive { source, .. } => {
                source.raw_os_error() == Some(Errno::ENOBUFS as i32)
            }
            Self::Refused { source, .. } => source.errno == Errno::ENOBUFS,
            _ => false,
        }
    }

    /// Whether an answer, or the rest of one, may still come.
    pub(super) fn leaves_answers(&self) -> bool {
        matches!(self, Self::Receive { .. } | Self::Decode { .. })
    }
}

impl KernelError {
    /// The error of a list, if the kernel got to its end.
    pub(super) fn of_list(done: &DoneMessage) -> Option<Self> {
        let refused = Self {
            errno: Errno::from_raw(done.code.saturating_abs()),
            reason: reason_in(&done.extended_ack),
        };
        (done.code != 0).then_some(refused)
    }

    pub(super) fn read(error: &ErrorMessage) -> Self {
        Self {
            // The least number has no opposite.
            errno: Errno::from_raw(error.raw_code().saturating_abs()),
            reason: reason(&error.header),
        }
    }
}

/// Behind the header of the message it answers, the kernel may give the reason as text.
fn reason(answer: &[u8]) -> Option<String> {
    const HEADER_BYTES: usize = 16;
    reason_in(answer.get(HEADER_BYTES..)?)
}

fn reason_in(attributes: &[u8]) -> Option<String> {
    const NLMSGERR_ATTR_MSG: u16 = 1;
    let attributes = NlasIterator::new(attributes);
    let text = attributes
        .filter_map(Result::ok)
        .find(|it| it.kind() == NLMSGERR_ATTR_MSG)?;
    let text = text.value().strip_suffix(&[0]).unwrap_or(text.value());
    Some(String::from_utf8_lossy(text).into_owned())
}

impl std::error::Error for KernelError {}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.errno.desc())?;
        match &self.reason {
            Some(reason) => write!(f, " ({reason})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_netlink_errno_is_printable() {
        for code in [i32::MIN, -1, 0, i32::MAX] {
            let mut error = ErrorMessage::default();
            error.code = std::num::NonZeroI32::new(code);
            let refused = KernelError::read(&error);
            assert_eq!(refused.errno == Errno::EPERM, code == -1);
            assert!(!refused.to_string().is_empty());
        }
    }
}
