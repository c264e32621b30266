//! Agents with the state that each reports.

use std::collections::BTreeMap;

use reweave_common::operator::{AgentState, AgentStatus, LackStatus};

use super::{dash, more, most_rows, peers};
use crate::Detail;
use crate::page::{Ink, Page, age, first_of};

/// Maximum number of nodes that are named for one missing capability.
const MAX_NAMED_NODES: usize = 5;

/// Adds the number of agents per state, and the agents in trouble.
pub(super) fn in_trouble(page: &mut Page, agents: &[AgentStatus], detail: Detail) {
    page.heading("Agents");
    page.line(&format!("  {}", states(page, agents)));
    let shown = agents.iter().filter(|it| detail.all || it.is_in_trouble());
    let shown: Vec<_> = shown.collect();
    if !shown.is_empty() {
        table(page, &shown);
    }
    for agent in agents.iter().filter(|agent| agent.discarded_readings > 0) {
        page.line(&format!(
            "  {}: {} readings rejected: not its own, or too many",
            agent.node, agent.discarded_readings
        ));
    }
}

/// Adds measurements that are missing on some nodes, with reasons. Full detail includes the remedy.
pub(super) fn lacks(page: &mut Page, lacks: &[LackStatus], detail: Detail) {
    if lacks.is_empty() {
        return;
    }
    page.heading("Not measured");
    for LackStatus { lack, nodes } in lacks.iter().take(most_rows(detail)) {
        let on = named(nodes, detail);
        page.line(&format!("  {} on {on}: {}", lack.measurement, lack.because));
        if detail.all {
            page.line(&format!("    to enable it: {}", lack.remedy));
        }
    }
    more(page, lacks.len(), detail);
}

fn named(nodes: &[String], detail: Detail) -> String {
    let most = if detail.all {
        nodes.len()
    } else {
        MAX_NAMED_NODES
    };
    first_of(nodes, most, ", ")
}

fn states(page: &Page, agents: &[AgentStatus]) -> String {
    let mut counts = BTreeMap::<AgentState, usize>::new();
    for agent in agents {
        *counts.entry(agent.state).or_default() += 1;
    }
    let counts = counts.into_iter();
    let counts: Vec<_> = counts
        .map(|(it, count)| format!("{count} {}", state(page, it)))
        .collect();
    let known: usize = agents.iter().map(|agent| agent.known_links).sum();
    let links: usize = agents.iter().map(|agent| agent.links).sum();
    let ends = if known == links {
        "all ends of links known".to_owned()
    } else {
        format!("{known} of {links} ends of links known")
    };
    format!("{}; {ends}", counts.join(", "))
}

/// Adds these agents, whether in trouble or not.
pub(crate) fn table(page: &mut Page, agents: &[&AgentStatus]) {
    let rows: Vec<_> = agents.iter().map(|agent| row(page, agent)).collect();
    page.table(HEADINGS, rows);
}

/// Same as `table`, with versions and addresses.
pub(crate) fn wide_table(page: &mut Page, agents: &[&AgentStatus]) {
    let wide = |agent: &&AgentStatus| {
        let [node, state, heard, known, holds, clock, certificate] = row(page, agent);
        let addresses = agent.addresses.iter().map(ToString::to_string);
        let addresses = addresses.collect::<Vec<_>>().join(" ");
        let build = agent.build.clone().unwrap_or_else(dash);
        let protocol = agent.protocol.clone().unwrap_or_else(dash);
        let rejected = agent.discarded_readings.to_string();
        [
            node,
            state,
            heard,
            known,
            holds,
            clock,
            certificate,
            build,
            protocol,
            rejected,
            addresses,
        ]
    };
    let rows: Vec<_> = agents.iter().map(wide).collect();
    let [node, state, heard, known, holds, clock, certificate] = HEADINGS;
    let headings = [
        node,
        state,
        heard,
        known,
        holds,
        clock,
        certificate,
        "build",
        "protocol",
        "rejected",
        "addresses",
    ];
    page.table(headings, rows);
}

const HEADINGS: [&str; 7] = [
    "node",
    "state",
    "heard",
    "links known",
    "holds",
    "clock off",
    "certificate for",
];

fn row(page: &Page, agent: &AgentStatus) -> [String; 7] {
    [
        agent.node.clone(),
        state(page, agent.state),
        agent.age_ms.map_or_else(dash, age),
        format!("{} of {}", agent.known_links, agent.links),
        agent.generation.map_or_else(dash, |held| held.to_string()),
        agent.clock_skew_ms.map_or_else(dash, skew),
        agent.certificate_left_s.map_or_else(dash, peers::seconds),
    ]
}

fn state(page: &Page, state: AgentState) -> String {
    match state {
        AgentState::Up => page.ink(Ink::Green, "up"),
        AgentState::Silent => page.ink(Ink::Yellow, "silent"),
        AgentState::Down => page.ink(Ink::Red, "down"),
        AgentState::Unseen => page.ink(Ink::Grey, "unseen"),
    }
}

pub(super) fn skew(skew_ms: i64) -> String {
    let sign = if skew_ms <= -100 { "-" } else { "" };
    format!("{sign}{}", age(skew_ms.unsigned_abs()))
}
