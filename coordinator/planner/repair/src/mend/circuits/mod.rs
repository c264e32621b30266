//! Circuits for the current traffic: hosts that exchange much data get fibres of their own, if that surely speeds up a
//! job and slows down none.
//!
//! The fullest lane determines how long a job communicates, so the search minimizes its load. The result is judged by
//! probabilities: each flow takes one of its equal-cost paths, and few flows may share a lane.

pub(super) mod board;
pub(super) mod climb;
pub(super) mod loads;

use std::collections::BTreeSet;
use std::fmt;

use reweave_common::fabric::Circuits;
use reweave_common::flow::FlowKey;
use reweave_common::ids::LinkId;
use reweave_common::plan::Iteration;
use reweave_common::snapshot::{FlowState, Hop, PeriodicJob, Snapshot};
use reweave_common::time_span::TimeSpan;

use self::board::{Board, Wiring};
use self::climb::Climb;
use self::loads::{Net, Sent, Strain};
use super::iterations::MEASUREMENT_VARIATION;
use super::model::{Model, WIRE_PER_PAYLOAD};
use crate::Policy;

/// New circuits, and their predicted effect.
#[derive(Debug, Clone, PartialEq)]
pub struct Suited {
    pub circuits: Circuits,
    pub iterations: Vec<Iteration>,
}

/// Reason why no circuits change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsuited {
    NoFibres,
    NoLinkFull,
    NoSureGain,
}

impl fmt::Display for Unsuited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoFibres => "no fibre leads to an optical switch",
            Self::NoLinkFull => "no link is full that large flows take",
            Self::NoSureGain => {
                "no other circuits certainly speed up the traffic without slowing other flows"
            }
        })
    }
}

/// Returns circuits that speed up flows which are limited now.
pub fn suited(snapshot: &Snapshot, policy: &Policy) -> Result<Suited, Unsuited> {
    if snapshot.fabric.fibres().len() == 0 {
        return Err(Unsuited::NoFibres);
    }
    let looking = Looking::new(snapshot, policy);
    if !looking.flows.iter().any(|flow| looking.is_held(flow)) {
        return Err(Unsuited::NoLinkFull);
    }
    looking.best().ok_or(Unsuited::NoSureGain)
}

/// Returns the predicted iteration times with requested circuits, for all jobs with an iteration period; empty if a
/// host is left without a path.
pub fn predicted(snapshot: &Snapshot, wanted: &Circuits, policy: &Policy) -> Vec<Iteration> {
    let looking = Looking::new(snapshot, policy);
    let closed = closed(&looking.model);
    let (board, wiring) = Board::new(&snapshot.fabric, wanted, &closed);
    let sent: Vec<_> = looking.flows.iter().map(|flow| flow.sent).collect();
    let after = strains(&board, &wiring, &sent).unwrap_or_default();
    let judged = Judged {
        looking: &looking,
        after: &after,
    };
    let jobs = snapshot.beating.iter();
    jobs.filter_map(|job| judged.iteration(job)).collect()
}

struct Looking<'s> {
    model: Model<'s>,
    board: Board<'s>,
    present: Wiring,
    flows: Vec<Flow<'s>>,
    /// Minimum rate of a flow that is worth a fibre.
    least_elephant: f64,
}

struct Flow<'s> {
    state: &'s FlowState,
    sent: Sent,
    /// Load of the fullest hop that it surely takes.
    now: f64,
}

impl<'s> Looking<'s> {
    fn new(snapshot: &'s Snapshot, policy: &'s Policy) -> Self {
        let model = Model::new(snapshot, policy);
        let fabric = &*snapshot.fabric;
        let (board, present) = Board::new(fabric, &snapshot.circuits, &closed(&model));
        let lanes = board.lanes(&present);
        let net = Net {
            fabric,
            lanes: &lanes,
        };
        let fresh = snapshot.flows.iter();
        let fresh = fresh.filter(|state| state.age <= policy.most_age);
        let flows = fresh.map(|state| Flow {
            state,
            sent: Sent {
                from: state.from,
                to: state.to,
                rate: model.while_sending(state).bits_per_s() as f64 * WIRE_PER_PAYLOAD,
            },
            now: fullest(&model, &surely_taken(&net, &board, &present, state)),
        });
        let slowest = fabric.fibres().map(|fibre| fibre.rate.bits_per_s()).min();
        Self {
            flows: flows.collect(),
            least_elephant: slowest.unwrap_or(0) as f64 * policy.elephant_share,
            model,
            board,
            present,
        }
    }

    fn is_held(&self, flow: &Flow<'_>) -> bool {
        flow.now >= self.model.policy().full_at && flow.sent.rate >= self.least_elephant
    }

    fn best(&self) -> Option<Suited> {
        let (board, present) = (&self.board, &self.present);
        let sent: Vec<_> = self.flows.iter().map(|flow| flow.sent).collect();
        let most = self.model.policy().most_evaluations;
        let best = Climb::new(board, &sent, present, most).best()?;
        let [before, after] = [present, &best].map(|wiring| strains(board, wiring, &sent));
        let (before, after) = (before?, after?);
        let harms = |place: usize| self.harms(&self.flows[place], before[place], after[place]);
        if best == *present || (0..self.flows.len()).any(harms) {
            return None;
        }
        let judged = Judged {
            looking: self,
            after: &after,
        };
        judged.is_worth_it().then(|| Suited {
            circuits: board.circuits(&best),
            iterations: judged.iterations(),
        })
    }

    /// Whether it would be slower than it is.
    fn harms(&self, flow: &Flow<'_>, before: Strain, after: Strain) -> bool {
        let most = flow.now.max(before.mean).max(1.0);
        after.mean > most * (1.0 + self.model.policy().least_gain)
    }
}

/// Loads that the flows would meet.
struct Judged<'l, 's> {
    looking: &'l Looking<'s>,
    after: &'l [Strain],
}

impl Judged<'_, '_> {
    /// Whether a limited flow surely gains: a job by its iteration time, others by their rates.
    fn is_worth_it(&self) -> bool {
        let least = 1.0 + self.looking.model.policy().least_gain;
        let beating = &self.looking.model.observed.snapshot.beating;
        let in_job = |flow: FlowKey| beating.iter().any(|job| job.flows.contains_key(&flow));
        let flows = self.looking.flows.iter().zip(self.after);
        let mut free = flows.filter(|(flow, _)| !in_job(flow.state.flow));
        free.any(|(flow, after)| self.looking.is_held(flow) && after.high * least <= 1.0)
            || self
                .iterations()
                .iter()
                .any(|it| it.high.scaled(least) <= it.before)
    }

    /// Returns predictions for the limited jobs.
    fn iterations(&self) -> Vec<Iteration> {
        let jobs = self.looking.model.observed.snapshot.beating.iter();
        let held = jobs.filter(|job| self.of(job).any(|(flow, _)| self.looking.is_held(flow)));
        held.filter_map(|job| self.iteration(job)).collect()
    }

    fn of(&self, job: &PeriodicJob) -> impl Iterator<Item = (&Flow<'_>, &Strain)> {
        let flows = self.looking.flows.iter().zip(self.after);
        flows.filter(|(flow, _)| job.flows.contains_key(&flow.state.flow))
    }

    /// Predicts an iteration: the communication takes as long as the fullest lane of its paths, and no less than now if
    /// none is full; the rest is constant.
    fn iteration(&self, job: &PeriodicJob) -> Option<Iteration> {
        let is_held = self.of(job).any(|(flow, _)| self.looking.is_held(flow));
        let least = if is_held { 0.0 } else { 1.0 };
        self.of(job).next()?;
        let most = |strain: &dyn Fn(&Strain) -> f64| {
            let strains = self.of(job).map(|(_, after)| strain(after));
            strains.fold(least, f64::max)
        };
        let [mean, high] = [most(&|it| it.mean), most(&|it| it.high)];
        let busy = job.period.saturating_sub(job.gap);
        let lasts = |strain: f64| job.gap.saturating_add(busy.scaled(strain));
        Some(Iteration {
            job: job.job.clone(),
            exchanged: job.exchanged.clone(),
            before: job.period,
            after: midpoint(lasts(mean), lasts(high)),
            low: lasts(mean).scaled(1.0 - MEASUREMENT_VARIATION),
            high: lasts(high).scaled(1.0 + MEASUREMENT_VARIATION),
        })
    }
}

fn midpoint(one: TimeSpan, other: TimeSpan) -> TimeSpan {
    one.saturating_add(other).scaled(0.5)
}

fn strains(board: &Board<'_>, wiring: &Wiring, sent: &[Sent]) -> Option<Vec<Strain>> {
    let lanes = board.lanes(wiring);
    let net = Net {
        fabric: board.fabric,
        lanes: &lanes,
    };
    net.strains(sent)
}

/// Links that carry nothing, or should not, though they have light.
fn closed(model: &Model<'_>) -> BTreeSet<LinkId> {
    let links = model.observed.fabric().links().map(|(link, _)| link);
    let closed = links.filter(|link| model.observed.is_closed(*link));
    closed.collect()
}

/// Returns the path of a flow; for an untraced one, the hops common to all its paths.
fn surely_taken(net: &Net<'_>, board: &Board<'_>, present: &Wiring, state: &FlowState) -> Vec<Hop> {
    if let Some(path) = &state.path {
        return path.clone();
    }
    let common = net.surely_crossed(state.from, state.to).into_iter();
    common
        .filter_map(|(from, lane)| board.hop(from, &lane, present))
        .collect()
}

fn fullest(model: &Model<'_>, hops: &[Hop]) -> f64 {
    let shares = hops.iter().filter_map(|hop| model.utilization(*hop));
    shares.fold(0.0, f64::max)
}
