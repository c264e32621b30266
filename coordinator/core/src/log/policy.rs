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
    /// Who approves plans: an operator or the coordinator. Default manual.
    pub mode: Mode,
    /// The planner's settings. Its `least_gain` is also the gain that must be measured, and its `most_age` also limits
    /// the age of readings here.
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
    /// A plan that touches more than this share of all flows of jobs is approved only if it is forced. Default 1: no
    /// limit.
    pub most_touched: f64,
    /// Whether the fabric is lossless and pauses senders instead, as for RoCE. If so, no plan is applied that could
    /// let full buffers wait for each other in a cycle. Default false.
    pub lossless: bool,
    /// In automatic mode, a link between switches that fails certainly and continuously for this long is drained.
    /// Default 30 s: longer than a burst of losses.
    pub drain_failing_after: Duration,
    /// New circuits must have light for this long without a break before packets return to them. Default 500 ms:
    /// agents report every link change at once.
    pub light_lasts: Duration,
    /// Readings this soon after a change are not judged. Default 300 ms: a TCP flow needs some
    /// round trips to find its new rate, and a reading covers the time before it.
    pub settle: Duration,
    /// Readings for the verdict must arrive within this time. Default 10 s: five at one a second, twice.
    pub verify_within: Duration,
    /// Iterations for the verdict must be measured within this time; otherwise rates alone decide. Default 20 s: a
    /// period is detected after some seven iterations.
    pub iterate_within: Duration,
    /// An unanswered instruction is sent again after this time. Default 2 s.
    pub answer_within: Duration,
    /// An instruction is sent this often before the plan is rolled back. Default 3.
    pub most_sends: u32,
    /// A plan without an approval is withdrawn after this time. Default 10 min: its measurements are outdated then.
    pub offer_for: Duration,
    /// An approved plan that cannot start within this time is refused. Default 10 s: agents need a few seconds to
    /// reconnect to a restarted coordinator.
    pub begin_within: Duration,
    /// A refused rollback is sent again after this time. Default 30 s.
    pub retry_held_after: Duration,
    /// In automatic mode, the least time from the end of one change to the next plan; doubled for
    /// every failure in a row. Default 10 s.
    pub cool_down: Duration,
    /// In automatic mode, the interval between decisions. Default 500 ms.
    pub look_every: Duration,
    /// The path of an elephant is traced again when its trace is older than this. Default 5 s.
    pub trace_every: Duration,
    /// The periods in which changes may be made, by the time of day in UTC. Default none: at any time. Repairs of
    /// black holes and requests of operators are always allowed.
    pub changes_only: Vec<Hours>,
    /// The interval at which each probe flow of a host would send if none were left out. The chosen flows share the
    /// probes of all. Default 400 ms: ten probes a second to each peer with four ports.
    pub probe_every: Duration,
    /// The interval between packet trains that measure the path between two hosts, while their links are idle and the
    /// trains' share of the links allows it. Default 1 min.
    pub trains_every: Duration,
    /// A registered job is ended when it was silent for this long: no request named it, and its hosts have no sessions
    /// with each other that ever sent much. Default 10 min.
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
    /// New circuits are given up if they have no stable light within twice this time.
    pub const MAX_LIGHT_TIME: Duration = Duration::from_secs(5);
    const MIN_CONFIRM_TIMEOUT: Duration = Duration::from_secs(15);
    const MAX_COOL_DOWN: Duration = Duration::from_secs(3600);

    /// The least gain of the slowest flow, as a share of its rate before.
    pub(crate) fn margin(&self) -> f64 {
        self.planner.least_gain
    }

    pub(crate) fn most_age(&self) -> Duration {
        self.planner.most_age
    }

    /// A path is valid for three trace intervals.
    pub(crate) fn trust_path_for(&self) -> Duration {
        self.trace_every.saturating_mul(3)
    }

    /// The number of readings, between one and the number that is kept.
    pub(crate) fn readings(&self) -> usize {
        self.readings.clamp(1, RecentReadings::MAX_RECENT)
    }

    /// How long nodes keep an unconfirmed state. The slowest node may answer only the last send, and the last
    /// confirmation, and a new leader may be elected in between.
    pub fn confirm_timeout(&self) -> Duration {
        let one = self.answer_within.saturating_mul(self.most_sends.max(1));
        one.saturating_mul(3).max(Self::MIN_CONFIRM_TIMEOUT)
    }

    pub(crate) fn promises_enough(&self, report: &Report) -> bool {
        report.slowest_after >= scaled(report.slowest_before, 1.0 + self.margin())
    }

    /// How long until the next change window opens; none while changes are allowed.
    pub(crate) fn opens_in(&self, now: Moment) -> Option<Duration> {
        opens_in(&self.changes_only, now).filter(|rest| !rest.is_zero())
    }

    /// The change windows as text.
    pub(crate) fn hours(&self) -> String {
        let hours: Vec<_> = self.changes_only.iter().map(ToString::to_string).collect();
        hours.join(", ")
    }

    /// The cool-down after this number of consecutive failures.
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
