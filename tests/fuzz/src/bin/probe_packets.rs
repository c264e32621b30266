//! Probes and answers as they come from the network.

#![no_main]

use reweave_agent_core::latency::Packet;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some(packet) = Packet::read(bytes) {
        assert_eq!(Packet::read(&packet.to_bytes()), Some(packet));
    }
});
