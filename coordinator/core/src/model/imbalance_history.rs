//! Recent flow imbalance, as the leader samples it.

use std::collections::VecDeque;
use std::time::Duration;

use reweave_common::finding::Imbalance;
use reweave_common::moment::Moment;
use reweave_common::operator::{FlowImbalance, Imbalances, NotedImbalance};

use crate::estimate::interval_timer::IntervalTimer;
use crate::log::state::InForce;
use crate::model::imbalance::imbalances;
use crate::model::world::DecisionWorld;

/// Each sample reads all flows.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);
/// One hour of samples.
const MAX_SAMPLES: usize = 720;

#[derive(Debug, Clone, Default)]
pub(crate) struct ImbalanceHistory {
    pace: IntervalTimer,
    notes: VecDeque<Note>,
    /// The last sample, until the history has taken it.
    fresh: Option<(Moment, Imbalances)>,
}

#[derive(Debug, Clone, Copy)]
struct Note {
    at: Moment,
    mean_fim_percent: f64,
    worst: Imbalance,
}

impl ImbalanceHistory {
    pub(crate) fn handle_time(&mut self, world: &DecisionWorld<'_>, in_force: &InForce) {
        let known = world.known;
        if !self.pace.is_due(known.now, SAMPLE_INTERVAL) {
            return;
        }
        let found = imbalances(known, world.get(), in_force);
        if let Some(all) = &found.all {
            self.note(known.now, all);
            self.fresh = Some((known.now, found));
        }
    }

    fn note(&mut self, at: Moment, all: &FlowImbalance) {
        let too_many = (self.notes.len() + 1).saturating_sub(MAX_SAMPLES);
        self.notes.drain(..too_many);
        self.notes.push_back(Note {
            at,
            mean_fim_percent: all.mean_fim_percent,
            worst: all.worst,
        });
    }

    /// The sample since the last call, once.
    pub(crate) fn poll_fresh(&mut self) -> Option<(Moment, Imbalances)> {
        self.fresh.take()
    }

    /// The samples, oldest first.
    pub(crate) fn history(&self, now: Moment) -> Vec<NotedImbalance> {
        let reports = self.notes.iter().map(|note| NotedImbalance {
            age_ms: u64::try_from(now.since(note.at).as_millis()).unwrap_or(u64::MAX),
            mean_fim_percent: note.mean_fim_percent,
            worst: note.worst,
        });
        reports.collect()
    }
}
