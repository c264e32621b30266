//! `reweave plan repair`: new routes after a failure in a topology, and new circuits if they pay off.

mod given;
mod rewired;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use reweave_common::iteration::Iteration;
use reweave_design::cluster::Switching;
use reweave_design::crew::NO_DEADLINE;
use reweave_design::topology::prices::PUBLISHED_PRICES;
use reweave_design::topology::{self, Design, Failed, Job, Proposal, Request, Worth};
use reweave_sim::workload::job::Losses;
use reweave_sim::workload::job::Work;
use serde::Serialize;

use super::crew::Cores;
use super::explained::{Explained, Market, Subject};
use super::summary::Summary;
use super::tables;
use super::topology::{others_as_given, place};
use crate::error::CliError;
use crate::page::Page;
use crate::report::Report;
use crate::{Output, document, print_data};
use given::Given;
use rewired::Rewired;

/// Reroute at once when part of a topology fails, then move circuits if that pays off
#[derive(Debug, Args)]
pub(crate) struct Repair {
    /// Output of `plan topology --output json`
    plan: PathBuf,
    /// Failed element: a link as in h0-h1, the port of h0 at it as in h0:h1, a host as in h0, or a panel as in panel0;
    /// may be repeated
    #[arg(long, required = true, value_name = "WHAT")]
    failed: Vec<String>,
    /// Remaining iterations of the job: circuits are moved only if that saves more time than it costs
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    iterations: Option<u64>,
    /// Technology that moves circuits: patch-panel, 3d-mems, 2d-mems or silicon-photonic
    #[arg(long, value_name = "WHAT", default_value = "patch-panel", value_parser = switching)]
    switching: Switching,
    /// Also the effect of further failures, and alternatives
    #[arg(long)]
    explain: bool,
}

fn switching(name: &str) -> Result<Switching, String> {
    let known = Switching::SWITCHING_TIMES
        .map(|(known, _)| known)
        .join(", ");
    Switching::named(name).ok_or_else(|| format!("it is none of {known}"))
}

/// The reroute that is done at once.
#[derive(Debug, Serialize)]
struct AtOnce {
    failed: Vec<String>,
    /// Iteration time in ms as the plan predicted.
    before_ms: f64,
    /// Time in ms to compute the routes.
    planning_ms: f64,
    /// Hosts whose tables change.
    changed: Vec<String>,
    /// Parts of the job that are lost with failed hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    losses: Option<Losses>,
    #[serde(flatten)]
    summary: Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    explained: Option<Explained>,
}

/// A plan with failed elements.
struct Broken<'b> {
    given: &'b Given,
    design: Design,
    request: Request,
    work: Work,
    place: Vec<u32>,
    failed: Vec<Failed>,
}

impl Repair {
    /// Prints the routes before it searches for other circuits.
    pub(crate) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        let given = Given::read(&self.plan)?;
        let broken = self.broken(&given)?;
        let began = Instant::now();
        let repaired = broken.repaired()?;
        let planning_ms = began.elapsed().as_secs_f64() * 1e3;
        let proposal = repaired.proposal(&broken.job(), &broken.request);
        let mut proposal = proposal.map_err(CliError::Topology)?;
        let at_once = AtOnce {
            failed: self.each_once(),
            before_ms: given.iteration_ms,
            planning_ms,
            changed: repaired.changed.iter().copied().map(tables::name).collect(),
            losses: broken.losses()?,
            summary: Summary::of(&proposal, &broken.all(), &repaired.changed),
            explained: if self.explain {
                Some(broken.explained(&proposal, &repaired.iteration)?)
            } else {
                None
            },
        };
        print_data(&document(output, &at_once)?)?;
        let rewired = self.rewired(&broken, &mut proposal, &repaired.iteration)?;
        print_data(&document(output, &rewired)?)
    }

    /// Removes duplicate names of failed elements.
    fn each_once(&self) -> Vec<String> {
        let mut known = BTreeSet::new();
        let failed = self.failed.iter().filter(|name| known.insert(*name));
        failed.cloned().collect()
    }

    fn broken<'b>(&self, given: &'b Given) -> Result<Broken<'b>, CliError> {
        let failed = self.failed.iter().map(|name| given.failed(name));
        let work = given.work()?;
        Ok(Broken {
            design: given.design(),
            request: given.asked.ports.request()?,
            place: place(&work),
            failed: failed.collect::<Result<_, _>>()?,
            given,
            work,
        })
    }

    fn rewired(
        &self,
        broken: &Broken<'_>,
        proposal: &mut Proposal,
        left: &Iteration,
    ) -> Result<Rewired, CliError> {
        let (job, request) = (broken.job(), &broken.request);
        let interval = proposal.interval_of(&broken.job_of(left), request, &mut |_| true);
        interval.map_err(CliError::Topology)?;
        let worth = Worth {
            iterations: self.iterations.map(|it| it as f64),
            cost_ms: &|moved| self.switching.time_ms(moved),
        };
        let (before, failed) = (&broken.design, &broken.failed);
        let found = topology::rewire(before, proposal, &job, request, failed, worth, &Cores);
        Ok(Rewired::of(&found.map_err(CliError::Topology)?, proposal))
    }
}

impl Broken<'_> {
    fn job(&self) -> Job<'_> {
        self.job_of(&self.work.iteration)
    }

    fn job_of<'j>(&'j self, iteration: &'j Iteration) -> Job<'j> {
        Job {
            iteration,
            place: &self.place,
            settings: &self.work.settings,
        }
    }

    fn all(&self) -> Vec<u32> {
        (0..self.request.limits.hosts() as u32).collect()
    }

    fn repaired(&self) -> Result<topology::Repair, CliError> {
        let (job, request) = (self.job(), &self.request);
        let before = Some(&self.given.routes);
        let repaired = topology::repair(&self.design, before, &job, request, &self.failed);
        repaired.map_err(CliError::Topology)
    }

    fn losses(&self) -> Result<Option<Losses>, CliError> {
        let dead = topology::lost_hosts(&self.failed);
        (!dead.is_empty())
            .then(|| self.given.losses(&dead))
            .transpose()
    }

    /// Explains the proposal. `left` is the iteration on the remaining hosts.
    fn explained(&self, proposal: &Proposal, left: &Iteration) -> Result<Explained, CliError> {
        let (job, request) = (self.job_of(left), &self.request);
        let market = Market {
            others: others_as_given(&job, request, &PUBLISHED_PRICES, NO_DEADLINE)?,
            priced: false,
            bill: PUBLISHED_PRICES,
        };
        let subject = Subject {
            proposal,
            job: &job,
            request,
            names: &self.all(),
            losses: &|dead| self.given.losses(dead).ok(),
            in_time: NO_DEADLINE,
        };
        Ok(Explained::of(&subject, market))
    }
}

impl Report for AtOnce {
    fn lay_out(&self, page: &mut Page) {
        page.heading("Immediate routes");
        page.line(&format!(
            "  without {}, an iteration takes {:.2} ms instead of {:.2} ms",
            self.failed.join(" and "),
            self.summary.iteration_ms,
            self.before_ms
        ));
        if let Some(losses) = &self.losses {
            page.line(&format!("  {losses}"));
        }
        page.line(&format!(
            "  {} another table; found in {:.1} ms",
            match self.changed.len() {
                1 => "1 host needs".to_owned(),
                many => format!("{many} hosts need"),
            },
            self.planning_ms
        ));
        self.summary.show(page);
        if let Some(explained) = &self.explained {
            self.summary.show_lengths(page);
            explained.show(page);
        }
    }
}
