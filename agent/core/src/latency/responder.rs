//! Answers the probes of hosts on the roster, and no others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use std::net::Ipv4Addr;
use std::time::Duration;

use reweave_common::moment::Moment;

use super::packet::{ProbeAnswer, ProbeId};
use super::prober::ReceivedPacket;
use super::{Clocks, PACKET_BYTES, Packet, ResponderDelay, Stamp, Strays};

/// The limit of probers per host: an agent, and a few commands.
const MAX_SESSIONS_PER_HOST: usize = 8;
/// The limit of times that wait for a later answer.
const MAX_EARLIER_TIMES: usize = 32;
/// The limit of answers that wait for their timestamps.
const MAX_PENDING_STAMPS: usize = 256;

#[derive(Debug, Default)]
pub struct Responder {
    roster: BTreeSet<Ipv4Addr>,
    /// Hosts of the previous roster, and until when they are still answered.
    former: BTreeMap<Ipv4Addr, Moment>,
    sessions: BTreeMap<Prober, Session>,
    leaving: VecDeque<Leaving>,
    /// The time of the last packet: if the wall clock was set since, kernel timestamps are useless.
    last_turn: Option<Clocks>,
    strays: Strays,
}

/// A prober's address and random session.
type Prober = (Ipv4Addr, u32);

#[derive(Debug)]
struct Session {
    newest: u32,
    /// The lowest bit is the newest probe, and so always set.
    seen: u64,
    /// Hold times of sent answers; each later answer takes one along.
    earlier: VecDeque<(u32, ResponderDelay)>,
    heard: Clocks,
}

#[derive(Debug)]
struct Leaving {
    prober: Prober,
    number: u32,
    arrived: Stamp,
    turn: Clocks,
    left: Stamp,
}

impl Responder {
    /// Answers these hosts from now on. Hosts that only the previous roster had are answered for `grace` longer: a
    /// restarted coordinator learns hosts one by one, and meanwhile they probe by their old lists. Their unanswered
    /// probes would count as lost.
    pub fn handle_roster(
        &mut self,
        now: Moment,
        roster: impl IntoIterator<Item = Ipv4Addr>,
        grace: Duration,
    ) {
        let before = mem::replace(&mut self.roster, roster.into_iter().collect());
        let graced = before.into_iter().map(|host| (host, now + grace));
        self.former.extend(graced);
        let roster = &self.roster;
        self.former
            .retain(|host, until| now < *until && !roster.contains(host));
        let former = &self.former;
        self.sessions
            .retain(|(host, _), _| roster.contains(host) || former.contains_key(host));
    }

    fn answers(&self, host: Ipv4Addr, now: Moment) -> bool {
        let is_graced = |until: &Moment| now < *until;
        self.roster.contains(&host) || self.former.get(&host).is_some_and(is_graced)
    }

    /// The answer to a packet, if any. It is sent back to the packet's source from its destination.
    pub fn handle_packet(&mut self, packet: &ReceivedPacket<'_>) -> Option<[u8; PACKET_BYTES]> {
        let steady = self.last_turn.replace(packet.read);
        let steady = steady.is_none_or(|last| last.agree(&packet.read));
        let Some(Packet::Probe(name)) = Packet::read(packet.bytes) else {
            self.strays.malformed += 1;
            return None;
        };
        let prober = (*packet.from.ip(), name.session);
        let now = Moment::from_micros(packet.read.steady_ns / 1000);
        if !self.answers(prober.0, now) {
            self.strays.foreign += 1;
            return None;
        }
        let held = packet.stamp.until(&Stamp::default(), [&packet.read; 2]);
        let session = self.session(prober, name.number, packet.read);
        let answer = ProbeAnswer {
            name,
            ttl: packet.ttl,
            held: held.filter(|_| steady),
            earlier: session.earlier.pop_front(),
            seen: session.note(name.number),
        };
        if steady {
            self.note_leaving(prober, name, packet);
        }
        Some(Packet::Answer(answer).to_bytes())
    }

    /// The kernel timestamped an answer to `host` as it left.
    pub fn handle_left(&mut self, host: Ipv4Addr, bytes: &[u8], stamp: Stamp, now: &Clocks) {
        let Some(Packet::Answer(ProbeAnswer { name, .. })) = Packet::read(bytes) else {
            return;
        };
        let prober = (host, name.session);
        let is_it = |it: &Leaving| it.prober == prober && it.number == name.number;
        let Some(at) = self.leaving.iter().position(is_it) else {
            return;
        };
        // Those before it have left earlier, without a timestamp.
        self.leaving.drain(..at);
        let Some(leaving) = self.leaving.front_mut() else {
            return;
        };
        leaving.left.add(stamp);
        let held = leaving.arrived.until(&leaving.left, [&leaving.turn, now]);
        if let (Some(held), Some(session)) = (held, self.sessions.get_mut(&prober)) {
            session.note_left(name.number, held);
        }
    }

    /// The packets so far that were not answered.
    pub fn strays(&self) -> Strays {
        self.strays
    }

    fn session(&mut self, prober: Prober, number: u32, now: Clocks) -> &mut Session {
        if !self.sessions.contains_key(&prober) {
            self.make_room(prober.0);
        }
        let session = self.sessions.entry(prober).or_insert(Session {
            newest: number,
            seen: 1,
            earlier: VecDeque::new(),
            heard: now,
        });
        session.heard = now;
        session
    }

    /// Forgets the host's longest silent session, if it has too many.
    fn make_room(&mut self, host: Ipv4Addr) {
        let of_host = || self.sessions.range((host, 0)..=(host, u32::MAX));
        let oldest = of_host().min_by_key(|(_, it)| it.heard.steady_ns);
        if of_host().count() >= MAX_SESSIONS_PER_HOST
            && let Some(oldest) = oldest.map(|(prober, _)| *prober)
        {
            self.sessions.remove(&oldest);
        }
    }

    fn note_leaving(&mut self, prober: Prober, name: ProbeId, packet: &ReceivedPacket<'_>) {
        if self.leaving.len() == MAX_PENDING_STAMPS {
            self.leaving.pop_front();
        }
        self.leaving.push_back(Leaving {
            prober,
            number: name.number,
            arrived: packet.stamp,
            turn: packet.read,
            left: Stamp::default(),
        });
    }
}

impl Session {
    /// The NIC's timestamp replaces the kernel's, if that was not reported yet.
    fn note_left(&mut self, number: u32, held: ResponderDelay) {
        self.earlier.retain(|(noted, _)| *noted != number);
        if self.earlier.len() == MAX_EARLIER_TIMES {
            self.earlier.pop_front();
        }
        self.earlier.push_back((number, held));
    }

    /// Records a probe's arrival, and returns which of the previous 64 arrived.
    fn note(&mut self, number: u32) -> u64 {
        if let Some(ahead) = number.checked_sub(self.newest) {
            self.seen = self.seen.checked_shl(ahead).unwrap_or(0) | 1;
            self.newest = number;
            return self.seen >> 1;
        }
        let behind = self.newest - number;
        self.seen |= 1_u64.checked_shl(behind).unwrap_or(0);
        self.seen.checked_shr(behind + 1).unwrap_or(0)
    }
}
