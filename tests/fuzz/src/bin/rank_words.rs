//! What jobs report to an agent of their collectives: any user of the host may write to its socket.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| reweave_agent::decoders::rank_word(bytes));
