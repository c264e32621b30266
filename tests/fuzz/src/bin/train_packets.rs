//! What is said around trains and saturating tests, as it comes from the network.

#![no_main]

use reweave_agent_core::preflight::Word;
use reweave_agent_core::trains::Message;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((train, message)) = Message::read(bytes) {
        assert_eq!(
            Message::read(&message.to_bytes(train)),
            Some((train, message))
        );
    }
    if let Some((session, word)) = Word::read(bytes) {
        assert_eq!(Word::read(&word.to_bytes(session)), Some((session, word)));
    }
});
