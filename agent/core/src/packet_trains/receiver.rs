//! Grants trains to hosts on the roster, records the arrivals of their packets, and reports them on request.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use reweave_common::moment::Moment;
use reweave_common::split_mix::SplitMix64;

use super::train_packet::{
    HEADER_BYTES, PAGE_BYTES, PAGE_PACKETS, Train, TrainMessage, TrainRefusal, TrainShape,
};
use super::{FRAME_HEADER_BYTES, MAX_PACKETS};
use crate::latency::{ReceivedPacket, Stamp};
use crate::packet_trains::budget::ByteBudget;

/// How long a granted train is awaited, and how long its arrivals are kept.
const TRAIN_TIMEOUT: Duration = Duration::from_millis(1000);
/// The limit of received bytes.
const MAX_BYTES_PER_S: u64 = 12_500_000;
const MAX_BURST_BYTES: u64 = 8_000_000;
/// The range is from the size that fits every Ethernet frame to that of jumbo frames.
const PACKET_SIZES_BYTES: std::ops::RangeInclusive<u16> = HEADER_BYTES as u16..=8972;

#[derive(Debug)]
pub struct TrainReceiver {
    rng: SplitMix64,
    roster: BTreeSet<Ipv4Addr>,
    /// The last reported time until which a train may start.
    open_until: Option<Moment>,
    budget: ByteBudget,
    expected: Option<GrantedTrain>,
    strays: u64,
}

/// The granted train; there is one at a time.
#[derive(Debug)]
struct GrantedTrain {
    from: SocketAddrV4,
    train: Train,
    shape: TrainShape,
    key: u64,
    granted: Moment,
    arrived: Vec<Stamp>,
    /// Its last page was fetched.
    is_fetched: bool,
}

impl TrainReceiver {
    /// `seed` is random: keys cannot be guessed.
    pub fn new(seed: u64) -> Self {
        Self {
            rng: SplitMix64::new(seed),
            roster: BTreeSet::new(),
            open_until: None,
            budget: ByteBudget::new(MAX_BYTES_PER_S, MAX_BURST_BYTES),
            expected: None,
            strays: 0,
        }
    }

    /// Accepts trains of exactly these hosts from now on.
    pub fn handle_roster(&mut self, roster: impl IntoIterator<Item = Ipv4Addr>) {
        self.roster = roster.into_iter().collect();
    }

    /// Whether a train may arrive now.
    pub fn is_expecting(&self, now: Moment) -> bool {
        let waits = |it: &GrantedTrain| !it.is_complete() && now.since(it.granted) < TRAIN_TIMEOUT;
        self.expected.as_ref().is_some_and(waits)
    }

    /// Packets of trains without a grant, or of hosts not on the roster.
    pub fn strays(&self) -> u64 {
        self.strays
    }

    /// The answer, if any, goes back to the packet's source and is never longer than the packet. `packet` may hold
    /// only the beginning of its `length` bytes. Trains are granted until `open_until`.
    pub fn handle_packet(
        &mut self,
        now: Moment,
        packet: &ReceivedPacket<'_>,
        length: usize,
        open_until: Option<Moment>,
    ) -> Option<Vec<u8>> {
        let known = self.roster.contains(packet.from.ip());
        let Some((train, message)) = TrainMessage::read(packet.bytes).filter(|_| known) else {
            self.strays += 1;
            return None;
        };
        let answer = match message {
            TrainMessage::Ask(shape) => {
                self.open_until = open_until;
                Some(self.grant(now, packet.from, train, shape))
            }
            TrainMessage::TrainPacket { key, number } => {
                self.note(packet, train, key, number);
                None
            }
            TrainMessage::Fetch { key, page } if length >= PAGE_BYTES => {
                self.page(packet, train, key, page)
            }
            // The answer would be longer than the request.
            _ => {
                self.strays += 1;
                None
            }
        };
        answer.map(|answer| answer.to_bytes(train))
    }

    fn grant(
        &mut self,
        now: Moment,
        from: SocketAddrV4,
        train: Train,
        shape: TrainShape,
    ) -> TrainMessage {
        if let Some(expected) = &self.expected
            && !expected.is_fetched
            && now.since(expected.granted) < TRAIN_TIMEOUT * 2
        {
            // The grant was lost, or the requester repeated its request.
            if (expected.from, expected.train, expected.shape) == (from, train, shape) {
                return TrainMessage::Grant { key: expected.key };
            }
            if !expected.is_of(from, train) {
                return TrainMessage::Refuse(TrainRefusal::Later);
            }
        }
        match self.may_come(now, shape) {
            Err(why) => TrainMessage::Refuse(why),
            Ok(()) => {
                let key = self.rng.next_u64();
                self.expected = Some(GrantedTrain {
                    from,
                    train,
                    shape,
                    key,
                    granted: now,
                    arrived: vec![Stamp::default(); shape.packets as usize],
                    is_fetched: false,
                });
                TrainMessage::Grant { key }
            }
        }
    }

    fn may_come(&mut self, now: Moment, shape: TrainShape) -> Result<(), TrainRefusal> {
        if !(1..=MAX_PACKETS).contains(&shape.packets) || !PACKET_SIZES_BYTES.contains(&shape.bytes)
        {
            return Err(TrainRefusal::Shape);
        }
        if self.open_until.is_none_or(|until| now >= until) {
            return Err(TrainRefusal::Busy);
        }
        let frame = u64::from(shape.bytes) + u64::from(FRAME_HEADER_BYTES);
        let taken = self.budget.take(now, u64::from(shape.packets) * frame);
        taken.then_some(()).ok_or(TrainRefusal::Later)
    }

    fn note(&mut self, packet: &ReceivedPacket<'_>, train: Train, key: u64, number: u32) {
        let expected = self.expected.as_mut();
        let own = expected.filter(|it| it.is_asked_by(packet.from, train, key));
        let place = own.and_then(|it| it.arrived.get_mut(number as usize));
        match place {
            Some(place) => place.add(stamped(packet)),
            None => self.strays += 1,
        }
    }

    fn page(
        &mut self,
        packet: &ReceivedPacket<'_>,
        train: Train,
        key: u64,
        page: u32,
    ) -> Option<TrainMessage> {
        let own = |it: &&mut GrantedTrain| it.is_asked_by(packet.from, train, key);
        let Some(expected) = self.expected.as_mut().filter(own) else {
            self.strays += 1;
            return None;
        };
        let all = expected.after_ns();
        let page_of = all.chunks(PAGE_PACKETS).nth(page as usize);
        expected.is_fetched |= (page as usize + 1) * PAGE_PACKETS >= all.len();
        page_of.map(|after_ns| TrainMessage::Arrivals {
            page,
            after_ns: after_ns.to_vec(),
        })
    }
}

/// A packet without a timestamp arrived when the program read it.
fn stamped(packet: &ReceivedPacket<'_>) -> Stamp {
    Stamp {
        kernel_ns: packet.stamp.kernel_ns.or(Some(packet.read.wall_ns)),
        ..packet.stamp
    }
}

impl GrantedTrain {
    /// Whether this is the granted train of that host and port.
    fn is_of(&self, from: SocketAddrV4, train: Train) -> bool {
        self.from == from && self.train.session == train.session
    }

    fn is_asked_by(&self, from: SocketAddrV4, train: Train, key: u64) -> bool {
        (self.from, self.train, self.key) == (from, train, key)
    }

    fn is_complete(&self) -> bool {
        // The last arrival is nearly always the last packet sent.
        let last = self.arrived.last();
        last.is_some_and(|it| *it != Stamp::default())
    }

    /// Uses the NIC's timestamps if all arrivals have them, otherwise the kernel's.
    fn after_ns(&self) -> Vec<Option<u32>> {
        let arrived = || self.arrived.iter().filter(|it| **it != Stamp::default());
        let by_card = arrived().all(|it| it.hardware_ns.is_some());
        let time = |it: &Stamp| {
            if by_card {
                it.hardware_ns
            } else {
                it.kernel_ns
            }
        };
        let first = arrived().filter_map(time).min().unwrap_or(0);
        let after = |it: &Stamp| u32::try_from(time(it)? - first).ok();
        self.arrived.iter().map(after).collect()
    }
}
