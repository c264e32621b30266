//! `reweave plan shard`: allocates servers and circuits of a shared cluster to jobs.

mod besides;
mod show;
mod state;
mod training;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;

use clap::Args;
use reweave_design::cluster::{
    ClusterFile, Event, Fleet, Forming, Ground, Job, JobEntry, Step, Training,
};

use crate::error::CliError;
use crate::sim::{MAX_SIMULATION_WORK, input};
use crate::{Output, print_report};
use besides::Besides;
use show::Answer;
use state::State;
use training::Trained;

/// Allocate servers and circuits of a shared cluster to jobs: allocations, queue and changes
#[derive(Debug, Args)]
pub(crate) struct Shard {
    /// Cluster file: blocks of hosts with their ports, and the jobs to run
    cluster: PathBuf,
    /// Earlier output of this command with --output json: its jobs keep running
    #[arg(long, value_name = "FILE")]
    after: Option<PathBuf>,
    /// Time since that output
    #[arg(
        long,
        value_name = "S",
        requires = "after",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    elapsed_s: f64,
    /// Seed; another seed may find other circuits that are as good
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Jobs run over this packet fabric instead of circuits: print how to shift jobs that share links in time
    #[arg(long, value_name = "FABRIC")]
    over: Option<PathBuf>,
    /// Also every circuit, how hosts forward for each other, and a comparison with a fat tree
    #[arg(long)]
    explain: bool,
}

impl Shard {
    pub(crate) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        let text = input::text(&self.cluster)?;
        let file = ClusterFile::parse(&self.cluster.display().to_string(), &text);
        let file = file.map_err(CliError::Input)?;
        let jobs = self.jobs(&file.ground, &file.jobs)?;
        let mut fleet = Fleet::new(Forming::new(file.ground, self.seed, MAX_SIMULATION_WORK));
        let ended = self.resume(&mut fleet, &jobs)?;
        let steps = settle(&mut fleet, &jobs);
        let besides = Besides {
            fleet: &fleet,
            entries: &file.jobs,
            folder: self.cluster.parent().unwrap_or(Path::new("")),
        };
        let mut answer = Answer::new(&fleet, ended, steps, self.explain)?;
        answer.experts = besides.experts()?;
        if self.explain {
            answer.degrees = besides.degrees();
        }
        if let Some(fabric) = &self.over {
            answer.together = besides.together(fabric)?;
        }
        print_report(output, &answer)
    }

    fn jobs(&self, ground: &Ground, entries: &[JobEntry]) -> Result<Vec<Job>, CliError> {
        let folder = self.cluster.parent().unwrap_or(Path::new(""));
        let mut known: BTreeMap<_, Rc<dyn Training>> = BTreeMap::new();
        let mut jobs = Vec::new();
        for entry in entries {
            let alike = (&entry.file, entry.gates.is_some(), entry.gate_ports);
            let training = match known.get(&alike) {
                Some(training) => Rc::clone(training),
                None => {
                    let file = folder.join(&entry.file);
                    let kept = |ports| kept_ports(entry, ports);
                    Rc::new(Trained::read(&file, ground, kept, self.seed)?)
                }
            };
            known.insert(alike, Rc::clone(&training));
            jobs.push(Job {
                name: entry.name.clone(),
                training,
                servers: entry.servers,
                iterations: entry.iterations,
            });
        }
        Ok(jobs)
    }

    /// Resumes the jobs that ran before and are still wanted. Returns the names of the ended jobs.
    fn resume(&self, fleet: &mut Fleet, jobs: &[Job]) -> Result<Vec<String>, CliError> {
        let Some(path) = &self.after else {
            return Ok(Vec::new());
        };
        let option = "--elapsed-s";
        if !(0.0..=MAX_ELAPSED_S).contains(&self.elapsed_s) {
            let value = self.elapsed_s;
            return Err(CliError::BadOption { option, value });
        }
        let ended = State::read(path)?.resume(fleet, jobs, path)?;
        fleet.now_ms = self.elapsed_s * 1e3;
        Ok(ended)
    }
}

/// Returns the ports reserved for experts: by default half of all ports.
fn kept_ports(entry: &JobEntry, ports: usize) -> usize {
    match (&entry.gates, entry.gate_ports) {
        (None, _) => 0,
        (Some(_), Some(kept)) => kept.min(ports),
        (Some(_), None) => ports / 2,
    }
}

/// Ten years in seconds.
const MAX_ELAPSED_S: f64 = 3.2e8;

/// Admits new jobs, and resizes jobs that ask for other numbers of servers.
fn settle(fleet: &mut Fleet, jobs: &[Job]) -> Vec<Step> {
    let events: Vec<_> = jobs.iter().filter_map(|job| event(fleet, job)).collect();
    fleet.handle_all(fleet.now_ms, events)
}

fn event(fleet: &Fleet, job: &Job) -> Option<Event> {
    let running = fleet.running.iter().map(|it| &it.job);
    let mut all = running.chain(fleet.waiting.iter().map(|it| &it.job));
    match all.find(|it| it.name == job.name).map(|it| it.servers) {
        None => Some(Event::Arrive(job.clone())),
        Some(servers) if servers != job.servers => Some(Event::Resize {
            job: job.name.clone(),
            servers: job.servers,
        }),
        Some(_) => None,
    }
}
