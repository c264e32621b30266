//! Questions and answers about what has arrived of a flow, and the packets that are looked at for it.

#![no_main]

use std::net::Ipv4Addr;

use reweave_agent_core::path_confirmation::{ConfirmationResponder, read_answer};
use reweave_common::moment::Moment;

const REQUESTER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const RESPONDER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = read_answer([RESPONDER_ADDRESS, REQUESTER_ADDRESS], bytes);
    let mut witness = ConfirmationResponder::default();
    witness.handle_roster([REQUESTER_ADDRESS]);
    witness.handle_packet(bytes);
    if let Some(answer) = witness.handle_word(
        Moment::default(),
        [REQUESTER_ADDRESS, RESPONDER_ADDRESS],
        bytes,
    ) {
        assert!(answer.len() <= bytes.len());
        assert!(read_answer([RESPONDER_ADDRESS, REQUESTER_ADDRESS], &answer).is_some());
    }
});
