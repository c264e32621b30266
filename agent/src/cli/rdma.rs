//! `rdma`: shows RDMA facts and measurements.

use std::net::Ipv4Addr;

use reweave_agent::counters::{CounterReader, port_traffic};
use reweave_agent::error::AgentError;
use reweave_agent::rdma::{Helper, QueuePair, RdmaError, queue_pairs};
use reweave_agent_core::counters::{Counts, HealthBook};
use reweave_common::health::{CounterSource, Health};
use reweave_common::probing::Stamps;
use reweave_common::rdma::{
    Gid, GidKind, RdmaBandwidth, RdmaLatency, RdmaPort, RdmaReading, Request, Transport,
};
use reweave_common::traffic::{PortTraffic, PortVolume};
use reweave_common::units::Bytes;
use serde::Serialize;
use serde_json::json;

use super::probe::by;
use super::show::{joined, or_dash};
use super::ways::{resolve, resolve_all};
use super::{Form, Output, Rdma, RdmaLatencyOf, out, table};

const MIB_BYTES: u64 = 1 << 20;
pub(super) const TRAFFIC_COLUMNS: [&str; 5] = [
    "rdma port",
    "bytes out",
    "packets out",
    "bytes in",
    "packets in",
];
const PORT_COLUMNS: [&str; 7] = [
    "port",
    "state",
    "layer",
    "speed",
    "mtu",
    "stamps by",
    "addresses (RoCE v2)",
];

pub(super) fn rdma(asked: &Rdma) -> Result<(), AgentError> {
    match asked {
        Rdma::Facts(output) => facts(*output),
        Rdma::Latency(asked) => latency(asked),
        Rdma::Bandwidth {
            host,
            budget_mib,
            output,
        } => bandwidth(resolve(host)?, *budget_mib, *output),
        Rdma::Respond { hosts } => respond(hosts),
    }
}

#[derive(Serialize)]
struct Facts {
    ports: Vec<RdmaPort>,
    queue_pairs: Vec<QueuePair>,
    traffic: Vec<PortTraffic>,
    health: Vec<Health>,
}

fn facts(output: Output) -> Result<(), AgentError> {
    let mut reader = CounterReader::open()?;
    let facts = Facts {
        ports: Helper::start()?.ports()?,
        queue_pairs: queue_pairs(),
        traffic: port_traffic(reader.tree()),
        health: health(reader.read(&[], &Default::default())),
    };
    match output.form {
        Form::Json => out::json(&facts),
        Form::Table => print_facts(&facts),
    }
    Ok(())
}

fn health(mut counts: Vec<Counts>) -> Vec<Health> {
    counts.retain(|it| matches!(it.place, CounterSource::RdmaPort { .. }));
    HealthBook::default().handle_counts(reweave_agent::clock::now(), &counts)
}

/// Prints the ports after an empty line; prints nothing without ports.
pub(super) fn print_ports(ports: &[RdmaPort]) {
    let rows: Vec<_> = ports.iter().map(port_row).collect();
    if !rows.is_empty() {
        out::line("");
        table::print(PORT_COLUMNS, &rows);
    }
}

fn print_facts(facts: &Facts) {
    let rows: Vec<_> = facts.ports.iter().map(port_row).collect();
    table::print(PORT_COLUMNS, &rows);
    let rows: Vec<_> = facts.traffic.iter().map(traffic_row).collect();
    out::line("");
    table::print(TRAFFIC_COLUMNS, &rows);
    let rows: Vec<_> = facts.queue_pairs.iter().map(pair_row).collect();
    if !rows.is_empty() {
        out::line("");
        table::print(
            ["queue pair", "of", "kind", "state", "peer's", "process"],
            &rows,
        );
    }
    let rows: Vec<_> = facts.health.iter().flat_map(health_rows).collect();
    if !rows.is_empty() {
        out::line("");
        table::print(["port", "counted", "in all"], &rows);
    }
}

fn port_row(it: &RdmaPort) -> [String; 7] {
    let routed = it.gids.iter().filter(|gid| gid.kind == GidKind::RoceV2);
    let routed: Vec<&Gid> = routed.collect();
    [
        format!("{}/{}", it.device, it.port),
        if it.up { "up" } else { "down" }.to_owned(),
        it.layer.to_string(),
        or_dash(it.speed),
        format!("{} of {}", it.mtu_bytes, it.most_mtu_bytes),
        clock(it.stamps).to_owned(),
        joined(&routed),
    ]
}

/// Names the clock of the timestamps. The kernel takes no part in RDMA.
fn clock(stamps: Stamps) -> &'static str {
    match stamps {
        Stamps::Hardware => "the NIC",
        other => by(other),
    }
}

pub(super) fn traffic_row(it: &PortTraffic) -> [String; 5] {
    let bytes = |volume: PortVolume| or_dash(volume.bytes.map(Bytes::count));
    [
        format!("{}/{}", it.device, it.port),
        bytes(it.sent),
        or_dash(it.sent.packets),
        bytes(it.received),
        or_dash(it.received.packets),
    ]
}

fn pair_row(it: &QueuePair) -> [String; 6] {
    [
        it.number.to_string(),
        it.device.clone(),
        it.kind.clone(),
        it.state.clone(),
        or_dash(it.peer),
        it.owner.clone(),
    ]
}

fn health_rows(health: &Health) -> impl Iterator<Item = [String; 3]> {
    let place = health.place.to_string();
    health
        .signals
        .iter()
        .map(move |it| [place.clone(), it.signal.to_string(), it.total.to_string()])
}

/// Measures latency by datagrams and over a connection.
fn latency(asked: &RdmaLatencyOf) -> Result<(), AgentError> {
    let peer = resolve(&asked.host)?;
    let mut helper = ready()?;
    let mut seen = vec![];
    for transport in [Transport::Ud, Transport::Rc] {
        let request = Request::Latency {
            peer,
            transport,
            count: asked.count,
        };
        match measured(&mut helper, &request)? {
            RdmaReading::Latency(latency) => seen.push(latency),
            RdmaReading::Bandwidth(_) => {}
        }
    }
    if asked.output.form == Form::Json {
        out::json(&json!({ "latency": seen }));
        return Ok(());
    }
    let rows: Vec<_> = seen.iter().map(latency_row).collect();
    let headings = [
        "host",
        "by",
        "sent",
        "lost",
        "there and back",
        "least",
        "p99",
        "most",
        "responder",
        "stamps by",
    ];
    table::print(headings, &rows);
    Ok(())
}

fn latency_row(it: &RdmaLatency) -> [String; 10] {
    let micros = |time: std::time::Duration| format!("{:.1} us", time.as_nanos() as f64 / 1e3);
    let network = |of: fn(&reweave_common::rdma::Times) -> std::time::Duration| {
        or_dash(it.network.as_ref().map(|times| micros(of(times))))
    };
    [
        it.peer.to_string(),
        it.transport.to_string(),
        it.sent.to_string(),
        it.lost.to_string(),
        network(|times| *times.median),
        network(|times| *times.least),
        network(|times| *times.p99),
        network(|times| *times.most),
        or_dash(it.responder.map(|times| micros(*times.median))),
        clock(it.stamps).to_owned(),
    ]
}

fn bandwidth(peer: Ipv4Addr, budget_mib: u64, output: Output) -> Result<(), AgentError> {
    let mut helper = ready()?;
    out::tell(format_args!(
        "writing {budget_mib} MiB into the memory of {peer}"
    ));
    let budget = Bytes::new(budget_mib * MIB_BYTES);
    let reading = measured(&mut helper, &Request::Bandwidth { peer, budget })?;
    let RdmaReading::Bandwidth(seen) = reading else {
        return Ok(());
    };
    if output.form == Form::Json {
        out::json(&json!({ "bandwidth": seen, "rate_bits_per_s": seen.rate() }));
        return Ok(());
    }
    let RdmaBandwidth { bytes, took, .. } = seen;
    let row = [
        peer.to_string(),
        format!("{} MiB", bytes.count() / MIB_BYTES),
        format!("{:.1} ms", took.as_secs_f64() * 1e3),
        seen.rate().to_string(),
    ];
    table::print(["host", "written", "in", "rate"], &[row]);
    Ok(())
}

fn respond(hosts: &[String]) -> Result<(), AgentError> {
    let hosts = resolve_all(hosts)?;
    let mut helper = ready()?;
    helper.serve(hosts.clone())?;
    out::tell(format_args!(
        "answering the measurements of {} over RDMA",
        joined(&hosts)
    ));
    Err(helper.wait().into())
}

/// Returns a helper that has a port to measure with.
fn ready() -> Result<Helper, RdmaError> {
    let mut helper = Helper::start()?;
    helper.ports()?;
    Ok(helper)
}

/// Requests a measurement. A failure does not mean that there is no RDMA here.
fn measured(helper: &mut Helper, request: &Request) -> Result<RdmaReading, AgentError> {
    let failed = |source| AgentError::Unmeasured { source };
    helper.measure(request).map_err(failed)
}
