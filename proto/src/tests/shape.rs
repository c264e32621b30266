//! The shape of all that is said on a session is written down beside the version that has it: one that
//! changes without a new version would be misunderstood by who speaks the old one. Before a release the files
//! may be written again, all of them, by `make shapes`: 1.2 is what there is, and 1.1 the same without what
//! `KINDS_SINCE_1_2` lists. Kinds that are to belong to 1.1 come before those, in the lists that they are in.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use proptest::prelude::*;
use reweave_common::bandwidth::{Bandwidth, Unclear};
use reweave_common::cause::{Class, Subject, Suspect};
use reweave_common::circuit::{NotSwitched, SwitchOutcome};
use reweave_common::fabric::NicUse;
use reweave_common::flow::Protocol;
use reweave_common::forwarding_state::ForwardingState;
use reweave_common::hardware::{Duplex, Fec};
use reweave_common::health::{CounterSource, Signal};
use reweave_common::instruction::InstallRefusal;
use reweave_common::member::Role;
use reweave_common::operator::{
    AgentState, AuditOutcome, CoordinatorState, Finding, FlowChange, JobOrder, MaintenanceStage,
    MemberOrder, Mode, Outcome, Phase, Refused, Request, Response, RollbackRefused, SettingSource,
    Steering, Tag, Useless, What,
};
use reweave_common::pci::PciPath;
use reweave_common::periodicity::{ExchangePattern, Periodicity};
use reweave_common::plan::LostBecause;
use reweave_common::probing::Stamps;
use reweave_common::rdma::{GidKind, LinkLayer, RdmaReading, Transport};
use reweave_common::sample::{HostReading, Reading};
use reweave_common::traffic::TrafficSource;
use serde::Serialize;
use serde_json::Value;

use super::arbitrary;
use super::minors::{NewKind, assert_only_added, bent, earlier, named, only_adds, reach, read};
use super::shapes::{Formats, Shapes, assert_known, shape, trace, write_down};
use crate::frame::encode_alone;
use crate::hello::{Hello, PROTOCOL_VERSION, Version};
use crate::message::{AgentMessage, CoordinatorMessage, DriverMessage, DriverOrder, PeerPart};
use crate::since_version::SinceVersion;

const GOLDEN_1_1: &str = include_str!("../../shapes/1.1.txt");
const GOLDEN_1_2: &str = include_str!("../../shapes/1.2.txt");
const GOLDEN_VERSION: Version = Version { major: 1, minor: 2 };

/// What came with 1.2, in each list of kinds at its end.
const KINDS_SINCE_1_2: [NewKind; 14] = [
    ("AgentMessage", "HostReading", "nic_place"),
    ("Request", "Request", "policy"),
    ("Request", "Request", "policy-set"),
    ("Request", "Request", "nics"),
    ("Request", "Request", "traffic"),
    ("Request", "Request", "rail-matrix"),
    ("Request", "Request", "take-over"),
    ("Response", "Refused", "bad-setting"),
    ("Response", "Refused", "policy-changed"),
    ("Response", "Refused", "setting-in-use"),
    ("Response", "Refused", "under-maintenance"),
    ("Response", "Response", "policy"),
    ("Response", "Response", "nics"),
    ("Response", "Response", "traffic"),
];

/// By the first message of each.
fn spoken() -> Formats {
    vec![
        ("Hello", shape::<Hello>(&[])),
        ("AgentMessage", of_agents()),
        (
            "CoordinatorMessage",
            shape::<CoordinatorMessage>(&[trace::<Protocol>, trace::<Role>, trace::<SocketAddr>]),
        ),
        (
            "DriverMessage",
            shape::<DriverMessage>(&[trace::<NotSwitched>, trace::<SwitchOutcome>]),
        ),
        (
            "Order",
            shape::<DriverOrder>(&[trace::<Role>, trace::<SocketAddr>]),
        ),
        (
            "Request",
            shape::<Request>(&[
                trace::<JobOrder>,
                trace::<MaintenanceStage>,
                trace::<MemberOrder>,
                trace::<Protocol>,
                trace::<Role>,
                trace::<SocketAddr>,
                trace::<Steering>,
            ]),
        ),
        ("Response", of_answers()),
        ("PeerPart", shape::<PeerPart>(&[])),
    ]
}

#[test]
fn wire_keeps_shape_of_its_version() {
    assert_eq!(PROTOCOL_VERSION, GOLDEN_VERSION);
    assert_known(&spoken(), GOLDEN_1_2);
}

#[test]
fn later_minor_only_appends_kinds() {
    assert_only_added(spoken(), &KINDS_SINCE_1_2, [GOLDEN_1_1, GOLDEN_1_2]);
}

/// What holds itself, at any depth.
fn circles(spoken: &[(&str, Shapes)]) -> Vec<String> {
    let mut circles = vec![];
    for (root, shapes) in spoken {
        for (name, shape) in shapes {
            let mut held = BTreeSet::new();
            named(shape).for_each(|part| reach(shapes, part, &mut held));
            if held.contains(name) {
                circles.push(format!("{name} in {root}"));
            }
        }
    }
    circles
}

/// It could be nested until its reader runs out of stack.
#[test]
fn message_types_are_not_recursive() {
    let none: Vec<String> = vec![];
    assert_eq!(circles(&spoken()), none);
    let deep = "# A\nA {\"NEWTYPE\":{\"SEQ\":{\"TYPENAME\":\"B\"}}}\n\
                B {\"STRUCT\":[{\"a\":{\"OPTION\":{\"TYPENAME\":\"A\"}}}]}\n";
    assert_eq!(circles(&read(deep)), ["A in A", "B in A"]);
}

#[test]
fn incompatible_shape_change_is_found() {
    let of = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let old = of(r#"{"ENUM":{"0":{"a":"UNIT"},"1":{"b":"UNIT"}}}"#);
    let added = of(r#"{"ENUM":{"0":{"a":"UNIT"},"1":{"b":"UNIT"},"2":{"c":"UNIT"}}}"#);
    let inserted = of(r#"{"ENUM":{"0":{"a":"UNIT"},"1":{"c":"UNIT"},"2":{"b":"UNIT"}}}"#);
    let widened = of(r#"{"ENUM":{"0":{"a":{"NEWTYPE":"U8"}},"1":{"b":"UNIT"}}}"#);
    assert!(only_adds(&old, &old) && only_adds(&old, &added));
    assert!(!only_adds(&added, &old), "one is gone");
    assert!(!only_adds(&old, &inserted) && !only_adds(&old, &widened));
    let [fewer, more] = [
        r#"{"STRUCT":[{"a":"U8"}]}"#,
        r#"{"STRUCT":[{"a":"U8"},{"b":"U8"}]}"#,
    ];
    assert!(!only_adds(&of(fewer), &of(more)), "a field is no kind");
    let [old, new] = ["# A\nA {\"STRUCT\":[]}\n", "# A\nB {\"STRUCT\":[]}\n"].map(read);
    assert_eq!(bent(&old, &new), ["A in A"]);
}

/// Whether each is known to the version before, by its place among the kinds of 1.1.
fn agrees<T: Serialize + SinceVersion>(root: &str, message: &T) -> Result<(), TestCaseError> {
    let known = read(GOLDEN_1_1);
    let (_, shapes) = known.iter().find(|(it, _)| *it == root).expect("a message");
    let kinds = shapes[root]["ENUM"].as_object().expect("a list of kinds");
    let frame = encode_alone(message).unwrap();
    let (place, _) = postcard::take_from_bytes::<u32>(&frame).unwrap();
    let is_old = kinds.contains_key(&place.to_string());
    let is_before = message.since() < GOLDEN_VERSION.minor;
    prop_assert_eq!(is_old, is_before, "kind {} of {}", place, root);
    Ok(())
}

proptest! {
    #![proptest_config(arbitrary::seeded())]

    #[test]
    fn each_kind_names_its_version(
        report in arbitrary::coordinator_message(),
        order in arbitrary::driver_order(),
        request in arbitrary::request(),
        response in arbitrary::response(),
    ) {
        agrees("CoordinatorMessage", &report)?;
        agrees("Order", &order)?;
        agrees("Request", &request)?;
        agrees("Response", &response)?;
    }
}

/// Before a release, when what is said has become another thing.
#[test]
#[ignore = "it rewrites the files of shapes: `make shapes`"]
fn golden_shapes_are_written() {
    write_down("1.2.txt", &spoken());
    write_down("1.1.txt", &earlier(spoken(), &KINDS_SINCE_1_2));
}

fn of_agents() -> Shapes {
    shape::<AgentMessage>(&[
        trace::<Bandwidth>,
        trace::<Duplex>,
        trace::<Fec>,
        trace::<GidKind>,
        trace::<HostReading>,
        trace::<LinkLayer>,
        trace::<PciPath>,
        trace::<CounterSource>,
        trace::<Protocol>,
        trace::<RdmaReading>,
        trace::<Reading>,
        trace::<InstallRefusal>,
        trace::<Result<ForwardingState, InstallRefusal>>,
        trace::<Periodicity>,
        trace::<ExchangePattern>,
        trace::<Signal>,
        trace::<Stamps>,
        trace::<TrafficSource>,
        trace::<Transport>,
        trace::<Unclear>,
    ])
}

fn of_answers() -> Shapes {
    shape::<Response>(&[
        trace::<AgentState>,
        trace::<AuditOutcome>,
        trace::<Steering>,
        trace::<Bandwidth>,
        trace::<Class>,
        trace::<CoordinatorState>,
        trace::<Finding>,
        trace::<FlowChange>,
        trace::<LostBecause>,
        trace::<MaintenanceStage>,
        trace::<Mode>,
        trace::<NicUse>,
        trace::<PciPath>,
        trace::<RollbackRefused>,
        trace::<Outcome>,
        trace::<Phase>,
        trace::<Protocol>,
        trace::<Refused>,
        trace::<Role>,
        trace::<SettingSource>,
        trace::<SocketAddr>,
        trace::<Subject>,
        trace::<Suspect>,
        trace::<Tag>,
        trace::<Unclear>,
        trace::<Useless>,
        trace::<What>,
    ])
}
