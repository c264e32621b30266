//! What a person can look at without a coordinator.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

use reweave_agent::abilities::{Ability, abilities};
use reweave_agent::clock;
use reweave_agent::error::AgentError;
use reweave_agent::flows::FlowSocket;
use reweave_agent::netlink::RouteSocket;
use reweave_agent::role::Role;
use reweave_agent_core::flows::FlowBook;
use reweave_common::moment::Moment;
use reweave_common::sample::{FlowReading, PinRule, Reading};
use reweave_common::units::Rate;
use serde::Serialize;
use serde_json::json;

use super::{
    Form, Output, Show, Watched, bandwidth, counters, facts, out, preflight, probe, rdma, rhythm,
    table, trace, traffic,
};

/// How often flows are read while they are watched.
const STEP: Duration = Duration::from_millis(200);

pub(crate) fn show(what: &Show) -> Result<(), AgentError> {
    match what {
        Show::Facts(asked) => facts::facts(asked),
        Show::Counters(asked) => counters::counters(asked),
        Show::Flows(watched) => flows(watched),
        Show::Traffic(asked) => traffic::traffic(asked),
        Show::Rhythm(watched) => rhythm::rhythm(watched),
        Show::Trace(asked) => trace::trace(asked),
        Show::Probe(asked) => probe::probe(asked),
        Show::Bandwidth(asked) => bandwidth::bandwidth(asked),
        Show::PreFlight(asked) => preflight::pre_flight(asked),
        Show::Rdma(asked) => rdma::rdma(asked),
        Show::Abilities(output) => show_abilities(*output),
        Show::Pins(output) => pins(*output),
    }
}

/// Prints `value` under `name` as one JSON object.
fn print_json(name: &str, value: &impl Serialize) {
    out::line(json!({ name: value }));
}

/// A flow with the least and most rate that was seen of it.
#[derive(Serialize)]
struct SeenFlow {
    #[serde(flatten)]
    reading: FlowReading,
    rate_range: Option<[Rate; 2]>,
}

fn flows(watched: &Watched) -> Result<(), AgentError> {
    let began = clock::now();
    let mut book = FlowBook::default();
    let flows = watch_flows(&mut book, watched.over_ms)?;
    let flows: Vec<_> = flows
        .into_iter()
        .map(|reading| seen(&book, began, reading))
        .collect();
    if watched.output.form == Form::Json {
        print_json("flows", &flows);
        return Ok(());
    }
    let rows: Vec<_> = flows.iter().map(flow_row).collect();
    table::print(["flow", "rate", "least", "most", "rtt", "resent"], &rows);
    Ok(())
}

/// What was last heard of each flow that has not ended.
fn watch_flows(book: &mut FlowBook, over: Duration) -> Result<Vec<FlowReading>, AgentError> {
    let mut socket = FlowSocket::open()?;
    let mut last = BTreeMap::new();
    let end = Instant::now() + over;
    loop {
        for reading in book.handle_sockets(clock::now(), &socket.sockets()?) {
            match reading {
                Reading::Flow(reading) => drop(last.insert(reading.flow, reading)),
                Reading::FlowEnded(flow) => drop(last.remove(&flow)),
                _ => {}
            }
        }
        match end.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => thread::sleep(left.min(STEP)),
            _ => return Ok(last.into_values().collect()),
        }
    }
}

fn seen(book: &FlowBook, began: Moment, reading: FlowReading) -> SeenFlow {
    SeenFlow {
        rate_range: book.range_since(&reading.flow, began),
        reading,
    }
}

fn flow_row(it: &SeenFlow) -> [String; 6] {
    let [least, most] = it.rate_range.map_or([None; 2], |range| range.map(Some));
    [
        it.reading.flow.to_string(),
        or_dash(it.reading.rate),
        or_dash(least),
        or_dash(most),
        or_dash(
            it.reading
                .rtt
                .map(|rtt| format!("{:.1} ms", rtt.as_secs_f64() * 1e3)),
        ),
        or_dash(it.reading.retransmits),
    ]
}

fn show_abilities(output: Output) -> Result<(), AgentError> {
    let abilities = abilities(Role::detect()?);
    if output.form == Form::Json {
        print_json("abilities", &abilities);
        return Ok(());
    }
    let row = |it: &Ability| {
        let (state, way) = match &it.because {
            None => ("yes", ""),
            Some(because) => (because.as_str(), it.remedy.as_str()),
        };
        [it.measurement, state, way].map(str::to_owned)
    };
    let rows: Vec<_> = abilities.iter().map(row).collect();
    table::print(["measurement", "possible", "to allow it"], &rows);
    Ok(())
}

fn pins(output: Output) -> Result<(), AgentError> {
    let pins = RouteSocket::open()?.pins()?.pins();
    if output.form == Form::Json {
        print_json("pins", &pins);
        return Ok(());
    }
    let row = |it: &PinRule| {
        [
            it.flow.to_string(),
            it.interface.clone(),
            it.next_hop.to_string(),
        ]
    };
    let rows: Vec<_> = pins.iter().map(row).collect();
    table::print(["flow", "interface", "next hop"], &rows);
    Ok(())
}

pub(super) fn joined(items: &[impl Display]) -> String {
    let items: Vec<_> = items.iter().map(ToString::to_string).collect();
    items.join(" ")
}

pub(super) fn or_dash(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}
