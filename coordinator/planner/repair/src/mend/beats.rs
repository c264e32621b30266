//! Jobs send for a part of each iteration and rest for the other. What counts of a hop is what it carries while they
//! send: over all of the time a link may look half empty on which no flow ever gets what it could have.

use std::collections::BTreeMap;

use reweave_common::flow::FlowKey;
use reweave_common::snapshot::{FlowState, Hop, Snapshot};
use reweave_common::units::Rate;

/// A job that rests for longer sends in bursts that are too short to be described by their mean.
const MAX_REST_SHARE: f64 = 0.9;
/// A smaller share of a flow's rate is ignored as overlap.
const MIN_OVERLAP_SHARE: f64 = 0.1;

/// Job of each flow, and its rate while the job sends. A flow without a job never rests.
#[derive(Debug, Clone, Default)]
pub(super) struct DutyCycles {
    jobs: BTreeMap<FlowKey, Part>,
    /// Load of each job on each hop.
    brought: BTreeMap<Hop, BTreeMap<usize, Brought>>,
}

#[derive(Debug, Clone, Copy)]
struct Part {
    job: usize,
    /// Share of the iteration in which the job rests.
    rests: f64,
    /// Mean rate of the flow over an iteration.
    mean: f64,
}

#[derive(Debug, Clone, Copy)]
struct Brought {
    flows: usize,
    /// Rate in the last readings. If an iteration is longer than these, it is no mean.
    read: f64,
    mean: f64,
    rests: f64,
}

impl DutyCycles {
    pub(super) fn new(snapshot: &Snapshot, flows: &[(&FlowState, &[Hop])]) -> Self {
        let mut beats = Self {
            jobs: parts(snapshot),
            ..Self::default()
        };
        for (state, path) in flows {
            if let Some(&part) = beats.jobs.get(&state.flow) {
                beats.bring(part, state.rate, path);
            }
        }
        beats
    }

    fn bring(&mut self, part: Part, rate: Rate, path: &[Hop]) {
        for &hop in path {
            let on_hop = self.brought.entry(hop).or_default();
            let job = on_hop.entry(part.job).or_insert(Brought {
                flows: 0,
                read: 0.0,
                mean: 0.0,
                rests: part.rests,
            });
            job.flows += 1;
            job.read += rate.bits_per_s() as f64;
            job.mean += part.mean;
        }
    }

    /// Returns the share of the time of the flow's readings in which its job rested.
    pub(super) fn rests(&self, state: &FlowState) -> f64 {
        let sending = self.while_sending(state).bits_per_s().max(1) as f64;
        1.0 - state.rate.bits_per_s() as f64 / sending
    }

    /// Returns the rate of a flow while its job sends.
    pub(super) fn while_sending(&self, state: &FlowState) -> Rate {
        let part = self.jobs.get(&state.flow);
        let sending = part.map_or(0.0, |part| part.mean / (1.0 - part.rests));
        state.rate.max(Rate::from_bits_per_s(sending as u64))
    }

    /// Returns the load that a hop surely has while one job sends: of the jobs that overlap with others on the hop,
    /// the one with the highest load. `read` is the load in the last readings. Of the other jobs, only load that does
    /// not fit into that job's rest counts: jobs that alternate do not interfere.
    pub(super) fn load_while_sending(&self, hop: Hop, read: Rate) -> Rate {
        let read = read.bits_per_s() as f64;
        let jobs = self.brought.get(&hop).into_iter().flatten();
        let while_it_sends = jobs.clone().map(|(job, one)| {
            let others = jobs.clone().filter(|(other, _)| *other != job);
            let changes = others.map(|(_, other)| other.surely_beside(*one) - other.read);
            let beside = (read - one.read + changes.sum::<f64>()).max(0.0);
            if one.flows > 1 || beside >= MIN_OVERLAP_SHARE * one.sending() {
                one.sending() + beside
            } else {
                read
            }
        });
        Rate::from_bits_per_s(while_it_sends.fold(read, f64::max) as u64)
    }
}

impl Brought {
    fn sending(self) -> f64 {
        self.mean / (1.0 - self.rests)
    }

    /// Returns the least load while the other job sends: all that does not fit into its rest.
    fn surely_beside(self, other: Self) -> f64 {
        let fits = other.rests * self.sending();
        ((self.mean - fits) / (1.0 - other.rests)).max(0.0)
    }
}

fn parts(snapshot: &Snapshot) -> BTreeMap<FlowKey, Part> {
    let mut parts = BTreeMap::new();
    for (job, beating) in snapshot.beating.iter().enumerate() {
        let period = beating.period.as_secs_f64();
        let rests = beating.gap.as_secs_f64() / period;
        if period > 0.0 && rests <= MAX_REST_SHARE {
            parts.extend(beating.flows.iter().map(|(flow, mean)| {
                let part = Part {
                    job,
                    rests,
                    mean: mean.bits_per_s() as f64,
                };
                (*flow, part)
            }));
        }
    }
    parts
}
