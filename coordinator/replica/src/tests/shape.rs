//! What replicas write down is read by those of the next release, and so is what they say to each other.

use serde_reflection::Tracer;

use super::shapes::{Formats, assert_known, shape, trace, write_down};
use crate::journal::{Batch, Record};
use crate::replica::Envelope;
use crate::wire::{EntryContent, Kind, Step, Transition};
use crate::{Answer, Change, Message, Proposal};

const GOLDEN_LOG: &str = include_str!("../../shapes/log-8.txt");
const GOLDEN_MESSAGES: &str = include_str!("../../shapes/messages-1.txt");

const CONTENT_TRACERS: [fn(&mut Tracer); 3] =
    [trace::<EntryContent>, trace::<Step>, trace::<Transition>];

fn log() -> Formats {
    vec![
        ("Record", shape::<Record>(&CONTENT_TRACERS)),
        (
            "Envelope",
            shape::<Envelope>(&[trace::<std::net::SocketAddr>]),
        ),
        ("Proposal", shape::<Proposal>(&[])),
        ("Change", shape::<Change>(&[trace::<std::net::SocketAddr>])),
    ]
}

fn messages() -> Formats {
    let kinds = [&CONTENT_TRACERS[..], &[trace::<Kind>]].concat();
    vec![
        ("Message", shape::<Message>(&kinds)),
        ("Answer", shape::<Answer>(&[trace::<std::net::SocketAddr>])),
    ]
}

#[test]
fn log_keeps_shape_of_its_version() {
    let file = Batch {
        is_whole: true,
        ..Batch::default()
    };
    assert!(file.encode(0).unwrap().starts_with(b"reweave log 8"));
    assert_known(&log(), GOLDEN_LOG);
}

#[test]
fn messages_keep_their_shape() {
    assert_known(&messages(), GOLDEN_MESSAGES);
}

#[test]
#[ignore = "it rewrites the files of shapes: `make shapes`"]
fn golden_shapes_are_written() {
    write_down("log-8.txt", &log());
    write_down("messages-1.txt", &messages());
}
