//! What is wrong, with evidence.

use reweave_common::flow::FlowKey;
use reweave_common::operator::{Collision, Finding, Findings};

use super::hop;
use crate::names::Names;
use crate::page::{Ink, Page};

pub(crate) fn findings(page: &mut Page, findings: &Findings, names: &Names) {
    if findings.findings.is_empty() {
        return page.line("nothing is wrong that Reweave could see");
    }
    for finding in &findings.findings {
        match finding {
            Finding::EcmpCollision(found) => collision(page, found, names),
        }
    }
}

fn collision(page: &mut Page, found: &Collision, names: &Names) {
    let words = format!("Collision on {}", hop(&found.hop));
    let words = page.ink(Ink::Red, &words);
    page.heading(&words);
    page.line(&format!("  {}", why(found)));
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

/// In one sentence.
pub(super) fn why(found: &Collision) -> String {
    let room: Vec<_> = found.with_room.iter().map(hop).collect();
    let has = if room.len() == 1 { "has" } else { "have" };
    format!(
        "{} is {:.0} % full and shared by {} flows, while {} {has} room",
        hop(&found.hop),
        found.utilization * 100.0,
        found.losers.len(),
        room.join(", ")
    )
}

/// All flows that a finding speaks of.
pub(super) fn flows_of(finding: &Finding) -> impl Iterator<Item = FlowKey> {
    let Finding::EcmpCollision(found) = finding;
    found.losers.iter().map(|loser| loser.flow)
}
