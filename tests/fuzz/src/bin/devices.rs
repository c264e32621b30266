//! What optical switches answer: NETCONF in either framing, and TL1.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reweave_formats::optical::netconf::framing::Deframer;
use reweave_formats::optical::netconf::{read_hello, read_reply};
use reweave_formats::optical::pairs::read_pairs;
use reweave_formats::optical::tl1::Reader;

fuzz_target!(|bytes: &[u8]| {
    for chunks in [false, true] {
        deframe(bytes, chunks);
    }
    let mut reader = Reader::default();
    for piece in bytes.chunks(7) {
        reader.handle_bytes(piece);
        while let Ok(Some(response)) = reader.poll_response() {
            let _ = (response.pairs(), response.refusal());
        }
    }
});

fn deframe(bytes: &[u8], chunks: bool) {
    let mut deframer = Deframer::default();
    if chunks {
        deframer.use_chunks();
    }
    for piece in bytes.chunks(7) {
        deframer.handle_bytes(piece);
        while let Ok(Some(text)) = deframer.poll_message() {
            let _ = (read_hello(&text), read_reply(&text, 1), read_pairs(&text));
        }
    }
}
