//! Variants of the past for people: one with its bursts, or several side by side.

use reweave_planner::sandbox::{Compared, Outcome};

use super::history::Answer;
use super::show;
use crate::page::Page;

/// People look at so many rows.
const ROWS: usize = 12;

pub(super) fn alone(page: &mut Page, answer: &Answer) {
    preface(page, answer);
    let compared = &answer.compared;
    let Compared {
        as_it_was, variant, ..
    } = compared;
    let outcomes = [
        ("as it was".to_owned(), as_it_was),
        ("variant".to_owned(), variant),
    ];
    beside(page, &outcomes);
    show::lossy(page, &answer.lossy);
    page.heading("Bursts, the largest first");
    let mut bursts: Vec<_> = compared.bursts.iter().collect();
    bursts.sort_by_key(|it| std::cmp::Reverse(it.bytes));
    page.table(
        ["from", "to", "MB", "measured Mb/s", "as it was", "variant"],
        bursts.iter().take(ROWS).map(|it| {
            let figures = [it.measured_mbps, it.as_it_was_mbps, it.variant_mbps];
            let [measured, same, other] = figures.map(|it| format!("{it:.1}"));
            let megabytes = format!("{:.1}", it.bytes as f64 / 1e6);
            [
                it.from.clone(),
                it.to.clone(),
                megabytes,
                measured,
                same,
                other,
            ]
        }),
    );
}

/// Where they were recorded on different fabrics, each has what was by its own.
pub(super) fn all(page: &mut Page, answers: &[Answer]) {
    let mut outcomes = Vec::new();
    for answer in answers {
        let Compared {
            as_it_was, variant, ..
        } = &answer.compared;
        if !outcomes.iter().any(|(_, known)| *known == as_it_was) {
            preface(page, answer);
            outcomes.push(("as it was".to_owned(), as_it_was));
        }
        let Answer {
            name,
            slower_percent,
            ..
        } = answer;
        outcomes.push((format!("{name} ({slower_percent:+.1} %)"), variant));
    }
    beside(page, &outcomes);
    if let [first, ..] = answers {
        show::lossy(page, &first.lossy);
    }
}

fn preface(page: &mut Page, answer: &Answer) {
    let compared = &answer.compared;
    page.line(&format!(
        "From {} to {}: {} bursts, {} of them over unknown ways, and {} that are left out.",
        answer.from,
        answer.to,
        compared.bursts.len(),
        compared.ways_unknown,
        compared.left_out
    ));
    page.line(&format!(
        "As it was, the model is off by {:.1} % on average, {:.1} % at most.",
        compared.mean_error * 100.0,
        compared.worst_error * 100.0
    ));
}

/// The share behind a name is how much longer its bursts take.
fn beside(page: &mut Page, outcomes: &[(String, &Outcome)]) {
    let row = |(name, it): &(String, &Outcome)| {
        let figures = [it.end_ms, it.busy_ms, it.slowest_mbps].map(|it| format!("{it:.1}"));
        let [end, busy, slowest] = figures;
        [name.clone(), end, busy, slowest]
    };
    page.table(
        ["", "ends after ms", "bursts in all ms", "slowest Mb/s"],
        outcomes.iter().map(row),
    );
    let full = |(name, it): &(String, &Outcome)| {
        let links = it.fullest.iter().take(3);
        let links = links.map(|it| format!("{} > {} {:.0} %", it.from, it.to, it.share * 100.0));
        [name.clone(), links.collect::<Vec<_>>().join(", ")]
    };
    page.table(["", "fullest links until then"], outcomes.iter().map(full));
}
