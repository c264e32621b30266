//! A golden file: the next release reads what a driver of this one has recorded.

use reweave_common::circuit::{NotSwitched, SwitchOutcome};

use crate::fence::Record;
use crate::shapes::{Formats, assert_known, shape, trace, write_down};

const GOLDEN_FENCE: &str = include_str!("../shapes/fence-1.txt");

fn written() -> Formats {
    vec![(
        "Record",
        shape::<Record>(&[trace::<NotSwitched>, trace::<SwitchOutcome>]),
    )]
}

#[test]
fn fence_keeps_shape_of_its_version() {
    assert_known(&written(), GOLDEN_FENCE);
}

#[test]
#[ignore = "it rewrites the files of shapes: `make shapes`"]
fn golden_shapes_are_written() {
    write_down("fence-1.txt", &written());
}
