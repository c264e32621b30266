//! `reweave sim flows`: flows between the hosts of a fabric, or their times in variants of it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use reweave_common::fabric::Fabric;
use reweave_sim::engine::Outcome;
use reweave_sim::engine::flows;
use reweave_sim::engine::network::Network;
use reweave_sim::sandbox::{Traffic, compare};
use serde::Serialize;

use super::costs::{Costs, Hashing};
use super::effort::Effort;
use super::input;
use super::variants::{Allowed, Base};
use crate::error::CliError;
use crate::page::{Page, micros};
use crate::report::Report;
use crate::{Output, print_report};

#[derive(Debug, Args)]
pub(crate) struct Flows {
    /// Flow table: src,dst,bytes,start_us[,after][,path][,sport,dport,proto]
    flows: PathBuf,
    /// Fabric file
    #[arg(long, value_name = "FABRIC")]
    fabric: PathBuf,
    /// Compare with this variant, as `sim history` does; may be repeated
    #[arg(long = "with", value_name = "VARIANT.toml")]
    variants: Vec<PathBuf>,
    #[command(flatten)]
    allowed: Allowed,
    #[command(flatten)]
    costs: Costs,
    #[command(flatten)]
    hashing: Hashing,
    #[command(flatten)]
    effort: Effort,
}

#[derive(Serialize)]
struct Answer<'f> {
    makespan_us: f64,
    flows: Vec<Flow>,
    events: u64,
    wall_ms: f64,
    #[serde(skip)]
    asked: &'f flows::Flows,
    #[serde(skip)]
    fabric: &'f Fabric,
}

#[derive(Serialize)]
struct Flow {
    id: usize,
    fct_us: f64,
}

impl Flows {
    pub(super) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        if !self.variants.is_empty() {
            return self.compare(output);
        }
        let fabric = input::lit(&self.fabric)?;
        let network = Network::of(&fabric, self.costs.known().ok_or(CliError::NoPayload)?);
        let name = self.flows.display().to_string();
        let text = input::text(&self.flows)?;
        let flows = flows::parse(&name, &text, &fabric, &network, &self.hashing.ecmp());
        let flows = flows.map_err(CliError::Input)?;
        let (outcome, wall_ms) = self.effort.simulate(&flows.problem)?;
        print_report(output, &Answer::new(&flows, &fabric, &outcome, wall_ms))
    }

    fn compare(&self, output: Output) -> Result<ExitCode, CliError> {
        let fabric = input::lit(&self.fabric)?;
        let costs = self.costs.known().ok_or(CliError::NoPayload)?;
        let (name, text) = (self.flows.display().to_string(), input::text(&self.flows)?);
        let traffic = Traffic::listed(&name, &text, &fabric, &costs, self.hashing.ecmp());
        let traffic = traffic.map_err(CliError::Input)?;
        let base = Base {
            fabric: Some(&self.fabric),
            ..Base::default()
        };
        let limit = self.effort.limit();
        let answers = base.read_all(&self.variants)?.into_iter().map(|read| {
            read.played(costs.clone(), limit, &name, |effort| {
                compare(&traffic, &read.variant, effort)
            })
        });
        let answers: Vec<_> = answers.collect::<Result<_, _>>()?;
        self.allowed.judged(&answers, output)
    }
}

impl<'f> Answer<'f> {
    fn new(asked: &'f flows::Flows, fabric: &'f Fabric, outcome: &Outcome, wall_ms: f64) -> Self {
        let times = asked.completion_times(outcome).into_iter().enumerate();
        let flows = times.map(|(id, time)| Flow {
            id,
            fct_us: time.micros(),
        });
        Self {
            makespan_us: outcome.makespan().micros(),
            flows: flows.collect(),
            events: outcome.events,
            wall_ms,
            asked,
            fabric,
        }
    }
}

impl Report for Answer<'_> {
    fn lay_out(&self, page: &mut Page) {
        let rows = self.flows.iter().zip(&self.asked.listed);
        let rows = rows.map(|(flow, listed)| {
            let [from, to] = listed.ends.map(|node| self.fabric.name(node).to_owned());
            [flow.id.to_string(), from, to, micros(flow.fct_us)]
        });
        page.table(["flow", "from", "to", "took"], rows);
        let events = self.events;
        page.line(&format!(
            "all done after {}, {events} events",
            micros(self.makespan_us)
        ));
    }
}
