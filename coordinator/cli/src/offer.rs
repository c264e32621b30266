//! `reweave apply` without an argument: shows the newest offered plan and asks for confirmation.

use std::io::{self, IsTerminal as _};

use reweave_common::operator::{Phase, Plan, Refused, RunningChange};
use reweave_common::plan::Generation;

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::names::Names;
use crate::page::Page;
use crate::show;
use crate::voice::print_as_is;

/// Returns the plan once it is confirmed. The session is closed before the question: an operator may read for minutes.
pub(crate) fn accepted(reach: &Reach, yes: bool) -> Result<Plan, CliError> {
    let plan = shown(&mut Coordinator::reach(reach)?, yes)?;
    let generation = plan.generation;
    if yes || is_yes(&answer(generation)) {
        Ok(plan)
    } else {
        Err(CliError::Declined { generation })
    }
}

/// Prints the plan on standard error, because the outcome is the data.
fn shown(coordinator: &mut Coordinator, yes: bool) -> Result<Plan, CliError> {
    let status = coordinator.status()?;
    let generation = newest(&status.changes).ok_or(CliError::Refused(Refused::NoPlan))?;
    let can_answer = io::stdin().is_terminal() && io::stderr().is_terminal();
    if !yes && !can_answer {
        return Err(CliError::Unconfirmed { generation });
    }
    let record = coordinator.record(generation)?;
    let mut page = Page::default();
    show::recorded(&mut page, &record, &Names::of(&status));
    print_as_is(&page.shown());
    Ok(record.plan)
}

fn newest(changes: &[RunningChange]) -> Option<Generation> {
    let offers = changes.iter().filter(|it| it.phase == Phase::Proposed);
    offers.map(|it| it.generation).max()
}

/// Reads the answer; empty at the end of standard input.
fn answer(generation: Generation) -> String {
    print_as_is(&format!("\napply plan {generation}? [y/N] "));
    let mut line = String::new();
    match io::stdin().read_line(&mut line) {
        Ok(_) => line,
        Err(_) => String::new(),
    }
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(generation: u64, phase: Phase) -> RunningChange {
        RunningChange {
            generation: Generation(generation),
            parent: Generation(1),
            phase,
            waiting_for: Vec::new(),
            reasons: Vec::new(),
            stopped_by: None,
            age_ms: 0,
        }
    }

    #[test]
    fn newest_offer_is_latest_proposed() {
        let changes = [
            change(4, Phase::Proposed),
            change(7, Phase::Proposed),
            change(6, Phase::Proposed),
            change(9, Phase::Applying),
        ];
        assert_eq!(newest(&changes), Some(Generation(7)));
        assert_eq!(newest(&changes[3..]), None);
    }

    #[test]
    fn only_clear_yes_applies() {
        for answer in ["y\n", "YES\n", " yes \n"] {
            assert!(is_yes(answer), "{answer:?}");
        }
        for answer in ["", "\n", "n\n", "yet\n", "7\n"] {
            assert!(!is_yes(answer), "{answer:?}");
        }
    }

    #[test]
    fn unconfirmed_apply_names_command() {
        let error = CliError::Unconfirmed {
            generation: Generation(7),
        };
        assert_eq!(error.exit_code(), 2);
        let said = error.error_chain();
        assert!(said.contains("`reweave apply 7`"), "{said}");
        assert!(said.contains("--yes"), "{said}");
    }
}
