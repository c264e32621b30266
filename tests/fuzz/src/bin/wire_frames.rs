//! Frames between agents and coordinators, in pieces of any size, and the messages in them.

#![no_main]

use reweave_proto::frame::{FrameDecoder, decode, encode};
use reweave_proto::hello::Hello;
use reweave_proto::message::{AgentMessage, CoordinatorMessage, PeerPart};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut frames = FrameDecoder::with_limit(4096);
    let size = bytes.first().map_or(1, |first| usize::from(*first) + 1);
    for piece in bytes.chunks(size) {
        frames.handle_bytes(piece);
        while let Ok(Some(frame)) = frames.poll_frame() {
            read(&frame);
        }
    }
    let _ = frames.handle_end();
    read(bytes);
});

/// What was understood is understood again when it is passed on.
fn read(frame: &[u8]) {
    let _ = Hello::decode(frame);
    let _ = decode::<PeerPart>(frame);
    if let Ok(message) = decode::<AgentMessage>(frame) {
        let again = encode(&message).expect("it can be written");
        assert_eq!(decode(&again[4..]), Ok(message));
    }
    if let Ok(message) = decode::<CoordinatorMessage>(frame) {
        let again = encode(&message).expect("it can be written");
        assert_eq!(decode(&again[4..]), Ok(message));
    }
}
