//! Detects the iteration period of a training job from the bytes that a host sends and receives.
//!
//! The bytes of short spans are correlated with those some lag later. The correlation of a job's traffic peaks at one
//! iteration. A period is accepted if it lasts to the present, and if the pauses between bursts are as regular.

mod autocorrelation;
mod detect;
mod pauses;
mod series;
mod shape;

#[cfg(test)]
mod tests;

use std::time::Duration;

use reweave_common::moment::Moment;
use reweave_common::periodicity::{IterationPeriod, Periodicity, is_same_period};
use reweave_common::time_span::TimeSpan;
use reweave_common::traffic::PeerTraffic;
use reweave_common::units::{Bytes, Percent, Rate};

use detect::{SeriesPeriod, detect};
use series::Series;
use shape::PeerBook;

/// The span of samples for iterations from about 60 ms on.
const FINE_SPAN: Duration = Duration::from_millis(10);
/// The span of samples for iterations of up to two minutes.
const COARSE_SPAN: Duration = Duration::from_millis(160);
/// The interval of detections.
const DETECTION_INTERVAL: Duration = Duration::from_secs(2);
/// Less traffic is no training.
const MIN_TRAINING_BYTES_PER_S: f64 = 105_000.0;
/// The flows of agents' measurements: probes, answers and trains, each in both directions.
const MEASUREMENT_STREAMS: f64 = 6.0;
/// The assumed bytes of a TCP segment, if they are not counted.
const SEGMENT_BYTES: u64 = 1448;
/// The least time of observation.
const MIN_WATCHED_TIME: Duration = Duration::from_secs(3);

/// Bytes over the network between two moments, from any source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteDelta {
    pub from: Moment,
    pub to: Moment,
    pub sent: Bytes,
    pub received: Bytes,
}

/// Tracks the traffic of one host.
#[derive(Debug)]
pub struct IterationDetector {
    /// Each series has longer spans than the one before.
    series: [Series; 2],
    peers: PeerBook,
    began: Option<Moment>,
    least_bytes_per_s: f64,
    /// The input is segments; the bytes per segment come from the peers.
    is_of_segments: bool,
    last_report: Option<(Moment, Periodicity)>,
}

impl Default for IterationDetector {
    fn default() -> Self {
        Self {
            series: [FINE_SPAN, COARSE_SPAN].map(Series::new),
            peers: PeerBook::default(),
            began: None,
            least_bytes_per_s: MIN_TRAINING_BYTES_PER_S,
            is_of_segments: false,
            last_report: None,
        }
    }
}

impl IterationDetector {
    /// Creates a detector for a host that forwards for others, whose links also carry their periods.
    pub fn of_segments() -> Self {
        Self {
            is_of_segments: true,
            ..Self::default()
        }
    }

    /// The segments that this host itself has sent and received.
    pub fn handle_segments(&mut self, from: Moment, to: Moment, [sent, received]: [u64; 2]) {
        let bytes = |segments: u64| Bytes::new(segments.saturating_mul(SEGMENT_BYTES));
        self.handle_growth(from, to, bytes(sent), bytes(received));
    }

    /// The traffic of all links in an interval that follows the previous one.
    pub fn handle_growth(&mut self, from: Moment, to: Moment, sent: Bytes, received: Bytes) {
        self.began.get_or_insert(from);
        for series in &mut self.series {
            series.handle_growth(from, to, [sent, received]);
        }
    }

    /// The total traffic with each peer.
    pub fn handle_peers(&mut self, now: Moment, peers: &[PeerTraffic]) {
        self.peers.handle_peers(now, peers);
    }

    /// The largest rate of each kind of measurement, which is no training either.
    pub fn handle_measuring(&mut self, most_rate: Rate) {
        let bytes_per_s = most_rate.bits_per_s() as f64 / 8.0;
        self.least_bytes_per_s = MIN_TRAINING_BYTES_PER_S.max(MEASUREMENT_STREAMS * bytes_per_s);
    }

    /// The present result.
    pub fn poll_rhythm(&mut self, now: Moment) -> Periodicity {
        if let Some((at, rhythm)) = self.last_report
            && now.since(at) < DETECTION_INTERVAL
        {
            return rhythm;
        }
        let rhythm = self.listen(now);
        self.last_report = Some((now, rhythm));
        rhythm
    }

    fn listen(&self, now: Moment) -> Periodicity {
        let watched = self
            .began
            .map_or(TimeSpan::ZERO, |began| now.since(began).into());
        if *watched < MIN_WATCHED_TIME {
            return Periodicity::Unknown { watched };
        }
        let mut found = self.series.iter().filter_map(|series| {
            let detected = detect(&series.spans())?;
            Some(self.beat(now, series, &detected))
        });
        let is_training = |beat: &IterationPeriod| {
            let bytes = beat.sent.count() + beat.received.count();
            bytes as f64 / beat.period.as_secs_f64() >= self.least_bytes_per_s
        };
        let found = found.find(is_training);
        found.map_or(Periodicity::None { watched }, Periodicity::Found)
    }

    fn beat(&self, now: Moment, series: &Series, detected: &SeriesPeriod) -> IterationPeriod {
        let period = series.duration(detected.period);
        let [sent, received] = self.per_period(series, detected);
        let mut next_gap = series.moment(detected.last_rest);
        while next_gap <= now {
            next_gap = next_gap + *period;
        }
        IterationPeriod {
            period,
            gap: series.duration(detected.rest),
            sent,
            received,
            shape: self.peers.shape(series.overlap(detected.window)),
            confidence_percent: Percent::of(detected.likeness),
            iterations: (detected.window as f64 / detected.period) as u32,
            since: self.since(period, series.moment_of_window(detected.window)),
            next_gap,
        }
    }

    fn per_period(&self, series: &Series, detected: &SeriesPeriod) -> [Bytes; 2] {
        let since = series.moment_of_window(detected.window);
        let counted = self.peers.per_second_since(since);
        let period_s = series.duration(detected.period).as_secs_f64();
        match counted.filter(|_| self.is_of_segments) {
            Some(counted) => counted.map(|rate| Bytes::new((rate * period_s).round() as u64)),
            None => series.per_period(detected.window, detected.period),
        }
    }

    /// A continuing period started when it was first reported.
    fn since(&self, period: TimeSpan, seen: Moment) -> Moment {
        match &self.last_report {
            Some((_, Periodicity::Found(before))) if is_same_period(before.period, period) => {
                before.since.min(seen)
            }
            _ => seen,
        }
    }
}
