//! What PyTorch's flight recorder (pickle) and NCCL's inspector (JSON) leave behind.

#![no_main]

use reweave_common::ids::Rank;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = reweave_formats::flight_recorder::read(Rank::from_index(0), bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = reweave_formats::nccl_inspector::read(&[text]);
    }
});
