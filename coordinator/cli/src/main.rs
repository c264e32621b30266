//! `reweave`: the command line for operators and scripts.
//!
//! Commands ask the coordinator and show its answer; they decide nothing. Data goes to standard output, messages to
//! standard error. Exit codes: 0 done, 1 failed, 2 bad usage or input, 3 found or pending, with an option such as
//! `--exit-code` or where the help of the command says so.

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "they panic when their reader is gone: the voice does not"
)]

mod apply;
mod ask;
mod audit;
mod causes;
mod check;
mod cluster;
mod config;
mod context;
mod coordinators;
mod dashboard;
mod dev;
mod discover;
mod duration;
mod error;
mod exit;
mod export;
mod fim;
mod grammar;
mod help;
mod job;
mod jobs;
mod join;
mod json;
mod kept;
mod look;
mod maintenance;
mod manual;
mod matrix;
mod membership;
mod names;
mod nccl;
mod nics;
mod offer;
mod out_file;
mod output;
mod page;
mod pager;
mod pairs;
mod parting;
mod plan;
mod policy;
mod reach;
mod report;
mod rollback;
mod run;
mod show;
mod sim;
mod standing;
mod steer;
mod top;
mod trace;
mod traffic;
mod trouble;
mod version;
mod versions;
mod voice;
mod watch;
mod work;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, FromArgMatches as _, Parser, Subcommand};
use reweave_common::api_version::Versioned;
use reweave_common::exit_code::BAD_USAGE;
use reweave_common::operator::{
    AgentStatus, Findings, JobStatus, NotSeen, Record, Refused, Request, Response, Status, Steering,
};
use reweave_common::plan::Generation;
use serde::Serialize;

use ask::{Coordinator, Reach, Seen};
use error::CliError;
use exit::ExitOption;
use kept::{Keep, Shown, Whose};
use names::Names;
use output::Output;
use page::{Color, Page};
use pager::print_paged;
use report::Report;
use standing::{Answer, Leaderless};
use voice::{in_a_line, print_as_is, print_data, print_help, print_note};

/// Measure the network of a training cluster, find what slows its jobs, and reroute while they run
#[derive(Debug, Parser)]
#[command(
    name = "reweave",
    version,
    args_override_self = true,
    infer_subcommands = true
)]
struct Arguments {
    #[command(flatten)]
    reach: Reach,
    /// Output format
    #[arg(
        short = 'o',
        long,
        value_enum,
        default_value_t = Output::Table,
        global = true
    )]
    output: Output,
    /// When to use colour
    #[arg(
        long,
        value_enum,
        value_name = "WHEN",
        default_value_t = Color::Auto,
        global = true
    )]
    color: Color,
    /// Never start a pager. By default REWEAVE_PAGER, PAGER or `less` shows what is longer than the terminal
    #[arg(long, global = true)]
    no_pager: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Copy, Args)]
struct Detail {
    /// Show every agent and flow, not only those in trouble and the largest; JSON always has all
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a cluster, issue certificates, change members
    ///
    /// Membership is proven by certificates.
    #[command(subcommand)]
    Cluster(cluster::Cluster),
    /// Check the settings of a coordinator
    #[command(subcommand)]
    Config(config::Config),
    /// Store clusters under names, and choose which one is asked
    #[command(subcommand)]
    Context(context::ContextCommand),
    /// Show the state of the cluster
    ///
    /// Agents, links, flows, pins, and changes in progress.
    Status {
        #[command(flatten)]
        detail: Detail,
        #[command(flatten)]
        exit: ExitOption,
    },
    Hosts(look::Hosts),
    Links(look::Links),
    Paths(look::Paths),
    Trace(trace::Trace),
    Fim(fim::Fim),
    Jobs(jobs::Jobs),
    Pairs(pairs::Pairs),
    Matrix(matrix::MatrixCommand),
    Traffic(traffic::TrafficCommand),
    Watch(watch::Watch),
    Dashboard(dashboard::Dashboard),
    Dev(dev::Dev),
    Diagnose(causes::Diagnose),
    Explain(causes::Explain),
    Plan(plan::Plan),
    Apply(apply::Apply),
    Approve(apply::Approve),
    Diff(plan::Diff),
    Maintenance(maintenance::Maintenance),
    /// Register a job, start it, and gate its hosts
    ///
    /// Job commands for orchestrators: placement checks, registration and phases
    #[command(subcommand)]
    Job(job::Job),
    Run(run::Run),
    Check(check::Check),
    Top(top::Top),
    Rollback(rollback::Rollback),
    /// Show the policy, and change it without a restart
    ///
    /// The settings under `[policy]` in coordinator.toml. A value that is set here is a decision of the cluster: every
    /// coordinator has it, and it overrides the files.
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    /// Pause a plan in progress
    ///
    /// Steps that have started are completed; no further step starts until `reweave resume`.
    Hold(steer::Steer),
    /// Resume a paused plan
    ///
    /// A plan is paused by an operator or by a step that failed; that step is retried at once.
    Resume(steer::Steer),
    /// Abort a plan and roll back its changes
    ///
    /// Abort a plan and roll back its changes without packet loss
    ///
    /// A plan that is offered or has not started is withdrawn. `reweave rollback` reverts a change that was kept.
    Abort(steer::Steer),
    /// List changes with requester and outcome
    History {
        /// Only the change of this plan
        #[arg(value_name = "N", value_parser = apply::number)]
        generation: Option<u64>,
        /// Maximum number of changes, newest first
        #[arg(
            long,
            value_name = "N",
            default_value_t = 20,
            conflicts_with = "generation"
        )]
        most: usize,
    },
    Audit(audit::Audit),
    Discover(discover::Discover),
    /// Simulate workloads and flows on any fabric
    ///
    /// The fabric need not exist.
    Sim(sim::Simulation),
    #[command(subcommand)]
    Export(export::Export),
    Version(versions::Versions),
    #[command(flatten)]
    Manual(manual::Manual),
}

fn main() -> ExitCode {
    let outcome = match parsed(env::args_os()) {
        Ok(arguments) => run(&arguments),
        Err(error) if error.use_stderr() => return refuse(&error),
        Err(help) => print_help(&help),
    };
    outcome.unwrap_or_else(|error| {
        print_note(&format!("error: {}", error.error_chain()));
        ExitCode::from(error.exit_code())
    })
}

fn parsed(words: impl Iterator<Item = OsString>) -> Result<Arguments, clap::Error> {
    let matches = grammar::matches(words)?;
    let mut arguments = Arguments::from_arg_matches(&matches)?;
    arguments.reach.note_flags(&matches);
    Ok(arguments)
}

/// Prints a usage error.
fn refuse(error: &clap::Error) -> ExitCode {
    print_as_is(&grammar::refusal(error));
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(BAD_USAGE))
}

fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let Arguments {
        reach,
        output,
        color,
        no_pager,
        command,
    } = arguments;
    output.check(command)?;
    color.choose();
    pager::suppress(*no_pager);
    match command {
        Command::Cluster(command) => command.run(reach, *output),
        Command::Config(command) => command.run(),
        Command::Context(command) => command.run(reach, *output),
        Command::Status { detail, exit } => show_status(reach, *output, *detail, *exit),
        Command::Hosts(hosts) => hosts.run(reach, *output),
        Command::Links(links) => links.run(reach, *output),
        Command::Paths(paths) => paths.run(reach, *output),
        Command::Trace(trace) => trace.run(reach, *output),
        Command::Jobs(jobs) => jobs.run(reach, *output),
        Command::Fim(fim) => fim.run(reach, *output),
        Command::Pairs(pairs) => pairs.run(reach, *output),
        Command::Matrix(matrix) => matrix.run(reach, *output),
        Command::Traffic(traffic) => traffic.run(reach, *output),
        Command::Watch(watch) => watch.run(reach, *output),
        Command::Dashboard(dashboard) => dashboard.run(reach, *output),
        Command::Dev(dev) => dev.run(),
        Command::Diagnose(diagnose) => diagnose.run(reach, *output),
        Command::Explain(explain) => explain.run(reach, *output),
        Command::Plan(command) => command.run(reach, *output),
        Command::Apply(apply) => apply.run(reach, *output),
        Command::Approve(approve) => approve.run(reach, *output),
        Command::Diff(diff) => diff.run(reach, *output),
        Command::Job(job) => job.run(reach, *output),
        Command::Run(run) => run.run(reach),
        Command::Maintenance(maintenance) => maintenance.run(reach, *output),
        Command::Check(check) => check.run(*output),
        Command::Top(top) => top.run(reach),
        Command::Rollback(rollback) => rollback.run(reach, *output),
        Command::Policy(policy) => policy.run(reach, *output),
        Command::Hold(steer) => steer.run(reach, *output, Steering::Hold),
        Command::Resume(steer) => steer.run(reach, *output, Steering::Resume),
        Command::Abort(steer) => steer.run(reach, *output, Steering::Abort),
        Command::History { generation, most } => {
            show_history(reach, *output, *most, generation.map(Generation))
        }
        Command::Audit(audit) => audit.run(reach, *output),
        Command::Discover(discover) => discover.run(reach, *output),
        Command::Sim(command) => command.run(*output),
        Command::Export(export) => export.run(reach),
        Command::Version(versions) => versions.run(reach, *output),
        Command::Manual(manual) => manual.run(),
    }
}

/// The status, with findings for a human reader.
#[derive(Serialize)]
#[serde(transparent)]
struct StatusAnswer {
    status: Box<Status>,
    #[serde(skip)]
    findings: Findings,
    #[serde(skip)]
    detail: Detail,
}

impl Report for StatusAnswer {
    fn lay_out(&self, page: &mut Page) {
        let Self {
            status,
            findings,
            detail,
        } = self;
        show::status(page, status, findings, &Names::of(status), *detail);
    }
}

fn show_status(
    reach: &Reach,
    output: Output,
    detail: Detail,
    exit: ExitOption,
) -> Result<ExitCode, CliError> {
    let mut coordinator = Coordinator::reach(reach)?;
    let status = match coordinator.seen()? {
        Seen::Led(status) => status,
        Seen::Leaderless(answers) => return show_standing(&answers, output),
    };
    // Output for scripts has no findings, so none are requested.
    let findings = match output {
        _ if exit.exit_code => coordinator.findings()?,
        Output::Table => found_by(&mut coordinator, status.generation),
        _ => none_under(status.generation),
    };
    let answer = StatusAnswer {
        status,
        findings,
        detail,
    };
    print_report(output, &answer)?;
    Ok(exit.code(needs_a_person(&answer.status, &answer.findings)))
}

fn needs_a_person(status: &Status, findings: &Findings) -> bool {
    let has_trouble = status.agents.iter().any(AgentStatus::is_in_trouble);
    has_trouble || !status.alarms.is_empty() || !findings.findings.is_empty()
}

/// Returns the findings, or a remark that they are unavailable.
fn found_by(coordinator: &mut Coordinator, generation: Generation) -> Findings {
    coordinator.findings().unwrap_or_else(|error| {
        print_note(&format!(
            "findings are unavailable: {}",
            error.error_chain()
        ));
        none_under(generation)
    })
}

fn none_under(generation: Generation) -> Findings {
    Findings {
        generation,
        findings: Vec::new(),
        not_seen: NotSeen::default(),
    }
}

/// Shows each coordinator's own state when there is no leader: an operator needs to know which one is missing.
fn show_standing(answers: &[Answer], output: Output) -> Result<ExitCode, CliError> {
    let Some(seen) = Leaderless::of(answers) else {
        return Err(CliError::without_standing(answers));
    };
    print_report(output, &seen)?;
    Err(CliError::Refused(Refused::NotLeading { leader: None }))
}

impl Report for Leaderless {
    fn lay_out(&self, page: &mut Page) {
        show::leaderless(page, self);
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct FindingsAnswer {
    findings: Findings,
    #[serde(skip)]
    names: Names,
    /// Jobs, to name those that a collision slows. Only text output has them.
    #[serde(skip)]
    jobs: Vec<JobStatus>,
}

impl Report for FindingsAnswer {
    fn lay_out(&self, page: &mut Page) {
        show::findings(page, &self.findings, &self.names, &self.jobs);
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct OfferAnswer<'a> {
    offer: Shown<'a>,
    #[serde(skip)]
    names: Names,
}

impl Report for OfferAnswer<'_> {
    fn lay_out(&self, page: &mut Page) {
        show::plan(page, self.offer.plan, &self.names);
        if self.offer.plan.is_some() {
            show::not_seen(page, self.offer.not_seen, &self.names);
        } else {
            show::why_no_plan(page, self.offer.not_seen, &self.names);
        }
    }
}

#[derive(Serialize)]
struct HistoryAnswer {
    history: Vec<Record>,
    #[serde(skip)]
    names: Names,
}

impl Report for HistoryAnswer {
    fn lay_out(&self, page: &mut Page) {
        show::history(page, &self.history, &self.names);
    }

    fn names(&self) -> Vec<String> {
        let plans = self.history.iter().map(|record| record.plan.generation);
        plans.map(|generation| generation.to_string()).collect()
    }
}

/// Sends a request and prints the answer, with names in place of addresses.
fn show(reach: &Reach, output: Output, request: &Request) -> Result<ExitCode, CliError> {
    show_and_keep(reach, output, request, &Keep::default())
}

/// Same as `show`, and writes the plan into a file.
fn show_and_keep(
    reach: &Reach,
    output: Output,
    request: &Request,
    keep: &Keep,
) -> Result<ExitCode, CliError> {
    show_found(reach, output, request, keep).map(|_| ExitCode::SUCCESS)
}

/// Same as `show`, and returns whether there is a plan or a finding.
fn show_found(
    reach: &Reach,
    output: Output,
    request: &Request,
    keep: &Keep,
) -> Result<bool, CliError> {
    keep.expect_free()?;
    let mut coordinator = Coordinator::reach(reach)?;
    let names = Names::of(&coordinator.status()?);
    match coordinator.ask(request)? {
        Response::Findings(findings) => {
            let jobs = match output {
                Output::Table => coordinator.jobs()?,
                _ => Vec::new(),
            };
            let answer = FindingsAnswer {
                findings,
                names,
                jobs,
            };
            print_report(output, &answer)?;
            Ok(!answer.findings.findings.is_empty())
        }
        Response::Plan { plan, not_seen } => {
            let cluster = Whose::of(coordinator.identity());
            let offer = Shown::new(cluster, plan.as_deref(), &not_seen)?;
            keep.keep(&offer)?;
            print_report(output, &OfferAnswer { offer, names })?;
            Ok(plan.is_some())
        }
        Response::Refused(refused) => Err(CliError::Refused(refused)),
        other => Err(CliError::unexpected(&other)),
    }
}

fn show_history(
    reach: &Reach,
    output: Output,
    most: usize,
    only: Option<Generation>,
) -> Result<ExitCode, CliError> {
    let mut coordinator = Coordinator::reach(reach)?;
    let names = Names::of(&coordinator.status()?);
    let history = match only {
        Some(generation) => vec![coordinator.record(generation)?],
        None => coordinator.history(most)?,
    };
    print_report(output, &HistoryAnswer { history, names })
}

/// Prints the answer of a command: with its version for scripts, laid out as text otherwise.
fn print_report(output: Output, report: &impl Report) -> Result<ExitCode, CliError> {
    match output {
        Output::Name => print_data(&lines(&report.names())),
        _ => print_paged(&text(output, report)?),
    }
}

fn lines(names: &[String]) -> String {
    names.iter().map(|name| in_a_line(name) + "\n").collect()
}

/// Formats one of several answers of a command.
fn document(output: Output, report: &impl Report) -> Result<String, CliError> {
    Ok(format!("{}{}", output.separator(), text(output, report)?))
}

fn text(output: Output, report: &impl Report) -> Result<String, CliError> {
    let mut page = Page::for_stdout();
    match output {
        Output::Json => {
            let json = serde_json::to_string(&Versioned::new(report));
            Ok(json.map_err(CliError::Json)? + "\n")
        }
        Output::Yaml => serde_saphyr::to_string(&Versioned::new(report)).map_err(CliError::Yaml),
        Output::Table => {
            report.lay_out(&mut page);
            Ok(page.shown())
        }
        Output::Wide => {
            report.lay_out_wide(&mut page);
            Ok(page.shown())
        }
        Output::Name => Err(CliError::NoNames),
        Output::Hostfile => Err(CliError::NoHostfile),
        Output::Csv => Err(CliError::NoCsv),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &[&str]) -> Result<Arguments, String> {
        let words = ["reweave"].iter().chain(words).map(OsString::from);
        parsed(words).map_err(|error| error.to_string())
    }

    #[test]
    fn context_flag_is_noted_anywhere() {
        let noted = |words: &[&str]| format!("{:?}", asked(words).unwrap().reach);
        for words in [
            &["--context", "lab", "status"][..],
            &["status", "--context", "lab"],
        ] {
            assert!(noted(words).contains("context: true"), "{words:?}");
        }
        let none = noted(&["status", "--coordinator", "10.0.0.1"]);
        assert!(none.contains("context: false") && none.contains("coordinator: true"));
    }

    #[test]
    fn unambiguous_prefix_names_command() {
        let command = |words: &[&str]| asked(words).unwrap().command;
        assert!(matches!(command(&["stat"]), Command::Status { .. }));
        assert!(matches!(
            command(&["clus", "mem", "li"]),
            Command::Cluster(cluster::Cluster::Member(coordinators::Coordinators::List))
        ));
        // An exact name wins over longer ones.
        assert!(matches!(command(&["job", "fr", "h0"]), Command::Job(_)));
        assert!(matches!(command(&["jobs"]), Command::Jobs(_)));
        let ambiguous = asked(&["ap", "7"]).unwrap_err();
        assert!(
            ambiguous.contains("unrecognized subcommand 'ap'"),
            "{ambiguous}"
        );
    }

    #[test]
    fn manual_has_page_for_each_command() {
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("man1");
        let written = manual::Manual::Man { into: into.clone() }.run();
        assert!(written.is_ok());
        let page = |name: &str| std::fs::read_to_string(into.join(name)).unwrap();
        assert!(page("reweave.1").contains("reweave\\-links"));
        assert!(page("reweave-cluster-token.1").contains("\\-\\-role"));
    }
}
