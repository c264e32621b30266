//! Bytes in short spans of time of equal length.

use std::collections::VecDeque;
use std::time::Duration;

use reweave_common::moment::Moment;
use reweave_common::time_span::TimeSpan;
use reweave_common::units::Bytes;

/// The number of spans that are kept.
const MAX_SPANS: usize = 4096;

#[derive(Debug)]
pub(super) struct Series {
    span_us: f64,
    /// The number of the first span, from the clock's zero.
    first: u64,
    /// Sent and received.
    spans: VecDeque<[f64; 2]>,
}

impl Series {
    pub(super) fn new(span: Duration) -> Self {
        Self {
            span_us: span.as_micros() as f64,
            first: 0,
            spans: VecDeque::new(),
        }
    }

    /// Spreads the bytes evenly over their interval.
    pub(super) fn handle_growth(&mut self, from: Moment, to: Moment, bytes: [Bytes; 2]) {
        let [from, to] = [from, to].map(|at| at.as_micros() as f64 / self.span_us);
        if to <= from {
            return;
        }
        let [first, last] = [from, to].map(|at| at as u64);
        self.reach(first, last);
        for number in first.max(self.first)..=last {
            let begin = (number as f64).max(from);
            let end = ((number + 1) as f64).min(to);
            let share = (end - begin).max(0.0) / (to - from);
            let span = self.spans.get_mut((number - self.first) as usize);
            if let Some(span) = span {
                span[0] += bytes[0].count() as f64 * share;
                span[1] += bytes[1].count() as f64 * share;
            }
        }
    }

    /// Extends the series up to the span `last`, and drops old spans; after a gap in the observations, all.
    fn reach(&mut self, first: u64, last: u64) {
        let end = self.first + self.spans.len() as u64;
        if self.spans.is_empty() || first > end || last - self.first >= 2 * MAX_SPANS as u64 {
            self.spans.clear();
            self.first = first.max(last.saturating_sub(MAX_SPANS as u64 - 1));
        }
        while self.first + (self.spans.len() as u64) <= last {
            self.spans.push_back([0.0; 2]);
        }
        while self.spans.len() > MAX_SPANS {
            self.spans.pop_front();
            self.first += 1;
        }
    }

    /// Sent and received bytes. The newest, incomplete span is left out.
    pub(super) fn spans(&self) -> Vec<[f64; 2]> {
        self.complete().copied().collect()
    }

    fn complete(&self) -> impl Iterator<Item = &[f64; 2]> {
        self.spans.iter().take(self.spans.len().saturating_sub(1))
    }

    fn window(&self, spans: usize) -> impl Iterator<Item = &[f64; 2]> {
        let all = self.spans.len().saturating_sub(1);
        self.complete().skip(all.saturating_sub(spans))
    }

    /// The mean sent and received bytes of a period, over the last spans.
    pub(super) fn per_period(&self, spans: usize, period: f64) -> [Bytes; 2] {
        let mut sums = [0.0; 2];
        for span in self.window(spans) {
            sums[0] += span[0];
            sums[1] += span[1];
        }
        sums.map(|sum| Bytes::new((sum * period / spans.max(1) as f64).round() as u64))
    }

    /// The share of the busier direction's bytes that flows while the other one is as busy.
    pub(super) fn overlap(&self, spans: usize) -> f64 {
        let mut sums = [0.0; 2];
        for [sent, received] in self.window(spans) {
            sums[0] += sent.min(*received);
            sums[1] += sent.max(*received);
        }
        if sums[1] > 0.0 {
            sums[0] / sums[1]
        } else {
            0.0
        }
    }

    pub(super) fn duration(&self, spans: f64) -> TimeSpan {
        TimeSpan::from_micros((spans * self.span_us).round().max(0.0) as u64)
    }

    /// The moment after this many of [`Self::spans`].
    pub(super) fn moment(&self, spans: f64) -> Moment {
        let at = (self.first as f64 + spans) * self.span_us;
        Moment::from_micros(at.round().max(0.0) as u64)
    }

    /// The start of the last `spans` spans.
    pub(super) fn moment_of_window(&self, spans: usize) -> Moment {
        let all = self.spans.len().saturating_sub(1);
        self.moment(all.saturating_sub(spans) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_micros(ms * 1000)
    }

    fn grown(series: &mut Series, from_ms: u64, to_ms: u64, bytes: u64) {
        let bytes = [Bytes::new(bytes), Bytes::ZERO];
        series.handle_growth(at(from_ms), at(to_ms), bytes);
    }

    fn sent(series: &Series) -> Vec<f64> {
        series.spans().iter().map(|[sent, _]| *sent).collect()
    }

    #[test]
    fn bytes_spread_over_their_interval() {
        let mut series = Series::new(Duration::from_millis(10));
        grown(&mut series, 100, 125, 1000);
        grown(&mut series, 125, 150, 100);
        assert_eq!(sent(&series), [400.0, 400.0, 220.0, 40.0, 40.0]);
        assert_eq!(series.moment(2.0), at(120));
    }

    #[test]
    fn series_is_bounded_and_keeps_newest() {
        let mut series = Series::new(Duration::from_millis(10));
        for step in 0..10_000 {
            grown(&mut series, step * 10, step * 10 + 10, step);
        }
        assert_eq!(series.spans.len(), MAX_SPANS);
        assert_eq!(sent(&series).last(), Some(&9999.0));
        grown(&mut series, 100_000_000, 100_000_010, 7);
        assert_eq!(sent(&series), [7.0]);
    }

    #[test]
    fn non_advancing_time_counts_nothing() {
        let mut series = Series::new(Duration::from_millis(10));
        grown(&mut series, 100, 100, 1000);
        grown(&mut series, 100, 50, 1000);
        assert!(series.spans().is_empty());
    }

    #[test]
    fn alternating_directions_do_not_overlap() {
        let mut series = Series::new(Duration::from_millis(10));
        for step in 0..20 {
            let mut bytes = [Bytes::ZERO; 2];
            bytes[step as usize % 2] = Bytes::new(100);
            series.handle_growth(at(step * 10), at(step * 10 + 10), bytes);
        }
        assert_eq!(series.overlap(18), 0.0);
        assert_eq!(series.per_period(18, 2.0).map(Bytes::count), [100, 100]);
    }
}
