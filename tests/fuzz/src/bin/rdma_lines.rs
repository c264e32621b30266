//! What the helpers of two hosts say to each other over TCP, and a helper to its agent.

#![no_main]

use reweave_common::rdma::{Answer, Request};
use reweave_rdma::meeting::{Closing, Greeting, Opening, Reply, Report};

libfuzzer_sys::fuzz_target!(|line: &[u8]| {
    let _ = serde_json::from_slice::<Greeting>(line);
    let _ = serde_json::from_slice::<Opening>(line);
    let _ = serde_json::from_slice::<Reply>(line);
    let _ = serde_json::from_slice::<Closing>(line);
    let _ = serde_json::from_slice::<Report>(line);
    if let Ok(request) = serde_json::from_slice::<Request>(line) {
        let again = serde_json::to_vec(&request).expect("it can be written");
        assert_eq!(
            serde_json::from_slice::<Request>(&again).ok(),
            Some(request)
        );
    }
    if let Ok(answer) = serde_json::from_slice::<Answer>(line) {
        let again = serde_json::to_vec(&answer).expect("it can be written");
        assert_eq!(serde_json::from_slice::<Answer>(&again).ok(), Some(answer));
    }
});
