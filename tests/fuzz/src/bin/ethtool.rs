//! What drivers answer.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| reweave_agent::decoders::ethtool(bytes));
