//! What an older build makes of what this one says.

use proptest::prelude::*;
use reweave_common::flow::FlowKey;
use reweave_common::moment::Moment;
use reweave_common::plan::Generation;
use reweave_common::sample::{Counters, Interface, PinRule, Reading};
use serde::Deserialize;

use super::arbitrary;
use crate::frame::{decode, encode};
use crate::hello::Version;
use crate::message::{AgentMessage, MEASUREMENTS, sample_for};

/// As version 1.0 has them.
#[derive(Debug, PartialEq, Deserialize)]
enum OldMessage {
    Sample(OldSample),
}

#[derive(Debug, PartialEq, Deserialize)]
struct OldSample {
    taken: Moment,
    readings: Vec<OldReading>,
}

/// Kinds keep their places; those without content here looked otherwise.
#[derive(Debug, PartialEq, Deserialize)]
enum OldReading {
    Interface(Interface),
    Counters(Counters),
    Flow(Otherwise),
    FlowEnded(FlowKey),
    RoundTrip(Otherwise),
    Path(Otherwise),
    Pinned {
        generation: Generation,
        rules: Vec<PinRule>,
    },
}

/// Nothing can be read as this.
#[derive(Debug, PartialEq)]
struct Otherwise;

impl<'de> Deserialize<'de> for Otherwise {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(serde::de::Error::custom("it looked otherwise"))
    }
}

/// What an old coordinator should have understood of these.
fn known(readings: &[Reading]) -> Vec<OldReading> {
    let known = readings
        .iter()
        .cloned()
        .filter_map(|reading| match reading {
            Reading::Interface(it) => Some(OldReading::Interface(it)),
            Reading::Counters(it) => Some(OldReading::Counters(it)),
            Reading::FlowEnded(it) => Some(OldReading::FlowEnded(it)),
            Reading::Pinned { generation, rules } => Some(OldReading::Pinned { generation, rules }),
            _ => None,
        });
    known.collect()
}

proptest! {
    #![proptest_config(arbitrary::seeded())]

    #[test]
    fn an_old_coordinator_understands_what_a_new_agent_tells_it(sample in arbitrary::sample()) {
        let expected = OldSample {
            taken: sample.taken,
            readings: known(&sample.readings),
        };
        let said = AgentMessage::Sample(sample_for(Version { major: 1, minor: 0 }, sample));
        let heard = decode::<OldMessage>(&encode(&said).unwrap()[4..]);
        prop_assert_eq!(heard, Ok(OldMessage::Sample(expected)));
    }

    #[test]
    fn nothing_is_kept_from_who_knows_all(sample in arbitrary::sample()) {
        prop_assert_eq!(sample_for(MEASUREMENTS, sample.clone()), sample);
    }
}
