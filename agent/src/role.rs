//! The role of this node in the fabric.

use std::fs;
use std::io;

use clap::ValueEnum;
use thiserror::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Sends and receives, without forwarding.
    Host,
    /// Forwards; can pin flows.
    Switch,
    /// Sends, receives and forwards, as directly wired servers do.
    Relay,
}

#[derive(Debug, Error)]
#[error("cannot read {IP_FORWARD_PATH} to detect host or switch; use --role")]
pub struct UnknownRole {
    source: io::Error,
}

const IP_FORWARD_PATH: &str = "/proc/sys/net/ipv4/ip_forward";

impl Role {
    pub fn is_endpoint(self) -> bool {
        self != Self::Switch
    }

    pub fn forwards(self) -> bool {
        self != Self::Host
    }

    /// A node whose kernel forwards is a switch.
    pub fn detect() -> Result<Self, UnknownRole> {
        let setting =
            fs::read_to_string(IP_FORWARD_PATH).map_err(|source| UnknownRole { source })?;
        Ok(match setting.trim() {
            "0" => Self::Host,
            _ => Self::Switch,
        })
    }
}
