//! New circuits after a failure, and whether they pay off.

use reweave_design::topology::{Choice, Moved, Proposal, Rewiring, RewiringMethod};
use serde::Serialize;

use crate::page::Page;
use crate::plan::summary::Summary;
use crate::report::Report;

#[derive(Debug, Serialize)]
pub(super) struct Rewired {
    /// Interval of the iteration time with the new routes alone.
    interval_ms: Option<[f64; 2]>,
    /// Candidates, fewest changed circuits first.
    rewired: Vec<Weighed>,
    /// Index of the candidate that pays off; absent if the routes alone are better.
    best: Option<usize>,
    /// Reason why no new plan could be made.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

#[derive(Debug, Serialize)]
struct Weighed {
    how: &'static str,
    /// Number of unchanged circuits.
    kept: usize,
    torn: usize,
    set: usize,
    pays: bool,
    why: String,
    #[serde(flatten)]
    summary: Summary,
}

impl Rewired {
    pub(super) fn of(rewiring: &Rewiring, repaired: &Proposal) -> Self {
        let estimate = repaired.estimate();
        let choices = rewiring.choices.iter().enumerate();
        let weighed = |(nth, choice)| Weighed::of(choice, rewiring, rewiring.best == Some(nth));
        Self {
            interval_ms: Some([estimate.low_ms, estimate.high_ms]),
            rewired: choices.map(weighed).collect(),
            best: rewiring.best,
            refused: rewiring.refused.as_ref().map(ToString::to_string),
        }
    }
}

impl Report for Rewired {
    fn lay_out(&self, page: &mut Page) {
        page.heading("Other circuits");
        if let Some([low, high]) = self.interval_ms {
            page.line(&format!(
                "  without any, an iteration takes {low:.2} to {high:.2} ms"
            ));
        }
        for it in &self.rewired {
            page.line(&format!(
                "  {}: {} circuits stay, {} go and {} come; an iteration takes {:.2} ms: {}",
                it.how, it.kept, it.torn, it.set, it.summary.iteration_ms, it.why
            ));
        }
        if let Some(refused) = &self.refused {
            page.line(&format!("  no new circuits: {refused}"));
        }
        let Some(best) = self.best else {
            page.line("  keep all circuits");
            return;
        };
        let best = &self.rewired[best];
        page.line(&format!("  worth it: {}", best.how));
        best.summary.show(page);
        best.summary.show_links(page);
    }
}

impl Weighed {
    /// Describes a candidate. Tables are left out unless it is the best.
    fn of(choice: &Choice, rewiring: &Rewiring, is_best: bool) -> Self {
        let Moved { kept, torn, set } = choice.moved;
        let hosts = rewiring.names.len() as u32;
        let all_hosts: Vec<_> = (0..if is_best { hosts } else { 0 }).collect();
        Self {
            how: match choice.way {
                RewiringMethod::Repaired => "repaired",
                RewiringMethod::Redesigned => "redesigned",
            },
            kept,
            torn,
            set,
            pays: choice.gain.pays(),
            why: choice.gain.reason(),
            summary: Summary::of(&choice.proposal, &rewiring.names, &all_hosts),
        }
    }
}
