//! What an agent finds in its folder when it starts: the pins in force, and who is denied. An operator's commands find the
//! latter in theirs.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    reweave_agent::decoders::record(bytes);
    reweave_link::decoders::deny_lists(bytes);
});
