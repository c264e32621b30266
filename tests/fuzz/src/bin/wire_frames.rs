//! Frames between agents, drivers, coordinators and operators, in pieces of any size, and the messages in them.

#![no_main]

use reweave_common::operator::{Request, Response};
use reweave_proto::frame::{FrameDecoder, decode, encode};
use reweave_proto::hello::Hello;
use reweave_proto::message::{
    AgentMessage, CoordinatorMessage, DriverMessage, DriverOrder, PeerPart,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

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
    read_as::<PeerPart>(frame);
    read_as::<AgentMessage>(frame);
    read_as::<CoordinatorMessage>(frame);
    read_as::<DriverMessage>(frame);
    read_as::<DriverOrder>(frame);
    read_as::<Request>(frame);
    read_as::<Response>(frame);
}

fn read_as<T: Serialize + DeserializeOwned>(frame: &[u8]) {
    if let Ok(message) = decode::<T>(frame) {
        let said = encode(&message).expect("it can be written");
        let again = decode::<T>(&said[4..]).expect("and read");
        assert_eq!(encode(&again), Ok(said));
    }
}
