//! What coordinators say to each other, and what stands first in their logs, is read by those of the next release.

use serde_reflection::Tracer;

use super::shapes::{Formats, assert_known, shape, trace, write_down};
use crate::data::Belonging;
use crate::replication::PeerMessage;

const PEER_MESSAGES: &str = include_str!("../../shapes/peer-messages-1.txt");
const GOLDEN_LOG: &str = include_str!("../../shapes/log-8.txt");

fn peer_messages() -> Formats {
    let choices: [fn(&mut Tracer); 7] = [
        trace::<reweave_common::member::Role>,
        trace::<reweave_replica::Answer>,
        trace::<reweave_replica::EntryContent>,
        trace::<reweave_replica::Kind>,
        trace::<reweave_replica::Step>,
        trace::<reweave_replica::Transition>,
        trace::<std::net::SocketAddr>,
    ];
    vec![("PeerMessage", shape::<PeerMessage>(&choices))]
}

fn log() -> Formats {
    vec![("Belonging", shape::<Belonging>(&[]))]
}

#[test]
fn peer_messages_keep_their_shape() {
    assert_known(&peer_messages(), PEER_MESSAGES);
}

#[test]
fn log_begins_with_version_shape() {
    assert_known(&log(), GOLDEN_LOG);
}

#[test]
#[ignore = "it rewrites the files of shapes: `make shapes`"]
fn golden_shapes_are_written() {
    write_down("peer-messages-1.txt", &peer_messages());
    write_down("log-8.txt", &log());
}
