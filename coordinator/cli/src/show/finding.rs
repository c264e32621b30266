//! What is wrong, with evidence.

use reweave_common::cause::Cause;
use reweave_common::flow::FlowKey;
use reweave_common::operator::{Collision, Finding, Findings, NotSeen, UselessPin};

use super::hop;
use crate::names::{FlowNames, Names};
use crate::page::{Ink, Page};

pub(crate) fn findings(page: &mut Page, findings: &Findings, names: &Names) {
    if findings.findings.is_empty() {
        page.line("nothing is wrong that Reweave could see");
    }
    for finding in &findings.findings {
        match finding {
            Finding::EcmpCollision(found) => collision(page, found, names),
            Finding::UselessPin(found) => useless_pin(page, found, names),
            Finding::Cause(found) => cause(page, found),
        }
    }
    not_seen(page, &findings.not_seen, names);
}

/// What else may be wrong.
pub(crate) fn not_seen(page: &mut Page, not_seen: &NotSeen, names: &Names) {
    if !not_seen.is_nothing() {
        let flows = names.flows(not_seen.ways_of.iter().copied());
        let words = flows.named(&format!("not all is seen: {not_seen}"));
        let words = page.ink(Ink::Yellow, &words);
        page.line(&words);
    }
}

pub(crate) fn cause(page: &mut Page, found: &Cause) {
    let percent = 100.0 * found.confidence;
    let words = format!("{}: {} ({percent:.0} % sure)", found.class, found.subject);
    let words = page.ink(Ink::Red, &words);
    page.heading(&words);
    let evidence = found.evidence.iter();
    evidence.for_each(|said| page.line(&format!("  {said}")));
    page.line(&format!("  remedy: {}", found.remedy));
    if !found.jobs.is_empty() {
        page.line(&format!("  jobs hurt: {}", found.jobs.join(", ")));
    }
}

fn useless_pin(page: &mut Page, found: &UselessPin, names: &Names) {
    let words = format!("Useless pin at {}", hop(&found.hop));
    let words = page.ink(Ink::Red, &words);
    page.heading(&words);
    let flows = names.flows([found.flow]);
    page.line(&format!("  {}", flows.named(&found.to_string())));
}

fn collision(page: &mut Page, found: &Collision, names: &Names) {
    let words = format!("Collision on {}", hop(&found.hop));
    let words = page.ink(Ink::Red, &words);
    page.heading(&words);
    page.line(&format!("  {}", shared(found)));
    let flows = names.flows(found.losers.iter().map(|loser| loser.flow));
    let rows = found.losers.iter().map(|loser| {
        [
            flows.name(&loser.flow),
            loser.rate_bits_per_s.to_string(),
            loser.fair_rate_bits_per_s.to_string(),
        ]
    });
    page.table(["flow", "gets", "could get"], rows);
    let imbalance = &found.imbalance;
    page.line(&format!(
        "  flow imbalance {:.0} % (the best possible is {:.0} %), by rate {:.0} %; the fullest link \
         carries {:.2} times the mean",
        imbalance.fim_percent,
        imbalance.floor_percent,
        imbalance.weighted_percent,
        imbalance.max_over_mean
    ));
}

/// In one sentence, with the names of nodes.
pub(crate) fn in_a_sentence(finding: &Finding, names: &Names) -> String {
    why(finding, &names.flows(flows_of(finding)))
}

/// In one sentence.
pub(super) fn why(finding: &Finding, flows: &FlowNames<'_>) -> String {
    match finding {
        Finding::EcmpCollision(found) => shared(found),
        Finding::UselessPin(pin) => flows.named(&pin.to_string()),
        Finding::Cause(found) => found.to_string(),
    }
}

fn shared(found: &Collision) -> String {
    let room: Vec<_> = found.with_room.iter().map(hop).collect();
    let elsewhere = match &room[..] {
        [] => "though it could be shared better".to_owned(),
        [one] => format!("while {one} has room"),
        several => format!("while {} have room", several.join(", ")),
    };
    format!(
        "{} is {:.0} % full and shared by {} flows, {elsewhere}",
        hop(&found.hop),
        found.utilization * 100.0,
        found.losers.len(),
    )
}

/// All flows that a finding speaks of.
pub(super) fn flows_of(finding: &Finding) -> Vec<FlowKey> {
    match finding {
        Finding::EcmpCollision(found) => found.losers.iter().map(|loser| loser.flow).collect(),
        Finding::UselessPin(pin) => vec![pin.flow],
        Finding::Cause(_) => Vec::new(),
    }
}
