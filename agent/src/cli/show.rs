//! Commands that need no coordinator.

use std::fmt::Display;
use std::net::Ipv4Addr;

use reweave_agent::capabilities::abilities;
use reweave_agent::error::AgentError;
use reweave_agent::netlink::RouteSocket;
use reweave_agent::role::Role;
use reweave_common::forwarding_state::RouteHop;
use serde::Serialize;
use serde_json::json;

use super::{
    Form, Output, Show, bandwidth, counters, facts, flows, iterations, out, preflight, probe, rdma,
    table, trace, traffic,
};

pub(crate) fn show(what: &Show) -> Result<(), AgentError> {
    match what {
        Show::Facts(asked) => facts::facts(asked),
        Show::Counters(asked) => counters::counters(asked),
        Show::Flows(watched) => flows::flows(watched),
        Show::Traffic(asked) => traffic::traffic(asked),
        Show::Collectives(asked) => asked.run(),
        Show::Rhythm(watched) => iterations::rhythm(watched),
        Show::Trace(asked) => trace::trace(asked),
        Show::Probe(asked) => probe::probe(asked),
        Show::Bandwidth(asked) => bandwidth::bandwidth(asked),
        Show::PreFlight(asked) => preflight::pre_flight(asked),
        Show::Rdma(asked) => rdma::rdma(asked),
        Show::Abilities(output) => show_abilities(*output),
        Show::Pins(output) => pins(*output),
        Show::Routes(output) => routes(*output),
    }
}

/// Prints `value` under `name` as one JSON object.
pub(super) fn print_json(name: &str, value: &impl Serialize) {
    out::json(&json!({ name: value }));
}

fn show_abilities(output: Output) -> Result<(), AgentError> {
    let abilities = abilities(Role::detect()?);
    if output.form == Form::Json {
        print_json("abilities", &abilities);
        return Ok(());
    }
    let rows: Vec<_> = abilities
        .iter()
        .map(|it| {
            let (state, way) = match &it.because {
                None => ("yes", ""),
                Some(_) => ("no", it.remedy.as_str()),
            };
            [it.measurement, state, way].map(str::to_owned)
        })
        .collect();
    table::print(["measurement", "possible", "to allow it"], &rows);
    // The reasons of kernels are too long for a column.
    for it in &abilities {
        if let Some(because) = &it.because {
            out::line(format_args!("{}: {because}", it.measurement));
        }
    }
    Ok(())
}

fn pins(output: Output) -> Result<(), AgentError> {
    let pins = RouteSocket::open()?.pins()?.pins();
    if output.form == Form::Json {
        print_json("pins", &pins);
        return Ok(());
    }
    let rows: Vec<_> = pins
        .iter()
        .map(|it| {
            [
                it.flow.to_string(),
                it.interface.clone(),
                it.next_hop.to_string(),
            ]
        })
        .collect();
    table::print(["flow", "interface", "next hop"], &rows);
    Ok(())
}

fn routes(output: Output) -> Result<(), AgentError> {
    let routes = RouteSocket::open()?.routes()?.rules();
    if output.form == Form::Json {
        print_json("routes", &routes);
        return Ok(());
    }
    let rows: Vec<_> = routes
        .iter()
        .flat_map(|it| it.hops.iter().map(|hop| route_row(it.destination, hop)))
        .collect();
    table::print(["destination", "interface", "next hop", "weight"], &rows);
    Ok(())
}

fn route_row(destination: Ipv4Addr, hop: &RouteHop) -> [String; 4] {
    [
        destination.to_string(),
        hop.interface.clone(),
        hop.next_hop.to_string(),
        hop.weight.to_string(),
    ]
}

pub(super) fn joined(items: &[impl Display]) -> String {
    let items: Vec<_> = items.iter().map(ToString::to_string).collect();
    items.join(" ")
}

pub(super) fn or_dash(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}
