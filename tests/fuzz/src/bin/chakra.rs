//! Execution traces of Chakra (protobuf).

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let _ = reweave_formats::chakra::read(&[bytes]);
    let _ = reweave_formats::chakra::read(&[first, second]);
});
