//! Warnings for operators, the worst first.

use std::collections::BTreeSet;
use std::time::Duration;

use reweave_common::operator::{AgentState, AgentStatus, Status};

use crate::model::world::Measurements;

/// Older refusals are not reported.
const REFUSAL_TTL: Duration = Duration::from_mins(10);
const MAX_NAMED_NODES: usize = 5;

pub(super) fn warnings(known: Measurements<'_>, status: &Status) -> Vec<String> {
    let of_agents = |what, matters: fn(&AgentStatus) -> bool| {
        let concerned = status.agents.iter().filter(|agent| matters(agent));
        listed(
            what,
            &concerned
                .map(|agent| agent.node.as_str())
                .collect::<Vec<_>>(),
        )
    };
    let warnings = [
        of_agents("agents disconnected", |agent| {
            agent.state == AgentState::Down
        }),
        of_agents("agents connected but silent", |agent| {
            agent.state == AgentState::Silent
        }),
        of_agents(
            "agents with a certificate about to expire",
            AgentStatus::is_expiring,
        ),
        of_agents(
            "agents with a clock offset above 0.5 s",
            AgentStatus::is_askew,
        ),
        contests(known),
        foreign_nics(known),
        refusals(status),
        versions(status),
        of_agents("agents with rejected readings", |agent| {
            agent.discarded_readings > 0
        }),
        of_agents("nodes whose agent never connected", |agent| {
            agent.state == AgentState::Unseen
        }),
    ];
    warnings.into_iter().flatten().collect()
}

fn listed(what: &str, names: &[&str]) -> Option<String> {
    let named = names
        .iter()
        .take(MAX_NAMED_NODES)
        .copied()
        .collect::<Vec<_>>();
    let more = names.len() - named.len();
    match more {
        _ if names.is_empty() => None,
        0 => Some(format!("{what}: {}", named.join(", "))),
        more => Some(format!("{what}: {} and {more} more", named.join(", "))),
    }
}

/// Two nodes claim one address: one of them is misconfigured or lies.
fn contests(known: Measurements<'_>) -> Option<String> {
    let name = |node| &known.fabric.node(node).name;
    let contests = known.ingest.addresses().contests();
    let contests = contests.filter(|(address, _)| known.fabric.nic_with(*address).is_none());
    let reports = contests.map(|(address, contest)| {
        let (believed, other) = (name(contest.believed), name(contest.other));
        format!("{address} ({believed} is accepted, {other} is not)")
    });
    let reports: Vec<_> = reports.collect();
    let reports: Vec<_> = reports.iter().map(String::as_str).collect();
    listed("addresses reported by two agents", &reports)
}

/// An agent claims an address that the fabric's file gives to a NIC of another host.
fn foreign_nics(known: Measurements<'_>) -> Option<String> {
    let fabric = known.fabric;
    let contests = known.ingest.addresses().contests();
    let claims = contests.filter_map(|(address, contest)| {
        let nic = fabric.nic(fabric.nic_with(address)?);
        let [other, host] = [contest.other, nic.host].map(|node| fabric.name(node));
        let interface = nic.interface.clone();
        let interface = interface.unwrap_or_else(|| fabric.link_name(nic.link));
        Some(format!(
            "{other} claims {address}, NIC {interface} of {host}; its readings of that address are ignored"
        ))
    });
    let claims: Vec<_> = claims.collect();
    let more = claims.len().saturating_sub(MAX_NAMED_NODES);
    let named = claims.iter().take(MAX_NAMED_NODES).cloned();
    let more = (more > 0).then(|| format!("{more} more claims to NICs of other hosts"));
    let all: Vec<_> = named.chain(more).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

fn refusals(status: &Status) -> Option<String> {
    let lately = |age_ms: u64| Duration::from_millis(age_ms) <= REFUSAL_TTL;
    let refused = status.refused.iter().filter(|one| lately(one.age_ms));
    let times: u64 = refused.clone().map(|one| one.times).sum();
    let last = refused.clone().next()?;
    let times = match times {
        1 => "once".to_owned(),
        times => format!("{times} times"),
    };
    Some(format!(
        "peers refused {times} lately, last {}: {}",
        last.from, last.why
    ))
}

/// Agents of several builds: normal during an upgrade, and a problem if it stays so.
fn versions(status: &Status) -> Option<String> {
    let builds = status
        .agents
        .iter()
        .filter_map(|agent| agent.build.as_deref());
    let builds: BTreeSet<_> = builds.collect();
    (builds.len() > 1).then(|| {
        let builds: Vec<_> = builds.into_iter().collect();
        format!("agents run different builds: {}", builds.join(", "))
    })
}
