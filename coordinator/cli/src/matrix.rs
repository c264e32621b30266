//! `reweave matrix`: latency, loss and bandwidth between hosts, of all rails or one.

use std::process::ExitCode;

use clap::Args;
use reweave_common::operator::{Matrix, MatrixCell, Request, Response};
use reweave_common::units::Rate;
use serde::Serialize;

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::page::{Ink, Page, micros};
use crate::report::Report;
use crate::{Detail, Output, print_report, show};

/// Maximum number of pairs that fit into one answer.
const MAX_PAIRS: u32 = 20_000;

/// Show latency, loss and bandwidth between hosts
///
/// Latency and loss by probes, and bandwidth by packet trains, from each host to each other; the worst pairs first
#[derive(Debug, Args)]
pub(crate) struct MatrixCommand {
    /// Only between NICs of this rail
    #[arg(long, value_name = "N")]
    rail: Option<u16>,
    /// All pairs instead of the worst; JSON always has all
    #[arg(long)]
    all: bool,
    /// Only these hosts
    #[arg(value_name = "HOST")]
    hosts: Vec<String>,
}

impl MatrixCommand {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let mut coordinator = Coordinator::reach(reach)?;
        coordinator.knows(&self.hosts)?;
        let mut matrix = ask(&mut coordinator, self.rail)?;
        let Matrix { hosts, cells } = &mut matrix;
        cells.retain(|cell| self.has(hosts, cell));
        cells.sort_by(|one, other| badness(other).total_cmp(&badness(one)));
        let (rail, detail) = (self.rail, Detail { all: self.all });
        print_report(
            output,
            &MatrixAnswer {
                matrix,
                rail,
                detail,
            },
        )
    }

    fn has(&self, hosts: &[String], cell: &MatrixCell) -> bool {
        let ends = [cell.from, cell.to].map(|end| name(hosts, end));
        let is_end = |host: &String| ends.contains(&host.as_str());
        self.hosts.is_empty() || self.hosts.iter().any(is_end)
    }
}

/// Returns the matrix of all rails, or of one.
pub(crate) fn ask(coordinator: &mut Coordinator, rail: Option<u16>) -> Result<Matrix, CliError> {
    let most = MAX_PAIRS;
    let request = match rail {
        Some(rail) => Request::RailMatrix { rail, most },
        None => Request::Matrix { most },
    };
    match coordinator.ask(&request)? {
        Response::Matrix(matrix) => Ok(matrix),
        Response::Refused(refused) => Err(CliError::Refused(refused)),
        other => Err(CliError::unexpected(&other)),
    }
}

fn name(hosts: &[String], host: u32) -> &str {
    hosts.get(host as usize).map_or("", String::as_str)
}

/// Loss counts before latency.
fn badness(cell: &MatrixCell) -> f64 {
    let lost = cell.lost_share.unwrap_or_default();
    lost * 1e12 + cell.median_us.unwrap_or_default()
}

#[derive(Serialize)]
struct MatrixAnswer {
    #[serde(flatten)]
    matrix: Matrix,
    #[serde(skip_serializing_if = "Option::is_none")]
    rail: Option<u16>,
    #[serde(skip)]
    detail: Detail,
}

impl Report for MatrixAnswer {
    fn lay_out(&self, page: &mut Page) {
        let Matrix { hosts, cells } = &self.matrix;
        if cells.is_empty() {
            let on = self.rail.map(|rail| format!(" on rail {rail}"));
            let on = on.unwrap_or_default();
            return page.line(&format!("no host probes another{on}"));
        }
        let most = show::most_rows(self.detail);
        let rows = cells.iter().take(most).map(|cell| row(page, hosts, cell));
        let rows: Vec<_> = rows.collect();
        let headings = ["hosts", "loss", "round trip", "p99", "bandwidth"];
        page.table(headings, rows);
        let more = cells.len().saturating_sub(most);
        if more > 0 {
            page.line(&format!("  and {more} more; --all shows them"));
        }
    }
}

fn row(page: &Page, hosts: &[String], cell: &MatrixCell) -> [String; 5] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let loss = cell.lost_share.map(|share| {
        let percent = format!("{:.2} %", 100.0 * share);
        if share > 0.0 {
            page.ink(Ink::Red, &percent)
        } else {
            percent
        }
    });
    let rate = cell.rate_bits_per_s.map(Rate::from_bits_per_s);
    let ends = [cell.from, cell.to].map(|end| name(hosts, end));
    [
        ends.join(" > "),
        or_dash(loss),
        or_dash(cell.median_us.map(micros)),
        or_dash(cell.p99_us.map(micros)),
        or_dash(rate.map(|rate| rate.to_string())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrix_rows_are_pairs() {
        let cell = |from, to, lost_share, rate_bits_per_s| MatrixCell {
            from,
            to,
            median_us: Some(20.0),
            p99_us: None,
            lost_share,
            rate_bits_per_s,
        };
        let matrix = Matrix {
            hosts: ["h0", "h1"].map(str::to_owned).to_vec(),
            cells: vec![
                cell(1, 0, Some(0.5), Some(1_000_000_000)),
                cell(0, 1, Some(0.0), None),
            ],
        };
        assert!(badness(&matrix.cells[0]) > badness(&matrix.cells[1]));
        let mut page = Page::default();
        let answer = |matrix, rail| MatrixAnswer {
            matrix,
            rail,
            detail: Detail { all: false },
        };
        answer(matrix, Some(1)).lay_out(&mut page);
        let lines: Vec<_> = page.text.lines().collect();
        assert!(lines[1].contains("h1 > h0") && lines[1].contains("50.00 %"));
        assert!(lines[1].ends_with("1.0 Gb/s"), "{}", lines[1]);
        assert!(lines[2].contains("h0 > h1") && lines[2].ends_with('-'));
        let mut empty = Page::default();
        answer(Matrix::default(), Some(9)).lay_out(&mut empty);
        assert_eq!(empty.text, "no host probes another on rail 9\n");
    }
}
