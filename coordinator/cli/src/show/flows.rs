//! Flows with their paths and rates, and how evenly they are spread.

use reweave_common::operator::{FlowImbalance, FlowStatus, Hop, Status};

use super::{hop, more, most_rows};
use crate::Detail;
use crate::names::Names;
use crate::page::{Page, age};

/// Adds the fastest flows.
pub(super) fn fastest(page: &mut Page, flows: &[FlowStatus], names: &Names, detail: Detail) {
    page.heading("Flows");
    if flows.is_empty() {
        return page.line("  no large flows");
    }
    let names = names.flows(flows.iter().map(|flow| flow.flow));
    let row = |flow: &FlowStatus| {
        [
            names.name(&flow.flow),
            flow.rate_bits_per_s.to_string(),
            format!("{} .. {}", flow.least_bits_per_s, flow.most_bits_per_s),
            flow.path
                .as_deref()
                .map_or_else(unknown, |path| both_ways(path, flow)),
        ]
    };
    let mut fastest: Vec<_> = flows.iter().collect();
    fastest.sort_by_key(|flow| std::cmp::Reverse(flow.rate_bits_per_s));
    let rows = fastest.into_iter().map(row).take(most_rows(detail));
    page.table(["flow", "rate", "lately", "over"], rows);
    more(page, flows.len(), detail);
}

/// Adds these flows with all links of their paths.
pub(crate) fn paths(page: &mut Page, flows: &[&FlowStatus], names: &Names) {
    let names = names.flows(flows.iter().map(|flow| flow.flow));
    let rows = flows.iter().map(|flow| {
        [
            names.name(&flow.flow),
            flow.rate_bits_per_s.to_string(),
            flow.path.as_deref().map_or_else(unknown, whole),
            flow.path_back.as_deref().map_or_else(unknown, whole),
        ]
    });
    page.table(["flow", "rate", "over", "back over"], rows);
}

/// Same as `paths`, with the range of the rate, the age of the reading, and ports.
pub(crate) fn wide_paths(page: &mut Page, flows: &[&FlowStatus], names: &Names) {
    let names = names.flows(flows.iter().map(|flow| flow.flow));
    let row = |flow: &&FlowStatus| {
        [
            names.name(&flow.flow),
            flow.rate_bits_per_s.to_string(),
            format!("{} .. {}", flow.least_bits_per_s, flow.most_bits_per_s),
            age(flow.age_ms),
            flow.flow.to_string(),
            flow.path.as_deref().map_or_else(unknown, whole),
            flow.path_back.as_deref().map_or_else(unknown, whole),
        ]
    };
    let headings = [
        "flow",
        "rate",
        "lately",
        "read",
        "ports",
        "over",
        "back over",
    ];
    page.table(headings, flows.iter().map(row));
}

pub(crate) fn unknown() -> String {
    "not known".to_owned()
}

/// Formats a path as `h0 > leaf0 > spine1 > leaf1 > h4`, with the cable number of parallel links.
pub(crate) fn whole(path: &[Hop]) -> String {
    let first = path.first().map(|hop| hop.from.clone());
    let steps = path.iter().map(|step| {
        let step = hop(step);
        step.split_once(" > ")
            .map_or(step.clone(), |(_, to)| to.to_owned())
    });
    first
        .into_iter()
        .chain(steps)
        .collect::<Vec<_>>()
        .join(" > ")
}

/// Formats the switches of the path, and those of the return path if it uses other links.
fn both_ways(path: &[Hop], flow: &FlowStatus) -> String {
    let there = way(path);
    let links = path.iter().map(|hop| &hop.link);
    match &flow.path_back {
        Some(back) if !back.iter().rev().map(|hop| &hop.link).eq(links) => {
            format!("{there}, back {}", way(back))
        }
        _ => there,
    }
}

/// Formats the switches of a path.
fn way(path: &[Hop]) -> String {
    let inner = path.iter().skip(1);
    let inner: Vec<_> = inner.map(|hop| hop.from.as_str()).collect();
    inner.join(" ")
}

pub(super) fn pins(page: &mut Page, status: &Status, names: &Names, detail: Detail) {
    if status.pins.is_empty() {
        return;
    }
    page.heading("Pins");
    let names = names.flows(status.pins.iter().map(|pin| pin.flow));
    let rows = status.pins.iter().take(most_rows(detail));
    let rows = rows.map(|pin| [names.name(&pin.flow), hop(&pin.hop)]);
    page.table(["flow", "goes"], rows);
    more(page, status.pins.len(), detail);
    for useless in &status.useless_pins {
        page.line(&names.named(&format!("  {useless}")));
    }
}

pub(crate) fn imbalance(page: &mut Page, found: &FlowImbalance) {
    let over: Vec<_> = found.worst_over.iter().map(hop).collect();
    page.heading("Flow imbalance");
    page.line(&format!(
        "  mean {:.0} %; worst {:.0} % (floor {:.0} %) over {}",
        found.mean_fim_percent,
        found.worst.fim_percent,
        found.worst.floor_percent,
        over.join(", ")
    ));
}
