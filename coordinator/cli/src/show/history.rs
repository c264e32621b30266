//! What was changed, by whom, and what came of it.

use reweave_common::operator::{FlowChange, FlowOutcome, Outcome, Record};
use reweave_common::units::Rate;

use super::plan::{flows_in, times, words_of};
use crate::names::{FlowNames, Names};
use crate::page::{Ink, Page, age};

pub(crate) fn history(page: &mut Page, records: &[Record], names: &Names) {
    if records.is_empty() {
        page.line("nothing was ever changed");
    }
    for shown in records {
        record(page, shown, names);
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
}

fn outcome(record: &Record) -> String {
    match &record.outcome {
        Outcome::Offered => "on offer".to_owned(),
        Outcome::Running => "under way".to_owned(),
        Outcome::Committed => "kept".to_owned(),
        Outcome::RolledBack { generation, .. } => {
            format!("taken back; the old routes are generation {generation} now")
        }
        Outcome::Abandoned { .. } => "given up before anything was changed".to_owned(),
        Outcome::Held { .. } => "not taken back for sure; a person must look".to_owned(),
    }
}

fn signatures(record: &Record) -> String {
    let mut words = format!("proposed by {}", record.proposed_by);
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

fn change(page: &Page, change: FlowChange) -> String {
    match change {
        FlowChange::Faster => page.ink(Ink::Green, "faster"),
        FlowChange::Same => "as before".to_owned(),
        FlowChange::Slower => page.ink(Ink::Red, "slower"),
        FlowChange::Vanished => page.ink(Ink::Yellow, "gone"),
        FlowChange::New => page.ink(Ink::Yellow, "new"),
    }
}
