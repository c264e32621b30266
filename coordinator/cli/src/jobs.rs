//! `reweave jobs`: jobs with their hosts, iteration times and rates.

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::Args;
use reweave_common::operator::{JobStatus, Promise, RegisteredJob, Request, Response};
use reweave_common::units::Rate;
use reweave_formats::hostlist::fold;
use serde::Serialize;

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::page::{Ink, Page, age};
use crate::report::Report;
use crate::{Output, print_report};

/// List jobs as their traffic shows them
///
/// Jobs derived from traffic: hosts, iteration time, rates, and predicted against measured rates
#[derive(Debug, Args)]
pub(crate) struct Jobs {
    /// Only jobs of these hosts
    #[arg(value_name = "HOST")]
    hosts: Vec<String>,
}

#[derive(Serialize)]
struct JobList {
    jobs: Vec<JobStatus>,
    registered: Vec<RegisteredJob>,
}

impl Report for JobList {
    fn lay_out(&self, page: &mut Page) {
        lay_out(page, &self.jobs);
        lay_out_registered(page, &self.registered);
    }

    fn lay_out_wide(&self, page: &mut Page) {
        lay_out_wide(page, &self.jobs);
        lay_out_registered(page, &self.registered);
    }

    /// Returns the names of a job, because a registered job may be one that traffic shows.
    fn names(&self) -> Vec<String> {
        let registered = self.registered.iter().map(|it| &it.job);
        let mut known = BTreeSet::new();
        let all = self.jobs.iter().map(|it| &it.job).chain(registered);
        all.filter(|name| known.insert(*name)).cloned().collect()
    }
}

impl Jobs {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let mut coordinator = Coordinator::reach(reach)?;
        coordinator.knows(&self.hosts)?;
        let mut jobs = match coordinator.ask(&Request::Jobs)? {
            Response::Jobs(jobs) => jobs,
            Response::Refused(refused) => return Err(CliError::Refused(refused)),
            other => return Err(CliError::unexpected(&other)),
        };
        jobs.retain(|job| {
            self.hosts.is_empty() || self.hosts.iter().any(|it| job.hosts.contains(it))
        });
        let mut registered = match coordinator.ask(&Request::Registered)? {
            Response::Registered(registered) => registered,
            Response::Refused(refused) => return Err(CliError::Refused(refused)),
            other => return Err(CliError::unexpected(&other)),
        };
        registered.retain(|job| {
            self.hosts.is_empty() || self.hosts.iter().any(|it| job.hosts.contains(it))
        });
        print_report(output, &JobList { jobs, registered })
    }
}

fn lay_out(page: &mut Page, jobs: &[JobStatus]) {
    if jobs.is_empty() {
        return page.line("no large flows are seen now");
    }
    let rows: Vec<_> = jobs.iter().map(|job| row(page, job)).collect();
    let headings = [
        "job",
        "hosts",
        "iteration",
        "rests",
        "rate",
        "slowest",
        "promised",
        "seen for",
    ];
    page.table(headings, rows);
}

/// Adds the flows and the hosts of each job.
fn lay_out_wide(page: &mut Page, jobs: &[JobStatus]) {
    if jobs.is_empty() {
        return lay_out(page, jobs);
    }
    let wide = |job: &JobStatus| {
        let [name, hosts, iteration, rests, rate, slowest, promised, seen] = row(page, job);
        let [flows, sending] = [job.flows, job.sending].map(|count| count.to_string());
        let named = fold(job.hosts.iter().map(String::as_str));
        [
            name, hosts, iteration, rests, rate, slowest, promised, seen, flows, sending, named,
        ]
    };
    let rows: Vec<_> = jobs.iter().map(wide).collect();
    let headings = [
        "job",
        "hosts",
        "iteration",
        "rests",
        "rate",
        "slowest",
        "promised",
        "seen for",
        "flows",
        "sending",
        "host names",
    ];
    page.table(headings, rows);
}

fn lay_out_registered(page: &mut Page, jobs: &[RegisteredJob]) {
    if jobs.is_empty() {
        return;
    }
    page.heading("Registered");
    let row = |job: &RegisteredJob| {
        let phase = job.phase.as_ref();
        let phase = phase.map_or("-", |phase| &phase.name).to_owned();
        let [since, silent] = [job.age_ms, job.silent_ms].map(age);
        let hosts = fold(job.hosts.iter().map(String::as_str));
        [job.job.clone(), hosts, phase, job.by.clone(), since, silent]
    };
    let headings = ["job", "hosts", "phase", "by", "since", "silent for"];
    page.table(headings, jobs.iter().map(row));
}

fn row(page: &Page, job: &JobStatus) -> [String; 8] {
    let or_dash = |words: Option<String>| words.unwrap_or_else(|| "-".to_owned());
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    [
        job.job.clone(),
        job.hosts.len().to_string(),
        or_dash(job.iteration_ms.map(|ms| format!("{ms:.0} ms"))),
        match job.sending {
            0 => "now".to_owned(),
            _ => or_dash(job.rest_share.map(percent)),
        },
        job.rate_bits_per_s.to_string(),
        or_dash(job.slowest_bits_per_s.map(|rate| rate.to_string())),
        or_dash(job.promise.as_ref().map(|promise| promised(page, promise))),
        age(job.seen_for_ms),
    ]
}

/// Red if the promise is not kept.
fn promised(page: &Page, promise: &Promise) -> String {
    let [low, high]: [Rate; 2] = promise.predicted_bits_per_s;
    let words = format!("{low} .. {high}");
    if promise.achieved_bits_per_s < low {
        page.ink(
            Ink::Red,
            &format!("{words}, has {}", promise.achieved_bits_per_s),
        )
    } else {
        words
    }
}

#[cfg(test)]
mod tests {
    use reweave_common::plan::Generation;

    use super::*;

    fn mbps(rate: u64) -> Rate {
        Rate::from_bits_per_s(rate * 1_000_000)
    }

    #[test]
    fn job_shows_promise_and_rest() {
        let promise = Promise {
            generation: Generation(3),
            flows: 2,
            predicted_bits_per_s: [mbps(190), mbps(200)],
            achieved_bits_per_s: mbps(99),
        };
        let busy = JobStatus {
            job: "h0 and h4".to_owned(),
            hosts: ["h0", "h4"].map(str::to_owned).to_vec(),
            flows: 2,
            sending: 2,
            rate_bits_per_s: mbps(198),
            slowest_bits_per_s: Some(mbps(99)),
            iteration_ms: Some(420.4),
            rest_share: Some(0.25),
            seen_for_ms: 61_000,
            promise: Some(promise),
        };
        let rests = JobStatus {
            job: "h1 and 2 others".to_owned(),
            hosts: ["h1", "h2", "h3"].map(str::to_owned).to_vec(),
            flows: 3,
            sending: 0,
            rate_bits_per_s: mbps(0),
            slowest_bits_per_s: None,
            iteration_ms: None,
            rest_share: None,
            seen_for_ms: 0,
            promise: None,
        };
        let mut page = Page::default();
        lay_out(&mut page, &[busy, rests]);
        let rows = [
            "  job              hosts  iteration  rests        rate    slowest                                 promised  seen for",
            "  h0 and h4            2     420 ms  25 %   198.0 Mb/s  99.0 Mb/s  190.0 Mb/s .. 200.0 Mb/s, has 99.0 Mb/s      61 s",
            "  h1 and 2 others      3          -  now        0 kb/s          -                                        -     0.0 s",
        ];
        assert_eq!(page.text.lines().collect::<Vec<_>>(), rows);
    }
}
