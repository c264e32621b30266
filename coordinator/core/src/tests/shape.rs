//! The formats of entries and states in the log, which the next release reads.

use reweave_check::{PinFault, Trouble, Unsound};
use reweave_common::cause::{Class, Subject, Suspect};
use reweave_common::circuit::{CircuitSet, NotSwitched, SwitchOutcome};
use reweave_common::finding::{Finding, Useless};
use reweave_common::flow::Protocol;
use reweave_common::forwarding_state::ForwardingState;
use reweave_common::instruction::InstallRefusal;
use reweave_common::member::Role;
use reweave_common::operator::{FlowChange, MaintenanceStage, Steering};
use reweave_common::plan::LostBecause;
use reweave_common::resource_set::Resource;
use serde_reflection::Tracer;

use super::minors::{NewKind, assert_only_added, earlier};
use super::shapes::{Formats, assert_known, shape, trace, write_down};
use crate::log::command::{Aim, LATEST_MINOR};
use crate::{
    Author, Change, Command, Decision, Device, Heading, Outcome, Phase, Reason, Stage, State,
    StateTail, StepAnswer,
};

const GOLDEN_1_1: &str = include_str!("../../shapes/1.1.txt");
const GOLDEN_1_2: &str = include_str!("../../shapes/1.2.txt");
const GOLDEN_MINOR: u16 = 2;

/// New kinds of 1.2, at the end of each list.
const KINDS_SINCE_1_2: [NewKind; 1] = [("Command", "Change", "policy_set")];
/// A snapshot of 1.2 has it behind the state of 1.1.
const TAIL: &str = "StateTail";

fn written() -> Formats {
    let common: [fn(&mut Tracer); 23] = [
        trace::<Author>,
        trace::<Resource>,
        trace::<Class>,
        trace::<Decision>,
        trace::<Finding>,
        trace::<FlowChange>,
        trace::<LostBecause>,
        trace::<MaintenanceStage>,
        trace::<NotSwitched>,
        trace::<PinFault>,
        trace::<Device>,
        trace::<Protocol>,
        trace::<Reason>,
        trace::<InstallRefusal>,
        trace::<Role>,
        trace::<Steering>,
        trace::<Subject>,
        trace::<Suspect>,
        trace::<SwitchOutcome>,
        trace::<Trouble>,
        trace::<Unsound>,
        trace::<Useless>,
        trace::<std::net::SocketAddr>,
    ];
    let commands: [fn(&mut Tracer); 3] = [
        trace::<Aim>,
        trace::<Change>,
        trace::<Result<ForwardingState, InstallRefusal>>,
    ];
    let states: [fn(&mut Tracer); 6] = [
        trace::<StepAnswer>,
        trace::<Heading>,
        trace::<Outcome>,
        trace::<Phase>,
        trace::<Result<CircuitSet, NotSwitched>>,
        trace::<Stage>,
    ];
    vec![
        (
            "Command",
            shape::<Command>(&[&common[..], &commands].concat()),
        ),
        ("State", shape::<State>(&[&common[..], &states].concat())),
        (TAIL, shape::<StateTail>(&[trace::<Author>])),
    ]
}

/// The formats that 1.1 has, too.
fn written_before() -> Formats {
    let mut formats = written();
    formats.retain(|(root, _)| *root != TAIL);
    formats
}

#[test]
fn log_keeps_shape_of_its_version() {
    assert_eq!(LATEST_MINOR, GOLDEN_MINOR);
    assert_known(&written(), GOLDEN_1_2);
}

#[test]
fn later_minor_only_adds_kinds() {
    assert_only_added(written_before(), &KINDS_SINCE_1_2, [GOLDEN_1_1, GOLDEN_1_2]);
}

/// None of them is left when the cluster version is lowered: the reasons of refused plans are dropped then.
#[test]
fn only_plans_under_way_are_new() {
    let of_state = KINDS_SINCE_1_2
        .iter()
        .filter(|(format, ..)| *format == "State");
    for (_, list, kind) in of_state {
        assert!(["Stage", "Unsound"].contains(list), "{kind} in {list}");
    }
}

#[test]
#[ignore = "it rewrites the files of shapes: `make shapes`"]
fn golden_shapes_are_written() {
    write_down("1.2.txt", &written());
    write_down("1.1.txt", &earlier(written_before(), &KINDS_SINCE_1_2));
}
