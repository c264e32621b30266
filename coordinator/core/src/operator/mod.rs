//! What an operator asks for, done and answered.

use reweave_common::operator::{Findings, Plan as NamedPlan, Refused, Request, Response};
use reweave_common::plan::{Generation, Plan};

use crate::auto::Waits;
use crate::command::{Author, Change};
use crate::planning;
use crate::rollout::{Hindrance, Turn, first_step};
use crate::state::{Phase, Rollout};

mod history;
mod status;

/// A request on its way to its reply.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) id: u64,
    pub(crate) principal: String,
    pub(crate) request: Request,
}

pub(crate) fn answer(turn: &mut Turn<'_>, asked: Asked, waits: Option<&Waits>) {
    let Asked {
        id,
        principal,
        request,
    } = asked;
    let response = match request {
        Request::Status => {
            Response::Status(Box::new(status::status(turn.known, turn.state, waits)))
        }
        Request::Diagnose => diagnose(turn),
        Request::Plan => plan(turn, principal),
        Request::Apply { generation } => match apply(turn, principal, generation) {
            Ok(()) => Response::ApplyStarted { generation },
            Err(refused) => Response::Refused(refused),
        },
        Request::History { before } => {
            Response::History(history::page(turn.known, turn.state, before))
        }
        Request::Record { generation } => {
            let record = history::find(turn.known, turn.state, generation);
            Response::Record(record.map(Box::new))
        }
    };
    turn.out.reply(id, response);
}

fn diagnose(turn: &Turn<'_>) -> Response {
    let snapshot = turn.known.picture().snapshot(turn.state.in_force());
    let findings = planning::findings(turn.known.policy, &snapshot);
    let named = findings.iter().map(|finding| turn.named(finding));
    Response::Findings(Findings {
        generation: snapshot.generation,
        findings: named.collect(),
    })
}

/// A plan that is proposed already and would do the same keeps its number.
fn plan(turn: &mut Turn<'_>, principal: String) -> Response {
    if let Some(running) = running(turn) {
        return Response::Refused(Refused::Busy { running });
    }
    let snapshot = turn.known.picture().snapshot(turn.state.in_force());
    let Some(plan) = planning::plan(turn.known.policy, turn.state, &snapshot) else {
        return Response::Plan(None);
    };
    let proposed = turn.state.rollout().map(|rollout| &rollout.plan);
    if let Some(same) = proposed.filter(|proposed| planning::do_the_same(proposed, &plan)) {
        return turn.shown(same);
    }
    let shown = turn.shown(&plan);
    turn.decide(Change::PlanProposed {
        plan: Box::new(plan),
        by: Author::Operator(principal),
    });
    shown
}

fn running(turn: &Turn<'_>) -> Option<Generation> {
    let rollout = turn.state.rollout()?;
    (rollout.phase != Phase::Proposed).then_some(rollout.plan.generation)
}

/// A plan that is not ready stays proposed; one that is wrong does not.
fn apply(turn: &mut Turn<'_>, principal: String, generation: Generation) -> Result<(), Refused> {
    let plan = &offered(turn, generation)?.plan;
    let (reasons, is_wrong) = match first_step(turn, plan) {
        Ok(_) => {
            turn.decide(Change::PlanApproved {
                generation,
                by: Author::Operator(principal),
            });
            return Ok(());
        }
        Err(Hindrance::Unready(reasons)) => (reasons, false),
        Err(Hindrance::Wrong(reasons)) => (reasons, true),
    };
    let words = reasons
        .iter()
        .map(|reason| reason.words(turn.known.fabric))
        .collect();
    if is_wrong {
        turn.decide(Change::PlanRefused {
            generation,
            reasons,
        });
    }
    Err(Refused::Unfit { reasons: words })
}

fn offered<'a>(turn: &Turn<'a>, generation: Generation) -> Result<&'a Rollout, Refused> {
    if let Some(running) = running(turn) {
        return Err(Refused::Busy { running });
    }
    let rollout = turn.state.rollout().ok_or(Refused::NoPlan)?;
    let offered = rollout.plan.generation;
    if offered == generation {
        Ok(rollout)
    } else {
        Err(Refused::OtherPlan { offered })
    }
}

impl Turn<'_> {
    fn named(
        &self,
        finding: &reweave_common::finding::Finding,
    ) -> reweave_common::operator::Finding {
        reweave_common::operator::Finding::named(finding, self.known.fabric)
    }

    fn shown(&self, plan: &Plan) -> Response {
        Response::Plan(Some(Box::new(NamedPlan::named(plan, self.known.fabric))))
    }
}
