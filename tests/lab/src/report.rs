//! What a run has shown: for scripts as JSON, for people as a table.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct RunReport {
    pub(crate) scenario: String,
    pub(crate) seed: u64,
    pub(crate) bring_up_ms: f64,
    /// By what means the kernel shapes, loses and delays packets here.
    pub(crate) means: Vec<String>,
    pub(crate) jobs: Vec<JobReport>,
    pub(crate) faults: Vec<FaultReport>,
    pub(crate) expectations: Vec<Verdict>,
    pub(crate) passed: bool,
    /// Where logs and captures were kept, if they were.
    pub(crate) artifacts: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
pub(crate) struct FaultReport {
    pub(crate) at_s: f64,
    pub(crate) what: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct JobReport {
    pub(crate) name: String,
    pub(crate) iterations_wanted: u32,
    /// Completed by every rank.
    pub(crate) iterations: u32,
    pub(crate) iteration_ms: Option<Spread>,
    /// The part of it that was spent in communication, of the slowest rank.
    pub(crate) exposed_ms: Option<Spread>,
    pub(crate) flows: Vec<FlowOutcome>,
    /// Sessions that broke, and what their ranks said.
    pub(crate) broken: Vec<Broken>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Broken {
    pub(crate) rank: usize,
    pub(crate) host: String,
    pub(crate) why: String,
}

/// One flow as its two ends saw it. What an end could not tell is absent.
#[derive(Debug, Serialize)]
pub(crate) struct FlowOutcome {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) source: String,
    pub(crate) destination: String,
    /// Nodes on the way, as the kernel routed it when the job began.
    pub(crate) path: Vec<String>,
    pub(crate) bytes: u64,
    pub(crate) rate_mbps: f64,
    pub(crate) longest_stall_ms: f64,
    pub(crate) connections: u32,
    pub(crate) resets: u64,
    pub(crate) retransmits: Option<u64>,
    pub(crate) lost: Option<u64>,
    pub(crate) reordered: Option<u64>,
    pub(crate) corrupted: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) most: f64,
}

impl Spread {
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        Some(Self {
            least,
            median: values[values.len() / 2],
            most,
        })
    }
}

/// Whether one expectation was met.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Verdict {
    pub(crate) job: String,
    pub(crate) expected: String,
    pub(crate) seen: String,
    pub(crate) met: bool,
}

impl RunReport {
    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for fault in &self.faults {
            let _ = writeln!(text, "{:8.3} s  {}", fault.at_s, fault.what);
        }
        for job in &self.jobs {
            text += &job.text();
        }
        for verdict in &self.expectations {
            let Verdict {
                job,
                expected,
                seen,
                met,
            } = verdict;
            let mark = if *met { "met    " } else { "NOT MET" };
            let _ = writeln!(text, "{mark}  {job}: {expected} (seen: {seen})");
        }
        text
    }
}

impl JobReport {
    fn text(&self) -> String {
        let mut text = format!(
            "\n{}: {} of {} iterations",
            self.name, self.iterations, self.iterations_wanted
        );
        if let Some(Spread {
            least,
            median,
            most,
        }) = self.iteration_ms
        {
            let _ = write!(text, ", {least:.1} .. {median:.1} .. {most:.1} ms each");
        }
        text += "\n\n  flow                  path                            Mb/s  stall ms  resets  retransmits\n";
        for flow in &self.flows {
            text += &flow.row();
        }
        for Broken { rank, host, why } in &self.broken {
            let _ = writeln!(text, "  rank {rank} on {host}: {why}");
        }
        text + "\n"
    }

    pub(crate) fn completed(&self) -> bool {
        self.iterations == self.iterations_wanted
    }

    /// The sum of a counter over all flows; absent when no flow could tell.
    pub(crate) fn total(&self, count: impl Fn(&FlowOutcome) -> Option<u64>) -> Option<u64> {
        self.flows.iter().filter_map(count).reduce(|a, b| a + b)
    }

    pub(crate) fn longest_stall_ms(&self) -> f64 {
        self.flows
            .iter()
            .map(|flow| flow.longest_stall_ms)
            .fold(0.0, f64::max)
    }

    pub(crate) fn slowest_flow_mbps(&self) -> Option<f64> {
        self.flows
            .iter()
            .map(|flow| flow.rate_mbps)
            .reduce(f64::min)
    }
}

impl FlowOutcome {
    fn row(&self) -> String {
        let flow = format!("{} > {}", self.from, self.to);
        let path = self.path.join(" ");
        let unknown = || "-".to_owned();
        let retransmits = self
            .retransmits
            .map_or_else(unknown, |count| count.to_string());
        format!(
            "  {flow:<20}  {path:<28}  {:>6.1}  {:>8.1}  {:>6}  {retransmits:>11}\n",
            self.rate_mbps, self.longest_stall_ms, self.resets
        )
    }
}
