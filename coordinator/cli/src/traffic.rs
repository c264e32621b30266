//! `reweave traffic`: the training traffic between hosts now, per rail.

use std::process::ExitCode;

use clap::Args;
use reweave_common::operator::{PairTraffic, PairTraffics, Request, Response};
use serde::Serialize;

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::page::Page;
use crate::report::Report;
use crate::{Detail, Output, print_report, show};

/// Maximum number of pairs that fit into one answer.
const MAX_PAIRS: u32 = 5_000;

/// List the training traffic between hosts, the most first
///
/// What hosts send each other now, per rail, by flows of their kernels and reports of their ranks; the most first.
/// Traffic of NICs for storage and management is not counted.
#[derive(Debug, Args)]
pub(crate) struct TrafficCommand {
    /// Only what NICs of this rail send
    #[arg(long, value_name = "N")]
    rail: Option<u16>,
    /// All pairs instead of the largest; JSON always has all
    #[arg(long)]
    all: bool,
    /// Only these hosts
    #[arg(value_name = "HOST")]
    hosts: Vec<String>,
}

impl TrafficCommand {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let mut coordinator = Coordinator::reach(reach)?;
        coordinator.knows(&self.hosts)?;
        let mut traffic = self.ask(&mut coordinator)?;
        traffic.pairs.retain(|pair| self.has(pair));
        let (rail, detail) = (self.rail, Detail { all: self.all });
        print_report(
            output,
            &TrafficAnswer {
                traffic,
                rail,
                detail,
            },
        )
    }

    fn ask(&self, coordinator: &mut Coordinator) -> Result<PairTraffics, CliError> {
        let (rail, most) = (self.rail, MAX_PAIRS);
        match coordinator.ask(&Request::Traffic { rail, most })? {
            Response::Traffic(traffic) => Ok(traffic),
            Response::Refused(refused) => Err(CliError::Refused(refused)),
            other => Err(CliError::unexpected(&other)),
        }
    }

    fn has(&self, pair: &PairTraffic) -> bool {
        let is_end = |host: &String| [&pair.from, &pair.to].contains(&host);
        self.hosts.is_empty() || self.hosts.iter().any(is_end)
    }
}

#[derive(Serialize)]
struct TrafficAnswer {
    #[serde(flatten)]
    traffic: PairTraffics,
    #[serde(skip)]
    rail: Option<u16>,
    #[serde(skip)]
    detail: Detail,
}

impl Report for TrafficAnswer {
    fn lay_out(&self, page: &mut Page) {
        let pairs = &self.traffic.pairs;
        if pairs.is_empty() {
            let on = self.rail.map(|rail| format!(" on rail {rail}"));
            let on = on.unwrap_or_default();
            return page.line(&format!("no host sends to another{on} now"));
        }
        let most = show::most_rows(self.detail);
        let rows = pairs.iter().take(most).map(row);
        page.table(["hosts", "rail", "flows", "rate"], rows);
        let more = pairs.len().saturating_sub(most);
        if more > 0 {
            page.line(&format!("  and {more} more; --all shows them"));
        }
    }
}

/// Traffic that ranks report has neither flows nor a rail. A flow of an unknown NIC has no rail.
fn row(pair: &PairTraffic) -> [String; 4] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let flows = (pair.flows > 0).then(|| pair.flows.to_string());
    [
        format!("{} > {}", pair.from, pair.to),
        or_dash(pair.rail.map(|rail| rail.to_string())),
        or_dash(flows),
        pair.rate_bits_per_s.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use reweave_common::units::Rate;

    use super::*;

    #[test]
    fn rank_traffic_has_no_rail() {
        let pair = |to: &str, rail, flows| PairTraffic {
            from: "h0".to_owned(),
            to: to.to_owned(),
            rail,
            flows,
            rate_bits_per_s: Rate::from_bits_per_s(2_000_000_000),
        };
        let pairs = vec![pair("h1", Some(3), 2), pair("h2", None, 0)];
        let answer = |pairs: Vec<PairTraffic>| TrafficAnswer {
            traffic: PairTraffics {
                all_pairs: pairs.len(),
                pairs,
            },
            rail: Some(3),
            detail: Detail { all: false },
        };
        let mut page = Page::default();
        answer(pairs).lay_out(&mut page);
        let shown = "  hosts    rail  flows      rate
  h0 > h1     3      2  2.0 Gb/s
  h0 > h2     -      -  2.0 Gb/s
";
        assert_eq!(page.text, shown);
        let mut empty = Page::default();
        answer(vec![]).lay_out(&mut empty);
        assert_eq!(empty.text, "no host sends to another on rail 3 now\n");
    }
}
