//! The share of lost probes over each direction of a link, round by round.
//!
//! If one direction loses probes, other directions on the same paths appear to lose some, too; the diagnosis decides
//! which one it is. Probes lost before a full queue are not lost by a link.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::Duration;

use reweave_common::flow::FlowKey;
use reweave_common::moment::Moment;
use reweave_common::probing::ProbeWindow;
use reweave_common::snapshot::Hop;

use crate::estimate::interval_timer::IntervalTimer;
use crate::estimate::loss_history::LossHistory;
use crate::estimate::probe_paths::ProbePaths;
use crate::ingest::round_robin::RoundRobin;
use crate::ingest::telemetry::{Ingest, probed};

#[derive(Debug, Clone, Default)]
pub(crate) struct Losses {
    rounds: IntervalTimer,
    turns: RoundRobin,
    queues: IntervalTimer,
    /// Where queues were full when that was last looked at.
    congested: BTreeSet<Hop>,
    /// A round has ended, and not all hosts had a turn since.
    is_ending: bool,
    /// Of those who had one.
    crossed: BTreeMap<Hop, Crossed>,
    courses: BTreeMap<Hop, HopLossHistory>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Crossed {
    sent: u64,
    lost: u64,
}

#[derive(Debug, Clone, Default)]
struct HopLossHistory {
    shares: LossHistory,
    /// The number of rounds in which no probe has crossed it.
    unseen: u32,
}

impl Losses {
    /// What windows of probes tell apart.
    pub(crate) const SAMPLE_INTERVAL: Duration = ProbeWindow::HALF_WINDOW;
    /// Twenty minutes of rounds.
    const MAX_ROUNDS: usize = 40;
    /// What was not seen for longer may have become another link.
    const MAX_UNSEEN_ROUNDS: u32 = 3;

    /// Once a round it is time to look where queues were full lately.
    pub(crate) fn is_queue_due(&mut self, now: Moment) -> bool {
        self.queues.is_due(now, Self::SAMPLE_INTERVAL)
    }

    /// Hops with a queue before them that was full lately.
    pub(crate) fn handle_queues(&mut self, congested: BTreeSet<Hop>) {
        self.congested = congested;
    }

    /// Once a round: what came of it.
    pub(crate) fn handle_time(&mut self, now: Moment, ingest: &Ingest, ways: &ProbePaths) {
        self.is_ending |= self.rounds.is_due(now, Self::SAMPLE_INTERVAL);
        if !self.is_ending {
            return;
        }
        let observations = ingest.observations();
        let turn = probed(&mut self.turns, observations);
        for (_, node) in observations.nodes_in(turn.nodes) {
            for (flow, window) in &node.probes {
                self.count(ways, flow, window);
            }
        }
        if turn.is_last {
            self.is_ending = false;
            self.note_courses();
        }
    }

    /// Each direction by itself, where it is known which of them lost a probe.
    fn count(&mut self, ways: &ProbePaths, flow: &FlowKey, window: &ProbeWindow) {
        let [Some(there), Some(back)] = [ways.way(flow), ways.way(&flow.reversed())] else {
            return;
        };
        let (answered, lost) = window.before();
        let is_congested = |hop| self.congested.contains(hop);
        if there.iter().chain(back).any(is_congested) {
            return;
        }
        let sent = answered + lost.count();
        if lost.somewhere > 0 {
            return self.add(there.iter().chain(back), [sent, lost.count()]);
        }
        self.add(there.iter(), [sent, lost.there.into()]);
        self.add(
            back.iter(),
            [answered + u64::from(lost.back), lost.back.into()],
        );
    }

    fn add<'h>(&mut self, hops: impl Iterator<Item = &'h Hop>, [sent, lost]: [u64; 2]) {
        for hop in hops {
            let crossed = self.crossed.entry(*hop).or_default();
            crossed.sent += sent;
            crossed.lost += lost;
        }
    }

    fn note_courses(&mut self) {
        for course in self.courses.values_mut() {
            course.unseen += 1;
        }
        for (hop, Crossed { sent, lost }) in mem::take(&mut self.crossed) {
            if sent > 0 {
                let course = self.courses.entry(hop).or_default();
                course.unseen = 0;
                let share = lost as f64 / sent as f64;
                course.shares.note(share, Self::MAX_ROUNDS);
            }
        }
        self.courses
            .retain(|_, course| course.unseen <= Self::MAX_UNSEEN_ROUNDS);
    }

    /// Of those that lost some, round by round, the oldest first.
    pub(crate) fn courses(&self) -> impl Iterator<Item = (Hop, Vec<f64>)> {
        let crossed = self.courses.iter().filter(|(_, it)| it.unseen == 0);
        let courses = crossed.map(|(hop, course)| (*hop, course.shares.values()));
        courses.filter(|(_, shares)| !shares.is_empty())
    }
}
