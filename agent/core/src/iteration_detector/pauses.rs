//! The pauses between bursts.

use super::autocorrelation::quantile_of_busy;

/// Less than this share of the usual traffic counts as idle: control, acknowledgements, heartbeats.
const MAX_REST_SHARE: f64 = 0.05;

/// A span with less than this share of the usual traffic contains a pause.
const MAX_PAUSE_SHARE: f64 = 0.5;
/// The variation of bursts.
const MIN_BURST_SHARE: f64 = 0.9;
/// A burst that ends in one span may be counted in the next one, too.
const BLURRED_SPANS: usize = 2;

/// An interval that deviates by more than this share does not belong to the others.
const MIN_STRAY_DEVIATION: f64 = 0.25;

/// The least number of idle times.
const MIN_RESTS: usize = 4;
/// An idle time that is shorter than this share of the others does not belong to them.
const MIN_REST_RATIO: f64 = 0.6;
/// Idle times that differ by this factor are of different kinds.
const MIN_KIND_RATIO: f64 = 1.7;

/// A run of spans with next to no traffic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pause {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Pause {
    fn len(&self) -> usize {
        self.end - self.start
    }

    /// The length with the idle parts of the neighbouring spans.
    fn whole_len(&self, values: &[f64], usual: f64) -> f64 {
        let missing = |value: &f64| (1.0 - value / usual).max(0.0);
        let paused = |value: &&f64| **value < MIN_BURST_SHARE * usual;
        let before = values[..self.start].iter().rev().take(BLURRED_SPANS);
        let after = values[self.end..].iter().take(BLURRED_SPANS);
        let beside = before.take_while(paused).chain(after.take_while(paused));
        let within = &values[self.start..self.end];
        within.iter().chain(beside).map(missing).sum()
    }
}

/// The pauses between iterations.
#[derive(Debug, PartialEq)]
pub(super) struct Pauses {
    pub(super) count: usize,
    /// The start of the last pause.
    pub(super) last_start: usize,
    /// The median deviation of the intervals from their median, as a share of it.
    pub(super) irregularity: f64,
    /// The share of intervals that deviate by more than `MIN_STRAY_DEVIATION`.
    pub(super) strays: f64,
    /// The mean time of an iteration, from the end of one pause to the end of the next.
    pub(super) interval: f64,
}

/// The longest pauses of `values`, one per period; none if there are hardly any.
pub(super) fn rests(values: &[f64], period: f64) -> Option<Pauses> {
    let periods = (values.len() as f64 / period).round() as usize;
    let mut longest = longest_first(values, still(values));
    longest.truncate(periods.max(1));
    if longest.len() + 2 < periods {
        return None;
    }
    measured(longest)
}

/// The pauses that are clearly longer than all others, if any.
pub(super) fn distinct_rests(values: &[f64]) -> Option<Pauses> {
    let mut longest = longest_first(values, still(values));
    let next = |at: usize| longest.get(at).map_or(1, Pause::len);
    let step = |&at: &usize| longest[at - 1].len() - next(at).min(longest[at - 1].len());
    let count = (MIN_RESTS..=longest.len()).max_by_key(step)?;
    if (longest[count - 1].len() as f64) < MIN_KIND_RATIO * next(count) as f64 {
        return None;
    }
    longest.truncate(count);
    measured(longest)
}

/// A pause at the start or the end may be longer than visible.
fn longest_first(values: &[f64], still: f64) -> Vec<Pause> {
    let mut longest = runs(values, still);
    longest.retain(|rest| rest.start > 0 && rest.end < values.len());
    longest.sort_by_key(|rest| (std::cmp::Reverse(rest.len()), rest.start));
    longest
}

/// The longest pause of a period. Pauses hardly ever begin and end with a span: the first and the last span are partly
/// idle, and a short pause may have no span of its own.
pub(super) fn longest_pause(values: &[f64], period: f64) -> f64 {
    let still = still(values);
    let busy: Vec<_> = values.iter().copied().filter(|it| *it > still).collect();
    let usual = quantile_of_busy(&busy, 0.5);
    let periods = (values.len() as f64 / period).round() as usize;
    let mut pauses = longest_first(values, MAX_PAUSE_SHARE * usual);
    pauses.truncate(periods.max(1));
    // Late counter readings hide some.
    if usual <= 0.0 || 4 * pauses.len() < 3 * periods {
        return 0.0;
    }
    let lens = pauses.iter().map(|pause| pause.whole_len(values, usual));
    median(lens.collect()).unwrap_or(0.0)
}

fn measured(mut rests: Vec<Pause>) -> Option<Pauses> {
    if rests.len() < MIN_RESTS {
        return None;
    }
    let len = median(rests.iter().map(|rest| rest.len() as f64).collect())?;
    rests.retain(|rest| rest.len() as f64 >= MIN_REST_RATIO * len);
    rests.sort_by_key(|rest| rest.start);
    let intervals: Vec<_> = rests
        .windows(2)
        .map(|pair| (pair[1].end - pair[0].end) as f64)
        .collect();
    let usual = median(intervals.clone())?;
    let strayed: Vec<_> = intervals.iter().map(|it| (it - usual).abs()).collect();
    let far = strayed
        .iter()
        .filter(|&&off| off > MIN_STRAY_DEVIATION * usual)
        .count();
    Some(Pauses {
        last_start: rests.last()?.start,
        count: rests.len(),
        strays: far as f64 / intervals.len() as f64,
        irregularity: median(strayed)? / usual,
        interval: mean_iteration(&intervals, usual)?,
    })
}

/// An iteration may contain pauses as long as those between iterations: an interval shorter than usual is joined with
/// the next. An interval of twice the usual length lacks a pause, and any other one was a slow iteration.
fn mean_iteration(intervals: &[f64], usual: f64) -> Option<f64> {
    let (mut took, mut iterations, mut pending) = (0.0, 0.0, 0.0);
    for interval in intervals {
        pending += interval;
        let times = pending / usual;
        if times >= 1.0 - MIN_STRAY_DEVIATION {
            let near = times.round();
            let many = if (times - near).abs() <= MIN_STRAY_DEVIATION {
                near
            } else {
                times.floor()
            };
            took += pending;
            iterations += f64::max(many, 1.0);
            pending = 0.0;
        }
    }
    (iterations > 0.0).then_some(took / iterations)
}

fn still(values: &[f64]) -> f64 {
    quantile_of_busy(values, 0.9) * MAX_REST_SHARE
}

/// Runs of values that do not exceed `still`.
fn runs(values: &[f64], still: f64) -> Vec<Pause> {
    let mut runs: Vec<Pause> = vec![];
    for (at, _) in values
        .iter()
        .enumerate()
        .filter(|(_, value)| **value <= still)
    {
        match runs.last_mut() {
            Some(run) if run.end == at => run.end = at + 1,
            _ => runs.push(Pause {
                start: at,
                end: at + 1,
            }),
        }
    }
    runs
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    let middle = values.len().checked_sub(1)? / 2;
    Some(*values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_rests_separate_iterations() {
        // Two bursts with a short pause between them, then a long one.
        let iteration = [9.0, 9.0, 0.0, 9.0, 0.0, 0.0, 0.2, 0.0];
        let values: Vec<_> = iteration.repeat(6);
        let rests = rests(&values, 8.0).expect("it rests");
        assert_eq!((rests.interval, rests.irregularity), (8.0, 0.0));
        assert_eq!(rests.last_start, 4 * 8 + 4);
    }

    #[test]
    fn pause_includes_partial_spans() {
        let pause = |iteration: &[f64]| longest_pause(&iteration.repeat(6), 8.0);
        assert_eq!(pause(&[8.0, 8.0, 8.0, 8.0, 8.0, 0.0, 0.0, 8.0]), 2.0);
        assert_eq!(pause(&[8.0, 8.0, 8.0, 8.0, 6.0, 0.0, 0.0, 2.0]), 3.0);
        let short = pause(&[8.0, 8.0, 8.0, 8.0, 8.0, 2.0, 4.0, 8.0]);
        assert_eq!(short, 1.25, "none of the spans is still");
        assert_eq!(pause(&[8.0, 7.0, 8.0, 8.0, 7.5, 8.0, 8.0, 8.0]), 0.0);
        let murmur = pause(&[8.0, 8.0, 0.08, 0.08, 0.08, 0.08, 0.08, 8.0]);
        assert!((murmur - 4.95).abs() < 1e-9, "{murmur}");
    }

    #[test]
    fn rests_of_another_kind_stand_out() {
        let iteration = [9.0, 9.0, 0.0, 9.0, 0.0, 0.0, 0.2, 0.0];
        let found = distinct_rests(&iteration.repeat(6)).expect("they do");
        assert_eq!((found.interval, found.count), (8.0, 5));
        assert_eq!(distinct_rests(&[9.0, 0.0].repeat(40)), None);
    }

    #[test]
    fn mean_iteration_ignores_stray_rests() {
        let mean = |intervals: &[f64]| mean_iteration(intervals, 36.0);
        assert_eq!(mean(&[36.0, 19.0, 17.0, 36.0]), Some(36.0));
        assert_eq!(mean(&[36.0, 72.0, 36.0]), Some(36.0), "a rest was missed");
        assert_eq!(mean(&[36.0, 57.0, 36.0]), Some(43.0), "it was slow");
        assert_eq!(
            mean(&[19.0, 53.0, 36.0]),
            Some(36.0),
            "a stray in place of a rest"
        );
        assert_eq!(mean(&[5.0, 5.0]), None);
    }

    #[test]
    fn busy_or_idle_series_never_rests() {
        assert_eq!(rests(&[5.0; 100], 10.0), None);
        assert_eq!(rests(&[0.0; 100], 10.0), None);
    }
}
