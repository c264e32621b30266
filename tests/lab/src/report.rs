//! Results of a run, as JSON and as a table.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize)]
pub(crate) struct RunReport {
    pub(crate) scenario: String,
    pub(crate) seed: u64,
    pub(crate) bring_up_ms: f64,
    /// Mechanisms by which the kernel shapes, drops and delays packets here.
    pub(crate) means: Vec<String>,
    pub(crate) jobs: Vec<JobReport>,
    pub(crate) ended: Ended,
    pub(crate) faults: Vec<FaultReport>,
    /// The run was over before their time, so it shows nothing of them.
    pub(crate) faults_not_played: Vec<FaultReport>,
    pub(crate) expectations: Vec<Verdict>,
    pub(crate) passed: bool,
    /// Folder with logs and captures, if they were kept.
    pub(crate) artifacts: Option<PathBuf>,
}

/// Reason for the end of a run; the worst of its jobs' reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ended {
    /// Every job came to an end by itself.
    Done,
    /// The scenario's time was up.
    Limit,
    /// A user asked for it.
    Interrupted,
}

#[derive(Debug, Serialize, Deserialize)]
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

/// One flow as its two ends saw it. What an end could not measure is absent.
#[derive(Debug, Serialize)]
pub(crate) struct FlowOutcome {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) source: String,
    pub(crate) destination: String,
    /// Nodes on the path, as the kernel routed it when the job began.
    pub(crate) path: Vec<String>,
    pub(crate) bytes: Option<u64>,
    pub(crate) rate_mbps: Option<f64>,
    pub(crate) longest_stall_ms: Option<f64>,
    /// Whether its one session broke: no other is opened.
    pub(crate) resets: Option<u64>,
    pub(crate) retransmits: Option<u64>,
    pub(crate) lost: Option<u64>,
    pub(crate) reordered: Option<u64>,
    pub(crate) corrupted: Option<u64>,
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
    /// Whether all was seen that the scenario asks for, and was as expected.
    pub(crate) fn is_as_expected(&self) -> bool {
        self.ended != Ended::Interrupted
            && self.faults_not_played.is_empty()
            && self.expectations.iter().all(|verdict| verdict.met)
    }

    /// Formats the text output.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for fault in &self.faults {
            let _ = writeln!(text, "{:8.3} s  {}", fault.at_s, fault.what);
        }
        for job in &self.jobs {
            text += &job.text();
        }
        match self.ended {
            Ended::Done => {}
            Ended::Limit => text += "stopped when the scenario's time was up\n",
            Ended::Interrupted => text += "NOT RUN TO ITS END: interrupted\n",
        }
        for FaultReport { at_s, what } in &self.faults_not_played {
            let _ = writeln!(
                text,
                "NOT PLAYED  {at_s:.3} s  {what}: the run was over before"
            );
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
    pub(crate) fn text(&self) -> String {
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

    /// The sum of a counter over all flows; absent when one of them did not measure it.
    pub(crate) fn total(&self, count: impl Fn(&FlowOutcome) -> Option<u64>) -> Option<u64> {
        self.flows.iter().map(count).sum()
    }

    /// Absent when a flow did not measure it, because it may be the one.
    pub(crate) fn longest_stall_ms(&self) -> Option<f64> {
        let stalls = self.all(|flow| flow.longest_stall_ms)?;
        Some(stalls.into_iter().fold(0.0, f64::max))
    }

    /// Absent when a flow did not measure it.
    pub(crate) fn slowest_flow_mbps(&self) -> Option<f64> {
        let rates = self.all(|flow| flow.rate_mbps)?;
        rates.into_iter().reduce(f64::min)
    }

    fn all(&self, figure: impl Fn(&FlowOutcome) -> Option<f64>) -> Option<Vec<f64>> {
        self.flows.iter().map(figure).collect()
    }
}

impl FlowOutcome {
    fn row(&self) -> String {
        let flow = format!("{} > {}", self.from, self.to);
        let path = self.path.join(" ");
        let [rate, stall] = [self.rate_mbps, self.longest_stall_ms]
            .map(|figure| figure.map_or_else(unknown, |figure| format!("{figure:.1}")));
        let [resets, retransmits] = [self.resets, self.retransmits]
            .map(|count| count.map_or_else(unknown, |count| count.to_string()));
        format!("  {flow:<20}  {path:<28}  {rate:>6}  {stall:>8}  {resets:>6}  {retransmits:>11}\n")
    }
}

/// Returns the text for an unknown value.
fn unknown() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_has_least_median_most() {
        let spread = Spread::of(vec![5.0, 1.0, 9.0, 2.0, 7.0]);
        let [least, median, most] = [1.0, 5.0, 9.0];
        assert_eq!(
            spread,
            Some(Spread {
                least,
                median,
                most
            })
        );
        assert_eq!(Spread::of(Vec::new()), None);
    }
}
