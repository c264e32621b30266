//! One observation for the history.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use reweave_common::finding::Imbalance;
use reweave_common::flow::FlowKey;
use reweave_common::hardware::Machine;
use reweave_common::health::Health;
use reweave_common::ids::LinkId;
use reweave_common::periodicity::IterationPeriod;
use reweave_common::plan::Generation;
use reweave_common::probing::ProbeReading;
use reweave_common::sample::{Counters, FlowReading, Interface, TracedPath};
use reweave_common::traffic::{PeerTraffic, TrafficSource};
use reweave_common::units::Rate;

use crate::kind::Kind;
use crate::row::{Gauge, Measures, whole};
use crate::series::{Key, name};

/// The maximum length of a text. Longer texts are cut: no honest text comes near it.
const MAX_TEXT_BYTES: usize = 16 * 1024;

/// A single observation.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub(crate) kind: Kind,
    pub(crate) key: Key,
    pub(crate) measures: Measures,
}

/// A summary of the probes of one flow: a few figures instead of a tally of a thousand bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probed {
    pub flow: FlowKey,
    pub(crate) sent: u64,
    pub(crate) lost: u64,
    /// Median, 99th percentile and maximum. None if no probe was answered.
    pub(crate) network: Option<[Duration; 3]>,
}

impl Probed {
    pub fn of(reading: &ProbeReading) -> Self {
        let ProbeReading { flow, tally } = reading;
        Self {
            flow: *flow,
            sent: tally.sent(),
            lost: tally.lost.count(),
            network: tally.network().quantiles([0.5, 0.99, 1.0]),
        }
    }
}

/// The far end of a link, if it is known.
#[derive(Debug, Clone, Copy)]
pub struct Far<'n> {
    pub node: &'n str,
    pub link: LinkId,
}

impl Entry {
    fn new(kind: Kind, key: &[&dyn Display]) -> Self {
        Self::under(kind, Key::Named(name(key)))
    }

    fn of_flow(kind: Kind, node: &Arc<str>, flow: FlowKey) -> Self {
        Self::under(kind, Key::Flow(Arc::clone(node), flow))
    }

    fn under(kind: Kind, key: Key) -> Self {
        let measures = Measures {
            readings: 1,
            ..Measures::default()
        };
        Self {
            kind,
            key,
            measures,
        }
    }

    fn gauges<const N: usize>(mut self, values: [Option<u64>; N]) -> Self {
        let gauge = |value: Option<u64>| value.map(|value| Gauge::of(whole(value)));
        let gauges = values.map(|value| gauge(value).unwrap_or_default());
        self.measures.gauges[..N].copy_from_slice(&gauges);
        self
    }

    fn counters<const N: usize>(mut self, values: [Option<u64>; N]) -> Self {
        let counters = values.map(|value| value.map(whole));
        self.measures.counters[..N].copy_from_slice(&counters);
        self
    }

    fn texts<const N: usize>(mut self, values: [Option<Arc<str>>; N]) -> Self {
        let cells = self.measures.texts.iter_mut();
        cells.zip(values).for_each(|(cell, text)| *cell = text);
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
            .texts([far.map(|far| far.node.into())])
    }

    /// Makes the entry of a flow. `hops` is its path, if it is known: see [`Entry::path`].
    pub fn flow(
        node: &Arc<str>,
        to: Option<&Arc<str>>,
        hops: Option<Arc<str>>,
        reading: &FlowReading,
    ) -> Self {
        Self::of_flow(Kind::Flows, node, reading.flow)
            .gauges([
                reading.rate.map(Rate::bits_per_s),
                reading.rtt.map(|rtt| nanos(*rtt)),
            ])
            .counters([Some(reading.bytes.count()), reading.retransmits])
            .texts([to.cloned(), hops])
    }

    /// Makes the entry of a traced path. `hops` are `node/link`, one after the other, with the link's index in the
    /// fabric.
    pub fn path(node: &Arc<str>, hops: Option<Arc<str>>, traced: &TracedPath) -> Self {
        let routers = traced.routers.iter();
        let routers = routers.map(|router| router.map_or("*".to_owned(), |ip| ip.to_string()));
        let routers: Vec<_> = routers.collect();
        Self::of_flow(Kind::Paths, node, traced.flow)
            .counters([Some(traced.confirmed.into())])
            .texts([Some(short(&routers.join(" "))), hops])
    }

    pub fn probes(node: &Arc<str>, to: Option<&Arc<str>>, probed: &Probed) -> Self {
        let times = probed.network.map(|times| times.map(nanos));
        let [median, p99, most] = [0, 1, 2].map(|index| times.map(|times| times[index]));
        Self::of_flow(Kind::Probes, node, probed.flow)
            .gauges([Some(probed.sent), Some(probed.lost), median, p99, most])
            .texts([to.cloned()])
    }

    /// Makes one entry per signal.
    pub fn health(node: &str, health: &Health) -> impl Iterator<Item = Self> {
        health.signals.iter().map(move |reading| {
            Self::new(Kind::Health, &[&node, &health.place, &reading.signal])
                .gauges([reading.grown])
                .counters([Some(reading.total)])
        })
    }

    /// Makes the entry of an imbalance: of the flows of one job, or of all flows if `job` is empty; in one layer, or in
    /// all layers if `layer` is empty.
    pub fn imbalance(job: &str, layer: &str, mean_fim_percent: f64, worst: &Imbalance) -> Self {
        let percent = |figure: f64| Some((figure * 10.0).round() as u64);
        Self::new(Kind::Imbalance, &[&job, &layer]).gauges([
            percent(mean_fim_percent),
            percent(worst.fim_percent),
            percent(worst.floor_percent),
            percent(worst.max_over_mean * 100.0),
        ])
    }

    pub fn machine(node: &str, machine: &Machine) -> Self {
        Self::new(Kind::Machines, &[&node])
            .gauges([
                machine.cpu_busy_percent.map(Into::into),
                Some(machine.memory_available.count()),
            ])
            .counters([Some(machine.memory.count()), Some(machine.cpus.into())])
    }

    pub fn rhythm(node: &str, beat: &IterationPeriod) -> Self {
        Self::new(Kind::Rhythms, &[&node]).gauges([
            Some(nanos(*beat.period)),
            Some(nanos(*beat.gap)),
            Some(beat.confidence_percent.get().into()),
        ])
    }

    pub fn traffic(
        node: &str,
        to: Option<&Arc<str>>,
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
            .texts([to.cloned(), Some(short(&source.to_string()))])
    }

    /// Makes the entry of a rate that ranks report, whether or not the kernel counts it.
    pub fn collectives(node: &str, to: &str, rate: Rate) -> Self {
        Self::new(Kind::Collectives, &[&node, &to]).gauges([Some(rate.bits_per_s())])
    }

    /// Makes the entry of a host's state. `detail` is JSON.
    pub fn state(node: &str, what: &str, subject: &str, detail: &str) -> Self {
        Self::new(Kind::States, &[&node, &what, &subject]).texts([Some(short(detail))])
    }

    pub fn agent(node: &str, connected: bool, readings: Option<usize>) -> Self {
        let readings = readings.map(|readings| readings as u64);
        Self::new(Kind::Agents, &[&node]).gauges([Some(connected.into()), readings])
    }

    pub fn interface(node: &str, interface: &Interface) -> Self {
        let list = |addresses: &[std::net::Ipv4Addr]| {
            let texts: Vec<_> = addresses.iter().map(ToString::to_string).collect();
            Some(short(&texts.join(" ")))
        };
        Self::new(Kind::Interfaces, &[&node, &interface.name])
            .texts([list(&interface.addresses), list(&interface.gateways)])
    }

    pub fn pins(node: &str, generation: Generation, rules: usize) -> Self {
        Self::new(Kind::Pins, &[&node]).counters([Some(generation.0), Some(rules as u64)])
    }

    /// Makes the entry of a change. `detail` is JSON, as in entries of findings.
    pub fn change(what: &str, node: &str, generation: Generation, detail: &str) -> Self {
        Self::new(Kind::Changes, &[&what, &node, &generation]).texts([Some(short(detail))])
    }

    pub fn finding(generation: Generation, what: &str, hop: &str, detail: &str) -> Self {
        Self::new(Kind::Findings, &[&generation, &what, &hop]).texts([Some(short(detail))])
    }

    /// Makes the entry of a gap: this number of entries is missing.
    pub fn gap(why: &str, lost: u64) -> Self {
        Self::new(Kind::Gaps, &[&why]).gauges([Some(lost)])
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn short(text: &str) -> Arc<str> {
    text[..text.floor_char_boundary(MAX_TEXT_BYTES)].into()
}
