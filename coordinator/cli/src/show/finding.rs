//! Findings with their evidence.

use std::collections::BTreeSet;

use reweave_common::cause::{Cause, Class};
use reweave_common::flow::FlowKey;
use reweave_common::operator::{Collision, Finding, Findings, JobStatus, NotSeen, UselessPin};

use super::hop;
use crate::names::{FlowNames, Names};
use crate::page::{Ink, Page};
use crate::trouble::MIN_COLLISION_CONFIDENCE;
use reweave_common::printable::shown;

/// Adds the findings. `jobs` name the jobs that a collision slows; causes name their own.
pub(crate) fn findings(page: &mut Page, findings: &Findings, names: &Names, jobs: &[JobStatus]) {
    if findings.findings.is_empty() {
        page.line("no findings");
    }
    for finding in &findings.findings {
        match finding {
            Finding::EcmpCollision(found) => collision(page, found, names, jobs),
            Finding::UselessPin(found) => useless_pin(page, found, names),
            Finding::Cause(found) => cause(page, found),
        }
    }
    not_seen(page, &findings.not_seen, names);
}

/// Maximum number of gaps in text output; the rest are counted, and JSON has them.
const MAX_GAPS: usize = 5;

/// Adds what could not be examined: one line, or one line per gap.
pub(crate) fn not_seen(page: &mut Page, not_seen: &NotSeen, names: &Names) {
    listed(page, ["incomplete data", "gaps"], &gaps(not_seen, names));
}

/// Adds why there is no plan. Missing data may be the reason.
pub(crate) fn why_no_plan(page: &mut Page, not_seen: &NotSeen, names: &Names) {
    listed(page, ["why", "reasons"], &gaps(not_seen, names));
}

fn listed(page: &mut Page, [head, many_of]: [&str; 2], gaps: &[String]) {
    let lines = match gaps.len() {
        0 => return,
        1 | 2 => vec![format!("{head}: {}", gaps.join("; "))],
        many => {
            let shown = gaps.iter().take(MAX_GAPS).map(|gap| format!("  {gap}"));
            let more = many.saturating_sub(MAX_GAPS);
            let more = (more > 0).then(|| format!("  and {more} more; `--output json` has them"));
            let head = format!("{head}, {many} {many_of}:");
            [head].into_iter().chain(shown).chain(more).collect()
        }
    };
    for line in lines {
        let line = page.ink(Ink::Yellow, &line);
        page.line(&line);
    }
}

fn gaps(not_seen: &NotSeen, names: &Names) -> Vec<String> {
    let flows = names.flows(not_seen.ways_of.iter().copied());
    let silent = not_seen.nodes.iter();
    let silent = silent.map(|node| format!("{node} does not report"));
    let ways = not_seen.ways_of.iter();
    let ways = ways.map(|flow| format!("the path of {} is unknown", flows.name(flow)));
    let doubts = not_seen.doubts.iter();
    let doubts = doubts.map(|doubt| spaced(&one_line(&flows.named(doubt))));
    silent.chain(ways).chain(doubts).collect()
}

/// Formats a path with gaps: `h3>*>h4` becomes `h3 > … > h4`.
fn spaced(doubt: &str) -> String {
    doubt
        .split(' ')
        .map(|word| {
            if word.trim_matches('>').contains('>') {
                word.replace(">*>", ">…>").replace('>', " > ")
            } else {
                word.to_owned()
            }
        })
        .collect::<Vec<_>>()
        .join(" ")
}

pub(crate) fn cause(page: &mut Page, found: &Cause) {
    head(
        page,
        found.class,
        &found.subject.to_string(),
        found.confidence,
    );
    let evidence = found.evidence.iter();
    evidence.for_each(|said| page.line(&format!("  {}", one_line(said))));
    remedy(page, &found.remedy, &found.jobs);
}

fn head(page: &mut Page, class: Class, subject: &str, confidence: f64) {
    let percent = 100.0 * confidence;
    let words = format!("{class}: {} ({percent:.0} % sure)", one_line(subject));
    let words = page.ink(Ink::Red, &words);
    page.heading(&words);
}

fn remedy(page: &mut Page, remedy: &str, jobs: &[String]) {
    page.line(&format!("  remedy: {remedy}"));
    if !jobs.is_empty() {
        page.line(&format!("  jobs hurt: {}", one_line(&jobs.join(", "))));
    }
}

/// Removes line breaks from text that comes from a host.
fn one_line(said: &str) -> String {
    shown(said, |_| false)
}

fn useless_pin(page: &mut Page, found: &UselessPin, names: &Names) {
    let words = format!("Ineffective pin at {}", hop(&found.hop));
    let words = page.ink(Ink::Red, &words);
    page.heading(&words);
    let flows = names.flows([found.flow]);
    page.line(&format!("  {}", flows.named(&found.to_string())));
}

fn collision(page: &mut Page, found: &Collision, names: &Names, jobs: &[JobStatus]) {
    head(
        page,
        Class::EcmpCollision,
        &hop(&found.hop),
        MIN_COLLISION_CONFIDENCE,
    );
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
        "  flow imbalance {:.0} % (floor {:.0} %), by rate {:.0} %; the fullest link carries \
         {:.2} times the mean",
        imbalance.fim_percent,
        imbalance.floor_percent,
        imbalance.weighted_percent,
        imbalance.max_over_mean
    ));
    remedy(
        page,
        Class::EcmpCollision.remedy(),
        &hurt(found, names, jobs),
    );
}

/// Returns the jobs whose flows lose rate by the collision.
fn hurt(found: &Collision, names: &Names, jobs: &[JobStatus]) -> Vec<String> {
    let losers = found.losers.iter();
    let ends = losers.flat_map(|it| [it.flow.source, it.flow.destination]);
    let hosts: BTreeSet<_> = ends.map(|end| names.node(*end.ip())).collect();
    let is_hurt = |job: &&JobStatus| job.hosts.iter().any(|host| hosts.contains(host));
    let hurt = jobs.iter().filter(is_hurt);
    hurt.map(|job| job.job.clone()).collect()
}

/// Describes a finding in one sentence, with the names of nodes.
pub(crate) fn in_a_sentence(finding: &Finding, names: &Names) -> String {
    why(finding, &names.flows(flows_of(finding)))
}

/// Describes a finding in one sentence.
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
        [] => "though a better distribution exists".to_owned(),
        [one] => format!("while {one} has free capacity"),
        several => format!("while {} have free capacity", several.join(", ")),
    };
    format!(
        "{} is {:.0} % full and shared by {} flows, {elsewhere}",
        hop(&found.hop),
        found.utilization * 100.0,
        found.losers.len(),
    )
}

/// Returns all flows of a finding.
pub(super) fn flows_of(finding: &Finding) -> Vec<FlowKey> {
    match finding {
        Finding::EcmpCollision(found) => found.losers.iter().map(|loser| loser.flow).collect(),
        Finding::UselessPin(pin) => vec![pin.flow],
        Finding::Cause(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::tests::eight_hosts;

    #[test]
    fn missing_plan_has_reasons() {
        let why = "leaf0 > spine0 is 99 % full and stays as it is: leaf0-spine1 is down (NIC flap)";
        let not_seen = NotSeen {
            doubts: vec![why.to_owned()],
            ..NotSeen::default()
        };
        let mut page = Page::default();
        why_no_plan(&mut page, &not_seen, &eight_hosts());
        assert_eq!(page.text, format!("why: {why}\n"));
    }
}
