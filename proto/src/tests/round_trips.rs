//! What goes in comes out, for every message, over the wire and in JSON.

use std::fmt::Debug;

use proptest::prelude::*;
use reweave_common::operator::Plan;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::arbitrary;
use crate::frame::{FrameDecoder, decode, encode};
use crate::hello::Hello;

fn over_the_wire<T: Serialize + DeserializeOwned + PartialEq + Debug>(
    message: &T,
) -> Result<(), TestCaseError> {
    let mut decoder = FrameDecoder::default();
    decoder.handle_bytes(&encode(message).unwrap());
    let frame = decoder.poll_frame().unwrap().unwrap();
    prop_assert_eq!(&decode::<T>(&frame).unwrap(), message);
    prop_assert_eq!(decoder.handle_end(), Ok(()));
    Ok(())
}

fn in_json<T: Serialize + DeserializeOwned + PartialEq + Debug>(
    message: &T,
) -> Result<(), TestCaseError> {
    let text = serde_json::to_string(message).unwrap();
    prop_assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), message);
    Ok(())
}

proptest! {
    #![proptest_config(arbitrary::seeded())]

    #[test]
    fn agent_messages_roundtrip(message in arbitrary::agent_message()) {
        over_the_wire(&message)?;
    }

    #[test]
    fn coordinator_messages_roundtrip(message in arbitrary::coordinator_message()) {
        over_the_wire(&message)?;
    }

    #[test]
    fn driver_messages_roundtrip(message in arbitrary::driver_message(), order in arbitrary::driver_order()) {
        over_the_wire(&message)?;
        over_the_wire(&order)?;
    }

    #[test]
    fn operator_requests_roundtrip(request in arbitrary::request()) {
        over_the_wire(&request)?;
        in_json(&request)?;
    }

    /// In a file it is what was shown, and nothing else.
    #[test]
    fn sealed_plan_roundtrips_and_detects_edits(plan in arbitrary::plan()) {
        let sealed = plan.sealed();
        let text = serde_json::to_string_pretty(&sealed).unwrap();
        let read: Plan = serde_json::from_str(&text).unwrap();
        prop_assert!(read.is_as_sealed());
        let takes_back = read.takes_back.is_none().then_some(read.generation);
        let edited = Plan { takes_back, ..read };
        prop_assert!(!edited.is_as_sealed());
    }

    #[test]
    fn operator_responses_roundtrip(response in arbitrary::response()) {
        over_the_wire(&response)?;
        in_json(&response)?;
    }

    #[test]
    fn hellos_roundtrip(hello in arbitrary::hello()) {
        over_the_wire(&hello)?;
        prop_assert_eq!(Hello::decode(&hello.encode().unwrap()[4..]), Ok(hello));
    }
}
