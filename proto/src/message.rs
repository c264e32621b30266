//! The messages between an agent and the coordinator. A later minor version adds kinds at the end.

use reweave_common::instruction::{Ack, Install, Instruction, Watch};
use reweave_common::probing::ProbeList;
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
    Probe(ProbeList),
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
