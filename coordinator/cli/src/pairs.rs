//! `reweave pairs`: measured bandwidth between hosts, compared with their peers.

use std::process::ExitCode;

use clap::Args;
use reweave_common::operator::{MeasuredPair, MeasuredPairs, Request, Response};

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::page::{Ink, Page, age};
use crate::report::Report;
use crate::{Output, print_data, print_report};

/// Maximum number of pairs that fit into one answer.
const MAX_PAIRS: u32 = 10_000;

/// List the measured bandwidth between hosts
///
/// Bandwidth between hosts, within and across racks, per rail; pairs far below their peers first
#[derive(Debug, Args)]
pub(crate) struct Pairs {
    /// Only these hosts
    #[arg(value_name = "HOST")]
    hosts: Vec<String>,
}

impl Pairs {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let mut coordinator = Coordinator::reach(reach)?;
        coordinator.knows(&self.hosts)?;
        let mut answer = ask(&mut coordinator)?;
        answer.pairs.retain(|pair| self.has(pair));
        match output {
            Output::Csv => print_data(&csv(&answer)),
            _ => print_report(output, &answer),
        }
    }

    fn has(&self, pair: &MeasuredPair) -> bool {
        let is_end = |host: &String| [&pair.from, &pair.to].contains(&host);
        self.hosts.is_empty() || self.hosts.iter().any(is_end)
    }
}

pub(crate) fn ask(coordinator: &mut Coordinator) -> Result<MeasuredPairs, CliError> {
    match coordinator.ask(&Request::Pairs { most: MAX_PAIRS })? {
        Response::Pairs(pairs) => Ok(pairs),
        Response::Refused(refused) => Err(CliError::Refused(refused)),
        other => Err(CliError::unexpected(&other)),
    }
}

/// Returns the table that `plan ranks --pairs` reads.
pub(crate) fn csv(answer: &MeasuredPairs) -> String {
    let row = |pair: &MeasuredPair| {
        let gbps = pair.rate_bits_per_s.gbps();
        format!("{},{},{},{gbps}\n", pair.from, pair.to, pair.rail)
    };
    let rows = answer.pairs.iter().map(row);
    ["from,to,rail,gbps\n".to_owned()]
        .into_iter()
        .chain(rows)
        .collect()
}

impl Report for MeasuredPairs {
    fn lay_out(&self, page: &mut Page) {
        if self.pairs.is_empty() {
            page.line("no measurement yet: packet trains run on idle links and take minutes");
            return;
        }
        let rows = self.pairs.iter().map(|pair| row(page, pair));
        let rows: Vec<_> = rows.collect();
        let headings = ["hosts", "rail", "", "bandwidth", "usual", "pairs", "last"];
        page.table(headings, rows);
    }
}

fn row(page: &Page, pair: &MeasuredPair) -> [String; 7] {
    let rate = pair.rate_bits_per_s.to_string();
    [
        format!("{} > {}", pair.from, pair.to),
        pair.rail.to_string(),
        if pair.in_rack { "in rack" } else { "across" }.to_owned(),
        if pair.is_slow {
            page.ink(Ink::Red, &rate)
        } else {
            rate
        },
        pair.usual_bits_per_s.to_string(),
        pair.peers.to_string(),
        age(pair.age_ms),
    ]
}
