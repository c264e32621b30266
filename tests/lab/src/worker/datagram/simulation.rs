//! A network in virtual time for the tests: streams that share one bottleneck, which may lose,
//! repeat, delay and reorder datagrams by lot.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Range;
use std::time::Duration;

use reweave_common::split_mix::SplitMix64;

use super::endpoint::{Endpoint, Role};
use super::packet::Packet;
use super::window::Path;
use crate::worker::payload;

/// Datagram size on the lab's interfaces.
pub(super) const DATAGRAM_BYTES: usize = 8972;
/// Headers of Ethernet, IPv4 and UDP.
const FRAMING_BYTES: usize = 14 + 20 + 8;

pub(super) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Properties of a simulated network.
#[derive(Debug, Clone)]
pub(super) struct Conditions {
    pub(super) bits_per_s: u64,
    /// Length of the queue before the bottleneck.
    pub(super) queue: Duration,
    /// Even if that is fewer.
    pub(super) queue_packets: u32,
    /// Delay in each direction.
    pub(super) delay: Duration,
    /// Up to so much is added to the delay of each datagram.
    pub(super) jitter: Duration,
    pub(super) lost_per_mille: u64,
    pub(super) doubled_per_mille: u64,
    /// No stream must ever have more in flight.
    pub(super) most_bytes: usize,
    /// Larger datagrams do not pass.
    pub(super) largest_bytes: usize,
    /// No packets pass during this time.
    pub(super) black_out: Range<Duration>,
}

impl Default for Conditions {
    fn default() -> Self {
        Self {
            bits_per_s: 200_000_000,
            queue: ms(50),
            queue_packets: 12,
            delay: Duration::from_micros(200),
            jitter: Duration::ZERO,
            lost_per_mille: 0,
            doubled_per_mille: 0,
            most_bytes: 4_000_000,
            largest_bytes: DATAGRAM_BYTES,
            black_out: Duration::ZERO..Duration::ZERO,
        }
    }
}

/// A stream from one end to another.
pub(super) struct Stream {
    pub(super) ends: [Endpoint; 2],
    /// When it begins, and how many bytes it has to send.
    pub(super) start: Duration,
    pub(super) bytes: u64,
    written: u64,
    /// Next bytes to write.
    draft: Vec<u8>,
    pub(super) read: u64,
    pub(super) corrupted: u64,
    /// The receiving user is away meanwhile.
    pub(super) away: Range<Duration>,
    pub(super) fate: Fate,
}

/// Actual outcome of the packets in a stream's forward direction.
#[derive(Debug, Default)]
pub(super) struct Fate {
    delivered: BTreeSet<u64>,
    pub(super) reordered: u64,
}

impl Fate {
    fn note(&mut self, datagram: &[u8]) {
        let Some(Packet::Data { number, .. } | Packet::Probe { number }) = Packet::decode(datagram)
        else {
            return;
        };
        let overtaken = self.delivered.last().is_some_and(|&last| number < last);
        if self.delivered.insert(number) && overtaken {
            self.reordered += 1;
        }
    }

    /// Packets that did not come though a later one did.
    pub(super) fn lost(&self) -> u64 {
        let last = self.delivered.last().map_or(0, |last| last + 1);
        last - self.delivered.len() as u64
    }
}

/// A datagram in flight: arrival, order of sending, receiver.
type Flying = Reverse<(Duration, u64, usize, usize, Vec<u8>)>;

pub(super) struct Network {
    pub(super) now: Duration,
    pub(super) conditions: Conditions,
    pub(super) streams: Vec<Stream>,
    rng: SplitMix64,
    flying: BinaryHeap<Flying>,
    launched: u64,
    /// Datagrams that the ends have sent.
    pub(super) carried: u64,
    /// Until when the bottleneck has work.
    busy_until: Duration,
    pub(super) overflowed: u64,
    pub(super) longest_queue: Duration,
}

impl Network {
    pub(super) fn new(seed: u64, conditions: Conditions) -> Self {
        Self {
            now: Duration::ZERO,
            conditions,
            streams: Vec::new(),
            rng: SplitMix64::new(seed),
            flying: BinaryHeap::new(),
            launched: 0,
            carried: 0,
            busy_until: Duration::ZERO,
            overflowed: 0,
            longest_queue: Duration::ZERO,
        }
    }

    pub(super) fn add_stream(&mut self, start: Duration, bytes: u64) {
        let path = Path {
            datagram_bytes: DATAGRAM_BYTES,
            most_bytes: self.conditions.most_bytes,
        };
        let end = |role| Endpoint::new(role, path, self.now);
        self.streams.push(Stream {
            ends: [end(Role::Opens), end(Role::Awaits)],
            start,
            bytes,
            written: 0,
            draft: Vec::new(),
            read: 0,
            corrupted: 0,
            away: Duration::ZERO..Duration::ZERO,
            fate: Fate::default(),
        });
    }

    /// Runs until `end`, or until `enough`.
    pub(super) fn run_until(&mut self, end: Duration, enough: impl Fn(&Self) -> bool) {
        while self.now < end && !enough(self) {
            self.deliver();
            for stream in 0..self.streams.len() {
                self.act(stream);
            }
            self.now = self.next_event().min(end);
        }
    }

    pub(super) fn all_read(&self) -> bool {
        self.streams
            .iter()
            .all(|stream| stream.read == stream.bytes)
    }

    /// Performs all current actions at both ends of a stream.
    fn act(&mut self, stream: usize) {
        let now = self.now;
        self.streams[stream].use_ends(now);
        for end in 0..2 {
            let endpoint = &mut self.streams[stream].ends[end];
            if endpoint.poll_timeout() <= now {
                endpoint.handle_timeout(now);
            }
            let mut datagram = Vec::new();
            while self.streams[stream].ends[end].poll_transmit(now, &mut datagram) {
                self.send(stream, end, &datagram);
            }
        }
    }

    fn deliver(&mut self) {
        while let Some(Reverse((at, ..))) = self.flying.peek()
            && *at <= self.now
            && let Some(Reverse((_, _, stream, end, datagram))) = self.flying.pop()
        {
            let stream = &mut self.streams[stream];
            if end == 1 {
                stream.fate.note(&datagram);
            }
            stream.ends[end].handle_datagram(self.now, &datagram);
            stream.use_ends(self.now);
        }
    }

    fn send(&mut self, stream: usize, from: usize, datagram: &[u8]) {
        self.carried += 1;
        let dark = self.conditions.black_out.contains(&self.now)
            || datagram.len() > self.conditions.largest_bytes;
        if dark || self.rng.below_u64(1000) < self.conditions.lost_per_mille {
            return;
        }
        let Some(leaves) = self.pass_bottleneck(from, datagram.len() + FRAMING_BYTES) else {
            self.overflowed += 1;
            return;
        };
        let doubled = self.rng.below_u64(1000) < self.conditions.doubled_per_mille;
        for _ in 0..=u32::from(doubled) {
            let jitter = self
                .rng
                .below_u64(self.conditions.jitter.as_nanos() as u64 + 1);
            let at = leaves + self.conditions.delay + Duration::from_nanos(jitter);
            self.launched += 1;
            let flying = (at, self.launched, stream, 1 - from, datagram.to_vec());
            self.flying.push(Reverse(flying));
        }
    }

    /// Returns when a datagram leaves the bottleneck, which exists in the forward direction only; none if its queue is
    /// full.
    fn pass_bottleneck(&mut self, from: usize, bytes: usize) -> Option<Duration> {
        if from == 1 {
            return Some(self.now);
        }
        let waits = self.busy_until.saturating_sub(self.now);
        self.longest_queue = self.longest_queue.max(waits);
        let passes =
            Duration::from_nanos(bytes as u64 * 8_000_000_000 / self.conditions.bits_per_s);
        let frame = Duration::from_nanos(
            (DATAGRAM_BYTES + FRAMING_BYTES) as u64 * 8_000_000_000 / self.conditions.bits_per_s,
        );
        let room = self
            .conditions
            .queue
            .max(frame * self.conditions.queue_packets);
        (waits <= room).then(|| {
            self.busy_until = self.now + waits + passes;
            self.busy_until
        })
    }

    /// Timers have a resolution of a millisecond, as the driver's have.
    fn next_event(&self) -> Duration {
        let ends = self.streams.iter().flat_map(|stream| &stream.ends);
        let timeouts = ends.map(|end| {
            let at = end.poll_timeout().max(self.now);
            Duration::from_millis(at.as_micros().div_ceil(1000) as u64).max(self.now + ms(1) / 1000)
        });
        let starts = self
            .streams
            .iter()
            .flat_map(|stream| [stream.start, stream.away.end]);
        let starts = starts.filter(|&start| start > self.now);
        let arrival = self.flying.peek().map(|Reverse((at, ..))| *at);
        let next = timeouts.chain(starts).chain(arrival).min();
        next.unwrap_or(Duration::MAX).max(self.now)
    }
}

impl Stream {
    /// The users write and read as much as they can.
    fn use_ends(&mut self, now: Duration) {
        if now >= self.start && self.ends[0].is_open() {
            self.write();
        }
        if !self.away.contains(&now) {
            self.read();
        }
    }

    fn write(&mut self) {
        while self.written < self.bytes {
            if self.draft.is_empty() {
                let length = (self.bytes - self.written).min(16 * 1024) as usize;
                self.draft.resize(length, 0);
                payload::fill(&mut self.draft, self.written);
            }
            let taken = self.ends[0].write(&self.draft);
            if taken == 0 {
                return;
            }
            self.draft.drain(..taken);
            self.written += taken as u64;
        }
    }

    fn read(&mut self) {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let length = self.ends[1].read(&mut buffer);
            if length == 0 {
                return;
            }
            self.corrupted += payload::corrupted(&buffer[..length], self.read);
            self.read += length as u64;
        }
    }
}
