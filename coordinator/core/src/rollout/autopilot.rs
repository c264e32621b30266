//! Automatic mode: whether the coordinator may change something now, and what.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use reweave_common::flow::FlowKey;
use reweave_common::ids::LinkId;
use reweave_common::moment::Moment;
use reweave_common::operator::{Mode, NotSeen, Refused};
use reweave_common::plan::{Generation, Plan};

use crate::estimate::interval_timer::IntervalTimer;
use crate::ingest::admission::Admissions;
use crate::log::command::{Author, Change};
use crate::log::reason::Reason;
use crate::log::reason_list;
use crate::log::state::{Outcome, Rollout, State};
use crate::model::world::Measurements;
use crate::plan::failing_links::{DrainRefusal, FailingLinks};
use crate::plan::prediction::promising;
use crate::plan::{blast_radius, plan_check, proposals};
use crate::rollout::verify::concerned;
use crate::rollout::{DecisionContext, Hindrance, first_step, is_needed};

/// How many times more often the cluster is checked at most while something is down.
const URGENT_DECISION_FACTOR: u32 = 10;

/// Decides at intervals, and remembers when it last changed something.
#[derive(Debug, Clone, Default)]
pub(crate) struct Autopilot {
    looks: IntervalTimer,
    /// A link or node has gone down since the last decision.
    hurries: bool,
    /// The number of ended plans at the last decision.
    ended: u64,
    /// When it saw that a plan with an effect had ended.
    changed_at: Option<Moment>,
    waits: Option<WaitReason>,
    failing: FailingLinks,
    /// Its last plan was unsound.
    refusal: Option<Refusal>,
}

/// Plans that were found unsound one after another, in the same network.
#[derive(Debug, Clone)]
struct Refusal {
    basis: RefusalBasis,
    /// An urgent plan does not wait because another one was refused.
    is_urgent: bool,
    /// The moment of the last one.
    at: Moment,
    count: u32,
    reasons: Vec<String>,
}

/// While this is the same, another plan is probably as unsound.
#[derive(Debug, Clone, PartialEq)]
struct RefusalBasis {
    in_force: Generation,
    down: BTreeSet<LinkId>,
    policy_revision: u64,
}

impl RefusalBasis {
    fn of(turn: &DecisionContext<'_>) -> Self {
        Self {
            in_force: turn.state.in_force().generation,
            down: turn.world().down(),
            policy_revision: turn.state.policy().revision,
        }
    }
}

/// Why automatic mode changes nothing now.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum WaitReason {
    CoolingDown {
        rest: Duration,
    },
    /// No problem is found.
    NothingToMend {
        not_seen: NotSeen,
    },
    TooLittleToGain,
    TooFewReadings {
        flow: FlowKey,
    },
    /// A link fails, and the other links have too little capacity to drain it.
    NotDrained {
        kept: DrainRefusal,
    },
    /// A plan exists, and no change window is open.
    OutOfHours {
        hours: String,
        rest: Duration,
    },
    /// A plan exists, and is so large that an operator must force it.
    TooWide {
        why: Refused,
    },
    /// A plan exists and cannot start yet.
    NotReady {
        reasons: Vec<String>,
    },
    /// The plan that would repair something is unsound.
    Unsound {
        reasons: Vec<String>,
        rest: Duration,
    },
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CoolingDown { rest } => {
                write!(
                    f,
                    "it cools down for {} s after the last plan",
                    rest.as_secs() + 1
                )
            }
            Self::NothingToMend { not_seen } if not_seen.is_nothing() => {
                f.write_str("no finding that a plan could fix")
            }
            Self::NothingToMend { not_seen } => {
                write!(f, "no finding that a plan could fix, but {not_seen}")
            }
            Self::TooLittleToGain => f.write_str("the gain of the best plan is too small"),
            Self::TooFewReadings { flow } => write!(f, "{flow} has not been measured long enough"),
            Self::NotDrained { kept } => kept.fmt(f),
            Self::OutOfHours { hours, rest } => write!(
                f,
                "change windows are {hours} (UTC), the next in {} min; `reweave apply --now` \
                 applies a plan at once",
                rest.as_secs().div_ceil(60)
            ),
            Self::TooWide { why } => why.fmt(f),
            Self::NotReady { reasons } => f.write_str(&reasons.join("; ")),
            Self::Unsound { reasons, rest } => write!(
                f,
                "{}; a plan is made again in {} s, or once a link goes up or down",
                reasons.join("; "),
                rest.as_secs() + 1
            ),
        }
    }
}

impl Autopilot {
    pub(crate) fn waits(&self) -> Option<&WaitReason> {
        self.waits.as_ref()
    }

    pub(crate) fn advance(&mut self, turn: &mut DecisionContext<'_>, arrivals: &Admissions) {
        let Measurements { now, policy, .. } = turn.known;
        self.note_end(now, turn.state);
        let every = if self.hurries {
            policy.look_every / URGENT_DECISION_FACTOR
        } else {
            policy.look_every
        };
        if !self.looks.is_due(now, every) {
            return;
        }
        self.hurries = false;
        if policy.mode == Mode::Manual {
            // Links are not diagnosed in manual mode, so no failure is known to have lasted.
            (self.failing, self.waits) = (FailingLinks::default(), None);
            self.refusal = None;
            return self.end_drains(turn);
        }
        self.failing.handle_time(turn.decision_world, arrivals);
        self.waits = if is_at_it(turn.state) {
            None
        } else {
            self.look(turn)
        };
    }

    /// Something has gone down: the next decision is made early.
    pub(crate) fn hurry(&mut self) {
        self.hurries = true;
    }

    fn note_end(&mut self, now: Moment, state: &State) {
        let new = state.ended().saturating_sub(self.ended);
        self.ended = state.ended();
        let new = usize::try_from(new).unwrap_or(usize::MAX);
        let mut new = state.history().rev().take(new);
        if new.any(|ended| ended.outcome.changed_something()) {
            self.changed_at = Some(now);
            self.hurries = true;
        }
    }

    /// Removes pins over drained links: switches would still follow them. The request for the drain covers this.
    /// asked for with it.
    fn end_drains(&mut self, turn: &mut DecisionContext<'_>) {
        let Some(plan) = proposals::off_drained(turn.world(), turn.state) else {
            return;
        };
        if !is_in_the_way(turn, &plan) {
            self.approve_or_propose(turn, plan, true);
        }
    }

    /// Proposes a plan that repairs a finding, and approves it if it still does.
    fn look(&mut self, turn: &mut DecisionContext<'_>) -> Option<WaitReason> {
        let world = turn.world();
        let urgent = proposals::urgent(world, turn.state);
        if let Some(waits) = self.rest_after_refusal(turn, urgent.is_some()) {
            return Some(waits);
        }
        let rest = self.rest_of_cool_down(turn.known, turn.state);
        if urgent.is_none() && !rest.is_zero() {
            return Some(WaitReason::CoolingDown { rest });
        }
        let (failing, kept) = match self.failing.plan(world, turn.state) {
            Ok(plan) => (plan, None),
            Err(kept) => (None, Some(kept)),
        };
        let is_urgent = urgent.is_some();
        let plan = urgent.or(failing);
        let Some(plan) = plan.or_else(|| proposals::not_urgent(world, turn.state)) else {
            withdraw_one(turn);
            let not_seen = world.not_seen();
            let nothing = WaitReason::NothingToMend { not_seen };
            return Some(kept.map_or(nothing, |kept| WaitReason::NotDrained { kept }));
        };
        if is_in_the_way(turn, &plan) {
            return None;
        }
        if let Some(waits) = not_now(turn.known, &plan) {
            return Some(waits);
        }
        self.approve_or_propose(turn, plan, is_urgent)
    }

    fn approve_or_propose(
        &mut self,
        turn: &mut DecisionContext<'_>,
        plan: Plan,
        is_urgent: bool,
    ) -> Option<WaitReason> {
        let mut offers = turn.state.offers().map(|it| &it.plan);
        match offers.find(|offer| proposals::do_the_same(offer, &plan)) {
            // For routes that lead nowhere, the gain in rates is irrelevant.
            Some(offer) => self.approve(turn, offer, is_urgent),
            None => self.propose(turn, plan, is_urgent),
        }
    }

    /// Proposes the plan, unless it is unsound. The next decision follows at once, to approve it.
    fn propose(
        &mut self,
        turn: &mut DecisionContext<'_>,
        plan: Plan,
        is_urgent: bool,
    ) -> Option<WaitReason> {
        let plan = promising(turn.world(), turn.state, plan);
        if let Some(too_large) = plan_check::too_large(turn.known.fabric, &plan) {
            let reasons = reason_list::texts(&[too_large], turn.known.fabric);
            return Some(WaitReason::NotReady { reasons });
        }
        if let Err(Hindrance::Wrong(reasons)) = first_step(turn, &plan) {
            return Some(self.note_refusal(turn, is_urgent, &reasons));
        }
        let proposal = turn.proposal(plan, Author::Policy);
        turn.decide(proposal);
        self.looks.hurry();
        None
    }

    /// Approves the plan. Urgent plans skip the waiting times.
    fn approve(
        &mut self,
        turn: &mut DecisionContext<'_>,
        proposed: &Plan,
        is_urgent: bool,
    ) -> Option<WaitReason> {
        let policy = turn.known.policy;
        let rest = policy.opens_in(turn.known.now).filter(|_| !is_urgent);
        if let Some(rest) = rest {
            let hours = policy.hours();
            return Some(WaitReason::OutOfHours { hours, rest });
        }
        let generation = proposed.generation;
        let by = Author::Policy;
        let claims = turn.claims(proposed);
        let too_wide = blast_radius::too_wide(turn.world(), turn.state, proposed, &claims);
        if let Some(why) = too_wide.filter(|_| !is_urgent) {
            return Some(WaitReason::TooWide { why });
        }
        match first_step(turn, proposed) {
            Ok(first) => {
                turn.out.note_approval(proposed, by.clone());
                let approved = Change::PlanApproved {
                    generation,
                    by,
                    anyway: is_urgent,
                };
                turn.decide(approved.at_once_with(first));
            }
            Err(Hindrance::Wrong(reasons)) => {
                let waits = self.note_refusal(turn, is_urgent, &reasons);
                turn.decide(Change::PlanRefused {
                    generation,
                    reasons,
                });
                return Some(waits);
            }
            Err(Hindrance::Unready(reasons)) => {
                let reasons = reason_list::texts(&reasons, turn.known.fabric);
                return Some(WaitReason::NotReady { reasons });
            }
            Err(Hindrance::Unjudged) => {
                let reasons = vec!["its steps are being checked".to_owned()];
                return Some(WaitReason::NotReady { reasons });
            }
        }
        None
    }

    /// Urgent plans wait as well: an unsound one repairs nothing. A change of the network ends the wait.
    fn rest_after_refusal(
        &mut self,
        turn: &DecisionContext<'_>,
        is_urgent: bool,
    ) -> Option<WaitReason> {
        let refusal = self.refusal.as_ref()?;
        if refusal.is_urgent != is_urgent {
            return None;
        }
        if refusal.basis != RefusalBasis::of(turn) {
            self.refusal = None;
            return None;
        }
        let waited = turn.known.now.since(refusal.at);
        let cool_down = turn.known.policy.cool_down_after(refusal.count);
        let rest = cool_down.saturating_sub(waited);
        let reasons = refusal.reasons.clone();
        (!rest.is_zero()).then_some(WaitReason::Unsound { reasons, rest })
    }

    fn note_refusal(
        &mut self,
        turn: &DecisionContext<'_>,
        is_urgent: bool,
        reasons: &[Reason],
    ) -> WaitReason {
        let before = self.refusal.as_ref();
        let before = before.filter(|refusal| refusal.is_urgent == is_urgent);
        let count = before.map_or(0, |refusal| refusal.count).saturating_add(1);
        let mut reasons = reason_list::texts(reasons, turn.known.fabric);
        reasons.push(plan_check::by_hand(turn.world()));
        self.refusal = Some(Refusal {
            basis: RefusalBasis::of(turn),
            is_urgent,
            at: turn.known.now,
            count,
            reasons: reasons.clone(),
        });
        let rest = turn.known.policy.cool_down_after(count);
        WaitReason::Unsound { reasons, rest }
    }

    pub(crate) fn rest_of_cool_down(&self, known: Measurements<'_>, state: &State) -> Duration {
        let plans = state.history().rev().filter(|plan| !plan.plan.only_lifts());
        let outcomes = plans.map(|ended| &ended.outcome);
        let since_success = outcomes.take_while(|outcome| **outcome != Outcome::Committed);
        let failures = since_success
            .filter(|outcome| matches!(outcome, Outcome::RolledBack { .. }))
            .count();
        let Some(changed_at) = self.changed_at else {
            return Duration::ZERO;
        };
        let failures = u32::try_from(failures).unwrap_or(u32::MAX);
        known
            .policy
            .cool_down_after(failures)
            .saturating_sub(known.now.since(changed_at))
    }
}

/// Whether a plan of automatic mode is running: they run one at a time.
fn is_at_it(state: &State) -> bool {
    let approved = |it: &Rollout| it.approved.as_ref().map(|approved| approved.by.clone());
    let mut under_way = state.under_way();
    under_way.any(|it| approved(it) == Some(Author::Policy))
}

/// Whether another running plan repairs this, or an operator's proposal of another kind does: the operator decides
/// about it.
fn is_in_the_way(turn: &DecisionContext<'_>, plan: &Plan) -> bool {
    let claims = turn.claims(plan);
    let shares = |it: &&Rollout| it.claims.shared_with(&claims).is_some();
    let mut offers = turn.state.offers().filter(shares);
    turn.in_the_way(plan).is_some() || offers.any(|it| is_a_persons(turn, it))
}

fn is_a_persons(turn: &DecisionContext<'_>, rollout: &Rollout) -> bool {
    let (in_force, plan) = (turn.state.in_force(), &rollout.plan);
    let is_other = plan.takes_back.is_some() || is_needed(turn.known, in_force, plan);
    rollout.proposed.by != Author::Policy && is_other
}

/// What forbids applying a plan automatically now.
pub(crate) fn not_now(known: Measurements<'_>, plan: &Plan) -> Option<WaitReason> {
    if !known.policy.promises_enough(&plan.report) {
        return Some(WaitReason::TooLittleToGain);
    }
    let unsure = concerned(plan)
        .into_iter()
        .find(|flow| !known.is_well_measured(flow))?;
    Some(WaitReason::TooFewReadings { flow: unsure })
}

/// Withdraws one outdated proposal; others follow at the next decisions.
fn withdraw_one(turn: &mut DecisionContext<'_>) {
    let mut offers = turn.state.offers().filter(|it| !is_a_persons(turn, it));
    if let Some(offer) = offers.next() {
        let generation = offer.plan.generation;
        drop(offers);
        turn.decide(Change::PlanWithdrawn {
            generation,
            reasons: vec![Reason::NothingToMend],
        });
    }
}
