//! What rdma prints: a line of the queue pairs there are, and one of what is counted for them.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    let (listed, counted) = text.split_once('\n').unwrap_or((text, text));
    reweave_agent::decoders::queue_pairs(listed.as_bytes(), counted.as_bytes());
});
