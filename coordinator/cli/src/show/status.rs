//! Status of the cluster.

use reweave_common::operator::{
    AgentState, Findings, Mode, OpticalStatus, Phase, RunningChange, Status,
};

use super::{flows, hosts, links, measured, peers};
use crate::Detail;
use crate::maintenance;
use crate::names::Names;
use crate::page::{Ink, Page};
use crate::trouble;

pub(crate) fn status(
    page: &mut Page,
    status: &Status,
    findings: &Findings,
    names: &Names,
    detail: Detail,
) {
    head(page, status, trouble::at_a_glance(findings, names));
    hosts::in_trouble(page, &status.agents, detail);
    hosts::lacks(page, &status.lacks, detail);
    links::busy(page, &status.links, findings);
    flows::fastest(page, &status.flows, names, detail);
    flows::pins(page, status, names, detail);
    if let Some(found) = &status.flow_imbalance {
        flows::imbalance(page, found);
    }
    measured::probes(page, &status.probes);
    measured::bandwidths(page, &status.bandwidths);
    measured::rdma(page, &status.rdma);
    opticals(page, &status.opticals);
    for job in &status.frozen {
        let hosts = job.hosts.join(", ");
        page.line(&format!("job of {hosts}: frozen by {}", job.by));
    }
    if !status.maintenance.is_empty() {
        page.heading("Under maintenance");
        maintenance::table(page, &status.maintenance);
    }
    peers::coordinators(page, &status.coordinators);
    peers::refused(page, &status.refused);
    peers::invitations(page, &status.invitations);
    peers::revoked(page, &status.revoked);
}

fn opticals(page: &mut Page, opticals: &[OpticalStatus]) {
    if opticals.is_empty() {
        return;
    }
    page.heading("Optical switches");
    let rows: Vec<_> = opticals
        .iter()
        .map(|one| {
            let driver = if one.is_driven {
                "is there".to_owned()
            } else {
                page.ink(Ink::Yellow, "is not there")
            };
            [one.optical.clone(), driver, one.circuits.to_string()]
        })
        .collect();
    page.table(["switch", "driver", "circuits"], rows);
}

fn head(page: &mut Page, status: &Status, found: Option<String>) {
    let up = status.agents.iter();
    let up = up.filter(|agent| agent.state == AgentState::Up).count();
    let mode = match status.mode {
        Mode::Manual => "manual",
        Mode::Auto => "auto",
    };
    let agents = status.agents.len();
    page.line(&format!(
        "routes: generation {} · mode: {mode} · agents: {up}/{agents} up",
        status.generation
    ));
    for alarm in &status.alarms {
        let alarm = page.ink(Ink::Red, &format!("alarm: {alarm}"));
        page.line(&alarm);
    }
    if let Some(found) = found {
        let found = page.ink(Ink::Red, &found);
        page.line(&format!("{found}; see `reweave diagnose`"));
    }
    warnings(page, &status.warnings);
    for change in &status.changes {
        let change = page.ink(Ink::Yellow, &phase(change));
        page.line(&change);
    }
    if let Some(why) = &status.waits_because {
        page.line(&format!("no change in progress: {why}"));
    }
}

/// Adds the less urgent problems, one per line.
pub(crate) fn warnings(page: &mut Page, warnings: &[String]) {
    for warning in warnings {
        let warning = page.ink(Ink::Yellow, &format!("look at: {warning}"));
        page.line(&warning);
    }
}

/// Describes the current phase of a plan.
pub(crate) fn phase(change: &RunningChange) -> String {
    let RunningChange {
        generation,
        waiting_for,
        reasons,
        stopped_by,
        ..
    } = change;
    let waits = match waiting_for.as_slice() {
        [] => String::new(),
        nodes => format!(", waiting for {}", nodes.join(", ")),
    };
    let what = match change.phase {
        Phase::Proposed => format!("is on offer; `reweave apply {generation}` applies it"),
        Phase::Approved => "is approved and about to start".to_owned(),
        Phase::Applying => format!("is being applied{waits}"),
        Phase::Verifying => "is applied and being measured".to_owned(),
        Phase::RollingBack => format!("is being rolled back{waits}"),
        Phase::Held => format!("is blocked{waits}"),
    };
    let why = match reasons.as_slice() {
        [] => String::new(),
        reasons => format!(", because {}", reasons.join("; ")),
    };
    let stopped = stopped_by
        .as_ref()
        .map(|by| format!("; held by {by}; `reweave resume {generation}` continues it"));
    format!(
        "plan {generation} {what}{why}{}",
        stopped.unwrap_or_default()
    )
}
