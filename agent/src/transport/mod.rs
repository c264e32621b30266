//! How this host's kernel sends the packets of jobs: source ports of sockets, DSCP and priority. An operator changes
//! it; it is read back, and restored, also after an interrupted change.

mod marking;

use std::fs;
use std::io;
use std::path::Path;

use reweave_link::durable_files::{LockedFolder, LockedFolderError};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::traffic::NftError;
pub use marking::{Marking, Network, NoMarking, NoNetwork};

/// The setting of the reader's network namespace.
const PORT_RANGE_PATH: &str = "/proc/sys/net/ipv4/ip_local_port_range";
const STATE_FILE: &str = "transport.json";
/// Fewer ports would not suffice for the connections of one host to all others.
const MIN_PORTS: u16 = 512;
/// Below are those of services.
const MIN_PORT: u16 = 1024;

#[derive(Debug, Error)]
pub enum TransportError {
    #[error("cannot read {PORT_RANGE_PATH}")]
    ReadPorts { source: io::Error },
    #[error("{PORT_RANGE_PATH} holds {text:?}, which is not a port range")]
    Garbled { text: String },
    #[error("cannot write {PORT_RANGE_PATH}")]
    WritePorts { source: io::Error },
    #[error("cannot mark packets")]
    Marking(#[from] NftError),
    #[error("cannot save the previous settings")]
    State(#[from] LockedFolderError),
    #[error("the kernel holds {held} instead of {desired}; previous settings restored")]
    NotHeld { held: String, desired: String },
    #[error("nothing was changed: another program has set {held} since, instead of {noted}")]
    Foreign { held: String, noted: String },
    #[error(
        "another program has set rules in the nftables table reweave_transport; delete it first"
    )]
    OtherRules,
    #[error("no earlier `apply` to revert")]
    NothingToRevert,
}

/// The range from the first to the last port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports {
    first: u16,
    last: u16,
}

#[derive(Debug, Error)]
pub enum NoPorts {
    #[error("give FIRST-LAST, such as 49152-57343")]
    Form,
    #[error("ports below {MIN_PORT} are reserved for services")]
    TooLow,
    #[error("give {MIN_PORTS} ports or more: each connection to one port of a host needs its own")]
    TooFew,
}

/// All settings that Reweave changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transport {
    pub source_ports: Ports,
    /// None where no packet is marked.
    pub marking: Option<Marking>,
}

/// The requested changes; the rest stays.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    pub source_ports: Option<Ports>,
    pub marking: Option<Marking>,
}

/// Noted before anything is changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Change {
    /// Before the first change that was not rolled back.
    before: Transport,
    after: Transport,
}

impl Transport {
    /// What the kernel does now.
    pub fn read() -> Result<Self, TransportError> {
        let text = fs::read_to_string(PORT_RANGE_PATH);
        let text = text.map_err(|source| TransportError::ReadPorts { source })?;
        let source_ports = Ports::of_kernel(&text).ok_or_else(|| TransportError::Garbled {
            text: text.trim().to_owned(),
        })?;
        Ok(Self {
            source_ports,
            marking: marking::read()?,
        })
    }

    pub fn with(&self, wanted: Wanted) -> Self {
        Self {
            source_ports: wanted.source_ports.unwrap_or(self.source_ports),
            marking: wanted.marking.or_else(|| self.marking.clone()),
        }
    }

    /// Part by part: what a change that was cut short has left is of either.
    fn is_between(&self, change: &Change) -> bool {
        let Change { before, after } = change;
        let ports = [before.source_ports, after.source_ports];
        let markings = [&before.marking, &after.marking];
        ports.contains(&self.source_ports) && markings.contains(&&self.marking)
    }

    fn hold(&self, held: &Self) -> Result<(), TransportError> {
        if self.source_ports != held.source_ports {
            let text = format!("{} {}", self.source_ports.first, self.source_ports.last);
            fs::write(PORT_RANGE_PATH, text)
                .map_err(|source| TransportError::WritePorts { source })?;
        }
        if self.marking != held.marking {
            marking::hold(self.marking.as_ref())?;
        }
        Ok(())
    }
}

impl std::fmt::Display for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Ports { first, last } = self.source_ports;
        write!(f, "source ports {first}-{last}, ")?;
        match &self.marking {
            None => f.write_str("no packet marked"),
            Some(marking) => marking.fmt(f),
        }
    }
}

impl Ports {
    fn of_kernel(text: &str) -> Option<Self> {
        let mut numbers = text.split_whitespace().map(|it| it.parse().ok());
        let [first, last] = [numbers.next()??, numbers.next()??];
        Some(Self { first, last })
    }
}

impl std::str::FromStr for Ports {
    type Err = NoPorts;

    fn from_str(text: &str) -> Result<Self, NoPorts> {
        let (first, last) = text.split_once('-').ok_or(NoPorts::Form)?;
        let port = |text: &str| text.parse::<u16>().map_err(|_| NoPorts::Form);
        let [first, last] = [port(first)?, port(last)?];
        match last.checked_sub(first) {
            _ if first < MIN_PORT => Err(NoPorts::TooLow),
            Some(more) if more >= MIN_PORTS - 1 => Ok(Self { first, last }),
            _ => Err(NoPorts::TooFew),
        }
    }
}

/// What was there before is in this folder, from before the first change on.
#[derive(Debug)]
pub struct Hand(LockedFolder);

impl Hand {
    pub fn open(folder: &Path) -> Result<Self, TransportError> {
        Ok(Self(LockedFolder::hold(folder)?))
    }

    /// Has the kernel do this, and reads back that it does; or it does what it did.
    pub fn apply(&self, wanted: Wanted) -> Result<Transport, TransportError> {
        let held = Transport::read()?;
        let noted = self.noted()?;
        if let Some(noted) = &noted {
            refuse_foreign(&held, noted)?;
        }
        let after = held.with(wanted);
        let before = noted.map_or_else(|| held.clone(), |noted| noted.before);
        let change = Change {
            before,
            after: after.clone(),
        };
        self.note(Some(&change))?;
        let outcome = after.hold(&held).and_then(|()| confirm(&after));
        if outcome.is_err() {
            self.put_back(&held, &change)?;
        }
        outcome
    }

    /// Restores the state before the first change.
    pub fn revert(&self) -> Result<Transport, TransportError> {
        let noted = self.noted()?.ok_or(TransportError::NothingToRevert)?;
        let held = Transport::read()?;
        refuse_foreign(&held, &noted)?;
        noted.before.hold(&held)?;
        let held = confirm(&noted.before)?;
        self.note(None)?;
        Ok(held)
    }

    fn put_back(&self, before: &Transport, change: &Change) -> Result<(), TransportError> {
        before.hold(&Transport::read()?)?;
        let is_first = *before == change.before;
        let back = Change {
            before: change.before.clone(),
            after: before.clone(),
        };
        self.note((!is_first).then_some(&back))
    }

    fn noted(&self) -> Result<Option<Change>, TransportError> {
        Ok(self.0.load(STATE_FILE)?)
    }

    fn note(&self, change: Option<&Change>) -> Result<(), TransportError> {
        Ok(self.0.note(STATE_FILE, &change)?)
    }
}

fn refuse_foreign(held: &Transport, noted: &Change) -> Result<(), TransportError> {
    if held.is_between(noted) {
        return Ok(());
    }
    Err(TransportError::Foreign {
        held: held.to_string(),
        noted: noted.after.to_string(),
    })
}

fn confirm(desired: &Transport) -> Result<Transport, TransportError> {
    let held = Transport::read()?;
    if held == *desired {
        return Ok(held);
    }
    Err(TransportError::NotHeld {
        held: held.to_string(),
        desired: desired.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_range_avoids_services() {
        let words = |text: &str| text.parse::<Ports>().unwrap_err().to_string();
        assert!("49152-49663".parse::<Ports>().is_ok());
        assert!(words("49152-49662").starts_with("give 512 ports"));
        assert!(words("49152-1025").starts_with("give 512 ports"));
        assert!(words("80-65535").starts_with("ports below 1024"));
        assert!(words("49152").starts_with("give FIRST-LAST"));
        assert!(words("1-70000").starts_with("give FIRST-LAST"));
        assert_eq!(
            Ports::of_kernel("32768\t60999\n"),
            "32768-60999".parse().ok()
        );
    }

    #[test]
    fn interrupted_change_lies_between_settings() {
        let transport = |ports: &str, dscp: Option<u8>| Transport {
            source_ports: ports.parse().unwrap(),
            marking: dscp.map(|dscp| {
                let to = vec!["10.0.0.0/24".parse().unwrap()];
                Marking::new(dscp, None, to).unwrap()
            }),
        };
        let [first, second] = ["32768-60999", "49152-65535"];
        let change = Change {
            before: transport(first, None),
            after: transport(second, Some(26)),
        };
        assert!(transport(second, None).is_between(&change));
        assert!(transport(first, Some(26)).is_between(&change));
        assert!(!transport("2048-60999", None).is_between(&change));
        assert!(!transport(first, Some(8)).is_between(&change));
    }
}
