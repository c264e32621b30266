//! Why RDMA is unavailable.

use std::io;
use std::path::PathBuf;

use reweave_common::hardware::Lack;
use thiserror::Error;

use reweave_common::error::error_chain;

/// The name of this measurement where it is reported as off.
pub const MEASUREMENT_NAME: &str = "RDMA";

#[derive(Debug, Error)]
pub enum RdmaError {
    #[error("{} is not there", path.display())]
    Missing { path: PathBuf },
    #[error("cannot start the helper")]
    Start { source: io::Error },
    #[error("the helper has ended: {words}")]
    Ended { words: String },
    #[error("the helper does not answer")]
    Silent,
    #[error("invalid message from the helper")]
    Garbled { source: serde_json::Error },
    #[error("{because}")]
    Failed { because: String },
    #[error("this machine has no RDMA device")]
    NoDevice,
}

impl RdmaError {
    /// The text in the list of missing capabilities.
    pub fn lack(&self) -> Lack {
        let remedy = match self {
            Self::Missing { .. } => "install reweave-rdma beside reweave-agent",
            Self::NoDevice => "load the RDMA driver of its NIC; `rdma link` shows devices",
            Self::Ended { .. } => "install libibverbs and librdmacm",
            Self::Failed { .. } => "build reweave-rdma with --features rdma, and check the reason",
            Self::Start { .. } | Self::Silent | Self::Garbled { .. } => {
                "install the reweave-rdma of this release"
            }
        };
        Lack {
            measurement: MEASUREMENT_NAME.to_owned(),
            because: error_chain(self),
            remedy: remedy.to_owned(),
        }
    }
}
