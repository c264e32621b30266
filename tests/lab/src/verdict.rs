//! Judges a job by what its scenario expects of it.

use std::fmt::Display;
use std::time::Duration;

use reweave_common::scenario::Expectation;
use reweave_common::units::Rate;

use crate::report::{JobReport, Verdict};

pub(crate) fn judge(expected: &Expectation, job: &JobReport) -> Vec<Verdict> {
    let judge = Judge(job);
    let counts = [
        ("resets", expected.max_resets, job.total(|flow| flow.resets)),
        (
            "retransmits",
            expected.max_retransmits,
            job.total(|flow| flow.retransmits),
        ),
        (
            "packets lost",
            expected.max_lost,
            job.total(|flow| flow.lost),
        ),
        (
            "packets reordered",
            expected.max_reordered,
            job.total(|flow| flow.reordered),
        ),
    ];
    let counts = counts
        .into_iter()
        .filter_map(|(what, limit, seen)| judge.at_most(what, limit, seen));
    let iteration = job.iteration_ms;
    let slowest_flow = expected.min_flow_rate.map(Rate::mbps);
    let measures = [
        judge.at_most(
            "longest stall ms",
            expected.max_stall.map(millis),
            job.longest_stall_ms(),
        ),
        judge.at_most(
            "slowest iteration ms",
            expected.max_iteration.map(millis),
            iteration.map(|ms| ms.most),
        ),
        judge.at_least(
            "fastest iteration ms",
            expected.min_iteration.map(millis),
            iteration.map(|ms| ms.least),
        ),
        judge.at_least("slowest flow Mb/s", slowest_flow, job.slowest_flow_mbps()),
    ];
    let limits = counts.chain(measures.into_iter().flatten());
    std::iter::once(judge.completion(expected.completes))
        .chain(limits)
        .collect()
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

struct Judge<'r>(&'r JobReport);

impl Judge<'_> {
    fn completion(&self, wanted: bool) -> Verdict {
        let job = self.0;
        let expected = if wanted {
            "completes"
        } else {
            "does not complete"
        };
        let seen = format!("{} of {} iterations", job.iterations, job.iterations_wanted);
        self.verdict(expected.to_owned(), seen, job.completed() == wanted)
    }

    fn at_most<T: PartialOrd + Display>(
        &self,
        what: &str,
        limit: Option<T>,
        seen: Option<T>,
    ) -> Option<Verdict> {
        self.bound(what, "<=", limit, seen, |seen, limit| seen <= limit)
    }

    fn at_least<T: PartialOrd + Display>(
        &self,
        what: &str,
        limit: Option<T>,
        seen: Option<T>,
    ) -> Option<Verdict> {
        self.bound(what, ">=", limit, seen, |seen, limit| seen >= limit)
    }

    fn bound<T: Display>(
        &self,
        what: &str,
        sign: &str,
        limit: Option<T>,
        seen: Option<T>,
        holds: impl Fn(&T, &T) -> bool,
    ) -> Option<Verdict> {
        let limit = limit?;
        let met = seen.as_ref().is_some_and(|seen| holds(seen, &limit));
        Some(self.verdict(format!("{what} {sign} {limit}"), shown(seen), met))
    }

    fn verdict(&self, expected: String, seen: String, met: bool) -> Verdict {
        Verdict {
            job: self.0.name.clone(),
            expected,
            seen,
            met,
        }
    }
}

/// Formats a value. An unmeasured value does not meet a limit, and is shown as unknown.
fn shown<T: Display>(seen: Option<T>) -> String {
    seen.map_or_else(|| "unknown".to_owned(), |seen| format!("{seen:.2}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{FlowOutcome, Spread};

    fn flow(resets: Option<u64>, lost: Option<u64>, longest_stall_ms: Option<f64>) -> FlowOutcome {
        FlowOutcome {
            from: "h0".to_owned(),
            to: "h1".to_owned(),
            source: String::new(),
            destination: String::new(),
            path: Vec::new(),
            bytes: None,
            rate_mbps: Some(90.0),
            longest_stall_ms,
            resets,
            retransmits: None,
            lost,
            reordered: None,
            corrupted: None,
        }
    }

    fn job() -> JobReport {
        JobReport {
            name: "train".to_owned(),
            iterations_wanted: 10,
            iterations: 10,
            iteration_ms: Spread::of(vec![10.0, 30.0, 20.0]),
            exposed_ms: None,
            flows: vec![
                flow(Some(1), Some(0), Some(5.0)),
                flow(Some(1), Some(3), Some(250.5)),
            ],
            broken: Vec::new(),
        }
    }

    const UNLIMITED: Expectation = Expectation {
        job: 0,
        completes: true,
        max_resets: None,
        max_retransmits: None,
        max_lost: None,
        max_reordered: None,
        max_stall: None,
        max_iteration: None,
        min_iteration: None,
        min_flow_rate: None,
    };

    fn failed(expected: &Expectation) -> Vec<String> {
        failed_of(expected, &job())
    }

    fn failed_of(expected: &Expectation, job: &JobReport) -> Vec<String> {
        let verdicts = judge(expected, job)
            .into_iter()
            .filter(|verdict| !verdict.met);
        verdicts
            .map(|verdict| format!("{}: {}", verdict.expected, verdict.seen))
            .collect()
    }

    #[test]
    fn satisfied_limits_pass() {
        let limits = Expectation {
            max_resets: Some(2),
            max_lost: Some(3),
            max_stall: Some(Duration::from_millis(251)),
            min_iteration: Some(Duration::from_millis(10)),
            ..UNLIMITED
        };
        assert_eq!(failed(&limits), [""; 0]);
        assert_eq!(judge(&limits, &job()).len(), 5);
    }

    #[test]
    fn broken_limits_name_measured_values() {
        let limits = Expectation {
            completes: false,
            max_resets: Some(1),
            max_stall: Some(Duration::from_millis(250)),
            max_iteration: Some(Duration::from_millis(29)),
            ..UNLIMITED
        };
        let said = [
            "does not complete: 10 of 10 iterations",
            "resets <= 1: 2",
            "longest stall ms <= 250: 250.50",
            "slowest iteration ms <= 29: 30.00",
        ];
        assert_eq!(failed(&limits), said);
    }

    #[test]
    fn unmeasured_limit_is_not_met() {
        let limits = Expectation {
            max_retransmits: Some(9),
            ..UNLIMITED
        };
        assert_eq!(failed(&limits), ["retransmits <= 9: unknown"]);
    }

    #[test]
    fn value_missing_in_flow_is_unknown() {
        let mut job = job();
        let silent = FlowOutcome {
            rate_mbps: None,
            ..flow(None, None, None)
        };
        job.flows.push(silent);
        let limits = Expectation {
            max_resets: Some(9),
            max_lost: Some(9),
            max_stall: Some(Duration::from_secs(9)),
            min_flow_rate: Rate::from_gbps(0.001),
            ..UNLIMITED
        };
        let said = [
            "resets <= 9: unknown",
            "packets lost <= 9: unknown",
            "longest stall ms <= 9000: unknown",
            "slowest flow Mb/s >= 1: unknown",
        ];
        assert_eq!(failed_of(&limits, &job), said);
    }

    #[test]
    fn slowest_flow_decides() {
        let mut job = job();
        job.flows[1].rate_mbps = Some(200.0);
        let limits = Expectation {
            min_flow_rate: Rate::from_gbps(0.1),
            ..UNLIMITED
        };
        let said = ["slowest flow Mb/s >= 100: 90.00"];
        assert_eq!(failed_of(&limits, &job), said);
    }
}
