//! Executes and answers an operator's requests.

use std::time::Duration;

use reweave_common::member::Member;
use reweave_common::operator::{
    Findings, Imbalances, NotSeen, Plan as NamedPlan, Record, Refused, Request, Response,
};
use reweave_common::plan::{Generation, Plan};

use crate::ingest::admission::Admissions;
use crate::log::command::{Author, Change};
use crate::log::effect::OperatorRequest;
use crate::log::policy_settings::EffectivePolicy;
use crate::log::reason::Reason;
use crate::log::reason_list;
use crate::log::state::{Phase, Rollout};
use crate::model::discovery::discover;
use crate::model::imbalance::imbalances;
use crate::model::imbalance_history::ImbalanceHistory;
use crate::model::probe_summary::ProbeSummary;
use crate::plan::probe_schedule::ProbeSchedule;
use crate::plan::proposals::Diagnosis;
use crate::plan::{blast_radius, full_links, plan_check, proposals};
use crate::rollout::autopilot::WaitReason;
use crate::rollout::job_registry::JobRegistry;
use crate::rollout::maintenance::MaintenanceMonitor;
use crate::rollout::{DecisionContext, Hindrance, first_step};

mod change_freeze;
mod cluster_version;
mod drain;
mod etag;
mod held_rules;
mod history;
mod jobs;
mod lanes;
mod maintenance;
mod matrix;
mod membership;
mod nics;
mod path_bandwidths;
mod plan_control;
pub(crate) mod plan_diff;
mod policy;
mod probes;
mod rank_order;
mod rdma;
mod registered_jobs;
mod rewire;
mod status;
mod trace;
mod traffic;
mod unmeasured;
mod warnings;

/// The leader's own facts that the status shows.
#[derive(Clone, Copy)]
pub(crate) struct LeaderView<'a> {
    pub(crate) waits: Option<&'a WaitReason>,
    pub(crate) arrivals: &'a Admissions,
    pub(crate) standings: &'a ProbeSummary,
    pub(crate) upkeep: &'a MaintenanceMonitor,
    pub(crate) registry: &'a JobRegistry,
    pub(crate) evenness: &'a ImbalanceHistory,
    pub(crate) probing: &'a ProbeSchedule,
    /// The remaining cool-down after the last plan.
    pub(crate) cool_down: Duration,
    pub(crate) disk_is_full: bool,
    /// The lowest version of all coordinators, as far as they report it.
    pub(crate) min_version: u16,
    pub(crate) policy: &'a EffectivePolicy,
}

pub use membership::REVOCATION_DELAY;
pub(crate) use membership::{handle_removals, no_visit};
pub(crate) use trace::flows as meant;

/// Answers the request, or returns it if the plan's migration must be checked first.
pub(crate) fn answer(
    turn: &mut DecisionContext<'_>,
    asked: OperatorRequest,
    seen: LeaderView<'_>,
) -> Option<OperatorRequest> {
    let OperatorRequest {
        id,
        principal,
        request,
    } = &asked;
    // The seal of the plan as it is approved now.
    let seal = request.approves().and_then(|it| offered_seal(turn, it));
    let response = match objection(principal, request, seen) {
        Some(refused) => Some(Response::Refused(refused)),
        None => response(turn, principal.clone(), request.clone(), seen),
    };
    let Some(response) = response else {
        return Some(asked);
    };
    if let Some(seal) = seal {
        turn.out.seal(*id, seal);
    }
    turn.out.reply(*id, response);
    None
}

fn offered_seal(turn: &DecisionContext<'_>, generation: Generation) -> Option<String> {
    let mut offers = turn.state.offers();
    let offer = offers.find(|it| it.plan.generation == generation)?;
    Some(turn.reviewed(&offer.plan).seal)
}

/// Seals plans that were approved without a request, before anything in their seals changes.
pub(crate) fn seal_approvals(turn: &mut DecisionContext<'_>) {
    while let Some((plan, by)) = turn.out.poll_unsealed() {
        let seal = turn.reviewed(&plan).seal;
        turn.out.carried_out(plan.generation, by, seal);
    }
}

/// None if a migration must be checked first.
fn response(
    turn: &mut DecisionContext<'_>,
    asking: Member,
    request: Request,
    seen: LeaderView<'_>,
) -> Option<Response> {
    let principal = asking.name.clone();
    Some(match request {
        Request::WhoAmI => Response::You(asking),
        Request::Visit { token, lasting } => membership::let_visit(turn, asking, token, *lasting),
        Request::Matrix { most } => matrix::matrix(turn.world(), None, most),
        Request::RailMatrix { rail, most } => matrix::matrix(turn.world(), Some(rail), most),
        Request::Nics { from_nic, most } => nics::nics(turn.world(), from_nic, most),
        Request::Traffic { rail, most } => traffic::traffic(turn.world(), rail, most),
        Request::Explain { job, hosts } => explained(turn, seen, job, &hosts),
        Request::Pairs { most } => Response::Pairs(jobs::pairs(turn.world(), most)),
        Request::Trace { between, .. } => {
            trace::trace(turn.world(), &between).map_or_else(Response::Refused, Response::Traced)
        }
        Request::Discover { from_link } => discovered(turn, from_link),
        Request::Jobs => Response::Jobs(jobs::statuses(turn.world(), turn.state)),
        Request::Imbalance => imbalance(turn, seen),
        Request::Status => {
            Response::Status(Box::new(status::status(turn.world(), turn.state, seen)))
        }
        Request::Diagnose => diagnose(turn, seen),
        Request::Plan => plan(turn, principal, seen),
        Request::Rewire { circuits } => rewire::rewire(turn, principal, circuits),
        Request::Drain { links } => drain::drain(turn, principal, &links),
        Request::Weigh { by_worth } => drain::weigh(turn, principal, by_worth),
        Request::Reorder { job } => rank_order::reorder(turn, principal, &job),
        Request::TakeBack { generation } => rewire::take_back(turn, principal, generation),
        Request::Freeze { hosts } => change_freeze::freeze(turn, principal, &hosts),
        Request::Thaw { hosts } => change_freeze::thaw(turn, principal, &hosts),
        Request::Job { job, order } => registered_jobs::tell(turn, principal, job, order, seen),
        Request::Registered => registered_jobs::all(turn, seen),
        Request::Gate { hosts, job } => registered_jobs::gate(turn, job.as_deref(), &hosts, seen),
        Request::Lanes { hosts } => lanes::lanes(turn, &hosts),
        Request::Maintain { name, stage } => {
            maintenance::maintain(turn, principal, name, stage, seen)
        }
        Request::TakeOver { name } => maintenance::take_over(turn, principal, name),
        Request::Steer { generation, how } => plan_control::steer(turn, principal, generation, how),
        Request::ClusterVersion { minor } => cluster_version::answer(turn, principal, minor, seen),
        Request::Policy => policy::show(turn, seen),
        Request::PolicySet { settings, expected } => {
            policy::set(turn, principal, &settings, expected, seen)
        }
        request @ (Request::Apply { .. }
        | Request::ApplyAnyway { .. }
        | Request::ApplyNow { .. }
        | Request::ApplySealed { .. }) => return approve(turn, principal, request),
        Request::History { before } => {
            Response::History(history::page(turn.known, turn.state, before))
        }
        Request::Record { generation } => Response::Record(record(turn, generation).map(Box::new)),
        Request::Invite {
            member,
            token,
            lasting,
        } => membership::invite(turn, principal, member, token, *lasting),
        Request::Revoke { member } => membership::revoke(turn, &asking, member),
        Request::Coordinators
        | Request::Standing
        | Request::DenyLists
        | Request::ChangeMembers(_)
        | Request::Audit { .. } => misdirected(),
        Request::Renew { .. } => not_over_session(),
    })
}

fn misdirected() -> Response {
    Response::Refused(Refused::Membership {
        why: "the core does not answer membership requests".to_owned(),
    })
}

fn not_over_session() -> Response {
    Response::Refused(Refused::CannotSign {
        why: "the request did not come over a session of its own".to_owned(),
    })
}

fn objection(principal: &Member, request: &Request, seen: LeaderView<'_>) -> Option<Refused> {
    if !request.may_be_asked_by(principal.role) {
        let role = principal.role.to_string();
        return Some(Refused::NotAllowed { role });
    }
    (seen.disk_is_full && request.decides()).then_some(Refused::DiskFull)
}

fn explained(
    turn: &DecisionContext<'_>,
    seen: LeaderView<'_>,
    job: String,
    hosts: &[String],
) -> Response {
    let explained = jobs::explain(turn.world(), turn.state, seen, job, hosts);
    explained.map_or_else(Response::Refused, Response::Explanation)
}

fn discovered(turn: &DecisionContext<'_>, from_link: u32) -> Response {
    Response::Discovered(discover(turn.world(), from_link as usize))
}

fn imbalance(turn: &DecisionContext<'_>, seen: LeaderView<'_>) -> Response {
    let in_force = turn.state.in_force();
    Response::Imbalances(Imbalances {
        history: seen.evenness.history(turn.known.now),
        ..imbalances(turn.known, turn.world(), in_force)
    })
}

fn diagnose(turn: &DecisionContext<'_>, seen: LeaderView<'_>) -> Response {
    let world = turn.world();
    let in_force = turn.state.in_force();
    let Diagnosis { findings, doubts } = proposals::diagnose(world, turn.state, seen.arrivals);
    let named = findings.iter().map(|finding| turn.named(finding));
    Response::Findings(Findings {
        generation: in_force.generation,
        findings: named.collect(),
        not_seen: NotSeen {
            doubts,
            ..world.not_seen()
        },
    })
}

/// Proposes a plan, unless it is unsound. An existing proposal that does the same and predicts as much keeps its
/// number.
fn plan(turn: &mut DecisionContext<'_>, principal: String, seen: LeaderView<'_>) -> Response {
    let world = turn.world();
    let not_seen = world.not_seen();
    let Some(plan) = proposals::plan(world, turn.state) else {
        return no_plan(turn, not_seen, seen);
    };
    if let Some(too_large) = plan_check::too_large(turn.known.fabric, &plan) {
        let reasons = turn.words(&[too_large]);
        return Response::Refused(Refused::Unfit { reasons });
    }
    if let Some(shown) = turn.shown_already(&plan, &not_seen) {
        return shown;
    }
    if let Some((running, _)) = turn.in_the_way(&plan) {
        return Response::Refused(Refused::Busy { running });
    }
    if let Err(Hindrance::Wrong(reasons)) = first_step(turn, &plan) {
        let mut reasons = turn.words(&reasons);
        reasons.push(plan_check::by_hand(world));
        return Response::Refused(Refused::Unfit { reasons });
    }
    let shown = turn.shown(&plan, not_seen);
    let proposal = turn.proposal(plan, Author::Operator(principal));
    turn.decide(proposal);
    shown
}

/// Says why there is no plan. Where data are missing, these may be the reason.
fn no_plan(turn: &DecisionContext<'_>, mut not_seen: NotSeen, seen: LeaderView<'_>) -> Response {
    if let Some(running) = turn.state.under_way().next() {
        let running = running.plan.generation;
        return Response::Refused(Refused::Busy { running });
    }
    if not_seen.doubts.is_empty() {
        not_seen.doubts = full_links::reasons(turn.world(), turn.state, seen.arrivals);
    }
    Response::Plan {
        plan: None,
        not_seen,
    }
}

/// A change by its number. A proposal includes everything that an approver needs.
fn record(turn: &DecisionContext<'_>, generation: Generation) -> Option<Record> {
    let found = history::find(turn.known, turn.state, generation)?;
    let offer = turn
        .state
        .offers()
        .find(|it| it.plan.generation == generation);
    let plan = match offer {
        Some(offer) => turn.reviewed(&offer.plan),
        None => found.plan,
    };
    Some(Record { plan, ..found })
}

/// Approves a proposal, for all requests that can.
fn approve(
    turn: &mut DecisionContext<'_>,
    principal: String,
    request: Request,
) -> Option<Response> {
    match request {
        Request::Apply { generation } => apply_in_hours(turn, principal, generation, false),
        Request::ApplyAnyway { generation } => apply_in_hours(turn, principal, generation, true),
        Request::ApplyNow { generation, anyway } => apply(turn, principal, generation, anyway),
        Request::ApplySealed {
            generation,
            anyway,
            now,
            seals,
        } => match etag::objection(turn, generation, &seals) {
            Some(refused) => Some(Response::Refused(refused)),
            None if now => apply(turn, principal, generation, anyway),
            None => apply_in_hours(turn, principal, generation, anyway),
        },
        // All other requests approve nothing.
        _ => Some(Response::Refused(Refused::NoPlan)),
    }
}

fn apply_in_hours(
    turn: &mut DecisionContext<'_>,
    principal: String,
    generation: Generation,
    anyway: bool,
) -> Option<Response> {
    let policy = turn.known.policy;
    match policy.opens_in(turn.known.now) {
        None => apply(turn, principal, generation, anyway),
        Some(rest) => Some(Response::Refused(Refused::OutOfHours {
            hours: policy.hours(),
            opens_in_s: rest.as_secs(),
        })),
    }
}

/// Applies a proposal. If it is not ready, it stays proposed; if it is unsound, it is refused.
fn apply(
    turn: &mut DecisionContext<'_>,
    principal: String,
    generation: Generation,
    anyway: bool,
) -> Option<Response> {
    let plan = match offered(turn, generation) {
        Ok(rollout) => &rollout.plan,
        Err(refused) => return Some(Response::Refused(refused)),
    };
    let claims = turn.claims(plan);
    let too_wide = blast_radius::too_wide(turn.world(), turn.state, plan, &claims);
    if let Some(refused) = too_wide.filter(|_| !anyway) {
        return Some(Response::Refused(refused));
    }
    let (reasons, is_wrong) = match first_step(turn, plan) {
        Ok(first) => {
            let approved = Change::PlanApproved {
                generation,
                by: Author::Operator(principal),
                anyway,
            };
            turn.decide(approved.at_once_with(first));
            return Some(Response::ApplyStarted { generation });
        }
        Err(Hindrance::Unjudged) => return None,
        Err(Hindrance::Unready(reasons)) => (reasons, false),
        Err(Hindrance::Wrong(reasons)) => (reasons, true),
    };
    let words = turn.words(&reasons);
    if is_wrong {
        turn.decide(Change::PlanRefused {
            generation,
            reasons,
        });
    }
    Some(Response::Refused(Refused::Unfit { reasons: words }))
}

/// An unknown number is answered with the existing ones.
fn offered<'a>(turn: &DecisionContext<'a>, generation: Generation) -> Result<&'a Rollout, Refused> {
    let state = turn.state;
    if let Some(rollout) = state.rollout(generation) {
        let taken = state.taken(generation, &rollout.claims);
        return match (&rollout.phase, taken) {
            (Phase::Proposed, None) => Ok(rollout),
            (Phase::Proposed, Some((running, _))) => Err(Refused::Busy { running }),
            _ => Err(Refused::Busy {
                running: generation,
            }),
        };
    }
    let offered: Vec<_> = state.offers().map(|it| it.plan.generation).collect();
    let running = state.under_way().next().map(|it| it.plan.generation);
    Err(match (offered.is_empty(), running) {
        (false, _) => Refused::OtherPlan { offered },
        (true, Some(running)) => Refused::Busy { running },
        (true, None) => Refused::NoPlan,
    })
}

impl DecisionContext<'_> {
    /// An existing proposal that does the same, unless more can be predicted now.
    fn shown_already(&self, plan: &Plan, not_seen: &NotSeen) -> Option<Response> {
        let mut offers = self.state.offers().map(|it| &it.plan);
        let same =
            offers.find(|it| proposals::do_the_same(it, plan) && it.predicts_all_of(plan))?;
        Some(self.shown(same, not_seen.clone()))
    }

    fn named(
        &self,
        finding: &reweave_common::finding::Finding,
    ) -> reweave_common::operator::Finding {
        reweave_common::operator::Finding::named(finding, self.known.fabric)
    }

    fn shown(&self, plan: &Plan, not_seen: NotSeen) -> Response {
        let plan = Some(Box::new(self.reviewed(plan)));
        Response::Plan { plan, not_seen }
    }

    /// Everything that an approver needs to know.
    fn reviewed(&self, plan: &Plan) -> NamedPlan {
        let fabric = self.known.fabric;
        let changes = plan_diff::changes(fabric, self.state.in_force(), plan);
        let touched = crate::plan::change_freeze::objections(self.world(), self.state, plan);
        let hindered_by = self.words(&touched);
        let claims = self.claims(plan);
        let touched = blast_radius::touched(self.world(), self.state, plan, &claims);
        let migration = crate::rollout::named_migration(self, plan);
        let shown = NamedPlan {
            changes,
            hindered_by,
            touched,
            migration,
            base: Some(crate::rollout::base_of(self, plan)),
            ..NamedPlan::named(plan, fabric)
        };
        shown.sealed()
    }

    fn words(&self, reasons: &[Reason]) -> Vec<String> {
        reason_list::texts(reasons, self.known.fabric)
    }
}
