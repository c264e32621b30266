//! The messages between an agent and the coordinator, and between coordinators. A later minor
//! version adds kinds at the end.

use std::net::SocketAddr;

use reweave_common::instruction::{Ack, Install, Instruction, Watch};
use reweave_common::member::DenyList;
use reweave_common::probing::ProbeList;
use reweave_common::sample::{Reading, Sample};
use serde::{Deserialize, Serialize};

use crate::hello::Version;

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

/// Since this version: clocks, renewals, and who is shut out. Whoever speaks an older one is told
/// nothing of them.
pub const MEMBERSHIP: Version = Version { major: 1, minor: 1 };

/// Since this version: probes, bandwidths, what hosts say of themselves, flows of datagrams, paths
/// that the receiver confirms, and who leads elsewhere. Whoever speaks an older one is told nothing
/// of them.
pub const MEASUREMENTS: Version = Version { major: 1, minor: 1 };

/// What is left of a sample for who speaks this version.
pub fn sample_for(version: Version, mut sample: Sample) -> Sample {
    if version < MEASUREMENTS {
        sample.readings.retain(is_as_ever);
    }
    sample
}

/// Whether who speaks this version knows such an instruction.
pub fn is_known_to(version: Version, instruction: &Instruction) -> bool {
    version >= MEASUREMENTS || !matches!(instruction, Instruction::Probe(_))
}

/// Whether readings of this kind look as in the first version.
fn is_as_ever(reading: &Reading) -> bool {
    match reading {
        Reading::Interface(_)
        | Reading::Counters(_)
        | Reading::FlowEnded(_)
        | Reading::Pinned { .. } => true,
        Reading::Flow(_)
        | Reading::Probes(_)
        | Reading::Path(_)
        | Reading::Host(_)
        | Reading::Bandwidth(_) => false,
    }
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
