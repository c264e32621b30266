//! Shows the cluster version, lowers it before a downgrade of the coordinators, and raises it again.

use reweave_common::operator::{Refused, Response};

use super::LeaderView;
use crate::log::command::{Author, Change, LATEST_MINOR};
use crate::log::state::State;
use crate::plan::drain_routes::{DestinationKind, LEAVES_SINCE_MINOR};
use crate::rollout::DecisionContext;

pub(super) fn answer(
    turn: &mut DecisionContext<'_>,
    principal: String,
    minor: Option<u16>,
    seen: LeaderView<'_>,
) -> Response {
    let has = turn.state.cluster_version();
    let response = match minor {
        Some(minor) if minor < has => lower(turn, principal, minor),
        Some(minor) if minor > has => raise(turn, minor, seen.min_version),
        Some(_) if rises_by_itself(turn.state) => Err(rises(has)),
        _ => Ok(shown(turn.state)),
    };
    response.unwrap_or_else(|why| Response::Refused(Refused::VersionStays { why }))
}

/// Whether the version is raised automatically: nothing holds it down, and raising it again would be undone otherwise.
fn rises_by_itself(state: &State) -> bool {
    state.cluster_version() < LATEST_MINOR && state.lowered().is_none()
}

/// Raises the version with an entry that the present version can read.
fn rises(has: u16) -> String {
    format!(
        "it is 1.{has} until every coordinator speaks 1.{LATEST_MINOR}, then rises by itself; \
         retry once it has risen"
    )
}

fn shown(state: &State) -> Response {
    Response::ClusterVersion {
        minor: state.cluster_version(),
        lowered_by: state.lowered().map(|lowered| lowered.by.to_string()),
    }
}

fn lower(
    turn: &mut DecisionContext<'_>,
    principal: String,
    minor: u16,
) -> Result<Response, String> {
    let before = turn.state.cluster_version() - 1;
    if minor < before {
        return Err(format!(
            "coordinators can be downgraded by one release only, to 1.{before}"
        ));
    }
    if let Some(rollout) = turn.state.under_way().next() {
        let generation = rollout.plan.generation;
        return Err(format!(
            "plan {generation} is in progress, and coordinators of 1.{minor} may not read all its \
             records; wait until it ends, or roll it back with `reweave abort {generation}`"
        ));
    }
    let settings: Vec<_> = turn.state.settings_unknown_to(minor).collect();
    if !settings.is_empty() {
        return Err(format!(
            "operators have set {} in the policy, and coordinators of 1.{minor} cannot read that; \
             return each to the value of the file first, with `reweave policy reset`",
            settings.join(", ")
        ));
    }
    let (fabric, in_force) = (turn.known.fabric, turn.state.in_force());
    let leads_to = DestinationKind::of_tables(fabric, &in_force.tables);
    if minor < LEAVES_SINCE_MINOR && leads_to == DestinationKind::Leaves {
        return Err(format!(
            "routes in force lead to leaves, which coordinators of 1.{minor} take for no \
             destinations; end the drains with `reweave plan drain --none`, weights with \
             `reweave plan weights --none`, and maintenance"
        ));
    }
    let by = Author::Operator(principal);
    let lowered_by = Some(by.to_string());
    turn.decide(Change::ClusterVersionLowered { minor, by });
    Ok(Response::ClusterVersion { minor, lowered_by })
}

/// Raises the version as a leader does when no operator has lowered it.
fn raise(turn: &mut DecisionContext<'_>, minor: u16, min_version: u16) -> Result<Response, String> {
    if minor > min_version {
        return Err(format!(
            "a coordinator is unreachable or does not speak 1.{minor}; `reweave version` shows \
             the versions"
        ));
    }
    turn.decide(Change::ClusterVersion { minor });
    let lowered_by = None;
    Ok(Response::ClusterVersion { minor, lowered_by })
}
