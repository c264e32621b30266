//! The schedule of trains: each flow as often as the list says, all together within their share of the links, and none
//! after the list has expired.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::time::Duration;

use reweave_common::bandwidth::{Bandwidth, BandwidthReading};
use reweave_common::flow::FlowKey;
use reweave_common::moment::Moment;
use reweave_common::probing::ProbeList;
use reweave_common::split_mix::SplitMix64;
use reweave_common::time_span::TimeSpan;
use reweave_common::units::Rate;

use super::{FRAME_HEADER_BYTES, TrainSequence, TrainShape, TrainVerdict};
use crate::grant::{self, Allowance, MAX_LIST_TTL};

/// The offset of a train's source port from that of its flow's probes, because it has its own socket.
const TRAIN_PORT_OFFSET: u16 = 32;
/// Fits every Ethernet frame.
const PACKET_BYTES: u16 = 1472;
/// 1.6 MB: long enough to exceed token buckets of links of several Gb/s.
const MAX_SCHEDULED_PACKETS: u32 = 1024;
/// The least interval and the largest number, whatever a list says.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
const MAX_RATE: Rate = Rate::from_bits_per_s(100_000_000);
/// A train that could not be sent is retried after this.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// The assumed rate of an unknown path.
const ASSUMED_RATE: Rate = Rate::from_bits_per_s(100_000_000);
/// The time for the request, at a host that reads packets at intervals.
const SETUP_TIME: Duration = Duration::from_millis(45);

#[derive(Debug)]
pub struct Timetable {
    rng: SplitMix64,
    lines: BTreeMap<FlowKey, TimetableEntry>,
    period: Duration,
    allowance: Allowance,
    ends: Moment,
}

#[derive(Debug)]
struct TimetableEntry {
    due: Moment,
    sequence: TrainSequence,
}

impl Timetable {
    /// `seed` is random.
    pub fn new(seed: u64) -> Self {
        Self {
            rng: SplitMix64::new(seed),
            lines: BTreeMap::new(),
            period: MIN_INTERVAL,
            allowance: Allowance::default(),
            ends: Moment::default(),
        }
    }

    /// Sends trains along exactly these flows from now on.
    pub fn handle_list(&mut self, now: Moment, list: &ProbeList) {
        let Some(every) = list.trains_every else {
            self.lines.clear();
            return;
        };
        self.period = every.get().clamp(MIN_INTERVAL, MAX_LIST_TTL);
        self.ends = grant::ends(now, list);
        let rate = list.most_rate.min(MAX_RATE);
        self.allowance.handle_rate(now, rate, most_bytes(rate));
        let mut before = std::mem::take(&mut self.lines);
        for flow in list.flows.iter().filter_map(beside) {
            let new = || TimetableEntry {
                due: now + self.rng.below_duration(self.period),
                sequence: TrainSequence::new(PACKET_BYTES, MAX_SCHEDULED_PACKETS),
            };
            let line = before.remove(&flow).unwrap_or_else(new);
            self.lines.insert(flow, line);
        }
    }

    /// When the next train is due and within the budget; none without a fresh list.
    pub fn next_due(&mut self, now: Moment) -> Option<Moment> {
        let lines = self.lines.values().filter(|_| now < self.ends);
        let next = lines.min_by_key(|line| line.due)?;
        let budget = self.allowance.budget()?;
        let wait = budget.wait(now, frames(next.sequence.shape()));
        Some(next.due.max(now + wait.unwrap_or_default()))
    }

    /// A train to be sent now that will have arrived before `open_until`.
    pub fn poll(&mut self, now: Moment, open_until: Moment) -> Option<(FlowKey, TrainShape)> {
        if now >= self.ends {
            self.lines.clear();
            return None;
        }
        let fits = |line: &TimetableEntry| now + line.time() <= open_until;
        let lines = self.lines.iter_mut().filter(|(_, line)| line.due <= now);
        let (flow, line) = lines
            .filter(|(_, line)| fits(line))
            .min_by_key(|(_, line)| line.due)?;
        let budget = self.allowance.budget()?;
        let shape = line.sequence.shape();
        let bytes = frames(shape);
        if budget.wait(now, bytes).is_none() {
            // The budget never allows this length: shorter trains have to do.
            line.sequence = TrainSequence::new(PACKET_BYTES, shape.packets / 2);
        }
        if !budget.take(now, bytes) {
            return None;
        }
        line.due = now + self.period;
        Some((*flow, shape))
    }

    /// The train could not be sent: another gap will come soon.
    pub fn handle_unsent(&mut self, now: Moment, flow: &FlowKey, shape: TrainShape) {
        if let Some(budget) = self.allowance.budget() {
            budget.give_back(frames(shape));
        }
        if let Some(line) = self.lines.get_mut(flow) {
            line.due = line.due.min(now + RETRY_INTERVAL);
        }
    }

    /// The result of the last train of a flow.
    pub fn handle_verdict(
        &mut self,
        flow: &FlowKey,
        verdict: TrainVerdict,
    ) -> Option<BandwidthReading> {
        let line = self.lines.get_mut(flow)?;
        line.sequence.handle_verdict(verdict);
        Some(BandwidthReading {
            flow: *flow,
            bandwidth: line.sequence.bandwidth(),
            routers: None,
        })
    }
}

impl TimetableEntry {
    /// The approximate time of the next train.
    fn time(&self) -> Duration {
        let rate = match self.sequence.bandwidth() {
            Bandwidth::Known { rate, .. } | Bandwidth::AtLeast { rate, .. } => rate,
            Bandwidth::Unknown { .. } => ASSUMED_RATE,
        };
        let bits = frames(self.sequence.shape()) as f64 * 8.0;
        SETUP_TIME + TimeSpan::from_secs_f64(bits / rate.bits_per_s().max(1) as f64).get()
    }
}

/// The budget of a minute, and at least of one short train.
fn most_bytes(rate: Rate) -> u64 {
    let short = frames(TrainSequence::new(PACKET_BYTES, 0).shape());
    (rate.bits_per_s() / 8 * 60).max(short)
}

fn frames(shape: TrainShape) -> u64 {
    let frame = u64::from(shape.bytes) + u64::from(FRAME_HEADER_BYTES);
    u64::from(shape.packets) * frame
}

fn beside(probes: &FlowKey) -> Option<FlowKey> {
    let port = probes.source.port().checked_add(TRAIN_PORT_OFFSET)?;
    Some(FlowKey {
        source: SocketAddrV4::new(*probes.source.ip(), port),
        ..*probes
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use reweave_common::flow::Protocol;

    use super::*;

    const NO_DEADLINE: Moment = Moment::from_micros(u64::MAX / 2);

    fn at(ms: u64) -> Moment {
        Moment::from_micros(ms * 1000)
    }

    fn list(flows: u8, most_bits_per_s: u64) -> ProbeList {
        let end = |host, port| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), port);
        ProbeList {
            flows: (0..flows)
                .map(|host| FlowKey {
                    protocol: Protocol::Udp,
                    source: end(1, 7400),
                    destination: end(2 + host, 7333),
                })
                .collect(),
            period: TimeSpan::from_millis(400),
            most_rate: Rate::from_bits_per_s(most_bits_per_s),
            roster: vec![],
            valid_for: TimeSpan::from_secs(300),
            trains_every: Some(TimeSpan::from_secs(60)),
        }
    }

    fn table(list: &ProbeList) -> Timetable {
        let mut table = Timetable::new(1);
        table.handle_list(at(0), list);
        table
    }

    /// The trains of some time in which all gaps are open.
    fn play(table: &mut Timetable, to_ms: u64) -> Vec<(u64, FlowKey, TrainShape)> {
        let mut trains = vec![];
        for ms in (0..to_ms).step_by(10) {
            while let Some((flow, shape)) = table.poll(at(ms), NO_DEADLINE) {
                trains.push((ms, flow, shape));
                table.handle_verdict(&flow, TrainVerdict::Rate(1e9));
            }
        }
        trains
    }

    #[test]
    fn each_flow_gets_train_per_period() {
        let mut table = table(&list(4, 100_000_000));
        let trains = play(&mut table, 600_000);
        assert_eq!(trains.len(), 20, "four flows in five minutes");
        assert!(trains.iter().all(|(ms, ..)| *ms < 300_000));
        assert!(trains.iter().all(|(_, flow, _)| flow.source.port() == 7432));
        assert_eq!(table.next_due(at(300_000)), None);
    }

    #[test]
    fn waiting_for_budget_needs_no_polls() {
        let rate = 1_000_000;
        let mut table = table(&list(8, rate));
        let (mut now, mut looks, mut trains) = (at(0), 0, 0);
        while let Some(due) = table.next_due(now) {
            now = due.max(now + Duration::from_millis(1));
            looks += 1;
            while let Some((flow, _)) = table.poll(now, NO_DEADLINE) {
                table.handle_verdict(&flow, TrainVerdict::Rate(1e9));
                trains += 1;
            }
        }
        assert!(trains >= 30, "{trains}");
        assert!(looks <= trains * 2, "{looks} looks for {trains} trains");
    }

    #[test]
    fn trains_share_rate_budget() {
        let rate = 1_000_000;
        let trains = play(&mut table(&list(250, rate)), 300_000);
        let sent: u64 = trains.iter().map(|(.., shape)| frames(*shape) * 8).sum();
        assert!(sent <= rate * 300, "{sent} bits");
        assert!(sent >= rate * 290, "{sent} bits");
    }

    #[test]
    fn train_longer_than_gap_waits() {
        let mut table = table(&list(1, 100_000_000));
        let now = at(60_000);
        assert_eq!(table.poll(now, now + Duration::from_millis(45)), None);
        let (flow, _) = table.poll(now, now + Duration::from_millis(55)).unwrap();
        for _ in 0..9 {
            table.handle_verdict(&flow, TrainVerdict::Rate(1e9));
        }
        let now = at(120_000);
        assert!(
            table.poll(now, now + Duration::from_millis(50)).is_some(),
            "it is known to be fast"
        );
    }

    #[test]
    fn list_without_trains_ends_them() {
        let mut table = table(&list(4, 100_000_000));
        let without = ProbeList {
            trains_every: None,
            ..list(4, 100_000_000)
        };
        table.handle_list(at(0), &without);
        assert_eq!(play(&mut table, 300_000), []);
    }

    #[test]
    fn slow_link_keeps_short_trains() {
        let slow = list(1, 10_000);
        let mut table = table(&slow);
        table.handle_list(at(0), &slow);
        let mut gone = 0;
        for ms in (0..299_000).step_by(1000) {
            table.handle_list(at(ms), &slow);
            if let Some((flow, shape)) = table.poll(at(ms), NO_DEADLINE) {
                assert_eq!(shape.packets, 32, "there is no budget for longer ones");
                table.handle_verdict(&flow, TrainVerdict::AtLeast(1e10));
                gone += 1;
            }
        }
        assert!((2..=5).contains(&gone), "{gone}");
    }
}
