//! What coordinators say to each other, and what stands first in their logs, is read by those of the next release.

use serde_reflection::Tracer;

use super::shapes::{Formats, assert_known, shape, trace, write_down};
use crate::data::Belonging;
use crate::replication::Letter;

const LETTERS: &str = include_str!("../../shapes/letters-1.txt");
const LOG: &str = include_str!("../../shapes/log-8.txt");

fn letters() -> Formats {
    let choices: [fn(&mut Tracer); 7] = [
        trace::<reweave_common::member::Role>,
        trace::<reweave_replica::Answer>,
        trace::<reweave_replica::Content>,
        trace::<reweave_replica::Kind>,
        trace::<reweave_replica::Step>,
        trace::<reweave_replica::Transition>,
        trace::<std::net::SocketAddr>,
    ];
    vec![("Letter", shape::<Letter>(&choices))]
}

fn log() -> Formats {
    vec![("Belonging", shape::<Belonging>(&[]))]
}

#[test]
fn letters_keep_their_shape() {
    assert_known(&letters(), LETTERS);
}

#[test]
fn log_begins_with_the_shape_of_its_version() {
    assert_known(&log(), LOG);
}

#[test]
#[ignore = "it writes the files of shapes anew: `make shapes`"]
fn shapes_are_written_down_anew() {
    write_down("letters-1.txt", &letters());
    write_down("log-8.txt", &log());
}
