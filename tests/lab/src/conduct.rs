//! Runs one job in a lab that another process keeps, and reports its progress.

use std::io;
use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

use reweave_common::scenario::Job;
use serde::{Deserialize, Serialize};

use crate::cli::{Output, show};
use crate::error::LabError;
use crate::job::{self, RunningJob, Tally, walk};
use crate::nodes::Nodes;
use crate::progress::Progress;
use crate::report::JobReport;
use crate::signals::Interrupt;
use crate::source::Source;
use crate::tools::Tools;

/// The interval at which ranks report what has arrived.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Asking every kernel on the path takes a few processes.
const PATH_QUERY_INTERVAL: Duration = Duration::from_secs(1);
/// Over what time the reported rates are.
const RATE_WINDOW: Duration = Duration::from_millis(500);

/// The order on standard input.
#[derive(Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) source: Source,
    /// Index of the job in the scenario.
    pub(crate) job: usize,
    pub(crate) output: Output,
}

impl Order {
    pub(crate) fn to_line(&self) -> String {
        serde_json::to_string(self).expect("an order is plain data")
    }
}

/// One line of the report.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Line<'a> {
    Began { job: &'a str },
    Progress(Moment),
    Report(&'a JobReport),
}

/// Progress of the job.
#[derive(Serialize)]
struct Moment {
    /// Since it began.
    at_ms: f64,
    iterations: usize,
    /// Time of the last iteration.
    iteration_ms: Option<f64>,
    /// Total time of the iterations.
    iterations_ms: f64,
    flows: Vec<Flow>,
}

#[derive(Serialize)]
struct Flow {
    from: String,
    to: String,
    source: SocketAddrV4,
    destination: SocketAddrV4,
    /// Recent rate at the receiver, pauses included.
    rate_mbps: f64,
    /// Nodes on the path, as the kernels route it now.
    path: Vec<String>,
}

/// Only inside a lab.
pub(crate) fn run() -> Result<u8, LabError> {
    let interrupt = Interrupt::install()?;
    let order: Order = serde_json::from_reader(io::stdin().lock())
        .map_err(|source| LabError::BadConduct { source })?;
    let scenario = order.source.scenario()?;
    let nodes = Nodes::visit(&scenario.fabric, Tools::find()?)?;
    let mut plans = job::plan_all(&nodes, &scenario.jobs)?;
    let (job, plan) = (&scenario.jobs[order.job], plans.swap_remove(order.job));
    let conductor = Conductor {
        nodes: &nodes,
        job: RunningJob::launch(&nodes, job, plan)?,
        output: order.output,
        paths: Vec::new(),
    };
    conductor.conduct(&interrupt, job)
}

struct Conductor<'n> {
    nodes: &'n Nodes,
    job: RunningJob<'n>,
    output: Output,
    /// Path of each flow at the last query; empty while a node on it has no route.
    paths: Vec<Vec<String>>,
}

impl Conductor<'_> {
    fn conduct(mut self, interrupt: &Interrupt, job: &Job) -> Result<u8, LabError> {
        let (began, progress) = (Instant::now(), Progress::on_terminal());
        let mut asked = None::<Instant>;
        self.job.start();
        self.tell(&Line::Began { job: &job.name })?;
        while !self.job.tally().has_come_to_an_end() && !interrupt.is_raised() {
            if asked.is_none_or(|asked| asked.elapsed() >= PATH_QUERY_INTERVAL) {
                asked = Some(Instant::now());
                self.ask_paths()?;
            }
            let end = Instant::now() + POLL_INTERVAL;
            self.job.hear_until(end, Tally::has_come_to_an_end);
            let iterations = self.job.tally().iterations().len();
            progress.count(&job.name, iterations, job.iterations as usize);
            self.tell(&Line::Progress(self.moment(began.elapsed())))?;
        }
        if !self.job.tally().all_ended() {
            self.job.stop();
        }
        progress.clear();
        let report = self.job.report();
        match self.output {
            Output::Text => show(self.output, &report.text(), &report)?,
            Output::Json => self.tell(&Line::Report(&report))?,
        }
        Ok(u8::from(!report.broken.is_empty()))
    }

    fn ask_paths(&mut self) -> Result<(), LabError> {
        let tally = self.job.tally();
        let routed: Vec<_> = tally.flows().iter().map(|flow| flow.routed).collect();
        self.paths = match walk::paths(self.nodes, &routed) {
            Ok(paths) => paths.iter().map(|path| tally.names(path)).collect(),
            // A node without a route for a flow is a fault of the flow, which the job reports.
            Err(LabError::ToolRefused { .. } | LabError::NoPath { .. }) => {
                vec![Vec::new(); routed.len()]
            }
            Err(error) => return Err(error),
        };
        Ok(())
    }

    fn moment(&self, at: Duration) -> Moment {
        let tally = self.job.tally();
        let iterations = tally.iterations();
        let fabric = self.nodes.fabric();
        let name = |node| fabric.node(node).name.clone();
        let flow = |(index, path): (usize, &Vec<String>)| Flow {
            from: name(tally.flows()[index].routed.from),
            to: name(tally.flows()[index].routed.to),
            source: tally.flows()[index].spec.source,
            destination: tally.flows()[index].spec.destination,
            rate_mbps: tally.rate(index, RATE_WINDOW).mbps(),
            path: path.clone(),
        };
        Moment {
            at_ms: millis(at),
            iterations: iterations.len(),
            iteration_ms: iterations.last().copied().map(millis),
            iterations_ms: millis(tally.iterations_took()),
            flows: self.paths.iter().enumerate().map(flow).collect(),
        }
    }

    /// People see the progress on the terminal, and the report.
    fn tell(&self, line: &Line<'_>) -> Result<(), LabError> {
        match self.output {
            Output::Text => Ok(()),
            Output::Json => show(self.output, "", line),
        }
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
