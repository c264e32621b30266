//! What lldpcli and nft print.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    reweave_agent::decoders::lldp(text);
    reweave_agent::decoders::nft(text);
});
