//! What is said around trains and saturating tests, as it comes from the network.

#![no_main]

use reweave_agent_core::packet_trains::TrainMessage;
use reweave_agent_core::preflight::PreflightMessage;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((train, message)) = TrainMessage::read(bytes) {
        assert_eq!(
            TrainMessage::read(&message.to_bytes(train)),
            Some((train, message))
        );
    }
    if let Some((session, word)) = PreflightMessage::read(bytes) {
        assert_eq!(
            PreflightMessage::read(&word.to_bytes(session)),
            Some((session, word))
        );
    }
});
