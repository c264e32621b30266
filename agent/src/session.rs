//! The agent's uplink to the coordinators: what it sends and receives there.

use reweave_agent_core::delta::Delta;
use reweave_common::instruction::Instruction;
use reweave_common::sample::Sample;
use reweave_link::uplink::{self, MemberProtocol, Uplink};
use reweave_proto::message::{AgentMessage, CoordinatorMessage};

pub type AgentUplink = Uplink<AgentProtocol>;
pub type AgentEvent = uplink::UplinkEvent<Instruction>;

pub enum AgentProtocol {}

impl MemberProtocol for AgentProtocol {
    type Said = AgentMessage;
    type Heard = CoordinatorMessage;
    type Instruction = Instruction;
    type Measured = Sample;
    type Report = Delta;

    fn clock(time_of_day_us: u64) -> AgentMessage {
        AgentMessage::Clock { time_of_day_us }
    }

    fn renew(request: Vec<u8>) -> AgentMessage {
        AgentMessage::Renew { request }
    }

    fn report(delta: &mut Delta, sample: Sample) -> AgentMessage {
        AgentMessage::Sample(delta.handle_sample(sample))
    }
}
