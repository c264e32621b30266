//! What routers and hosts answer to traces, by ICMP.

#![no_main]

use reweave_agent_core::probe::ProbeMark;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = ProbeMark(0x1234).read(bytes);
});
