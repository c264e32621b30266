//! Plans: changes, predictions, and rejected alternatives.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::flow::FlowKey;
use reweave_common::operator::{
    Alternative, BEHIND_PREFIX, Finding, Line, Move, Pin, Plan, Prediction, TouchedJob, What,
};
use reweave_common::plan::LostBecause;
use reweave_common::units::Rate;

use super::finding::{flows_of, why};
use super::hop;
use crate::names::{FlowNames, Names};
use crate::page::{Ink, Page};

/// Maximum number of alternatives in text output.
const MAX_ALTERNATIVES: usize = 5;
/// Maximum number of leaves that a line names.
const MAX_LEAVES: usize = 4;

pub(crate) fn plan(page: &mut Page, plan: Option<&Plan>, names: &Names) {
    let Some(plan) = plan else {
        return page.line("no improvement found");
    };
    body(page, plan, names);
    for job in &plan.touched {
        page.line(&format!("\nit may touch {}", touched(job)));
    }
    for why in &plan.hindered_by {
        let why = page.ink(Ink::Yellow, &format!("\nnot now: {why}"));
        page.line(&why);
    }
    let apply = page.ink(Ink::Bold, &format!("reweave apply {}", plan.generation));
    let force = if is_taken_back_if_slower(plan) {
        "  (--force if flows become slower)"
    } else {
        ""
    };
    page.line(&format!("\napply it with  {apply}{force}"));
}

/// Whether a plan that is not made for speed is still rolled back if flows become slower.
fn is_taken_back_if_slower(plan: &Plan) -> bool {
    let slower = |it: &Prediction| it.after_bits_per_s < it.before_bits_per_s;
    plan.takes_back.is_some() || plan.moves.is_empty() && plan.predictions.iter().any(slower)
}

pub(crate) fn touched(job: &TouchedJob) -> String {
    let TouchedJob {
        job,
        flows,
        moved,
        slowed,
    } = job;
    format!("{job}: of {flows} flows, {moved} may change path and {slowed} may become slower")
}

/// Adds a plan with any outcome.
pub(super) fn body(page: &mut Page, plan: &Plan, names: &Names) {
    let flows = names.flows(flows_in(plan));
    page.heading(&format!(
        "Plan {}, made for generation {} of the routes",
        plan.generation, plan.parent
    ));
    if let Some(taken) = plan.takes_back {
        page.line(&format!("  rolls plan {taken} back"));
    }
    for made in &plan.moves {
        page.line(&format!("  {}", words_of(made, &flows)));
    }
    if plan.takes_back.is_some() || !plan.changes.is_empty() {
        all_changes(page, plan, names);
    }
    for flow in lifted(plan) {
        page.line(&format!("  {} is unpinned", flows.name(&flow)));
    }
    if !plan.predictions.is_empty() {
        page.text.push('\n');
        predictions(page, plan, &flows);
    }
    if !plan.iterations.is_empty() {
        page.text.push('\n');
        iterations(page, plan);
    }
    if !plan.report.findings.is_empty() {
        page.heading("Why");
    }
    for found in &plan.report.findings {
        page.line(&format!("  {}", why(found, &flows)));
    }
    if !plan.moves.is_empty() {
        page.line(&format!(
            "  the slowest flow goes from {} to {}",
            plan.report.slowest_before_bits_per_s, plan.report.slowest_after_bits_per_s
        ));
        alternatives(page, plan, &flows);
    }
}

/// Adds one line per change, and a count per kind.
pub(crate) fn all_changes(page: &mut Page, plan: &Plan, names: &Names) {
    let lines = &plan.changes;
    if lines.is_empty() {
        return page.line("no recorded changes");
    }
    let pinned = lines.iter().filter_map(|line| match &line.what {
        What::Pin(pin) | What::Unpin(pin) => Some(pin.flow),
        _ => None,
    });
    let flows = names.flows(pinned);
    let pin = |pin: &Pin| format!("{} pinned to {}", flows.name(&pin.flow), hop(&pin.hop));
    let rows = lines.iter().map(|line| {
        let what = match &line.what {
            What::Connect(joint) | What::Disconnect(joint) => joint.to_string(),
            What::Routes { node, towards } => {
                let behind = behind(plan, node);
                format!("routes of {node} towards {towards} hosts{behind}")
            }
            What::Ranks(ranks) => ranks.to_string(),
            What::Pin(it) | What::Unpin(it) => pin(it),
        };
        [format!("{} {what}", sign(line)), line.tag.to_string()]
    });
    page.table(["change", "for jobs that run"], rows);
    let count = |of: char| lines.iter().filter(|line| sign(line) == of).count();
    let [added, removed, changed] = ['+', '-', '~'].map(count);
    page.line(&format!(
        "  {added} to add, {removed} to remove, {changed} to change"
    ));
}

/// Returns the leaves whose routes change at this node: ` behind leaf1, leaf2`.
fn behind(plan: &Plan, node: &str) -> String {
    let in_force = plan.base.as_ref().map(|base| &base.tables);
    let before = in_force.and_then(|tables| tables.get(node));
    let after = plan.tables.get(node);
    let entry = |to: &str| [before, after].map(|table| table.and_then(|table| table.get(to)));
    let tables = [before, after].into_iter().flatten();
    let leaves: BTreeSet<_> = tables
        .flat_map(BTreeMap::keys)
        .filter(|to| entry(to)[0] != entry(to)[1])
        .filter_map(|to| to.strip_prefix(BEHIND_PREFIX))
        .collect();
    let named: Vec<_> = leaves.iter().take(MAX_LEAVES).copied().collect();
    match leaves.len().saturating_sub(MAX_LEAVES) {
        _ if leaves.is_empty() => String::new(),
        0 => format!(" {BEHIND_PREFIX}{}", named.join(", ")),
        more => format!(" {BEHIND_PREFIX}{} and {more} more", named.join(", ")),
    }
}

/// Returns the sign of an added, removed or changed line.
fn sign(line: &Line) -> char {
    match line.what {
        What::Connect(_) | What::Pin(_) => '+',
        What::Disconnect(_) | What::Unpin(_) => '-',
        What::Routes { .. } | What::Ranks(_) => '~',
    }
}

pub(super) fn flows_in(plan: &Plan) -> impl Iterator<Item = FlowKey> {
    let predicted = plan.predictions.iter().map(|prediction| prediction.flow);
    let found = plan.report.findings.iter().flat_map(flows_of);
    let moved = moved(&plan.moves).chain(
        plan.report
            .alternatives
            .iter()
            .flat_map(|lost| moved(&lost.moves)),
    );
    predicted.chain(found).chain(moved)
}

/// Returns the flows whose useless pins are removed, unless a line names them already.
fn lifted(plan: &Plan) -> BTreeSet<FlowKey> {
    let has_line = |flow: &FlowKey| {
        let mut lines = plan.changes.iter();
        lines.any(|line| matches!(&line.what, What::Unpin(pin) if pin.flow == *flow))
    };
    let findings = plan.report.findings.iter();
    let useless = findings.filter_map(|finding| match finding {
        Finding::UselessPin(pin) => Some(pin.flow),
        Finding::EcmpCollision(_) | Finding::Cause(_) => None,
    });
    useless.filter(|flow| !has_line(flow)).collect()
}

fn moved(moves: &[Move]) -> impl Iterator<Item = FlowKey> {
    moves.iter().map(|made| made.flow)
}

pub(super) fn words_of(made: &Move, flows: &FlowNames<'_>) -> String {
    format!(
        "{} moves from {} to {}",
        flows.name(&made.flow),
        hop(&made.from),
        hop(&made.to)
    )
}

fn predictions(page: &mut Page, plan: &Plan, flows: &FlowNames<'_>) {
    let rows = plan.predictions.iter().map(|prediction| {
        let [before, after] = [prediction.before_bits_per_s, prediction.after_bits_per_s];
        [
            flows.name(&prediction.flow),
            before.to_string(),
            after.to_string(),
            format!(
                "{} .. {}",
                prediction.low_bits_per_s, prediction.high_bits_per_s
            ),
            times(before, after),
        ]
    });
    let rows: Vec<_> = rows.collect();
    page.table(["flow", "now", "then", "expected within", "gain"], rows);
}

fn iterations(page: &mut Page, plan: &Plan) {
    let rows = plan.iterations.iter().map(|it| {
        [
            it.job.clone(),
            millis(it.before_ms),
            millis(it.after_ms),
            format!("{} .. {}", millis(it.low_ms), millis(it.high_ms)),
        ]
    });
    let rows: Vec<_> = rows.collect();
    page.table(
        ["iterations of the job on", "now", "then", "expected within"],
        rows,
    );
}

pub(super) fn millis(ms: f64) -> String {
    format!("{ms:.1} ms")
}

/// Formats a ratio of rates: `1.93 times`.
pub(super) fn times(before: Rate, after: Rate) -> String {
    match before.bits_per_s() {
        0 => "-".to_owned(),
        bits => format!("{:.2} times", after.bits_per_s() as f64 / bits as f64),
    }
}

fn alternatives(page: &mut Page, plan: &Plan, flows: &FlowNames<'_>) {
    let lost = &plan.report.alternatives;
    if lost.is_empty() {
        return;
    }
    page.heading("Why not");
    for alternative in lost.iter().take(MAX_ALTERNATIVES) {
        page.line(&format!("  {}", why_not(alternative, flows)));
    }
    if let Some(more) = lost
        .len()
        .checked_sub(MAX_ALTERNATIVES)
        .filter(|more| *more > 0)
    {
        page.line(&format!("  and {more} others"));
    }
}

fn why_not(lost: &Alternative, flows: &FlowNames<'_>) -> String {
    let moved: Vec<_> = moved(&lost.moves).map(|flow| flows.name(&flow)).collect();
    let what = match moved.as_slice() {
        [] => "no change".to_owned(),
        moved => format!("move {}", moved.join(" and ")),
    };
    match lost.lost_because {
        LostBecause::Slower => {
            let slowest = lost.slowest_after_bits_per_s;
            format!("{what}: slowest flow {slowest}")
        }
        LostBecause::MoreMoves => {
            format!("{what}: no flow is faster, and more flows move")
        }
    }
}

#[cfg(test)]
mod tests {
    use reweave_common::operator::{Base, Hop, Tag, Via};

    use super::*;
    use crate::names::tests::{eight_hosts, flow};

    const EXPECTED_TEXT: &str = "Plan 4, made for generation 3 of the routes
  change                              for jobs that run
  - h0 > h4 pinned to leaf0 > spine0  live-safe
  + h0 > h4 pinned to leaf0 > spine1  live-safe
  ~ routes of leaf0 towards 4 hosts   live-safe
  1 to add, 1 to remove, 1 to change

apply it with  reweave apply 4
";

    fn pin(spine: &str) -> Pin {
        Pin {
            flow: flow(0, 49152, 4),
            hop: Hop {
                from: "leaf0".to_owned(),
                to: spine.to_owned(),
                link: format!("leaf0-{spine}"),
            },
        }
    }

    #[test]
    fn plan_lists_changes_with_total() {
        let routes = What::Routes {
            node: "leaf0".to_owned(),
            towards: 4,
        };
        let line = |what| Line {
            what,
            tag: Tag::LiveSafe,
        };
        let mut shown = crate::show::tests::plan();
        shown.changes = [What::Unpin(pin("spine0")), What::Pin(pin("spine1")), routes]
            .map(line)
            .to_vec();
        shown.moves.clear();
        shown.predictions.clear();
        shown.iterations.clear();
        shown.report.findings.clear();
        let mut page = Page::default();
        plan(&mut page, Some(&shown), &eight_hosts());
        assert_eq!(page.text, EXPECTED_TEXT, "\n{}", page.text);
    }

    #[test]
    fn changed_leaves_are_named() {
        let via = |link: &str| {
            let (link, weight) = (link.to_owned(), 1);
            vec![Via { link, weight }]
        };
        let mut shown = crate::show::tests::plan();
        assert_eq!(behind(&shown, "leaf0"), "");
        let leaves = (1..6).map(|leaf| format!("{BEHIND_PREFIX}leaf{leaf}"));
        let mut towards: BTreeMap<_, _> = leaves.map(|leaf| (leaf, via("leaf0-spine1"))).collect();
        shown.tables.insert("leaf0".to_owned(), towards.clone());
        let all = " behind leaf1, leaf2, leaf3, leaf4 and 1 more";
        assert_eq!(behind(&shown, "leaf0"), all);
        towards.remove("behind leaf5");
        towards.insert("behind leaf2".to_owned(), via("leaf0-spine0"));
        shown.base = Some(Base {
            pins: Vec::new(),
            tables: BTreeMap::from([("leaf0".to_owned(), towards)]),
            circuits: BTreeMap::new(),
            down: Vec::new(),
            capacity_floor: 0.0,
            lossless: false,
            addresses: None,
        });
        assert_eq!(behind(&shown, "leaf0"), " behind leaf2, leaf5");
    }
}
