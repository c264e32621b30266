//! `pre-flight`: a saturating test of the paths to a few hosts, on request only.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::time::Duration;

use reweave_agent::counters::{NicReader, Tree};
use reweave_agent::error::AgentError;
use reweave_agent::netlink::RouteSocket;
use reweave_agent::packet_trains::SharedGate;
use reweave_agent::preflight::{Pressed, press};
use reweave_agent_core::preflight::Press;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::periodicity::Periodicity;
use reweave_common::units::{Bytes, Rate};
use serde::Serialize;
use serde_json::json;

use super::ways::{own_address, resolve_all};
use super::{Form, PreFlight, iterations, out, show, table, trace};

/// Any destination port: only the path matters.
const TRACED_PORT: u16 = 5201;

/// Cost of a test of the path to one host.
#[derive(Serialize)]
struct Cost {
    host: Ipv4Addr,
    interface: Option<String>,
    /// Speed of the interface, which limits the rate.
    #[serde(rename = "speed_bits_per_s")]
    speed: Option<Rate>,
    most_bytes: Option<Bytes>,
    seconds: u32,
    streams: u8,
    /// Routers that answer on one of the paths. Absent if this program has no permission to trace.
    routers: Option<Vec<Option<Ipv4Addr>>>,
}

#[derive(Serialize)]
struct Outcome {
    host: Ipv4Addr,
    #[serde(flatten)]
    pressed: Pressed,
}

pub(super) fn pre_flight(asked: &PreFlight) -> Result<(), AgentError> {
    let hosts = resolve_all(&asked.hosts)?;
    if !asked.force {
        listen(asked.listen_ms)?;
    }
    let costs = hosts.iter().map(|host| cost(*host, asked));
    let costs = costs.collect::<Result<Vec<_>, _>>()?;
    for cost in &costs {
        out::tell(format_args!("{}", announced(cost)));
    }
    if !asked.yes {
        if asked.output.form == Form::Json {
            out::json(&json!({ "costs": costs, "hosts": [] }));
        }
        return Err(AgentError::NotConfirmed);
    }
    let outcomes = hosts.into_iter().map(|host| pressed(host, asked));
    let outcomes = outcomes.collect::<Result<Vec<_>, _>>()?;
    tell(&costs, &outcomes, asked.output.form);
    Ok(())
}

/// Fails if a job may be running on this host.
fn listen(over: Duration) -> Result<(), AgentError> {
    let gate = SharedGate::default();
    if let Periodicity::Found(beat) = iterations::hear(over, gate.clone())? {
        let period = beat.period;
        return Err(AgentError::Training { period: *period });
    }
    match gate.busiest() {
        Some(rate) => Err(AgentError::Carrying { rate }),
        None if !gate.is_watched() => Err(AgentError::NoPulse),
        None => Ok(()),
    }
}

fn cost(host: Ipv4Addr, asked: &PreFlight) -> Result<Cost, AgentError> {
    let own = own_address(host)?;
    let interfaces = RouteSocket::open()?.interfaces()?;
    let interface = interfaces
        .into_iter()
        .find(|it| it.addresses.contains(&own))
        .map(|it| it.name);
    let mut nics = NicReader::open(&Tree::new(Path::new("/")))?;
    let speed = interface.as_deref().and_then(|name| nics.read(name).speed);
    let most = |speed: Rate| Bytes::new(speed.bits_per_s() / 8 * u64::from(asked.seconds));
    Ok(Cost {
        host,
        interface,
        speed,
        most_bytes: speed.map(most),
        seconds: asked.seconds,
        streams: asked.streams,
        routers: trace::routers(FlowKey {
            protocol: Protocol::Tcp,
            source: SocketAddrV4::new(own, TRACED_PORT),
            destination: SocketAddrV4::new(host, TRACED_PORT),
        }),
    })
}

fn announced(cost: &Cost) -> String {
    let most = match cost.most_bytes {
        Some(bytes) => format!("up to {:.1} GB", bytes.count() as f64 / 1e9),
        None => "as much as the links carry".to_owned(),
    };
    let from = cost.interface.as_ref();
    let from = from.map_or_else(String::new, |name| format!(" from {name}"));
    let way = match cost.routers.as_deref() {
        None => "every link on the path, which this program has no privilege to trace,".to_owned(),
        Some([]) => "the link".to_owned(),
        Some(routers) => {
            let routers: Vec<_> = routers.iter().map(|it| show::or_dash(*it)).collect();
            format!("the links over {} (or parallel paths)", routers.join(" "))
        }
    };
    format!(
        "this sends {most}{from} to {} for {} s over {} streams: {way} will be saturated, and \
         flows that share them slow",
        cost.host, cost.seconds, cost.streams
    )
}

fn pressed(host: Ipv4Addr, asked: &PreFlight) -> Result<Outcome, AgentError> {
    let to = SocketAddrV4::new(host, asked.port);
    let pressed = press(
        to,
        Press {
            seconds: asked.seconds,
            streams: asked.streams,
            force: asked.force,
        },
    )?;
    Ok(Outcome { host, pressed })
}

fn tell(costs: &[Cost], outcomes: &[Outcome], form: Form) {
    if form == Form::Json {
        out::json(&json!({ "costs": costs, "hosts": outcomes }));
        return;
    }
    let rows: Vec<_> = outcomes
        .iter()
        .map(|it| {
            [
                it.host.to_string(),
                it.pressed.rate.to_string(),
                format!("{:.1} MB", it.pressed.received.count() as f64 / 1e6),
                format!("{:.2} s", it.pressed.took_ns as f64 / 1e9),
            ]
        })
        .collect();
    table::print(["host", "payload", "received", "in"], &rows);
}
