//! Changes with requester and outcome.

use reweave_common::operator::{FlowChange, FlowOutcome, IterationOutcome, Outcome, Record};
use reweave_common::units::Rate;

use super::plan::{body, flows_in, millis, plan, times, words_of};
use crate::names::{FlowNames, Names};
use crate::page::{Ink, Page, age};

pub(crate) fn history(page: &mut Page, records: &[Record], names: &Names) {
    if records.is_empty() {
        page.line("no changes");
    }
    for shown in records {
        record(page, shown, names);
    }
}

/// Adds a plan as it was made, and its outcome.
pub(crate) fn recorded(page: &mut Page, shown: &Record, names: &Names) {
    match shown.outcome {
        Outcome::Offered => plan(page, Some(&shown.plan), names),
        _ => {
            body(page, &shown.plan, names);
            record(page, shown, names);
        }
    }
}

pub(crate) fn record(page: &mut Page, record: &Record, names: &Names) {
    let judged = record.flows.iter().map(|flow| flow.flow);
    let flows = names.flows(judged.chain(flows_in(&record.plan)));
    page.heading(&format!(
        "Plan {}: {}",
        record.plan.generation,
        outcome(record)
    ));
    page.line(&format!("  {}", signatures(record)));
    if let Some(taken) = record.plan.takes_back {
        page.line(&format!("  rolls plan {taken} back"));
    }
    for made in &record.plan.moves {
        page.line(&format!("  {}", words_of(made, &flows)));
    }
    for reason in reasons(&record.outcome) {
        let reason = flows.named(reason);
        let reason = page.ink(Ink::Yellow, &format!("  because {reason}"));
        page.line(&reason);
    }
    if !record.flows.is_empty() {
        let rows: Vec<_> = record
            .flows
            .iter()
            .map(|flow| row(page, flow, &flows))
            .collect();
        page.table(["flow", "before", "promised", "measured", "gain", ""], rows);
    }
    if !record.iterations.is_empty() {
        let rows = record.iterations.iter().map(iteration);
        page.table(
            ["iterations of the job on", "before", "promised", "measured"],
            rows,
        );
    }
}

fn outcome(record: &Record) -> String {
    match &record.outcome {
        Outcome::Offered => "on offer".to_owned(),
        Outcome::Running => "under way".to_owned(),
        Outcome::Committed => "kept".to_owned(),
        Outcome::RolledBack { generation, .. } => {
            format!("rolled back; the old routes are generation {generation} now")
        }
        Outcome::Abandoned { .. } => "aborted before any change".to_owned(),
        Outcome::Held { .. } => "rollback unconfirmed; needs an operator".to_owned(),
    }
}

fn signatures(record: &Record) -> String {
    let mut words = format!("made by {}", record.proposed_by);
    if let Some(approved) = &record.approved_by {
        words += &format!(", approved by {approved}");
    }
    match record.ended_age_ms {
        Some(ended) => words += &format!(", ended {} ago", age(ended)),
        None => words += &format!(", {} ago", age(record.age_ms)),
    }
    words
}

fn reasons(outcome: &Outcome) -> &[String] {
    match outcome {
        Outcome::Offered | Outcome::Running | Outcome::Committed => &[],
        Outcome::RolledBack { reasons, .. }
        | Outcome::Abandoned { reasons }
        | Outcome::Held { reasons } => reasons,
    }
}

fn row(page: &Page, flow: &FlowOutcome, flows: &FlowNames<'_>) -> [String; 6] {
    let or_dash = |rate: Option<Rate>| rate.map_or_else(|| "-".to_owned(), |rate| rate.to_string());
    let promised = flow.predicted_bits_per_s;
    let gain = flow.before_bits_per_s.zip(flow.measured_bits_per_s);
    [
        flows.name(&flow.flow),
        or_dash(flow.before_bits_per_s),
        promised.map_or_else(|| "-".to_owned(), |[low, high]| format!("{low} .. {high}")),
        or_dash(flow.measured_bits_per_s),
        gain.map_or_else(|| "-".to_owned(), |(before, after)| times(before, after)),
        change(page, flow.change),
    ]
}

fn iteration(job: &IterationOutcome) -> [String; 4] {
    let [low, high] = job.predicted_ms.map(millis);
    [
        job.job.clone(),
        millis(job.before_ms),
        format!("{low} .. {high}"),
        job.measured_ms.map_or_else(|| "-".to_owned(), millis),
    ]
}

fn change(page: &Page, change: FlowChange) -> String {
    match change {
        FlowChange::Faster => page.ink(Ink::Green, "faster"),
        FlowChange::Same => "as before".to_owned(),
        FlowChange::Slower => page.ink(Ink::Red, "slower"),
        FlowChange::Vanished => page.ink(Ink::Yellow, "gone"),
        FlowChange::New => page.ink(Ink::Yellow, "new"),
    }
}

#[cfg(test)]
mod tests {
    use reweave_common::operator::{Hop, Line, Pin, Plan, Record, Report, Tag, What};
    use reweave_common::plan::Generation;

    use super::*;
    use crate::names::tests::{eight_hosts, flow};

    /// Returns the record of a plan that removes a pin of generation 3.
    fn taking_back(outcome: Outcome) -> Record {
        let pin = Pin {
            flow: flow(1, 49152, 5),
            hop: Hop {
                from: "leaf0".to_owned(),
                to: "spine1".to_owned(),
                link: "leaf0-spine1".to_owned(),
            },
        };
        let nothing = Rate::from_bits_per_s(0);
        Record {
            plan: Plan {
                generation: Generation(5),
                parent: Generation(4),
                takes_back: Some(Generation(3)),
                pins: vec![],
                tables: Default::default(),
                circuits: Default::default(),
                changes: vec![Line {
                    what: What::Unpin(pin),
                    tag: Tag::LiveSafe,
                }],
                seal: String::new(),
                hindered_by: vec![],
                touched: vec![],
                migration: None,
                base: None,
                moves: vec![],
                predictions: vec![],
                iterations: vec![],
                report: Report {
                    findings: vec![],
                    slowest_before_bits_per_s: nothing,
                    slowest_after_bits_per_s: nothing,
                    alternatives: vec![],
                },
            },
            proposed_by: "ada".to_owned(),
            approved_by: None,
            age_ms: 12_000,
            ended_age_ms: None,
            outcome,
            flows: vec![],
            iterations: vec![],
        }
    }

    const PLAN_TEXT: &str = "Plan 5, made for generation 4 of the routes\n  rolls plan 3 back\n  \
        change                              for jobs that run\n  - h1 > h5 pinned to leaf0 > \
        spine1  live-safe\n  0 to add, 1 to remove, 0 to change\n";

    fn shown(outcome: Outcome) -> String {
        let mut page = Page::default();
        recorded(&mut page, &taking_back(outcome), &eight_hosts());
        page.text
    }

    #[test]
    fn rollback_plan_is_shown_with_pins() {
        let apply = "\napply it with  reweave apply 5  (--force if flows become slower)\n";
        assert_eq!(shown(Outcome::Offered), format!("{PLAN_TEXT}{apply}"));
        let came_of_it = "\nPlan 5: kept\n  made by ada, 12 s ago\n  rolls plan 3 back\n";
        assert_eq!(
            shown(Outcome::Committed),
            format!("{PLAN_TEXT}{came_of_it}")
        );
    }
}
