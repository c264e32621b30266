//! Task graphs of TopoOpt and FlexFlow (FlatBuffers), and their measurements (JSON).

#![no_main]

use reweave_formats::topoopt::{TaskGraph, read_profile};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = TaskGraph::decode(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        for batch in [0, 64, 1 << 40] {
            let _ = read_profile(text, batch);
        }
    }
});
