//! The agent's uplink to the coordinators: what it sends and receives there.

use reweave_agent_core::delta::Delta;
use reweave_common::instruction::Instruction;
use reweave_common::sample::Sample;
use reweave_link::uplink::{self, MemberProtocol, Uplink};
use reweave_proto::hello::Version;
use reweave_proto::message::{AgentMessage, CoordinatorMessage};
use reweave_proto::since_version::sample_for_version;

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

    fn report(delta: &mut Delta, sample: Sample, version: Version) -> AgentMessage {
        let sample = sample_for_version(sample, version);
        AgentMessage::Sample(delta.handle_sample(sample))
    }
}

#[cfg(test)]
mod tests {
    use reweave_common::hardware::Lack;
    use reweave_common::moment::Moment;
    use reweave_common::sample::{HostReading, Reading};
    use reweave_proto::since_version::came_with;

    use super::*;

    #[test]
    fn earlier_coordinator_gets_no_nic_places() {
        let lack = Reading::Host(HostReading::Lack(Lack::default()));
        let place = Reading::Host(HostReading::NicPlace(Box::default()));
        let reported = |minor: u16| {
            let sample = Sample {
                taken: Moment::default(),
                readings: vec![place.clone(), lack.clone()],
            };
            AgentProtocol::report(&mut Delta::default(), sample, came_with(minor))
        };
        let with = |readings: &[&Reading]| {
            AgentMessage::Sample(Sample {
                taken: Moment::default(),
                readings: readings.iter().copied().cloned().collect(),
            })
        };
        assert_eq!(reported(1), with(&[&lack]));
        assert_eq!(reported(2), with(&[&place, &lack]));
    }
}
