//! What jobs tell an agent of their collectives: anybody on the host may write to its socket.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| reweave_agent::decoders::rank_word(bytes));
