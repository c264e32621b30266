//! `reweave run`: runs a command as one job, from registration to end. The command runs even if the coordinator fails.

mod asker;
mod attended;
mod carried;
mod nccl;
mod plugin;
mod surroundings;

use std::ffi::OsString;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs};

use clap::Args;
use reweave_formats::hostlist::HostlistError;

use crate::ask::Reach;
use crate::duration::{self, MILLISECOND, MINUTE};
use crate::error::CliError;
use crate::job::order::Topology;
use crate::job::{Hostlist, hostlist};
use crate::voice::print_note;
use asker::{Asker, Task};
use attended::Attendant;
use surroundings::{Surroundings, place};

/// Run a command as one job
///
/// Run a command as one job: registered, with its ranks in the best order, and ended with the command
///
/// Signals are forwarded to the command. Exits with the exit code of the command, or with 128 plus the number of the
/// signal that ended it. If no coordinator answers in time, the command runs unchanged. docs/schedulers.md lists the
/// environment variables that the command gets.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Name of the job [default: slurm- and SLURM_JOB_ID, else run- and the number of this process]
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Hosts, as a Slurm hostlist: node[01-04,07]; without hosts, no coordinator is asked [default: SLURM_JOB_NODELIST]
    #[arg(long, value_name = "LIST", value_parser = hostlist)]
    hosts: Option<Hostlist>,
    /// This host among the hosts of the job [default: the name of this machine]
    #[arg(long, value_name = "HOST", env = "SLURMD_NODENAME")]
    node: Option<String>,
    /// Ranks per host; SLURM_HOSTFILE then gets one line per rank
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    slots: Option<u16>,
    /// What may be changed for the job while it runs
    #[arg(long, value_enum, default_value_t = Topology::None)]
    topology: Topology,
    /// Time limit for a coordinator to answer before the command starts without one, and for the end of the job to be
    /// reported; a bare number is in milliseconds
    #[arg(long = "max-wait-ms", value_name = "TIME", default_value = "1200ms", value_parser = max_wait)]
    max_wait: Duration,
    #[command(flatten)]
    nccl: nccl::NcclOptions,
    /// Command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn max_wait(text: &str) -> Result<Duration, String> {
    duration::parse(text, Some(MILLISECOND), [MILLISECOND, 10 * MINUTE])
}

impl Run {
    pub(crate) fn run(&self, reach: &Reach) -> Result<ExitCode, CliError> {
        let attendant = Attendant::new()?;
        let mut command = process::Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        let plugin = plugin::variable();
        let asked = self.hosts().map(|hosts| self.ask(reach, hosts));
        let report = asked.as_ref().and_then(|(_, report)| report.as_ref());
        let mut found: Vec<_> = report
            .into_iter()
            .flat_map(Surroundings::variables)
            .collect();
        let order = report.map(|report| (report.order(), report.is_answered()));
        let max_wait = self.max_wait;
        let nccl = &self.nccl;
        found.extend(nccl.variables(reach, order, self.slots, &self.command, max_wait));
        let given = found
            .iter()
            .map(|it| it.0)
            .chain(plugin.iter().map(|it| it.0));
        let given: Vec<_> = given.collect();
        command.envs(carried::variable(&self.command, &given));
        command.envs(plugin).envs(found);
        let ended = attendant.run(&mut command);
        if let Some((asker, _)) = &asked {
            asker.end(max_wait);
        }
        ended
    }

    /// Asks for the job's rank order. Without an answer in time, ranks follow the list of hosts, which is the same on
    /// all hosts of the job.
    fn ask(&self, reach: &Reach, hosts: Hostlist) -> (Asker, Option<Surroundings>) {
        let listed = hosts.0.clone();
        let node = self.node();
        let task = Task {
            reach: reach.leaving_signals(),
            job: self.name(),
            is_first: is_first(node.as_deref(), &hosts.0),
            hosts: hosts.0,
            topology: self.topology,
            is_known: Arc::default(),
        };
        let asker = Asker::begin(task);
        let order = asker.allocation(self.max_wait).map(|report| report.order);
        if let Err(error) = &order {
            runs_as_it_is(&error.error_chain());
        }
        let (is_answered, order) = order.map_or((false, listed), |order| (true, order));
        warn_of_a_stranger(node.as_deref(), &order);
        let report = if is_answered {
            Surroundings::new(self.name(), order, node.as_deref(), self.slots)
        } else {
            Ok(Surroundings::unanswered(order, node.as_deref()))
        };
        let report = report.map_err(CliError::Start);
        if let Err(error) = &report {
            runs_as_it_is(&error.error_chain());
        }
        (asker, report.ok())
    }

    /// Returns the hosts. Invalid scheduler variables do not prevent the command from running.
    fn hosts(&self) -> Option<Hostlist> {
        let set = || {
            let list = env::var("SLURM_JOB_NODELIST").ok();
            let hosts = hostlist(&list.filter(|list| !list.is_empty())?);
            let describe = |error: &HostlistError| runs_as_it_is(&error.to_string());
            hosts.inspect_err(describe).ok()
        };
        self.hosts.clone().or_else(set)
    }

    fn name(&self) -> String {
        let slurm = || Some(format!("slurm-{}", env::var("SLURM_JOB_ID").ok()?));
        let own = || format!("run-{}", process::id());
        self.job.clone().or_else(slurm).unwrap_or_else(own)
    }

    fn node(&self) -> Option<String> {
        let machine = || fs::read_to_string("/proc/sys/kernel/hostname").ok();
        let node = self.node.clone().or_else(machine)?;
        Some(node.trim().to_owned())
    }
}

/// Whether this host is the first of the job. A host that is not in the list has started all ranks, and counts as the
/// first.
fn is_first(node: Option<&str>, listed: &[String]) -> bool {
    let by_slurm = env::var("SLURM_NODEID").ok().map(|nth| nth == "0");
    by_slurm.unwrap_or_else(|| place(listed, node).is_none_or(|place| place == 0))
}

/// Warns about a host outside the list: if several of them run, each counts as the first.
fn warn_of_a_stranger(node: Option<&str>, hosts: &[String]) {
    if let Some(node) = node.filter(|_| place(hosts, node).is_none()) {
        print_note(&format!(
            "warning: {node} is not one of the job's hosts, {}: it gets no PET_ variables; --node \
             gives its name",
            hosts.join(", ")
        ));
    }
}

fn runs_as_it_is(why: &str) {
    print_note(&format!("warning: the command runs unchanged: {why}"));
}
