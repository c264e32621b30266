//! The operator's settings: who approves, which gain justifies a change, and timeouts.

use std::time::Duration;

use reweave_common::moment::Moment;
use reweave_common::observations::RecentReadings;
use reweave_common::operator::Mode;
use reweave_common::plan::Report;
use serde::{Deserialize, Serialize};

use crate::log::change_window::{Hours, opens_in};
use crate::log::rate_summary::scaled;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Who decides that a plan is carried out. Default manual.
    pub mode: Mode,
    /// What the planner goes by. Its `least_gain` is also the gain that must be measured, and
    /// readings older than its `most_age` count for nothing here either.
    pub planner: reweave_repair::Policy,
    /// A rate is taken from this many readings, before a change and after. Default 5: one odd
    /// reading moves the mean of five by a fifth of its error.
    pub readings: usize,
    /// A flow is slower, or faster, when it leaves the range of its readings by this share.
    /// Default 0.05: as much as a TCP flow alone on its link wanders.
    pub tolerance: f64,
    /// While circuits move, and when a failing link is drained unasked, every node keeps this share of
    /// its capacity. Default 0.5.
    pub capacity_floor: f64,
    /// A plan that touches more than this share of all flows of jobs is approved only by who insists on it.
    /// Default 1: none does.
    pub most_touched: f64,
    /// Whether the fabric drops nothing and makes senders wait instead, as RoCE is often run. Then no plan is
    /// carried out by which full buffers may wait for each other in a circle. Default false.
    pub lossless: bool,
    /// In automatic mode, a link between switches that was found to fail, surely and without a break, for this long is
    /// drained. Default 30 s: losses of a burst are over by then.
    pub drain_failing_after: Duration,
    /// Light that came to new circuits must be seen for this long, without a break, before packets come back to them.
    /// Default 500 ms: links that come and go are reported at once, each time.
    pub light_lasts: Duration,
    /// Readings this soon after a change are not judged. Default 300 ms: a TCP flow needs some
    /// round trips to find its new rate, and a reading covers the time before it.
    pub settle: Duration,
    /// Readings to judge by must have come by then. Default 10 s: five at one a second, twice.
    pub verify_within: Duration,
    /// Iterations of jobs to judge by must have been heard by then; else rates alone decide. Default 20 s: a
    /// beat is heard after some seven iterations.
    pub iterate_within: Duration,
    /// An instruction that was not answered is sent again after this. Default 2 s.
    pub answer_within: Duration,
    /// An instruction is sent this often before the plan is rolled back. Default 3.
    pub most_sends: u32,
    /// A plan without an approval is withdrawn after this. Default 10 min: what was measured then says little of now.
    pub offer_for: Duration,
    /// An approved plan that cannot begin by then is refused. Default 10 s: agents need a few
    /// seconds to come back to a coordinator that was started again.
    pub begin_within: Duration,
    /// Switches that refuse a rollback get it again after this. Default 30 s.
    pub retry_held_after: Duration,
    /// In automatic mode, the least time from the end of one change to the next plan; doubled for
    /// every failure in a row. Default 10 s.
    pub cool_down: Duration,
    /// In automatic mode, the cluster is looked at this often. Default 500 ms.
    pub look_every: Duration,
    /// The path of an elephant is traced again when it is older than this. Default 5 s.
    pub trace_every: Duration,
    /// When changes may be made, by the time of day in UTC. Default none: at any time. What leads nowhere
    /// is repaired at any time all the same, and so is what a person wants done now.
    pub changes_only: Vec<Hours>,
    /// Of the flows of probes that a host would have, were none left out, each sends one this often. Those that are
    /// sent share what the others would. Default 400 ms: ten probes a second to each peer, where four ports are used.
    pub probe_every: Duration,
    /// The way between two hosts is measured by a train of packets this often, where their wires rest and the trains'
    /// share of the links lasts. Default 1 min.
    pub trains_every: Duration,
    /// A registered job of which nothing was heard for this long is over: no order about it came, and its hosts have no
    /// sessions with each other that ever sent much. Default 10 min.
    pub end_silent_jobs_after: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            mode: Mode::Manual,
            planner: reweave_repair::Policy::default(),
            readings: 5,
            tolerance: 0.05,
            capacity_floor: 0.5,
            most_touched: 1.0,
            lossless: false,
            drain_failing_after: Duration::from_secs(30),
            light_lasts: Duration::from_millis(500),
            settle: Duration::from_millis(300),
            verify_within: Duration::from_secs(10),
            iterate_within: Duration::from_secs(20),
            answer_within: Duration::from_secs(2),
            most_sends: 3,
            offer_for: Duration::from_mins(10),
            begin_within: Duration::from_secs(10),
            retry_held_after: Duration::from_secs(30),
            cool_down: Duration::from_secs(10),
            look_every: Duration::from_millis(500),
            trace_every: Duration::from_secs(5),
            changes_only: Vec::new(),
            probe_every: Duration::from_millis(400),
            trains_every: Duration::from_mins(1),
            end_silent_jobs_after: Duration::from_mins(10),
        }
    }
}

impl Policy {
    /// New circuits are given up where light has not come for good within twice as long.
    pub const MAX_LIGHT_TIME: Duration = Duration::from_secs(5);
    const MIN_CONFIRM_TIMEOUT: Duration = Duration::from_secs(15);
    const MAX_COOL_DOWN: Duration = Duration::from_secs(3600);

    /// The least gain of the slowest flow, as a share of what it had.
    pub(crate) fn margin(&self) -> f64 {
        self.planner.least_gain
    }

    pub(crate) fn most_age(&self) -> Duration {
        self.planner.most_age
    }

    /// A path is accepted until it could have been traced again three times.
    pub(crate) fn trust_path_for(&self) -> Duration {
        self.trace_every.saturating_mul(3)
    }

    /// No more than are kept, and at least one.
    pub(crate) fn readings(&self) -> usize {
        self.readings.clamp(1, RecentReadings::MAX_RECENT)
    }

    /// Nodes keep what they were instructed for this long before they are sent the confirmation. The slowest may take
    /// all sends to answer, and again to confirm, and another coordinator has come to lead by then.
    pub fn confirm_timeout(&self) -> Duration {
        let one = self.answer_within.saturating_mul(self.most_sends.max(1));
        one.saturating_mul(3).max(Self::MIN_CONFIRM_TIMEOUT)
    }

    pub(crate) fn promises_enough(&self, report: &Report) -> bool {
        report.slowest_after >= scaled(report.slowest_before, 1.0 + self.margin())
    }

    /// How long until changes may be made again, where they may not be made now.
    pub(crate) fn opens_in(&self, now: Moment) -> Option<Duration> {
        opens_in(&self.changes_only, now).filter(|rest| !rest.is_zero())
    }

    /// The hours for changes, for a person.
    pub(crate) fn hours(&self) -> String {
        let hours: Vec<_> = self.changes_only.iter().map(ToString::to_string).collect();
        hours.join(", ")
    }

    /// The cool-down after this number of failures in a row.
    pub(crate) fn cool_down_after(&self, failures: u32) -> Duration {
        let longer = self
            .cool_down
            .saturating_mul(2_u32.saturating_pow(failures));
        longer.min(Self::MAX_COOL_DOWN.max(self.cool_down))
    }
}

#[cfg(test)]
mod tests {
    use reweave_common::units::Rate;

    use super::*;

    #[test]
    fn cool_down_doubles_up_to_hour() {
        let policy = Policy::default();
        let seconds = |failures| policy.cool_down_after(failures).as_secs();
        assert_eq!([seconds(0), seconds(1), seconds(4)], [10, 20, 160]);
        assert_eq!([seconds(20), seconds(u32::MAX)], [3600, 3600]);
    }

    #[test]
    fn policy_readings_are_capped_at_recent() {
        let with = |readings| {
            Policy {
                readings,
                ..Policy::default()
            }
            .readings()
        };
        assert_eq!(
            [with(0), with(5), with(1000)],
            [1, 5, RecentReadings::MAX_RECENT]
        );
    }

    #[test]
    fn plan_must_promise_minimum_gain() {
        let promise = |before, after| {
            let report = Report {
                findings: vec![],
                slowest_before: Rate::from_bits_per_s(before),
                slowest_after: Rate::from_bits_per_s(after),
                alternatives: vec![],
            };
            Policy::default().promises_enough(&report)
        };
        assert!(promise(1000, 1100) && promise(50, 100));
        assert!(!promise(1000, 1099) && !promise(1000, 900));
    }
}
