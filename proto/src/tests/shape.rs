//! The shape of all that is said on a session is written down beside the version that has it: one that
//! changes without a new version would be misunderstood by who speaks the old one. Before a release the file
//! may be written anew: emptied, it makes the test print all of it.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use reweave_common::bandwidth::{Bandwidth, Unclear};
use reweave_common::cause::{Class, Subject};
use reweave_common::circuit::{CircuitSet, NotSwitched};
use reweave_common::flow::Protocol;
use reweave_common::hardware::{Duplex, Fec};
use reweave_common::health::{Place, Signal};
use reweave_common::holding::Holding;
use reweave_common::instruction::Refusal;
use reweave_common::member::Role;
use reweave_common::operator::{
    AgentState, AuditOutcome, CoordinatorState, Finding, FlowChange, JobOrder, MaintenanceStage,
    MemberOrder, Mode, NoWayBack, Outcome, Phase, Refused, Request, Response, Tag, Useless, What,
};
use reweave_common::plan::LostBecause;
use reweave_common::probing::Stamps;
use reweave_common::rdma::{GidKind, LinkLayer, RdmaReading, Transport};
use reweave_common::rhythm::{Rhythm, Shape};
use reweave_common::sample::{HostReading, Reading};
use reweave_common::traffic::TrafficSource;
use serde::de::DeserializeOwned;
use serde_reflection::{ContainerFormat, Tracer, TracerConfig};

use crate::hello::{Hello, VERSION, Version};
use crate::message::{AgentMessage, CoordinatorMessage, DriverMessage, DriverOrder, PeerPart};

const KNOWN: &str = include_str!("../../shapes/1.0.txt");
const KNOWN_VERSION: Version = Version { major: 1, minor: 0 };

#[test]
fn the_wire_has_the_shape_that_is_written_down_for_its_version() {
    let shapes = [
        shape::<Hello>(&[]),
        of_agents(),
        shape::<CoordinatorMessage>(&[trace::<Protocol>, trace::<Role>, trace::<SocketAddr>]),
        shape::<DriverMessage>(&[
            trace::<NotSwitched>,
            trace::<Result<CircuitSet, NotSwitched>>,
        ]),
        shape::<DriverOrder>(&[trace::<Role>, trace::<SocketAddr>]),
        shape::<Request>(&[
            trace::<JobOrder>,
            trace::<MaintenanceStage>,
            trace::<MemberOrder>,
            trace::<Protocol>,
            trace::<Role>,
            trace::<SocketAddr>,
        ]),
        of_answers(),
        shape::<PeerPart>(&[]),
    ];
    let shape = shapes.concat();
    let known: BTreeSet<_> = KNOWN.lines().collect();
    let new: Vec<_> = shape.lines().filter(|it| !known.contains(it)).collect();
    assert!(
        VERSION == KNOWN_VERSION && shape == KNOWN,
        "what is said under version {VERSION} has not the shape that is written down for {KNOWN_VERSION}. A \
         released shape stays, and what is new comes under a new version. These lines are new:\n{}",
        new.join("\n")
    );
}

fn of_agents() -> String {
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

fn of_answers() -> String {
    shape::<Response>(&[
        trace::<AgentState>,
        trace::<AuditOutcome>,
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
        trace::<Tag>,
        trace::<Unclear>,
        trace::<Useless>,
        trace::<What>,
    ])
}

/// Every type that a `T` is made of, with its fields and variants in their order. Of a choice within
/// others not every variant comes up by itself: those are traced one by one.
fn shape<T: DeserializeOwned>(choices: &[fn(&mut Tracer)]) -> String {
    let mut tracer = Tracer::new(TracerConfig::default());
    trace::<T>(&mut tracer);
    choices.iter().for_each(|trace| trace(&mut tracer));
    match tracer.registry() {
        Ok(registry) => registry.iter().map(line).collect(),
        Err(error) => panic!("{}: {error}", std::any::type_name::<T>()),
    }
}

fn line((name, format): (&String, &ContainerFormat)) -> String {
    let format = serde_json::to_string(format).expect("it can be written");
    format!("{name} {format}\n")
}

fn trace<T: DeserializeOwned>(tracer: &mut Tracer) {
    let traced = tracer.trace_simple_type::<T>();
    traced.unwrap_or_else(|error| panic!("{error}: {}", error.explanation()));
}
