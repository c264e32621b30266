//! Descriptions of changes.

use std::collections::BTreeSet;

use reweave_common::ids::{LinkId, NodeId};
use reweave_common::scenario::Scenario;

use super::conditions::{Change, Victim};

/// One line, without its end.
pub(super) fn words(change: &Change, scenario: &Scenario) -> String {
    let fabric = &scenario.fabric;
    match change {
        Change::Kill(victim) => format!("{} killed", whom(*victim, scenario)),
        Change::Stop(victim) => format!("{} stopped", whom(*victim, scenario)),
        Change::Continue(victim, _) => format!("{} continued", whom(*victim, scenario)),
        Change::Carrier { links, up: false } => format!("{} down", list_links(links, scenario)),
        Change::Carrier { links, up: true } => format!("{} up", list_links(links, scenario)),
        Change::Loss(link, probability) => format!(
            "{} loses {} % of all packets",
            fabric.link_name(*link),
            // Percentages that people wrote, without the dust of binary fractions.
            (probability * 1e8).round() / 1e6
        ),
        Change::Rate(link, rate) => format!("{} runs at {rate}", fabric.link_name(*link)),
        Change::Deaf(nodes) => {
            let parts = nodes.iter().map(|(node, to)| deafness(*node, to, scenario));
            parts.collect::<Vec<_>>().join(", ")
        }
    }
}

fn whom(victim: Victim, scenario: &Scenario) -> String {
    match victim {
        Victim::Host(host) => format!("all processes of {}", scenario.fabric.name(host)),
        Victim::Process(job, rank) => format!("rank {rank} of {}", scenario.jobs[job].name),
    }
}

fn list_links(links: &BTreeSet<LinkId>, scenario: &Scenario) -> String {
    let names = links.iter().map(|link| scenario.fabric.link_name(*link));
    names.collect::<Vec<_>>().join(", ")
}

fn deafness(node: NodeId, to: &BTreeSet<NodeId>, scenario: &Scenario) -> String {
    let name = |node| scenario.fabric.name(node);
    if to.is_empty() {
        return format!("{} hears all", name(node));
    }
    let others: Vec<_> = to.iter().map(|other| name(*other)).collect();
    format!("{} does not hear {}", name(node), others.join(" "))
}
