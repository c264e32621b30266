//! The pauses between bursts.

use super::likeness::quantile_of_busy;

/// Less than this part of what is usual counts as rest: control, acknowledgements, heartbeats.
const STILL: f64 = 0.05;

/// An interval that differs so much from the others, as a part of them, is none of theirs.
const FAR: f64 = 0.25;

/// A run of spans in which next to nothing went.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rest {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Rest {
    fn len(&self) -> usize {
        self.end - self.start
    }
}

/// The pauses that set iterations apart.
#[derive(Debug, PartialEq)]
pub(super) struct Rests {
    /// The median of their lengths.
    pub(super) len: f64,
    /// Where the last one began.
    pub(super) last_start: usize,
    /// How far the intervals between them stray from their median, as a part of it: the median
    /// of the deviations.
    pub(super) irregularity: f64,
    /// The part of them that is off by more than `FAR`.
    pub(super) strays: f64,
    /// From the end of one to the end of the next: the mean of those that are not far off.
    pub(super) interval: f64,
}

/// The longest rests of `values`, as many as there are periods; none if it hardly ever rests. A rest
/// that touches the beginning or the end may be longer than what is seen of it.
pub(super) fn rests(values: &[f64], period: f64) -> Option<Rests> {
    let mut longest = runs(values);
    longest.retain(|rest| rest.start > 0 && rest.end < values.len());
    longest.sort_by_key(|rest| (std::cmp::Reverse(rest.len()), rest.start));
    let periods = (values.len() as f64 / period).round() as usize;
    longest.truncate(periods.max(1));
    if longest.len() < 4 || longest.len() + 2 < periods {
        return None;
    }
    let len = median(longest.iter().map(|rest| rest.len() as f64).collect())?;
    longest.sort_by_key(|rest| rest.start);
    let intervals: Vec<_> = longest
        .windows(2)
        .map(|pair| (pair[1].end - pair[0].end) as f64)
        .collect();
    let interval = median(intervals.clone())?;
    let strayed: Vec<_> = intervals.iter().map(|it| (it - interval).abs()).collect();
    let near: Vec<_> = intervals
        .iter()
        .filter(|it| (*it - interval).abs() <= FAR * interval)
        .collect();
    let far = intervals.len() - near.len();
    Some(Rests {
        len,
        last_start: longest.last()?.start,
        strays: far as f64 / intervals.len() as f64,
        irregularity: median(strayed)? / interval,
        interval: near.iter().copied().sum::<f64>() / near.len() as f64,
    })
}

fn runs(values: &[f64]) -> Vec<Rest> {
    let still = quantile_of_busy(values, 0.9) * STILL;
    let mut runs: Vec<Rest> = vec![];
    for (at, _) in values
        .iter()
        .enumerate()
        .filter(|(_, value)| **value <= still)
    {
        match runs.last_mut() {
            Some(run) if run.end == at => run.end = at + 1,
            _ => runs.push(Rest {
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
    fn the_longest_rests_set_iterations_apart() {
        // Two bursts with a short pause between them, then a long one.
        let iteration = [9.0, 9.0, 0.0, 9.0, 0.0, 0.0, 0.2, 0.0];
        let values: Vec<_> = iteration.repeat(6);
        let rests = rests(&values, 8.0).expect("it rests");
        assert_eq!(
            (rests.len, rests.interval, rests.irregularity),
            (4.0, 8.0, 0.0)
        );
        assert_eq!(rests.last_start, 4 * 8 + 4);
    }

    #[test]
    fn what_never_rests_has_no_rests() {
        assert_eq!(rests(&[5.0; 100], 10.0), None);
        assert_eq!(rests(&[0.0; 100], 10.0), None);
    }
}
