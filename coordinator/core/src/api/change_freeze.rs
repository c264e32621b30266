//! Freezes and thaws jobs at an operator's request.

use std::collections::BTreeSet;

use reweave_common::ids::NodeId;
use reweave_common::operator::{Refused, Response};

use super::jobs::{host, job_on};
use crate::log::command::{Author, Change};
use crate::plan::change_freeze;
use crate::rollout::DecisionContext;

/// Freezes a job. One host stands for its present job; several hosts are taken as the job.
pub(super) fn freeze(
    turn: &mut DecisionContext<'_>,
    principal: String,
    names: &[String],
) -> Response {
    let hosts = match hosts(turn, names) {
        Ok(hosts) => hosts,
        Err(refused) => return Response::Refused(refused),
    };
    let hosts = match hosts.first() {
        Some(&only) if hosts.len() == 1 => {
            let job = job_on(turn.world(), only).hosts;
            if job.is_empty() {
                let host = turn.known.fabric.name(only).to_owned();
                return Response::Refused(Refused::NoJob { host });
            }
            job
        }
        _ => hosts,
    };
    note(turn, principal, hosts, true)
}

/// Unfreezes every frozen job that contains any of these hosts.
pub(super) fn thaw(
    turn: &mut DecisionContext<'_>,
    principal: String,
    names: &[String],
) -> Response {
    let hosts = match hosts(turn, names) {
        Ok(hosts) => hosts,
        Err(refused) => return Response::Refused(refused),
    };
    let frozen = turn.state.frozen().iter();
    let frozen = frozen.filter(|job| !job.hosts.is_disjoint(&hosts));
    let thawed: BTreeSet<_> = frozen.flat_map(|job| job.hosts.clone()).collect();
    if thawed.is_empty() {
        Response::Refused(Refused::NothingToChange)
    } else {
        note(turn, principal, thawed, false)
    }
}

fn hosts(turn: &DecisionContext<'_>, names: &[String]) -> Result<BTreeSet<NodeId>, Refused> {
    let hosts = names.iter().map(|name| host(turn.known.fabric, name));
    hosts.collect()
}

fn note(
    turn: &mut DecisionContext<'_>,
    principal: String,
    hosts: BTreeSet<NodeId>,
    is_frozen: bool,
) -> Response {
    let named = change_freeze::names(turn.known, &hosts);
    turn.decide(Change::Froze {
        hosts,
        is_frozen,
        by: Author::Operator(principal),
    });
    Response::Froze { hosts: named }
}
