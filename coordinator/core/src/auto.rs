//! Automatic mode: whether the coordinator may change something by itself just now, and what.

use std::fmt;
use std::time::Duration;

use reweave_common::flow::FlowKey;
use reweave_common::moment::Moment;
use reweave_common::operator::Mode;
use reweave_common::plan::Plan;

use crate::command::{Author, Change};
use crate::model::Known;
use crate::planning;
use crate::reason::Reason;
use crate::rollout::{Hindrance, Turn, first_step};
use crate::state::{Outcome, Phase, State};
use crate::verify::concerned;

/// Looks from time to time, and remembers when it did what.
#[derive(Debug, Default)]
pub(crate) struct Autopilot {
    looked: Option<Moment>,
    /// How many plans had ended when it last looked, and when it saw that.
    ended: u64,
    ended_at: Moment,
    waits: Option<Waits>,
}

/// Why nothing is being changed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Waits {
    CoolingDown {
        rest: Duration,
    },
    /// As far as can be seen without these nodes, which do not report.
    NothingToMend {
        unseen: Vec<String>,
    },
    TooLittleToGain,
    TooFewReadings {
        flow: FlowKey,
    },
    /// The plan is there and cannot begin yet.
    NotReady {
        reasons: Vec<String>,
    },
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CoolingDown { rest } => {
                write!(
                    f,
                    "it cools down for {} s after the last plan",
                    rest.as_secs() + 1
                )
            }
            Self::NothingToMend { unseen } if unseen.is_empty() => {
                f.write_str("nothing is wrong that a plan could mend")
            }
            Self::NothingToMend { unseen } => {
                let unseen = unseen.join(", ");
                write!(f, "nothing is seen to be wrong, but {unseen} do not report")
            }
            Self::TooLittleToGain => f.write_str("the best plan would gain too little"),
            Self::TooFewReadings { flow } => write!(f, "{flow} has not been measured long enough"),
            Self::NotReady { reasons } => f.write_str(&reasons.join("; ")),
        }
    }
}

impl Autopilot {
    pub(crate) fn waits(&self) -> Option<&Waits> {
        self.waits.as_ref()
    }

    pub(crate) fn advance(&mut self, turn: &mut Turn<'_>) {
        self.note_end(turn.known.now, turn.state.ended());
        if turn.known.policy.mode == Mode::Manual || !self.is_due(turn.known) {
            return;
        }
        self.waits = match turn.state.rollout() {
            Some(rollout) if rollout.phase != Phase::Proposed => None,
            proposed => self.look(turn, proposed.map(|rollout| &rollout.plan)),
        };
    }

    fn note_end(&mut self, now: Moment, ended: u64) {
        if self.ended != ended {
            (self.ended, self.ended_at) = (ended, now);
        }
    }

    fn is_due(&mut self, known: Known<'_>) -> bool {
        let every = known.policy.look_every;
        let due = self
            .looked
            .is_none_or(|looked| known.now.since(looked) >= every);
        if due {
            self.looked = Some(known.now);
        }
        due
    }

    /// Proposes what would mend things, and approves it when it still would.
    fn look(&mut self, turn: &mut Turn<'_>, proposed: Option<&Plan>) -> Option<Waits> {
        let rest = self.rest_of_cool_down(turn.known, turn.state);
        if !rest.is_zero() {
            return Some(Waits::CoolingDown { rest });
        }
        let snapshot = turn.known.picture().snapshot(turn.state.in_force());
        let Some(plan) = planning::plan(turn.known.policy, turn.state, &snapshot) else {
            proposed
                .into_iter()
                .for_each(|proposed| withdraw(turn, proposed));
            return Some(nothing_to_mend(turn.known));
        };
        if let Some(waits) = not_now(turn.known, &plan) {
            return Some(waits);
        }
        match proposed.filter(|proposed| planning::do_the_same(proposed, &plan)) {
            Some(proposed) => approve(turn, proposed),
            None => self.propose(turn, plan),
        }
    }

    /// And looks again at once, to approve it.
    fn propose(&mut self, turn: &mut Turn<'_>, plan: Plan) -> Option<Waits> {
        turn.decide(Change::PlanProposed {
            plan: Box::new(plan),
            by: Author::Policy,
        });
        self.looked = None;
        None
    }

    fn rest_of_cool_down(&self, known: Known<'_>, state: &State) -> Duration {
        let ended = state.history().rev().map(|ended| &ended.outcome);
        let failures = ended
            .take_while(|outcome| **outcome != Outcome::Committed)
            .count();
        if self.ended == 0 {
            return Duration::ZERO;
        }
        let failures = u32::try_from(failures).unwrap_or(u32::MAX);
        known
            .policy
            .cool_down_after(failures)
            .saturating_sub(known.now.since(self.ended_at))
    }
}

/// What speaks against carrying it out unasked.
fn not_now(known: Known<'_>, plan: &Plan) -> Option<Waits> {
    if !known.policy.promises_enough(&plan.report) {
        return Some(Waits::TooLittleToGain);
    }
    let unsure = concerned(plan)
        .into_iter()
        .find(|flow| !known.is_well_measured(flow))?;
    Some(Waits::TooFewReadings { flow: unsure })
}

fn nothing_to_mend(known: Known<'_>) -> Waits {
    let silent = known
        .fabric
        .nodes()
        .filter(|(node, _)| !known.is_fresh(*node));
    Waits::NothingToMend {
        unseen: silent.map(|(_, node)| node.name.clone()).collect(),
    }
}

fn withdraw(turn: &mut Turn<'_>, proposed: &Plan) {
    let reasons = vec![Reason::NothingToMend];
    turn.decide(Change::PlanWithdrawn {
        generation: proposed.generation,
        reasons,
    });
}

fn approve(turn: &mut Turn<'_>, proposed: &Plan) -> Option<Waits> {
    let generation = proposed.generation;
    let by = Author::Policy;
    match first_step(turn, proposed) {
        Ok(_) => turn.decide(Change::PlanApproved { generation, by }),
        Err(Hindrance::Wrong(reasons)) => turn.decide(Change::PlanRefused {
            generation,
            reasons,
        }),
        Err(Hindrance::Unready(reasons)) => {
            let words = reasons.iter().map(|reason| reason.words(turn.known.fabric));
            return Some(Waits::NotReady {
                reasons: words.collect(),
            });
        }
    }
    None
}
