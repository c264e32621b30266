//! `reweave audit`: requests of operators, with time, requester and result.

mod verify;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use reweave_common::operator::{AuditOutcome, Audited, Request, Response};
use serde::Serialize;

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::page::{Ink, Page};
use crate::report::Report;
use crate::{Output, print_report};

/// List operator requests, or verify the audit log
///
/// Operator requests with time, requester and result, newest first
///
/// Shows the log of the current leader, for every interface. Requests that another coordinator handled are in the log
/// of that coordinator.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Audit {
    #[command(subcommand)]
    command: Option<AuditCommand>,
    /// Maximum number of entries
    #[arg(long, value_name = "N", default_value_t = 50)]
    most: usize,
    /// Only refused requests
    #[arg(long)]
    refused: bool,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    Verify(verify::Verify),
}

#[derive(Serialize)]
struct Answer {
    audit: Vec<Audited>,
}

/// Maximum length of a table cell.
const MAX_CELL_CHARS: usize = 100;

impl Audit {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        if let Some(AuditCommand::Verify(verify)) = &self.command {
            return verify.run(output);
        }
        let mut coordinator = Coordinator::reach(reach)?;
        let audit = self.collect(&mut coordinator)?;
        print_report(output, &Answer { audit })
    }

    /// Collects the entries page by page.
    fn collect(&self, coordinator: &mut Coordinator) -> Result<Vec<Audited>, CliError> {
        let (mut all, mut before) = (Vec::new(), None);
        while all.len() < self.most {
            match coordinator.ask(&Request::Audit { before })? {
                Response::Audit(older) if older.is_empty() => break,
                Response::Audit(older) => {
                    before = older.last().map(|oldest| oldest.number);
                    all.extend(older.into_iter().filter(|it| self.wants(it)));
                }
                Response::Refused(refused) => return Err(CliError::Refused(refused)),
                other => return Err(CliError::unexpected(&other)),
            }
        }
        all.truncate(self.most);
        Ok(all)
    }

    fn wants(&self, audited: &Audited) -> bool {
        !self.refused || audited.outcome == AuditOutcome::Refused
    }
}

impl Report for Answer {
    fn lay_out(&self, page: &mut Page) {
        if self.audit.is_empty() {
            return page.line("no requests");
        }
        let rows = self.audit.iter().map(|it| row(page, it));
        let rows: Vec<_> = rows.collect();
        page.table(["when", "who", "what", "", "why"], rows);
    }
}

fn row(page: &Page, audited: &Audited) -> [String; 5] {
    let Audited {
        at,
        who,
        what,
        outcome,
        why,
        times,
        ..
    } = audited;
    let what = match times {
        1 => what.clone(),
        times => format!("{what} ({times} times)"),
    };
    let outcome = match outcome {
        AuditOutcome::Done => outcome.as_str().to_owned(),
        AuditOutcome::Refused => page.ink(Ink::Red, outcome.as_str()),
    };
    let why = why.clone().unwrap_or_default();
    // Seconds are enough for a table; JSON has the full timestamp.
    let at = at.get(..19).unwrap_or(at).replace('T', " ");
    [at, clipped(who), clipped(&what), outcome, clipped(&why)]
}

/// Names may have any length; table cells may not.
fn clipped(words: &str) -> String {
    match words.char_indices().nth(MAX_CELL_CHARS) {
        Some((end, _)) => format!("{}… (whole in JSON)", &words[..end]),
        None => words.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_keep_rows_narrow() {
        let asked = |what: String| Audited {
            number: 1,
            at: "2026-11-20T14:00:00Z".to_owned(),
            who: "ada".to_owned(),
            what,
            outcome: AuditOutcome::Done,
            why: None,
            times: 1,
            seal: None,
            digest: String::new(),
        };
        let long = asked(format!("register the job {}", "ä".repeat(5000)));
        let mut page = Page::default();
        let audit = vec![long, asked("approve plan 3".to_owned())];
        Answer { audit }.lay_out(&mut page);
        let width = page.text.lines().map(|line| line.chars().count()).max();
        assert!(width < Some(170), "{}", page.text);
        assert!(page.text.contains("… (whole in JSON)"), "{}", page.text);
        assert!(page.text.contains("approve plan 3"), "{}", page.text);
    }
}
