//! The messages between an agent and the coordinator, and between coordinators. A later minor
//! version adds kinds at the end.

use std::net::SocketAddr;

use reweave_common::instruction::{Ack, Install, Instruction, Watch};
use reweave_common::sample::Sample;
use serde::{Deserialize, Serialize};

/// Said by an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentMessage {
    Sample(Sample),
    Ack(Ack),
}

/// Said to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CoordinatorMessage {
    Watch(Watch),
    Install(Install),
    /// Nothing is to be had here: another coordinator leads, there if that is known.
    Elsewhere(Option<SocketAddr>),
}

impl From<Instruction> for CoordinatorMessage {
    fn from(instruction: Instruction) -> Self {
        match instruction {
            Instruction::Watch(watch) => Self::Watch(watch),
            Instruction::Install(install) => Self::Install(install),
        }
    }
}

/// Said by one coordinator to another: a part of something that only they understand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerPart {
    pub is_last: bool,
    pub bytes: Vec<u8>,
}
