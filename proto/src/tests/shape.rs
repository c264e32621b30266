//! The shape of all that is said on a session is written down beside the version that has it: one that
//! changes without a new version would be misunderstood by who speaks the old one. Before a release the files
//! may be written anew, all of them, by `make shapes`: 1.1 is what there is, and 1.0 the same without what
//! `NEW` lists. Kinds that are to belong to 1.0 come before those, in the lists that they are in.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use proptest::prelude::*;
use reweave_common::bandwidth::{Bandwidth, Unclear};
use reweave_common::cause::{Class, Subject, Suspect};
use reweave_common::circuit::{CircuitSet, NotSwitched};
use reweave_common::flow::Protocol;
use reweave_common::hardware::{Duplex, Fec};
use reweave_common::health::{Place, Signal};
use reweave_common::holding::Holding;
use reweave_common::instruction::Refusal;
use reweave_common::member::Role;
use reweave_common::operator::{
    AgentState, AuditOutcome, CoordinatorState, Finding, FlowChange, JobOrder, MaintenanceStage,
    MemberOrder, Mode, NoWayBack, Outcome, Phase, Refused, Request, Response, Steering, Tag,
    Useless, What,
};
use reweave_common::plan::LostBecause;
use reweave_common::probing::Stamps;
use reweave_common::rdma::{GidKind, LinkLayer, RdmaReading, Transport};
use reweave_common::rhythm::{Rhythm, Shape};
use reweave_common::sample::{HostReading, Reading};
use reweave_common::traffic::TrafficSource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_reflection::{ContainerFormat, Tracer, TracerConfig};

use super::arbitrary;
use crate::frame::encode_alone;
use crate::hello::{Hello, VERSION, Version};
use crate::message::{AgentMessage, CoordinatorMessage, DriverMessage, DriverOrder, PeerPart};
use crate::spoken::Spoken;

const EARLIER: &str = include_str!("../../shapes/1.0.txt");
const KNOWN: &str = include_str!("../../shapes/1.1.txt");
const KNOWN_VERSION: Version = Version { major: 1, minor: 1 };

/// What came with 1.1, in each list of kinds at its end.
const NEW: [(&str, &str); 12] = [
    ("CoordinatorMessage", "Closely"),
    ("CoordinatorMessage", "Coordinators"),
    ("CoordinatorMessage", "DeniedMore"),
    ("Order", "Coordinators"),
    ("Order", "DeniedMore"),
    ("Request", "lanes"),
    ("Request", "reorder"),
    ("Request", "standing"),
    ("Request", "steer"),
    ("Response", "lanes"),
    ("Response", "standing"),
    ("Response", "steered"),
];

/// The shapes of all that one message is made of, by name.
type Shapes = BTreeMap<String, Value>;

/// By the first message of each.
fn spoken() -> Vec<(&'static str, Shapes)> {
    vec![
        ("Hello", shape::<Hello>(&[])),
        ("AgentMessage", of_agents()),
        (
            "CoordinatorMessage",
            shape::<CoordinatorMessage>(&[trace::<Protocol>, trace::<Role>, trace::<SocketAddr>]),
        ),
        (
            "DriverMessage",
            shape::<DriverMessage>(&[
                trace::<NotSwitched>,
                trace::<Result<CircuitSet, NotSwitched>>,
            ]),
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

fn text(spoken: &[(&str, Shapes)]) -> String {
    let line = |(name, shape): (&String, &Value)| format!("{name} {shape}\n");
    let section = |(root, shapes): &(&str, Shapes)| {
        let lines: String = shapes.iter().map(line).collect();
        format!("# {root}\n{lines}")
    };
    spoken.iter().map(section).collect()
}

fn read(text: &str) -> Vec<(&str, Shapes)> {
    let mut spoken: Vec<(&str, Shapes)> = vec![];
    for line in text.lines() {
        let (name, rest) = line.split_once(' ').expect("two words");
        match (name, spoken.last_mut()) {
            ("#", _) => spoken.push((rest, Shapes::new())),
            (_, Some((_, shapes))) => {
                let shape = serde_json::from_str(rest).expect("it is JSON");
                shapes.insert(name.to_owned(), shape);
            }
            _ => panic!("{line} stands under no message"),
        }
    }
    spoken
}

/// As it was before there was what is new.
fn earlier(mut spoken: Vec<(&'static str, Shapes)>) -> Vec<(&'static str, Shapes)> {
    for (root, shapes) in &mut spoken {
        for (_, kind) in NEW.iter().filter(|(list, _)| list == root) {
            let kinds = shapes
                .get_mut(*root)
                .and_then(|it| it["ENUM"].as_object_mut());
            let kinds = kinds.expect("a list of kinds");
            kinds.retain(|_, it| it.get(kind).is_none());
        }
        let mut needed = BTreeSet::new();
        reach(shapes, root, &mut needed);
        shapes.retain(|name, _| needed.contains(name));
    }
    spoken
}

/// All that this one is made of.
fn reach(shapes: &Shapes, name: &str, needed: &mut BTreeSet<String>) {
    if needed.insert(name.to_owned()) {
        let shape = shapes.get(name).expect("it was traced");
        named(shape).for_each(|name| reach(shapes, name, needed));
    }
}

fn named(shape: &Value) -> Box<dyn Iterator<Item = &str> + '_> {
    match shape {
        Value::Object(parts) => Box::new(parts.iter().flat_map(|(key, part)| match part {
            Value::String(name) if key == "TYPENAME" => Box::new(std::iter::once(name.as_str())),
            part => named(part),
        })),
        Value::Array(parts) => Box::new(parts.iter().flat_map(named)),
        _ => Box::new(std::iter::empty()),
    }
}

/// Whether who knows the old shape understands all that it can say, and says nothing else itself: the same,
/// or a list of kinds with more of them at its end.
fn only_adds(old: &Value, new: &Value) -> bool {
    match (old["ENUM"].as_object(), new["ENUM"].as_object()) {
        (Some(old), Some(new)) => old.iter().all(|(place, kind)| new.get(place) == Some(kind)),
        _ => old == new,
    }
}

/// What of the old shapes is another thing in the new ones.
fn bent(old: &[(&str, Shapes)], new: &[(&str, Shapes)]) -> Vec<String> {
    let new: BTreeMap<_, _> = new.iter().map(|(root, shapes)| (*root, shapes)).collect();
    let mut bent = vec![];
    for (root, shapes) in old {
        for (name, shape) in shapes {
            let now = new.get(root).and_then(|shapes| shapes.get(name));
            if !now.is_some_and(|now| only_adds(shape, now)) {
                bent.push(format!("{name} in {root}"));
            }
        }
    }
    bent
}

#[test]
fn the_wire_has_the_shape_that_is_written_down_for_its_version() {
    let shape = text(&spoken());
    let known: BTreeSet<_> = KNOWN.lines().collect();
    let new: Vec<_> = shape.lines().filter(|it| !known.contains(it)).collect();
    assert!(
        VERSION == KNOWN_VERSION && shape == KNOWN,
        "what is said under version {VERSION} has not the shape that is written down for {KNOWN_VERSION}. A \
         released shape stays, and what is new comes under a new version; before a release, `make shapes`. \
         These lines are new:\n{}",
        new.join("\n")
    );
}

#[test]
fn a_later_minor_only_adds_kinds_at_the_ends_of_lists() {
    assert_eq!(
        text(&earlier(spoken())),
        EARLIER,
        "`make shapes` says it anew"
    );
    let none: Vec<String> = vec![];
    assert_eq!(bent(&read(EARLIER), &read(KNOWN)), none);
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

/// It could be nested until there is no stack left for whoever reads it.
#[test]
fn nothing_that_is_said_holds_itself() {
    let none: Vec<String> = vec![];
    assert_eq!(circles(&spoken()), none);
    let deep = "# A\nA {\"NEWTYPE\":{\"SEQ\":{\"TYPENAME\":\"B\"}}}\n\
                B {\"STRUCT\":[{\"a\":{\"OPTION\":{\"TYPENAME\":\"A\"}}}]}\n";
    assert_eq!(circles(&read(deep)), ["A in A", "B in A"]);
}

#[test]
fn what_is_more_than_added_is_found() {
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

/// Whether each is known to an earlier version, by its place among the kinds of 1.0.
fn agrees<T: Serialize + Spoken>(root: &str, message: &T) -> Result<(), TestCaseError> {
    let known = read(EARLIER);
    let (_, shapes) = known.iter().find(|(it, _)| *it == root).expect("a message");
    let kinds = shapes[root]["ENUM"].as_object().expect("a list of kinds");
    let frame = encode_alone(message).unwrap();
    let (place, _) = postcard::take_from_bytes::<u32>(&frame).unwrap();
    let is_old = kinds.contains_key(&place.to_string());
    prop_assert_eq!(is_old, message.since() == 0, "kind {} of {}", place, root);
    Ok(())
}

proptest! {
    #![proptest_config(arbitrary::seeded())]

    #[test]
    fn each_kind_says_with_which_version_it_came(
        told in arbitrary::coordinator_message(),
        order in arbitrary::driver_order(),
        request in arbitrary::request(),
        response in arbitrary::response(),
    ) {
        agrees("CoordinatorMessage", &told)?;
        agrees("Order", &order)?;
        agrees("Request", &request)?;
        agrees("Response", &response)?;
    }
}

/// Before a release, when what is said has become another thing.
#[test]
#[ignore = "it writes the files of shapes anew: `make shapes`"]
#[expect(clippy::disallowed_methods, reason = "the files are beside this one")]
fn shapes_are_written_down_anew() {
    let spoken = spoken();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/shapes");
    std::fs::write(format!("{folder}/1.1.txt"), text(&spoken)).unwrap();
    std::fs::write(format!("{folder}/1.0.txt"), text(&earlier(spoken))).unwrap();
}

fn of_agents() -> Shapes {
    shape::<AgentMessage>(&[
        trace::<Bandwidth>,
        trace::<Duplex>,
        trace::<Fec>,
        trace::<GidKind>,
        trace::<HostReading>,
        trace::<LinkLayer>,
        trace::<Place>,
        trace::<Protocol>,
        trace::<RdmaReading>,
        trace::<Reading>,
        trace::<Refusal>,
        trace::<Result<Holding, Refusal>>,
        trace::<Rhythm>,
        trace::<Shape>,
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
        trace::<NoWayBack>,
        trace::<Outcome>,
        trace::<Phase>,
        trace::<Protocol>,
        trace::<Refused>,
        trace::<Role>,
        trace::<SocketAddr>,
        trace::<Subject>,
        trace::<Suspect>,
        trace::<Tag>,
        trace::<Unclear>,
        trace::<Useless>,
        trace::<What>,
    ])
}

/// Every type that a `T` is made of, with its fields and variants in their order. Of a choice within
/// others not every variant comes up by itself: those are traced one by one.
fn shape<T: DeserializeOwned>(choices: &[fn(&mut Tracer)]) -> Shapes {
    let mut tracer = Tracer::new(TracerConfig::default());
    trace::<T>(&mut tracer);
    choices.iter().for_each(|trace| trace(&mut tracer));
    let value = |format: &ContainerFormat| serde_json::to_value(format).expect("it can be written");
    match tracer.registry() {
        Ok(registry) => registry
            .iter()
            .map(|(name, it)| (name.clone(), value(it)))
            .collect(),
        Err(error) => panic!("{}: {error}", std::any::type_name::<T>()),
    }
}

fn trace<T: DeserializeOwned>(tracer: &mut Tracer) {
    let traced = tracer.trace_simple_type::<T>();
    traced.unwrap_or_else(|error| panic!("{error}: {}", error.explanation()));
}
