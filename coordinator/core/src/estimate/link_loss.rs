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
    /// Hops whose queues were full at the last check.
    congested: BTreeSet<Hop>,
    /// A round has ended, and not all hosts were visited since.
    is_ending: bool,
    /// The probes of the visited hosts.
    crossed: BTreeMap<Hop, Crossed>,
    histories: BTreeMap<Hop, HopLossHistory>,
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
    /// The resolution of probe windows.
    pub(crate) const SAMPLE_INTERVAL: Duration = ProbeWindow::HALF_WINDOW;
    /// Twenty minutes of rounds.
    const MAX_ROUNDS: usize = 40;
    /// A link without probes for longer may have been replaced.
    const MAX_UNSEEN_ROUNDS: u32 = 3;

    /// Whether the queues of links are due, once a round.
    pub(crate) fn is_queue_due(&mut self, now: Moment) -> bool {
        self.queues.is_due(now, Self::SAMPLE_INTERVAL)
    }

    /// Takes the hops whose queues were full lately.
    pub(crate) fn handle_queues(&mut self, congested: BTreeSet<Hop>) {
        self.congested = congested;
    }

    /// Ends a round once every host was visited.
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

    /// Counts each direction by itself, if it is known which one lost a probe.
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
        for history in self.histories.values_mut() {
            history.unseen += 1;
        }
        for (hop, Crossed { sent, lost }) in mem::take(&mut self.crossed) {
            if sent > 0 {
                let history = self.histories.entry(hop).or_default();
                history.unseen = 0;
                let share = lost as f64 / sent as f64;
                history.shares.note(share, Self::MAX_ROUNDS);
            }
        }
        self.histories
            .retain(|_, history| history.unseen <= Self::MAX_UNSEEN_ROUNDS);
    }

    /// The loss of links with any, round by round, oldest first.
    pub(crate) fn histories(&self) -> impl Iterator<Item = (Hop, Vec<f64>)> {
        let crossed = self.histories.iter().filter(|(_, it)| it.unseen == 0);
        let histories = crossed.map(|(hop, history)| (*hop, history.shares.values()));
        histories.filter(|(_, shares)| !shares.is_empty())
    }
}
