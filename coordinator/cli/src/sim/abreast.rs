//! Text output of variants: one in full detail, or several side by side.

use reweave_sim::sandbox::{Compared, Fullest, JobCompared, JobOutcome, Outcome};
use serde::Serialize;

use super::show;
use super::variants::Answer;
use crate::page::Page;
use crate::report::Report;

/// Maximum number of rows.
const MAX_ROWS: usize = 12;

/// Outcomes of the original and of a variant.
pub(super) trait Sides: Serialize + Sized {
    type Outcome: PartialEq;
    /// Noun of the compared time, put before the figure.
    const DURATION_PHRASE: &str;

    fn slower_percent(&self) -> f64;
    fn sides(&self) -> [&Self::Outcome; 2];
    fn full(outcome: &Self::Outcome) -> &[Fullest];
    fn figures(page: &mut Page, outcomes: &[(String, &Self::Outcome)]);
    fn preface(page: &mut Page, answer: &Answer<Self>);
    /// Adds the details of a single variant.
    fn details(&self, page: &mut Page);
}

/// A single variant.
impl<C: Sides> Report for Answer<C> {
    fn lay_out(&self, page: &mut Page) {
        C::preface(page, self);
        let [as_it_was, variant] = self.compared.sides();
        let outcomes = [
            ("as it was".to_owned(), as_it_was),
            ("variant".to_owned(), variant),
        ];
        beside::<C>(page, &outcomes);
        lossy(page, self);
        self.compared.details(page);
    }
}

/// Several variants side by side. If they were recorded on different fabrics, each is compared with its own original.
#[derive(Serialize)]
pub(super) struct SideBySide<'a, C> {
    pub(super) variants: &'a [Answer<C>],
}

impl<C: Sides> Report for SideBySide<'_, C> {
    fn lay_out(&self, page: &mut Page) {
        let mut outcomes = Vec::new();
        for answer in self.variants {
            let [as_it_was, variant] = answer.compared.sides();
            if !outcomes.iter().any(|(_, known)| *known == as_it_was) {
                C::preface(page, answer);
                outcomes.push(("as it was".to_owned(), as_it_was));
            }
            let Answer {
                name,
                slower_percent,
                ..
            } = answer;
            outcomes.push((format!("{name} ({slower_percent:+.1} %)"), variant));
        }
        beside::<C>(page, &outcomes);
        if let [first, ..] = self.variants {
            lossy(page, first);
        }
    }
}

fn lossy<C>(page: &mut Page, answer: &Answer<C>) {
    if let Some(stretch) = &answer.stretch {
        show::lossy(page, &stretch.lossy);
    }
}

/// Adds variants side by side. The percentage after a name is the increase in time.
fn beside<C: Sides>(page: &mut Page, outcomes: &[(String, &C::Outcome)]) {
    C::figures(page, outcomes);
    let full = |(name, it): &(String, &C::Outcome)| {
        let links = C::full(it).iter().take(3);
        let links = links.map(|it| format!("{} > {} {:.0} %", it.from, it.to, it.share * 100.0));
        [name.clone(), links.collect::<Vec<_>>().join(", ")]
    };
    page.table(["", "fullest links until then"], outcomes.iter().map(full));
}

impl Sides for Compared {
    type Outcome = Outcome;
    const DURATION_PHRASE: &str = "the bursts take";

    fn slower_percent(&self) -> f64 {
        self.slower_percent()
    }

    fn sides(&self) -> [&Outcome; 2] {
        [&self.as_it_was, &self.variant]
    }

    fn full(outcome: &Outcome) -> &[Fullest] {
        &outcome.fullest
    }

    fn figures(page: &mut Page, outcomes: &[(String, &Outcome)]) {
        let row = |(name, it): &(String, &Outcome)| {
            let figures = [it.end_ms, it.busy_ms, it.slowest_mbps].map(|it| format!("{it:.1}"));
            let [end, busy, slowest] = figures;
            [name.clone(), end, busy, slowest]
        };
        page.table(
            ["", "ends after ms", "bursts in all ms", "slowest Mb/s"],
            outcomes.iter().map(row),
        );
    }

    fn preface(page: &mut Page, answer: &Answer<Self>) {
        let it = &answer.compared;
        let bursts = it.bursts.len();
        let Some(stretch) = &answer.stretch else {
            return page.line(&format!("{bursts} flows, as they were listed."));
        };
        page.line(&format!(
            "From {} to {}: {bursts} bursts, {} of them over unknown paths, and {} left out.",
            stretch.from, stretch.to, it.ways_unknown, it.left_out
        ));
        if stretch.covered_percent < 100.0 {
            let parts = stretch.covered.iter();
            let parts = parts.map(|it| format!("from {} to {}", it.from, it.to));
            let parts = parts.collect::<Vec<_>>().join(", ");
            let percent = stretch.covered_percent;
            page.line(&format!(
                "The history covers {percent:.1} % of that: {parts}."
            ));
        }
        if let (Some(mean), Some(worst)) = (it.mean_error, it.worst_error) {
            page.line(&format!(
                "The error of the model for the original is {:.1} % on average, {:.1} % at most.",
                mean * 100.0,
                worst * 100.0
            ));
        }
    }

    fn details(&self, page: &mut Page) {
        page.heading("Bursts, the largest first");
        let mut bursts: Vec<_> = self.bursts.iter().collect();
        bursts.sort_by_key(|it| std::cmp::Reverse(it.bytes));
        let figure = |it: f64| format!("{it:.1}");
        page.table(
            ["from", "to", "MB", "measured Mb/s", "as it was", "variant"],
            bursts.iter().take(MAX_ROWS).map(|it| {
                [
                    it.from.clone(),
                    it.to.clone(),
                    figure(it.bytes as f64 / 1e6),
                    it.measured_mbps.map_or_else(|| "-".to_owned(), figure),
                    figure(it.as_it_was_mbps),
                    figure(it.variant_mbps),
                ]
            }),
        );
    }
}

impl Sides for JobCompared {
    type Outcome = JobOutcome;
    const DURATION_PHRASE: &str = "an iteration takes";

    fn slower_percent(&self) -> f64 {
        self.slower_percent()
    }

    fn sides(&self) -> [&JobOutcome; 2] {
        [&self.as_it_was, &self.variant]
    }

    fn full(outcome: &JobOutcome) -> &[Fullest] {
        &outcome.fullest
    }

    fn figures(page: &mut Page, outcomes: &[(String, &JobOutcome)]) {
        let row = |(name, it): &(String, &JobOutcome)| {
            let mean = it.mean;
            let times = [mean.compute_ms, mean.exposed_ms, mean.stalled_ms];
            let [compute, exposed, stalled] = times.map(|it| format!("{it:.2}"));
            let iteration = format!("{:.2}", it.iteration_ms);
            [name.clone(), iteration, compute, exposed, stalled]
        };
        page.table(
            [
                "",
                "iteration ms",
                "computes",
                "waits for its own communication",
                "waits for others",
            ],
            outcomes.iter().map(row),
        );
    }

    fn preface(_: &mut Page, _: &Answer<Self>) {}

    fn details(&self, page: &mut Page) {
        let least = [&self.as_it_was, &self.variant].map(|it| it.bounds.most_ms());
        let [was, then] = least;
        page.line(&format!(
            "Lower bound of an iteration on any network: {was:.2} ms; in the variant {then:.2} ms."
        ));
    }
}
