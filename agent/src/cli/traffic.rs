//! `traffic`: shows this host's traffic by peer.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use reweave_agent::clock;
use reweave_agent::error::AgentError;
use reweave_agent::flows::FlowSocket;
use reweave_agent::netlink::RouteSocket;
use reweave_agent::traffic::{Refusal, TrafficRead, TrafficReader, own_addresses, wires};
use reweave_agent_core::traffic::Direction;
use reweave_common::flow::FlowKey;
use reweave_common::traffic::{
    PeerTraffic, PortTraffic, PortVolume, Traffic, TrafficSource, Volume,
};
use reweave_common::units::{Bytes, Rate};
use serde::{Serialize, Serializer};

use super::show::or_dash;
use super::{Form, Source, Traffic as Arguments, out, rdma, table};

/// Interval at which sockets are read.
const READ_INTERVAL: Duration = Duration::from_millis(100);

/// Traffic of a period.
#[derive(Serialize)]
struct TrafficDelta {
    source: TrafficSource,
    #[serde(rename = "over_us", serialize_with = "micros")]
    over: Duration,
    unknown_packets: u64,
    peers: Vec<PeerTraffic>,
    /// Counters of RDMA ports whose NICs bypass the kernel.
    rdma: Vec<PortTraffic>,
    flows: Vec<SeenFlow>,
}

fn micros<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u128(time.as_micros())
}

#[derive(Serialize)]
struct SeenFlow {
    flow: FlowKey,
    received: bool,
    #[serde(flatten)]
    volume: Volume,
}

pub(super) fn traffic(asked: &Arguments) -> Result<(), AgentError> {
    let mut eye = Eye::open(asked.source.into())?;
    let mut before = eye.read()?;
    let mut began = clock::now();
    print_refused(eye.reader.refused());
    loop {
        let read = eye.read_after(asked.watched.over_ms)?;
        let now = clock::now();
        let seen = TrafficDelta::between(&before, &read, now.since(began));
        match asked.watched.output.form {
            Form::Json => out::json(&seen),
            Form::Table => tell(&seen),
        }
        if !asked.watch {
            return Ok(());
        }
        (before, began) = (read, now);
    }
}

/// All sources of traffic counts.
struct Eye {
    reader: TrafficReader,
    route: RouteSocket,
    flows: FlowSocket,
}

impl Eye {
    fn open(best: TrafficSource) -> Result<Self, AgentError> {
        Ok(Self {
            reader: TrafficReader::open(best),
            route: RouteSocket::open()?,
            flows: FlowSocket::open()?,
        })
    }

    /// Reads after this time. Sockets are polled meanwhile, before they close.
    fn read_after(&mut self, time: Duration) -> Result<TrafficRead, AgentError> {
        let end = Instant::now() + time;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            thread::sleep(left.min(READ_INTERVAL));
            if self.reader.source() == TrafficSource::Sockets {
                self.read()?;
            }
        }
        self.read()
    }

    fn read(&mut self) -> Result<TrafficRead, AgentError> {
        let wires = wires(&self.route.links()?);
        let own = own_addresses(&self.route.interfaces()?);
        let sockets = self.flows.sockets()?;
        Ok(self.reader.read(clock::now(), &wires, &own, &sockets))
    }
}

impl From<Source> for TrafficSource {
    fn from(source: Source) -> Self {
        match source {
            Source::Ebpf => Self::Ebpf,
            Source::Nftables => Self::Nftables,
            Source::Sockets => Self::Sockets,
        }
    }
}

impl TrafficDelta {
    /// Returns the traffic between two readings. If the source has changed, it is all that the new source has counted.
    fn between(before: &TrafficRead, now: &TrafficRead, over: Duration) -> Self {
        let same = before.traffic.source == now.traffic.source;
        let old = before.traffic.peers.iter().filter(|_| same);
        let old: BTreeMap<Ipv4Addr, &PeerTraffic> = old.map(|it| (it.peer, it)).collect();
        let peers = now
            .traffic
            .peers
            .iter()
            .map(|it| grown(it, old.get(&it.peer)));
        let moved = |it: &PeerTraffic| it.sent.bytes + it.received.bytes > Bytes::ZERO;
        Self {
            source: now.traffic.source,
            over,
            unknown_packets: unknown_packets(&before.traffic, &now.traffic),
            peers: peers.filter(moved).collect(),
            rdma: ports(&before.traffic, &now.traffic),
            flows: flows(before, now),
        }
    }
}

fn ports(before: &Traffic, now: &Traffic) -> Vec<PortTraffic> {
    let grown = |it: &PortTraffic| {
        let is_it = |old: &&PortTraffic| old.device == it.device && old.port == it.port;
        let old = before.rdma.iter().find(is_it);
        let part = |now: PortVolume, old: Option<PortVolume>| PortVolume {
            bytes: since(
                now.bytes.map(Bytes::count),
                old.and_then(|it| it.bytes).map(Bytes::count),
            )
            .map(Bytes::new),
            packets: since(now.packets, old.and_then(|it| it.packets)),
        };
        PortTraffic {
            sent: part(it.sent, old.map(|it| it.sent)),
            received: part(it.received, old.map(|it| it.received)),
            ..it.clone()
        }
    };
    now.rdma.iter().map(grown).collect()
}

fn since(now: Option<u64>, before: Option<u64>) -> Option<u64> {
    now.map(|now| now.saturating_sub(before.unwrap_or(0)))
}

fn unknown_packets(before: &Traffic, now: &Traffic) -> u64 {
    now.unknown_packets.saturating_sub(before.unknown_packets)
}

fn grown(now: &PeerTraffic, before: Option<&&PeerTraffic>) -> PeerTraffic {
    let part = |of: fn(&PeerTraffic) -> Volume| less(of(now), before.map(|it| of(it)));
    PeerTraffic {
        peer: now.peer,
        sent: part(|it| it.sent),
        received: part(|it| it.received),
    }
}

fn less(now: Volume, before: Option<Volume>) -> Volume {
    let before = before.unwrap_or_default();
    let packets = now
        .packets
        .map(|now| now.saturating_sub(before.packets.unwrap_or(0)));
    Volume {
        bytes: Bytes::new(now.bytes.count().saturating_sub(before.bytes.count())),
        packets,
    }
}

fn flows(before: &TrafficRead, now: &TrafficRead) -> Vec<SeenFlow> {
    let old: BTreeMap<_, _> = before
        .flows
        .iter()
        .map(|it| ((it.flow, it.direction), it.volume))
        .collect();
    let flows = now.flows.iter().map(|it| SeenFlow {
        flow: it.flow,
        received: it.direction == Direction::Received,
        volume: less(it.volume, old.get(&(it.flow, it.direction)).copied()),
    });
    let mut flows: Vec<_> = flows.filter(|it| it.volume.bytes > Bytes::ZERO).collect();
    flows.sort_by_key(|it| (std::cmp::Reverse(it.volume.bytes), it.flow));
    flows
}

fn print_refused(refused: &[Refusal]) {
    for refusal in refused {
        out::tell(format_args!(
            "not counted by {}: {}",
            refusal.source, refusal.because
        ));
    }
}

fn tell(seen: &TrafficDelta) {
    out::line(format_args!("counted by {}", seen.source));
    let rate = |volume: Volume| Rate::mean(volume.bytes, seen.over).to_string();
    let row = |it: &PeerTraffic| {
        [
            it.peer.to_string(),
            rate(it.sent),
            rate(it.received),
            or_dash(it.sent.packets),
            or_dash(it.received.packets),
        ]
    };
    let rows: Vec<_> = seen.peers.iter().map(row).collect();
    let headings = ["peer", "sent", "received", "packets out", "packets in"];
    table::print(headings, &rows);
    let rows: Vec<_> = seen.rdma.iter().map(rdma::traffic_row).collect();
    if !rows.is_empty() {
        out::line("");
        table::print(rdma::TRAFFIC_COLUMNS, &rows);
    }
    let row = |it: &SeenFlow| {
        let direction = if it.received { "in" } else { "out" };
        [it.flow.to_string(), direction.to_owned(), rate(it.volume)]
    };
    let rows: Vec<_> = seen.flows.iter().map(row).collect();
    if !rows.is_empty() {
        out::line("");
        table::print(["flow", "direction", "rate"], &rows);
    }
}
