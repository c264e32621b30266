//! Errors between the driver and a device, or in an instruction.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use reweave_common::circuit::{Circuit, CircuitSet, NotSwitched};
use reweave_common::exit_code::{BAD_USAGE, FAILED};
use reweave_formats::optical::netconf::framing::FramingError;
use reweave_formats::optical::netconf::{HelloError, ReplyError};
use reweave_formats::optical::pairs::PairsError;
use reweave_formats::optical::tl1::Tl1Error;
use reweave_link::LinkError;
use reweave_link::join::JoinError;
use reweave_link::uplink::CertificateError;
use thiserror::Error;

use reweave_link::durable_files::LockedFolderError;

/// A device's failure.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// It may have followed the instruction.
    #[error("no answer within {} ms", .patience.as_millis())]
    TimedOut { patience: Duration },
    #[error("it cannot be reached")]
    Unreachable { source: reqwest::Error },
    #[error("it refused with status {status}: {said}")]
    Refused { status: u16, said: String },
    #[error("its answer is invalid")]
    Circuits(#[from] PairsError),
    #[error("the connection to it broke")]
    Broken { source: io::Error },
    #[error("it closed the connection: {said}")]
    HungUp { said: String },
    #[error("its data is not NETCONF")]
    Framing(#[from] FramingError),
    #[error("cannot open a session with it")]
    Hello(#[from] HelloError),
    #[error(transparent)]
    Reply(#[from] ReplyError),
    #[error("its answer is invalid")]
    Tl1(#[from] Tl1Error),
    #[error("no circuit {circuit}")]
    NoSuchCircuit { circuit: Circuit },
    #[error("cannot run {}", .program.display())]
    Run { program: PathBuf, source: io::Error },
    #[error("its answer violates the contract")]
    Contract { source: serde_json::Error },
    #[error("its answer exceeds {most} bytes")]
    TooMuch { most: usize },
    #[error("it refused: {said}")]
    Failed { said: String },
}

impl DeviceError {
    /// Whether it says that the device will not do what was asked of it: it said so itself, or has not heard of it.
    /// After anything else it may have done it, or do it yet.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            // A proxy's: 408 and 502 to 504 say that the device's own answer is missing (RFC 9110, 15.5.9 and 15.6.3).
            Self::Refused { status, .. } => !matches!(status, 408 | 502..=504),
            Self::Failed { .. } | Self::Reply(_) | Self::NoSuchCircuit { .. } => true,
            Self::Unreachable { source } => source.is_connect(),
            Self::Broken { source } => source.kind() == io::ErrorKind::ConnectionRefused,
            Self::Hello(_) | Self::Run { .. } => true,
            Self::TimedOut { .. }
            | Self::Circuits(_)
            | Self::HungUp { .. }
            | Self::Framing(_)
            | Self::Tl1(_)
            | Self::Contract { .. }
            | Self::TooMuch { .. } => false,
        }
    }
}

/// Why a device cannot be reached at all.
#[derive(Debug, Error)]
pub enum PrepareError {
    #[error("cannot read {}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot make a client from its settings")]
    Client { source: reqwest::Error },
    #[error("TL1 allows no user or password with spaces or any of ; : , & \" \\ in it")]
    NoWord,
}

/// Why the driver cannot work.
#[derive(Debug, Error)]
pub enum DriverError {
    #[error("cannot write the manual to {}", .folder.display())]
    Manual { folder: PathBuf, source: io::Error },
    #[error("cannot read {}", .path.display())]
    ReadConfig { path: PathBuf, source: io::Error },
    #[error("{}: {}", .path.display(), .source.message())]
    Config {
        path: PathBuf,
        source: toml::de::Error,
    },
    #[error("{}: {name:?} is not a valid name for an optical switch: use letters, digits, '-', \
             '_', '.'", .path.display())]
    BadName { path: PathBuf, name: String },
    #[error("{} has no optical switch {name:?}; it has {}", .path.display(), .known.join(" "))]
    NoSuchSwitch {
        path: PathBuf,
        name: String,
        known: Vec<String>,
    },
    #[error("cannot prepare the connection to optical switch {name}")]
    Prepare { name: String, source: PrepareError },
    #[error("cannot keep the driver's state")]
    State(#[from] LockedFolderError),
    #[error("optical switch {name}")]
    Device { name: String, source: DeviceError },
    #[error("optical switch {name} holds {found}, which differs from the instruction")]
    Elsewhere { name: String, found: CircuitSet },
    #[error("optical switch {name}: {why}")]
    NotSwitched { name: String, why: NotSwitched },
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("cannot join the cluster")]
    Join { source: Box<JoinError> },
    #[error("cannot look for a coordinator")]
    Link { source: Box<LinkError> },
    #[error("the driver's event loop failed")]
    Loop { source: io::Error },
    #[error("the connection task to the coordinator has ended")]
    LineGone,
    #[error("cannot print")]
    Print { source: io::Error },
    #[error("optical switch {name} has no manual move to roll back")]
    NothingToRevert { name: String },
}

impl DriverError {
    /// [`BAD_USAGE`] when the user asked for something that does not exist or makes no sense.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::ReadConfig { .. }
            | Self::Config { .. }
            | Self::BadName { .. }
            | Self::NoSuchSwitch { .. }
            | Self::NothingToRevert { .. }
            | Self::NotSwitched {
                why: NotSwitched::Impossible { .. },
                ..
            } => BAD_USAGE,
            Self::Certificate(error) if error.is_of_the_folder() => BAD_USAGE,
            _ => FAILED,
        }
    }
}
