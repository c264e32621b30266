//! One observation on its way into the history.

use std::fmt::{Display, Write};
use std::sync::Arc;
use std::time::Duration;

use reweave_common::flow::FlowKey;
use reweave_common::hardware::Machine;
use reweave_common::health::Health;
use reweave_common::ids::LinkId;
use reweave_common::plan::Generation;
use reweave_common::probing::ProbeReading;
use reweave_common::rhythm::Beat;
use reweave_common::sample::{Counters, FlowReading, Interface, TracedPath};
use reweave_common::traffic::{PeerTraffic, TrafficSource};
use reweave_common::units::Rate;

use crate::kind::Kind;
use crate::row::{Gauge, Measures};

/// Stands between the parts of a key. No name that a part may be made of has it.
const BETWEEN: char = '\u{1f}';
/// What is longer is cut: no honest text comes near it.
const LONGEST_TEXT: usize = 16 * 1024;
const LONGEST_PART: usize = 256;

/// What one line of a table speaks of, moment after moment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Series {
    pub(crate) kind: Kind,
    key: Box<str>,
}

impl Series {
    pub(crate) fn new(kind: Kind, parts: &[&dyn Display]) -> Self {
        let mut key = String::new();
        for (index, part) in parts.iter().enumerate() {
            if index > 0 {
                key.push(BETWEEN);
            }
            let start = key.len();
            // Writing to memory does not fail.
            let _ = write!(key, "{part}");
            key.truncate(key.floor_char_boundary(start + LONGEST_PART));
            if key[start..].contains(BETWEEN) {
                let plain = key[start..].replace(BETWEEN, " ");
                key.replace_range(start.., &plain);
            }
        }
        Self {
            kind,
            key: key.into(),
        }
    }

    /// The parts of the key, as many as the kind has.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &str> {
        self.key.split(BETWEEN)
    }
}

/// What was observed once.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub(crate) series: Series,
    pub(crate) measures: Measures,
}

/// The far end of a link, where it is known.
#[derive(Debug, Clone, Copy)]
pub struct Far<'n> {
    pub node: &'n str,
    pub link: LinkId,
}

impl Entry {
    fn new(kind: Kind, key: &[&dyn Display]) -> Self {
        let measures = Measures {
            readings: 1,
            ..Measures::default()
        };
        let series = Series::new(kind, key);
        Self { series, measures }
    }

    fn gauges(mut self, values: impl IntoIterator<Item = Option<u64>>) -> Self {
        let gauge = |value: Option<u64>| value.map(|value| Gauge::of(whole(value)));
        self.measures.gauges = values.into_iter().map(gauge).collect();
        self
    }

    fn counters(mut self, values: impl IntoIterator<Item = Option<u64>>) -> Self {
        self.measures.counters = values.into_iter().map(|value| value.map(whole)).collect();
        self
    }

    fn texts(mut self, values: impl IntoIterator<Item = Option<String>>) -> Self {
        self.measures.texts = values.into_iter().map(|text| text.map(short)).collect();
        self
    }

    pub fn link(node: &str, far: Option<Far<'_>>, counters: &Counters) -> Self {
        let rate = |rate: Option<Rate>| rate.map(Rate::bits_per_s);
        Self::new(Kind::Links, &[&node, &counters.interface])
            .gauges([
                Some(counters.up.into()),
                rate(counters.send_rate),
                rate(counters.receive_rate),
            ])
            .counters([
                Some(counters.sent.count()),
                Some(counters.received.count()),
                Some(counters.dropped_packets),
                far.map(|far| far.link.index() as u64),
            ])
            .texts([far.map(|far| far.node.to_owned())])
    }

    /// `hops` is the way it takes, where that is known: see [`Entry::path`].
    pub fn flow(node: &str, to: Option<&str>, hops: Option<String>, reading: &FlowReading) -> Self {
        Self::of_flow(Kind::Flows, node, &reading.flow)
            .gauges([reading.rate.map(Rate::bits_per_s), reading.rtt.map(nanos)])
            .counters([Some(reading.bytes.count()), reading.retransmits])
            .texts([to.map(str::to_owned), hops])
    }

    /// `hops` are `node/link`, one after the other, with the link's index in the fabric.
    pub fn path(node: &str, hops: Option<String>, traced: &TracedPath) -> Self {
        let routers = traced.routers.iter();
        let routers = routers.map(|router| router.map_or("*".to_owned(), |ip| ip.to_string()));
        let routers: Vec<_> = routers.collect();
        Self::of_flow(Kind::Paths, node, &traced.flow)
            .counters([Some(traced.confirmed.into())])
            .texts([Some(routers.join(" ")), hops])
    }

    fn of_flow(kind: Kind, node: &str, flow: &FlowKey) -> Self {
        let FlowKey {
            protocol,
            source,
            destination,
        } = flow;
        Self::new(kind, &[&node, protocol, source, destination])
    }

    pub fn probes(node: &str, to: Option<&str>, reading: &ProbeReading) -> Self {
        let ProbeReading { flow, tally } = reading;
        let at = |share| tally.network.quantile(share).map(nanos);
        Self::of_flow(Kind::Probes, node, flow)
            .gauges([
                Some(tally.sent()),
                Some(tally.lost.count()),
                at(0.5),
                at(0.99),
                at(1.0),
            ])
            .texts([to.map(str::to_owned)])
    }

    /// One of each signal.
    pub fn health(node: &str, health: &Health) -> impl Iterator<Item = Self> {
        health.signals.iter().map(move |reading| {
            Self::new(Kind::Health, &[&node, &health.place, &reading.signal])
                .gauges([reading.grown])
                .counters([Some(reading.total)])
        })
    }

    pub fn machine(node: &str, machine: &Machine) -> Self {
        Self::new(Kind::Machines, &[&node])
            .gauges([
                machine.cpu_busy_percent.map(Into::into),
                Some(machine.memory_available.count()),
            ])
            .counters([Some(machine.memory.count()), Some(machine.cpus.into())])
    }

    pub fn rhythm(node: &str, beat: &Beat) -> Self {
        Self::new(Kind::Rhythms, &[&node]).gauges([
            Some(nanos(beat.period)),
            Some(nanos(beat.gap)),
            Some(beat.confidence_percent.into()),
        ])
    }

    pub fn traffic(
        node: &str,
        to: Option<&str>,
        source: TrafficSource,
        traffic: &PeerTraffic,
    ) -> Self {
        let PeerTraffic {
            peer,
            sent,
            received,
        } = traffic;
        Self::new(Kind::Traffic, &[&node, peer])
            .counters([Some(sent.bytes.count()), Some(received.bytes.count())])
            .texts([to.map(str::to_owned), Some(source.to_string())])
    }

    /// `detail` is JSON.
    pub fn state(node: &str, what: &str, subject: &str, detail: String) -> Self {
        Self::new(Kind::States, &[&node, &what, &subject]).texts([Some(detail)])
    }

    pub fn agent(node: &str, connected: bool, readings: Option<usize>) -> Self {
        let readings = readings.map(|readings| readings as u64);
        Self::new(Kind::Agents, &[&node]).gauges([Some(connected.into()), readings])
    }

    pub fn interface(node: &str, interface: &Interface) -> Self {
        let list = |addresses: &[std::net::Ipv4Addr]| {
            let texts: Vec<_> = addresses.iter().map(ToString::to_string).collect();
            Some(texts.join(" "))
        };
        Self::new(Kind::Interfaces, &[&node, &interface.name])
            .texts([list(&interface.addresses), list(&interface.gateways)])
    }

    pub fn pins(node: &str, generation: Generation, rules: usize) -> Self {
        Self::new(Kind::Pins, &[&node]).counters([Some(generation.0), Some(rules as u64)])
    }

    /// `detail` is JSON, as are those of findings.
    pub fn change(what: &str, node: &str, generation: Generation, detail: String) -> Self {
        Self::new(Kind::Changes, &[&what, &node, &generation]).texts([Some(detail)])
    }

    pub fn finding(generation: Generation, what: &str, hop: &str, detail: String) -> Self {
        Self::new(Kind::Findings, &[&generation, &what, &hop]).texts([Some(detail)])
    }

    /// So much is missing here.
    pub fn gap(why: &str, lost: u64) -> Self {
        Self::new(Kind::Gaps, &[&why]).gauges([Some(lost)])
    }
}

/// No counter of a machine that exists is larger.
fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn short(mut text: String) -> Arc<str> {
    text.truncate(text.floor_char_boundary(LONGEST_TEXT));
    text.into()
}
