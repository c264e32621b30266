//! What the kernel tells beside a packet.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| reweave_agent::decoders::beside_packet(bytes));
