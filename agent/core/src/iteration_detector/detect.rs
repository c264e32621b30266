//! Finds the period of a series, if it has one.
//!
//! Each octave of periods has its own series, coarsened until a period has ten to twenty spans. So neither the
//! activity within an iteration nor the variation between iterations blurs the period.

use super::autocorrelation::Centred;
use super::pauses::{Pauses, distinct_rests, longest_pause, rests};

/// The lags of an octave, in its spans; shorter ones belong to the previous octave.
const MIN_LAG: usize = 7;
const MAX_LAG: usize = 15;
/// The least number of periods in the window.
const MIN_PERIODS: usize = 6;
/// The shortest window.
const MIN_WINDOW_SPANS: usize = 64;
/// The least correlation at the period, with very many periods; with fewer, a random one may be higher ...
const MIN_LIKENESS: f64 = 0.5;
const CHANCE_LIKENESS: f64 = 2.6;
/// ... and its rise above the correlation at shorter lags.
const MIN_LIKENESS_RISE: f64 = 0.35;
/// The least correlation of traffic without pauses.
const MIN_LIKENESS_WITHOUT_RESTS: f64 = 0.9;
/// A multiple of the period with less than this part of its correlation is no longer distinguishable.
const MIN_MULTIPLE_LIKENESS: f64 = 0.6;
/// The largest deviation of pauses from the period.
const MAX_IRREGULARITY: f64 = 0.15;
/// The largest share of pauses far from the period.
const MAX_STRAY_SHARE: f64 = 0.2;
/// The least number and the largest deviation of pauses that prove a period by themselves, and the least correlation
/// at that period.
const MIN_RESTS: usize = 20;
const MAX_STEADY_IRREGULARITY: f64 = 0.1;
const MIN_STEADY_LIKENESS: f64 = 0.25;
/// The tolerance between the interval of pauses and the period.
const INTERVAL_TOLERANCE: f64 = 0.1;

/// A period; all times in spans of the series.
#[derive(Debug, PartialEq)]
pub(super) struct SeriesPeriod {
    pub(super) period: f64,
    pub(super) likeness: f64,
    /// The number of the last spans in which it was found.
    pub(super) window: usize,
    /// The longest pause of a period.
    pub(super) rest: f64,
    /// The start of the last such pause, from the start of the series.
    pub(super) last_rest: f64,
}

/// Tries all values, and then ever shorter windows at the end, because the period may be new. Each value has the sent
/// and the received bytes.
pub(super) fn detect(values: &[[f64; 2]]) -> Option<SeriesPeriod> {
    let begin = values.iter().position(|value| total(value) > 0.0)?;
    let mut window = values.len() - begin;
    while window >= MIN_WINDOW_SPANS {
        let start = values.len() - window;
        if let Some(detected) = detect_in(&values[start..]) {
            return Some(SeriesPeriod {
                last_rest: detected.last_rest + start as f64,
                ..detected
            });
        }
        window /= 2;
    }
    None
}

/// The shortest lag with a high correlation that passes every test.
fn detect_in(values: &[[f64; 2]]) -> Option<SeriesPeriod> {
    let octaves = octaves(values);
    let totals: Vec<_> = values.iter().map(total).collect();
    let peaks = octaves.iter().flat_map(|(series, scale)| {
        let peaks = peaks(series).into_iter();
        peaks.map(move |peak| (series, *scale, peak))
    });
    let mut found = peaks.filter_map(|(series, scale, peak)| tested(&totals, series, scale, peak));
    found.next().or_else(|| by_rests(&totals, &octaves))
}

/// Detects iterations of varying length by their pauses: these correlate little, but regular and distinct pauses prove
/// a period as well.
fn by_rests(values: &[f64], octaves: &[(Centred, f64)]) -> Option<SeriesPeriod> {
    let rests = distinct_rests(values)?;
    let steady =
        rests.irregularity <= MAX_STEADY_IRREGULARITY && rests.strays <= MAX_STEADY_IRREGULARITY;
    if rests.count < MIN_RESTS || !steady || !rests_to_the_present(values, &rests) {
        return None;
    }
    let lag = |scale: f64| (rests.interval / scale).round() as usize;
    let fitting = octaves.iter().find(|(_, scale)| lag(*scale) <= MAX_LAG);
    let likeness = fitting.map_or(0.0, |(series, scale)| series.at(lag(*scale)));
    (likeness >= MIN_STEADY_LIKENESS).then_some(SeriesPeriod {
        period: rests.interval,
        likeness,
        window: values.len(),
        rest: longest_pause(values, rests.interval),
        last_rest: rests.last_start as f64,
    })
}

fn rests_to_the_present(values: &[f64], rests: &Pauses) -> bool {
    (values.len() - rests.last_start) as f64 <= 3.0 * rests.interval
}

fn tested(values: &[f64], series: &Centred, scale: f64, peak: Peak) -> Option<SeriesPeriod> {
    let about = interpolated(series, peak.lag) * scale;
    let likely = MIN_LIKENESS + CHANCE_LIKENESS * about / values.len() as f64;
    if peak.likeness < likely || !holds_to_the_present(series, peak.lag) {
        return None;
    }
    let detected = |period, last_rest| SeriesPeriod {
        period,
        likeness: peak.likeness,
        window: values.len(),
        rest: longest_pause(values, period),
        last_rest,
    };
    match rests(values, about) {
        Some(rests) => {
            is_regular(&rests, about).then(|| detected(rests.interval, rests.last_start as f64))
        }
        None if peak.likeness >= MIN_LIKENESS_WITHOUT_RESTS => {
            Some(detected(refine(series, peak.lag) * scale, 0.0))
        }
        None => None,
    }
}

fn total([sent, received]: &[f64; 2]) -> f64 {
    sent + received
}

/// The series and its coarser versions, with their spans.
fn octaves(values: &[[f64; 2]]) -> Vec<(Centred, f64)> {
    let (mut octaves, mut scale) = (vec![], 1.0);
    let mut coarse = values.to_vec();
    while coarse.len() >= MIN_LAG * MIN_PERIODS {
        octaves.push((Centred::new(&coarse), scale));
        // Merged from the end, so that the newest values are complete.
        coarse = coarse
            .rchunks_exact(2)
            .rev()
            .map(|two| [0, 1].map(|way| two[0][way] + two[1][way]))
            .collect();
        scale *= 2.0;
    }
    octaves
}

#[derive(Clone, Copy)]
struct Peak {
    lag: usize,
    likeness: f64,
}

fn peaks(series: &Centred) -> Vec<Peak> {
    let most = MAX_LAG.min(series.len() / MIN_PERIODS);
    let likeness: Vec<_> = (0..=most + 1).map(|lag| series.at(lag)).collect();
    let (mut lowest, mut peaks) = (1.0_f64, vec![]);
    for lag in 1..=most {
        lowest = lowest.min(likeness[lag]);
        let is_peak = likeness[lag] >= likeness[lag - 1] && likeness[lag] > likeness[lag + 1];
        let rises = likeness[lag] >= MIN_LIKENESS.max(lowest + MIN_LIKENESS_RISE);
        if is_peak && rises && lag >= MIN_LAG {
            peaks.push(Peak {
                lag,
                likeness: likeness[lag],
            });
        }
    }
    peaks
}

/// Refines the period by its multiples, as long as they are distinguishable.
fn refine(centred: &Centred, lag: usize) -> f64 {
    let first = centred.at(lag);
    let mut period = interpolated(centred, lag);
    for multiple in 2..=centred.len() / (2 * lag) {
        let about = period * multiple as f64;
        let reach = (lag / 4).max(1);
        let near = about.round() as usize;
        let around = near.saturating_sub(reach)..=near + reach;
        let around = around.map(|lag| (lag, centred.at(lag)));
        let peak = around.max_by(|(_, a), (_, b)| a.total_cmp(b));
        let Some((peak, _)) = peak.filter(|&(_, top)| top >= MIN_MULTIPLE_LIKENESS * first) else {
            break;
        };
        period = interpolated(centred, peak) / multiple as f64;
    }
    period
}

/// The top of the parabola through a peak and its neighbours.
fn interpolated(centred: &Centred, peak: usize) -> f64 {
    let [before, top, after] = [peak - 1, peak, peak + 1].map(|lag| centred.at(lag));
    let bend = before - 2.0 * top + after;
    let shift = if bend < 0.0 {
        0.5 * (before - after) / bend
    } else {
        0.0
    };
    peak as f64 + shift.clamp(-0.5, 0.5)
}

/// Whether the last few periods correlate, too.
fn holds_to_the_present(centred: &Centred, lag: usize) -> bool {
    let start = centred.len().saturating_sub(4 * lag);
    let reach = (lag / 8).max(1);
    let mut near = lag - reach..=lag + reach;
    near.any(|lag| centred.between(start, lag) >= MIN_LIKENESS)
}

fn is_regular(rests: &Pauses, period: f64) -> bool {
    let off = (rests.interval - period).abs() / period;
    rests.irregularity <= MAX_IRREGULARITY
        && rests.strays <= MAX_STRAY_SHARE
        && off <= INTERVAL_TOLERANCE
}
