//! Sends probes and determines their outcomes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::moment::Moment;
use reweave_common::probing::{ProbeList, ProbePart, ProbeReading, ProbeTally};
use reweave_common::split_mix::SplitMix64;
use reweave_common::stall::StallDetector;

use super::flight::{ANSWER_TIMEOUT, Flight, Landing, State};
use super::liveness::PeerLiveness;
use super::packet::{ProbeAnswer, ProbeId};
use super::schedule::Schedule;
use super::{Clocks, PACKET_BYTES, Packet, Stamp, Strays};

/// A refusal applies to probes sent within this time before and after.
const REFUSAL_TTL_NS: u64 = 3_000_000_000;

/// The least gap between turns, or hold time of a responder, that counts as a stall. Turns are at most 130 ms apart.
pub(super) const MIN_STALL: Duration = Duration::from_millis(500);

/// At most one of this many probes of a flow is large.
const PROBES_PER_LARGE_PROBE: u32 = 8;
/// The headers of IP and UDP; a link adds Ethernet's header and checksum.
const IP_UDP_HEADER_BYTES: u32 = 28;
const ETHERNET_FRAMING_BYTES: u64 = 18;
/// The largest packet, whatever an interface supports.
const MAX_PACKET_BYTES: u32 = 9216;

/// The probes of one agent.
#[derive(Debug)]
pub struct Prober {
    session: u32,
    schedule: Schedule,
    peers: BTreeMap<AddressPair, Peer>,
    flows: BTreeMap<FlowKey, FlowTally>,
    /// The largest packet from each local address.
    mtus: BTreeMap<Ipv4Addr, u32>,
    strays: Strays,
    stall: StallDetector,
}

/// An address of this host and one of another.
type AddressPair = [Ipv4Addr; 2];

#[derive(Debug, Default)]
struct Peer {
    last_number: u32,
    /// Flights are in the order of their numbers.
    flights: VecDeque<Flight>,
    /// Whether the responder reported each probe as arrived. Every answer covers many probes.
    seen: VecDeque<Option<bool>>,
    /// When the last refused probe was sent, if none was answered since.
    refused_ns: Option<u64>,
    liveness: PeerLiveness,
}

/// The results of a flow's probes.
#[derive(Debug, Default)]
struct FlowTally {
    tally: ProbeTally,
    /// An earlier probe that is answered after this one was overtaken.
    newest: u32,
    last_network: Option<Duration>,
    small_since: u32,
}

/// Why a host cannot send a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsendable {
    Forbidden,
    NoRoom,
    NoWay,
    /// The interface no longer supports packets of this length.
    TooLong,
}

/// A probe to be sent now.
#[derive(Debug, Clone, Copy)]
pub struct OutgoingProbe {
    pub flow: FlowKey,
    pub bytes: [u8; PACKET_BYTES],
    /// The length, including the zeros after these bytes.
    pub length: usize,
}

impl Prober {
    /// `seed` is random and distinguishes this prober's probes. Responders get their roster at about the same time, so
    /// the first probes are delayed by `head_start`.
    pub fn new(seed: u64, head_start: Duration) -> Self {
        let mut rng = SplitMix64::new(seed);
        Self {
            session: rng.next_u64() as u32,
            schedule: Schedule::new(rng, head_start),
            peers: BTreeMap::new(),
            flows: BTreeMap::new(),
            mtus: BTreeMap::new(),
            strays: Strays::default(),
            stall: StallDetector::new(MIN_STALL),
        }
    }

    pub fn handle_list(&mut self, now: Moment, list: &ProbeList) {
        self.schedule.handle_list(now, list);
        let tallied = |flow_tally: &FlowTally| flow_tally.tally != ProbeTally::default();
        let listed: BTreeSet<_> = list.flows.iter().collect();
        self.flows
            .retain(|flow, flow_tally| tallied(flow_tally) || listed.contains(flow));
    }

    /// The MTU by local address. Without it, no probe is large.
    pub fn handle_mtus(&mut self, mtus: BTreeMap<Ipv4Addr, u32>) {
        self.mtus = mtus;
    }

    /// Whether the flow is on the list.
    pub fn probes(&self, flow: &FlowKey) -> bool {
        self.schedule.has(flow)
    }

    /// A probe that should be sent now.
    pub fn poll_probe(&mut self, now: Moment, clocks: Clocks) -> Option<OutgoingProbe> {
        self.mark_stalled(&clocks);
        let flow = self.schedule.poll(now)?;
        let length = self.length(now, &flow);
        let peer = self.peers.entry(pair(&flow)).or_default();
        peer.last_number = peer.last_number.wrapping_add(1);
        let number = peer.last_number;
        peer.note_sent(Flight::new(number, flow, clocks, length > PACKET_BYTES));
        let session = self.session;
        let bytes = Packet::Probe(ProbeId { session, number }).to_bytes();
        Some(OutgoingProbe {
            flow,
            bytes,
            length,
        })
    }

    /// The length of a flow's next probe, which is large from time to time.
    fn length(&mut self, now: Moment, flow: &FlowKey) -> usize {
        let mtu = self.mtus.get(flow.source.ip()).copied().unwrap_or(0);
        let mtu = mtu.min(MAX_PACKET_BYTES);
        let length = mtu.saturating_sub(IP_UDP_HEADER_BYTES) as usize;
        let tally = self.flows.entry(*flow).or_default();
        tally.small_since += 1;
        let is_due = length > PACKET_BYTES && tally.small_since >= PROBES_PER_LARGE_PROBE;
        if is_due
            && self
                .schedule
                .grants(now, u64::from(mtu) + ETHERNET_FRAMING_BYTES)
        {
            tally.small_since = 0;
            return length;
        }
        PACKET_BYTES
    }

    /// When [`Self::poll_probe`] next has something.
    pub fn next_due(&self) -> Option<Moment> {
        self.schedule.next_due()
    }

    /// The host could not send the probe.
    pub fn handle_unsent(&mut self, probe: &OutgoingProbe, why: Unsendable) {
        let Some(flight) = self.sent(pair(&probe.flow), &probe.bytes) else {
            return;
        };
        flight.state = State::Reported;
        let unsent = &mut self.flow_tally(probe.flow).tally.unsent;
        *match why {
            Unsendable::Forbidden => &mut unsent.forbidden,
            Unsendable::NoRoom => &mut unsent.no_room,
            Unsendable::NoWay => &mut unsent.no_way,
            Unsendable::TooLong => return,
        } += 1;
    }

    /// The kernel timestamped a probe as it left. `pair` and `bytes` are the packet's.
    pub fn handle_left(&mut self, pair: AddressPair, bytes: &[u8], stamp: Stamp) {
        if let Some(flight) = self.sent(pair, bytes) {
            flight.left.get_or_insert_default().add(stamp);
            let number = flight.number;
            self.time_complete(pair, number);
        }
    }

    /// The peer's kernel refused a probe: no socket listens there.
    pub fn handle_refused(&mut self, pair: AddressPair, bytes: &[u8]) {
        let Some(flight) = self.sent(pair, bytes) else {
            return;
        };
        if !matches!(flight.state, State::Flying) {
            return;
        }
        flight.state = State::Reported;
        let (flow, sent) = (flight.flow, flight.sent);
        self.flow_tally(flow).tally.refused += 1;
        if let Some(peer) = self.peers.get_mut(&pair) {
            peer.refused_ns = Some(sent.steady_ns);
            peer.liveness.handle_refused(&sent);
        }
    }

    /// A packet that arrived at `to`, a source port of probes, with its remaining TTL.
    pub fn handle_packet(&mut self, packet: &ReceivedPacket<'_>) {
        let answer = match Packet::read(packet.bytes) {
            None => return self.strays.malformed += 1,
            Some(Packet::Answer(answer)) if answer.name.session == self.session => answer,
            Some(_) => return self.strays.foreign += 1,
        };
        let pair = [*packet.to.ip(), *packet.from.ip()];
        if let Some(peer) = self.peers.get_mut(&pair) {
            peer.liveness.handle_answer(&packet.read, answer.held);
        }
        if self.land(pair, &answer, packet)
            && let Some(peer) = self.peers.get_mut(&pair)
        {
            peer.handle_earlier(&answer);
            if let Some((number, _)) = answer.earlier {
                self.time_complete(pair, number);
            }
        }
    }

    /// During a stall of this process, answers may have overflowed the socket's receive buffer.
    fn mark_stalled(&mut self, now: &Clocks) {
        if self.stall.tick(Moment::from_micros(now.steady_ns / 1000)) {
            let flights = self.peers.values_mut().flat_map(|peer| &mut peer.flights);
            flights.for_each(|flight| flight.is_stalled = true);
        }
    }

    /// Gives up overdue probes.
    pub fn handle_time(&mut self, now: &Clocks) {
        self.mark_stalled(now);
        let Self { peers, flows, .. } = self;
        for peer in peers.values_mut() {
            while let Some((flight, seen)) = peer.pop_overdue(now) {
                let report = flows.entry(flight.flow).or_default();
                match flight.state {
                    State::Flying if peer.refuses(&flight) => report.tally.refused += 1,
                    _ if flight.is_stalled || peer.liveness.was_stalled(&flight.sent) => {
                        report.count_stalled(&flight);
                    }
                    _ => report.settle(&flight, seen),
                }
            }
        }
    }

    /// The results of the probes whose outcome was determined since the last call.
    pub fn poll_readings(&mut self) -> Vec<ProbeReading> {
        let news = self.flows.iter_mut().filter_map(|(&flow, report)| {
            let tally = std::mem::take(&mut report.tally);
            (tally != ProbeTally::default()).then_some(ProbeReading { flow, tally })
        });
        news.collect()
    }

    /// Whether the outcome of every probe is known and reported.
    pub fn is_settled(&self) -> bool {
        self.peers.values().all(|peer| peer.flights.is_empty())
    }

    /// Whether answers to this port may still arrive.
    pub fn awaits(&self, port: u16) -> bool {
        let mut flights = self.peers.values().flat_map(|peer| &peer.flights);
        flights.any(|it| it.flow.source.port() == port && matches!(it.state, State::Flying))
    }

    /// The packets so far that answered no probe.
    pub fn strays(&self) -> Strays {
        self.strays
    }

    /// Takes an answer to a known probe; others are ignored.
    fn land(
        &mut self,
        pair: AddressPair,
        answer: &ProbeAnswer,
        packet: &ReceivedPacket<'_>,
    ) -> bool {
        let number = answer.name.number;
        let Some(peer) = self.peers.get_mut(&pair) else {
            self.strays.foreign += 1;
            return false;
        };
        let was_sent = (1..=peer.last_number).contains(&number);
        let flight = match peer.flight(number) {
            Some(flight) if flight.flow == flow_of(packet) => flight,
            None if was_sent => {
                self.strays.late += 1;
                return false;
            }
            _ => {
                self.strays.foreign += 1;
                return false;
            }
        };
        if !flight.is_stalled && !flight.is_in_time(&packet.read, answer.held) {
            self.strays.late += 1;
            return false;
        }
        flight.is_stalled |= flight.age(&packet.read) >= ANSWER_TIMEOUT;
        let flow = flight.flow;
        match flight.state {
            State::Flying => {
                let landing = Landing::new(answer, packet.stamp, packet.ttl, packet.read);
                flight.state = State::Answered(landing);
                // Large probes take longer, and may be overtaken.
                if !flight.is_large {
                    self.flow_tally(flow).note_order(number);
                }
            }
            _ => self.flow_tally(flow).tally.duplicated += 1,
        }
        true
    }

    /// Reports a probe's times, once all of them are known.
    fn time_complete(&mut self, pair: AddressPair, number: u32) {
        let flight = self
            .peers
            .get_mut(&pair)
            .and_then(|peer| peer.flight(number));
        if let Some(flight) = flight.filter(|flight| flight.is_complete()) {
            self.flows.entry(flight.flow).or_default().time(flight);
            flight.state = State::Timed;
        }
    }

    /// Our probe with these bytes.
    fn sent(&mut self, pair: AddressPair, bytes: &[u8]) -> Option<&mut Flight> {
        let Some(Packet::Probe(name)) = Packet::read(bytes) else {
            return None;
        };
        let peer = self
            .peers
            .get_mut(&pair)
            .filter(|_| name.session == self.session)?;
        peer.flight(name.number)
    }

    fn flow_tally(&mut self, flow: FlowKey) -> &mut FlowTally {
        self.flows.entry(flow).or_default()
    }
}

/// A packet as it was received.
#[derive(Debug, Clone, Copy)]
pub struct ReceivedPacket<'p> {
    pub from: SocketAddrV4,
    pub to: SocketAddrV4,
    pub bytes: &'p [u8],
    pub ttl: u8,
    pub stamp: Stamp,
    /// When the program read it.
    pub read: Clocks,
}

fn pair(flow: &FlowKey) -> AddressPair {
    [*flow.source.ip(), *flow.destination.ip()]
}

/// The flow of the probe that this answers.
fn flow_of(packet: &ReceivedPacket<'_>) -> FlowKey {
    FlowKey {
        protocol: Protocol::Udp,
        source: packet.to,
        destination: packet.from,
    }
}

impl Peer {
    fn note_sent(&mut self, flight: Flight) {
        self.flights.push_back(flight);
        self.seen.push_back(None);
    }

    fn pop_overdue(&mut self, now: &Clocks) -> Option<(Flight, Option<bool>)> {
        let liveness = &self.liveness;
        let is_decided = |flight: &Flight| !matches!(flight.state, State::Flying);
        let flight = self.flights.pop_front_if(|flight| {
            flight.age(now) >= ANSWER_TIMEOUT
                && (is_decided(flight) || liveness.may_declare_lost(flight, now))
        })?;
        Some((flight, self.seen.pop_front().flatten()))
    }

    /// Numbers are consecutive, and probes are only removed from the front.
    fn flight(&mut self, number: u32) -> Option<&mut Flight> {
        let first = self.flights.front()?.number;
        self.flights.get_mut(number.wrapping_sub(first) as usize)
    }

    /// Kernels report a refusal about once a second, not for every probe.
    fn refuses(&self, flight: &Flight) -> bool {
        let apart = |refused: u64| refused.abs_diff(flight.sent.steady_ns);
        self.refused_ns
            .is_some_and(|refused| apart(refused) <= REFUSAL_TTL_NS)
    }

    /// Takes what an answer reports about earlier probes.
    fn handle_earlier(&mut self, answer: &ProbeAnswer) {
        self.refused_ns = None;
        if let Some((number, held)) = answer.earlier
            && let Some(flight) = self.flight(number)
            && let State::Answered(landing) = &mut flight.state
        {
            (landing.held, landing.is_final) = (Some(held), true);
        }
        let first = self.flights.front().map(|flight| flight.number);
        let before = first.and_then(|first| answer.name.number.checked_sub(first));
        let before = self.seen.iter_mut().take(before.unwrap_or(0) as usize);
        for (back, known) in before.rev().take(64).enumerate() {
            let seen = answer.seen >> back & 1 == 1;
            *known = Some(seen || *known == Some(true));
        }
    }
}

impl FlowTally {
    fn note_order(&mut self, number: u32) {
        self.tally.reordered += u32::from(number < self.newest);
        self.newest = self.newest.max(number);
    }

    /// Counts the probe as stalled: neither answered nor lost. Large probes and counted ones are left out.
    fn count_stalled(&mut self, flight: &Flight) {
        if !matches!(flight.state, State::Reported) && !flight.is_large {
            self.tally.stalled += 1;
        }
    }

    /// Determines the outcome after the timeout.
    fn settle(&mut self, flight: &Flight, seen: Option<bool>) {
        match (&flight.state, seen) {
            (State::Reported, _) => {}
            (State::Flying, seen) if flight.is_large => match seen {
                Some(true) => self.tally.large.arrived += 1,
                Some(false) => self.tally.large.lost += 1,
                // The outcome of small probes at that time is not known either.
                None => {}
            },
            _ if flight.is_large => self.tally.large.arrived += 1,
            (State::Flying, Some(true)) => self.tally.lost.back += 1,
            (State::Flying, Some(false)) => self.tally.lost.there += 1,
            (State::Flying, None) => self.tally.lost.somewhere += 1,
            (State::Timed, _) => self.tally.answered += 1,
            (State::Answered(_), _) => {
                self.tally.answered += 1;
                self.time(flight);
            }
        }
    }

    /// Reports the times of the probe's parts.
    fn time(&mut self, flight: &Flight) {
        let State::Answered(landing) = &flight.state else {
            return;
        };
        self.tally.routers = Some(landing.routers);
        let Some(split) = landing.split(flight) else {
            return self.tally.untimed += 1;
        };
        let times = &mut self.tally.times;
        times.record(ProbePart::Network, split.network);
        times.record(ProbePart::Responder, split.responder);
        times.record(ProbePart::Prober, split.prober);
        if let Some(last) = self.last_network.replace(split.network) {
            times.record(ProbePart::Jitter, split.network.abs_diff(last));
        }
        self.tally.stamped.note(split.stamps);
    }
}
