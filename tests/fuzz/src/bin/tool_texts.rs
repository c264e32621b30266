//! What lldpcli, nft and rdma print.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    reweave_agent::decoders::lldp(text);
    reweave_agent::decoders::nft(text);
    let (listed, counted) = text.split_once('\n').unwrap_or((text, text));
    reweave_agent::decoders::queue_pairs(listed.as_bytes(), counted.as_bytes());
});
