//! When each flow is probed next.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reweave_common::flow::FlowKey;
use reweave_common::moment::Moment;
use reweave_common::probing::ProbeList;
use reweave_common::split_mix::SplitMix64;
use reweave_common::units::Rate;

use super::packet::PACKET_BYTES;
use crate::grant::{self, MAX_LIST_TTL};

/// The bytes of a probe on a link, with UDP, IP and Ethernet headers and the checksum.
pub const PROBE_WIRE_BYTES: u64 = PACKET_BYTES as u64 + 8 + 20 + 18;
/// The largest rate, whatever a list says.
pub const MAX_RATE: Rate = Rate::from_bits_per_s(10_000_000);
/// The least interval of a flow, whatever a list says.
const MIN_INTERVAL: Duration = Duration::from_micros(100);
/// How far ahead of its rate it may send, so that several probes share a turn.
const MAX_BURST_TIME: Duration = Duration::from_millis(85);
/// Large probes take at most this part of the rate.
const LARGE_RATE_DIVISOR: u32 = 10;
/// They leave this part of the rate unused, so that a burst does not exceed it within a second.
const SPARE_RATE_DIVISOR: u64 = 11;

#[derive(Debug)]
pub(super) struct Schedule {
    due: BTreeSet<(Moment, FlowKey)>,
    period: Duration,
    /// The gap between two probes at the full rate.
    gap: Duration,
    share_at: Moment,
    /// The earliest time of the next large probe.
    large_at: Moment,
    ends: Moment,
    rng: SplitMix64,
    /// The delay before a flow's first probe.
    head_start: Duration,
}

impl Schedule {
    pub(super) fn new(rng: SplitMix64, head_start: Duration) -> Self {
        Self {
            due: BTreeSet::new(),
            period: MIN_INTERVAL,
            gap: Duration::ZERO,
            share_at: Moment::default(),
            large_at: Moment::default(),
            ends: Moment::default(),
            rng,
            head_start,
        }
    }

    /// Probes exactly these flows from now on. A flow that was probed before keeps its turn.
    pub(super) fn handle_list(&mut self, now: Moment, list: &ProbeList) {
        let before = std::mem::take(&mut self.due);
        let before: BTreeMap<_, _> = before.into_iter().map(|(at, flow)| (flow, at)).collect();
        self.period = list.period.get().clamp(MIN_INTERVAL, MAX_LIST_TTL);
        self.gap = gap(list.most_rate.min(MAX_RATE));
        self.ends = grant::ends(now, list);
        let latest = now + self.head_start + self.period;
        for &flow in &list.flows {
            let turn = now + self.head_start + self.rng.below_duration(self.period);
            let due = before.get(&flow).map_or(turn, |at| (*at).min(latest));
            self.due.insert((due, flow));
        }
    }

    pub(super) fn has(&self, flow: &FlowKey) -> bool {
        self.due.iter().any(|(_, due)| due == flow)
    }

    /// The flow whose turn it is.
    pub(super) fn poll(&mut self, now: Moment) -> Option<FlowKey> {
        if now >= self.ends {
            self.due.clear();
        }
        if self.share_at > now + MAX_BURST_TIME {
            return None;
        }
        let &(due, flow) = self.due.first().filter(|(due, _)| *due <= now)?;
        self.due.pop_first();
        self.share_at = self.share_at.max(now) + self.gap;
        // The pause has a jitter of a quarter of the period. Missed probes are not made up for.
        let pause = self.period * 3 / 4 + self.rng.below_duration(self.period / 2);
        self.due.insert(((due + pause).max(now), flow));
        Some(flow)
    }

    /// Whether the next probe may have this many bytes on a link.
    pub(super) fn grants(&mut self, now: Moment, wire_bytes: u64) -> bool {
        if now < self.large_at {
            return false;
        }
        let probes = u32::try_from(wire_bytes / PROBE_WIRE_BYTES).unwrap_or(u32::MAX);
        let takes = self.gap.saturating_mul(probes);
        self.share_at = self.share_at.max(now) + takes;
        self.large_at = now + takes.saturating_mul(LARGE_RATE_DIVISOR);
        true
    }

    /// When [`Self::poll`] next has something.
    pub(super) fn next_due(&self) -> Option<Moment> {
        let (due, _) = self.due.first()?;
        let lead = self
            .share_at
            .as_micros()
            .saturating_sub(MAX_BURST_TIME.as_micros() as u64);
        Some((*due).max(Moment::from_micros(lead)))
    }
}

fn gap(most_rate: Rate) -> Duration {
    let used = most_rate.bits_per_s() / SPARE_RATE_DIVISOR * (SPARE_RATE_DIVISOR - 1);
    let micros = PROBE_WIRE_BYTES * 8 * 1_000_000 / used.max(1);
    Duration::from_micros(micros + 1)
}

#[cfg(test)]
mod tests {
    use reweave_common::time_span::TimeSpan;
    use std::net::{Ipv4Addr, SocketAddrV4};

    use reweave_common::flow::Protocol;

    use super::*;

    fn flow(port: u16) -> FlowKey {
        let end = |host, port| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), port);
        FlowKey {
            protocol: Protocol::Udp,
            source: end(1, port),
            destination: end(2, 7333),
        }
    }

    fn list(flows: u16, period_ms: u64, most_bits_per_s: u64) -> ProbeList {
        ProbeList {
            flows: (0..flows).map(flow).collect(),
            period: TimeSpan::from_millis(period_ms),
            most_rate: Rate::from_bits_per_s(most_bits_per_s),
            roster: vec![],
            valid_for: TimeSpan::from_secs(10),
            trains_every: None,
        }
    }

    fn at(ms: u64) -> Moment {
        Moment::from_micros(ms * 1000)
    }

    /// Lets time pass, and returns the time of each flow's turns.
    fn play(schedule: &mut Schedule, from: Moment, to: Moment) -> Vec<(Moment, FlowKey)> {
        let (mut now, mut turns) = (from, vec![]);
        while now < to {
            turns.extend(std::iter::from_fn(|| schedule.poll(now)).map(|flow| (now, flow)));
            match schedule.next_due() {
                Some(due) if due > now => now = due,
                Some(_) => now = now + Duration::from_micros(1),
                None => break,
            }
        }
        turns
    }

    #[test]
    fn probes_spread_evenly_over_period() {
        let mut schedule = Schedule::new(SplitMix64::new(1), Duration::ZERO);
        schedule.handle_list(at(0), &list(64, 100, 10_000_000));
        let turns = play(&mut schedule, at(0), at(9999));
        let of = |it: FlowKey| turns.iter().filter(move |(_, flow)| *flow == it);
        for flow in (0..64).map(flow) {
            let times: Vec<_> = of(flow).map(|(at, _)| *at).collect();
            assert!((95..=105).contains(&times.len()), "{}", times.len());
            let gaps = times.windows(2).map(|pair| pair[1].since(pair[0]));
            let gaps: Vec<_> = gaps.collect();
            assert!(*gaps.iter().min().unwrap() >= Duration::from_millis(70));
            assert!(*gaps.iter().max().unwrap() <= Duration::from_millis(130));
        }
        let busiest = (0..100).map(|slot| {
            let slot = at(slot * 100)..at(slot * 100 + 10);
            turns.iter().filter(|(at, _)| slot.contains(at)).count()
        });
        assert!(
            busiest.max() < Some(20),
            "64 flows within a tenth of the period"
        );
    }

    #[test]
    fn total_probe_rate_is_capped() {
        for (asked, most) in [(880_000, 880_000), (1_000_000_000, 10_000_000)] {
            let mut schedule = Schedule::new(SplitMix64::new(2), Duration::ZERO);
            schedule.handle_list(at(0), &list(500, 1, asked));
            let turns = play(&mut schedule, at(0), at(2000));
            let bits = turns.len() as u64 * PROBE_WIRE_BYTES * 8 / 2;
            assert!(bits <= most * 102 / 100, "{bits} bit/s of {most}");
            assert!(bits >= most * 9 / 10, "{bits} bit/s of {most}");
            let of_one = |it| turns.iter().filter(|(_, flow)| *flow == it).count();
            let counts: Vec<_> = (0..500).map(|port| of_one(flow(port))).collect();
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(most - least <= 1 + most / 4, "{least} to {most} each");
        }
    }

    #[test]
    fn paused_prober_keeps_rate_cap() {
        let most = 1_000_000;
        let mut schedule = Schedule::new(SplitMix64::new(6), Duration::ZERO);
        schedule.handle_list(at(0), &list(500, 1, most));
        let pause = MAX_BURST_TIME.as_millis() as u64;
        let looks = (0..5_000).filter(|ms| ms % (1000 + pause) >= pause);
        let sent: Vec<_> = looks
            .flat_map(|ms| {
                std::iter::repeat_n(ms, std::iter::from_fn(|| schedule.poll(at(ms))).count())
            })
            .collect();
        let in_second_from = |from: u64| {
            let second = from..from + 1000;
            sent.iter().filter(|ms| second.contains(ms)).count() as u64
        };
        for &from in sent.iter().filter(|from| **from < 4_000) {
            let bits = in_second_from(from) * PROBE_WIRE_BYTES * 8;
            assert!((most * 4 / 5..=most).contains(&bits), "{bits} bit/s");
        }
    }

    #[test]
    fn large_probes_use_tenth_of_rate() {
        const JUMBO_FRAME_BYTES: u64 = 9018;
        let most = 1_000_000;
        let mut schedule = Schedule::new(SplitMix64::new(7), Duration::ZERO);
        schedule.handle_list(at(0), &list(500, 1, most));
        let (mut small, mut large) = (0, 0);
        for ms in 0..10_000 {
            while schedule.poll(at(ms)).is_some() {
                if schedule.grants(at(ms), JUMBO_FRAME_BYTES) {
                    large += 1;
                } else {
                    small += 1;
                }
            }
        }
        let bits_per_s =
            [large * JUMBO_FRAME_BYTES, small * PROBE_WIRE_BYTES].map(|bytes| bytes * 8 / 10);
        assert!(
            (80_000..=110_000).contains(&bits_per_s[0]),
            "{bits_per_s:?}"
        );
        let all = bits_per_s[0] + bits_per_s[1];
        assert!((most * 4 / 5..=most).contains(&all), "{bits_per_s:?}");
    }

    #[test]
    fn probing_ends_without_fresh_list() {
        let mut schedule = Schedule::new(SplitMix64::new(3), Duration::ZERO);
        schedule.handle_list(at(0), &list(8, 100, 10_000_000));
        let turns = play(&mut schedule, at(0), at(60_000));
        let (last, _) = *turns.last().unwrap();
        assert!(last < at(10_000) && last > at(9_800), "{last:?}");
        assert_eq!(schedule.next_due(), None);
        schedule.handle_list(at(60_000), &list(8, 100, 10_000_000));
        assert!(!play(&mut schedule, at(60_000), at(60_200)).is_empty());
    }

    #[test]
    fn renewed_list_sends_nothing_early() {
        let fresh_every = |ms: u64| {
            let mut schedule = Schedule::new(SplitMix64::new(4), Duration::ZERO);
            let turns = (0..10_000 / ms).map(|turn| {
                schedule.handle_list(at(turn * ms), &list(8, 100, 10_000_000));
                play(&mut schedule, at(turn * ms), at((turn + 1) * ms)).len()
            });
            turns.sum::<usize>()
        };
        let [seldom, often] = [fresh_every(5_000), fresh_every(10)];
        assert!(
            often.abs_diff(seldom) <= seldom / 20,
            "{often} and {seldom}"
        );
    }

    #[test]
    fn stalled_prober_does_not_catch_up() {
        let mut schedule = Schedule::new(SplitMix64::new(5), Duration::ZERO);
        schedule.handle_list(at(0), &list(1, 10, 10_000_000));
        let turns = play(&mut schedule, at(5_000), at(5_001));
        assert!(turns.len() <= 2, "{turns:?}");
    }
}
