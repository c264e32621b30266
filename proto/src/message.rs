//! The messages between an agent and the coordinator, and between coordinators. A later minor
//! version adds kinds at the end, and says nothing of them to who speaks an earlier one.

use std::net::SocketAddr;

use reweave_common::instruction::{Ack, Install, Instruction, Watch};
use reweave_common::member::DenyList;
use reweave_common::probing::ProbeList;
use reweave_common::sample::Sample;
use serde::{Deserialize, Serialize};

/// Said by an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentMessage {
    Sample(Sample),
    Ack(Ack),
    /// What the agent's clock shows.
    Clock {
        time_of_day_us: u64,
    },
    /// Certify this new key for me.
    Renew {
        request: Vec<u8>,
    },
}

/// Said to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CoordinatorMessage {
    Watch(Watch),
    Install(Install),
    /// Who is shut out: nobody of these is a coordinator any more.
    Denied(DenyList),
    /// The new certificate and that of its signer, in PEM; none when there will be none, and the
    /// reason is the coordinator's own.
    Renewed {
        chain_pem: Option<String>,
    },
    Probe(ProbeList),
    /// Nothing is to be had here: another coordinator leads, there if that is known.
    Elsewhere(Option<SocketAddr>),
}

impl From<Instruction> for CoordinatorMessage {
    fn from(instruction: Instruction) -> Self {
        match instruction {
            Instruction::Watch(watch) => Self::Watch(watch),
            Instruction::Install(install) => Self::Install(install),
            Instruction::Probe(list) => Self::Probe(list),
        }
    }
}

/// Said by one coordinator to another: a part of something that only they understand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerPart {
    pub is_last: bool,
    pub bytes: Vec<u8>,
}
