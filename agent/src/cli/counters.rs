//! `counters`: shows counters of interfaces.

use std::thread;
use std::time::Duration;

use reweave_agent::clock;
use reweave_agent::counters::{CounterReader, RecordedLink};
use reweave_agent::error::AgentError;
use reweave_agent::host::Host;
use reweave_agent::netlink::RouteSocket;
use reweave_agent_core::counters::HealthBook;
use reweave_agent_core::links::LinkBook;
use reweave_common::health::{Health, SignalReading};
use reweave_common::sample::{Counters, HostReading, Reading, Spare};
use reweave_common::units::{Bytes, Rate};
use serde::Serialize;
use serde_json::{Value, json};

use super::show::or_dash;
use super::{Counters as Arguments, Form, Output, out, table};

/// Values of an interface with their units. Uncounted ones are absent.
#[derive(Serialize)]
struct Figures {
    interface: String,
    up: Option<bool>,
    sent_bytes: Option<Bytes>,
    received_bytes: Option<Bytes>,
    dropped_packets: Option<u64>,
    send_bits_per_s: Option<Rate>,
    receive_bits_per_s: Option<Rate>,
}

impl From<Counters> for Figures {
    fn from(it: Counters) -> Self {
        Self {
            interface: it.interface,
            up: Some(it.up),
            sent_bytes: Some(it.sent),
            received_bytes: Some(it.received),
            dropped_packets: Some(it.dropped_packets),
            send_bits_per_s: it.send_rate,
            receive_bits_per_s: it.receive_rate,
        }
    }
}

impl From<RecordedLink> for Figures {
    fn from(it: RecordedLink) -> Self {
        Self {
            interface: it.interface,
            up: it.up,
            sent_bytes: it.sent,
            received_bytes: it.received,
            dropped_packets: it.dropped_packets,
            send_bits_per_s: None,
            receive_bits_per_s: None,
        }
    }
}

/// Free capacity of an interface.
#[derive(Serialize)]
struct Left<'c> {
    interface: &'c str,
    capacity_bits_per_s: Rate,
    send_bits_per_s: Rate,
    receive_bits_per_s: Rate,
}

#[derive(Default)]
struct InterfaceDelta {
    counters: Vec<Figures>,
    health: Vec<Health>,
    spare: Vec<Spare>,
}

pub(super) fn counters(asked: &Arguments) -> Result<(), AgentError> {
    let seen = match &asked.recorded.root {
        Some(root) => recorded(&mut CounterReader::recorded(root)),
        None => live(asked)?,
    };
    tell(&seen, asked.watched.output);
    Ok(())
}

/// Reads twice, to compute rates and growth.
fn live(asked: &Arguments) -> Result<InterfaceDelta, AgentError> {
    let mut route = RouteSocket::open()?;
    let (mut book, mut host) = (LinkBook::default(), Host::open(Duration::ZERO)?);
    let mut read = || -> Result<Vec<Reading>, AgentError> {
        let (now, links) = (clock::now(), route.links()?);
        let said = host.readings(now, &links, &route.queue_drops()?);
        let wires = links.into_iter().filter(|link| !link.loopback);
        let counts = wires.map(|link| link.count).chain(host.ports());
        let mut readings = book.handle_links(now, counts.collect());
        readings.extend(host.spare(&readings));
        readings.extend(said.into_iter().map(Reading::Host));
        Ok(readings)
    };
    read()?;
    thread::sleep(asked.watched.over_ms);
    Ok(InterfaceDelta::from(read()?))
}

fn recorded(reader: &mut CounterReader) -> InterfaceDelta {
    let now = clock::now();
    let names = reader.tree().interfaces();
    let counts = reader.read(&names, &Default::default());
    let mut seen = InterfaceDelta::from(LinkBook::default().handle_links(now, reader.ports()));
    let links = reader.recorded_links().into_iter().map(Figures::from);
    seen.counters.splice(..0, links);
    seen.health = HealthBook::default().handle_counts(now, &counts);
    seen
}

impl From<Vec<Reading>> for InterfaceDelta {
    fn from(readings: Vec<Reading>) -> Self {
        let mut seen = Self::default();
        for reading in readings {
            match reading {
                Reading::Counters(counters) => seen.counters.push(counters.into()),
                Reading::Host(HostReading::Health(health)) => seen.health.push(health),
                Reading::Host(HostReading::Spare(spare)) => seen.spare.push(spare),
                _ => {}
            }
        }
        seen
    }
}

fn tell(seen: &InterfaceDelta, output: Output) {
    if output.form == Form::Json {
        out::json(&as_json(seen));
        return;
    }
    let rows: Vec<_> = seen
        .counters
        .iter()
        .map(|it| {
            let spare = seen
                .spare
                .iter()
                .find(|spare| spare.interface == it.interface);
            counters_row(it, spare)
        })
        .collect();
    let headings = [
        "interface",
        "state",
        "sends",
        "receives",
        "dropped",
        "left to send",
    ];
    table::print(headings, &rows);
    let rows: Vec<_> = seen.health.iter().flat_map(health_rows).collect();
    if !rows.is_empty() {
        out::line("");
        table::print(
            [
                "place",
                "counted",
                "in all",
                "grew by",
                "per second",
                "part",
            ],
            &rows,
        );
    }
}

fn as_json(seen: &InterfaceDelta) -> Value {
    let left = seen.spare.iter().map(|it| Left {
        interface: &it.interface,
        capacity_bits_per_s: it.capacity,
        send_bits_per_s: it.send,
        receive_bits_per_s: it.receive,
    });
    json!({
        "counters": seen.counters,
        "health": seen.health,
        "spare": left.collect::<Vec<_>>(),
    })
}

fn counters_row(it: &Figures, spare: Option<&Spare>) -> [String; 6] {
    [
        it.interface.clone(),
        or_dash(it.up.map(|up| if up { "up" } else { "down" })),
        or_dash(it.send_bits_per_s),
        or_dash(it.receive_bits_per_s),
        or_dash(it.dropped_packets),
        or_dash(spare.map(|spare| spare.send)),
    ]
}

fn health_rows(health: &Health) -> impl Iterator<Item = [String; 6]> {
    health.signals.iter().map(|it: &SignalReading| {
        [
            health.place.to_string(),
            it.signal.to_string(),
            it.total.to_string(),
            or_dash(it.grown),
            or_dash(health.per_s(it).map(|pace| format!("{pace:.1}"))),
            or_dash(it.ratio().map(|ratio| format!("{ratio:.1e}"))),
        ]
    })
}
