//! Finds the period of a series, if it has one.
//!
//! Each octave of periods has a series of its own, which is made coarser until a period has some ten to twenty spans.
//! So neither the activity within an iteration nor the variation between iterations blurs the period.

use super::autocorrelation::Centred;
use super::pauses::{Pauses, distinct_rests, longest_pause, rests};

/// The lags that are looked at in each octave, in its spans; shorter ones belong to the one before.
const MIN_LAG: usize = 7;
const MAX_LAG: usize = 15;
/// A period is accepted once it was seen this often.
const MIN_PERIODS: usize = 6;
/// The shortest window that is looked at.
const MIN_WINDOW_SPANS: usize = 64;
/// How like itself a series must be a period later, seen very often; seen less often, chance may
/// make it likelier ...
const MIN_LIKENESS: f64 = 0.5;
const CHANCE_LIKENESS: f64 = 2.6;
/// ... and how much more so than at the lags before.
const MIN_LIKENESS_RISE: f64 = 0.35;
/// What has no pauses must be more like itself.
const MIN_LIKENESS_WITHOUT_RESTS: f64 = 0.9;
/// A multiple of the period that is less like it than this part cannot be made out any longer.
const MIN_MULTIPLE_LIKENESS: f64 = 0.6;
/// How far pauses may stray from the iteration period.
const MAX_IRREGULARITY: f64 = 0.15;
/// How many may be far from it.
const MAX_STRAY_SHARE: f64 = 0.2;
/// Pauses that tell of an iteration period by themselves: how many there must be, how little they may stray, and how
/// like itself the series must be a period later, at least.
const MIN_RESTS: usize = 20;
const MAX_STEADY_IRREGULARITY: f64 = 0.1;
const MIN_STEADY_LIKENESS: f64 = 0.25;
/// How far the interval between pauses may be from the period.
const INTERVAL_TOLERANCE: f64 = 0.1;

/// All in spans of the series.
#[derive(Debug, PartialEq)]
pub(super) struct SeriesPeriod {
    pub(super) period: f64,
    pub(super) likeness: f64,
    /// How many of the last spans it was found in.
    pub(super) window: usize,
    /// The longest pause of a period.
    pub(super) rest: f64,
    /// Where the last such pause began, counted from the start of the series.
    pub(super) last_rest: f64,
}

/// Looks at all that is there, then at ever shorter windows before the end: the iteration period may be new.
/// Each value is what was sent and received.
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

/// The shortest of the lags at which the series is like itself that stands every test.
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

/// Iterations that last now longer, now shorter, are hardly like one another; but if they are set
/// apart by clear pauses, and these come regularly, that tells as much.
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

/// The series, then ever coarser, each with the length of its spans.
fn octaves(values: &[[f64; 2]]) -> Vec<(Centred, f64)> {
    let (mut octaves, mut scale) = (vec![], 1.0);
    let mut coarse = values.to_vec();
    while coarse.len() >= MIN_LAG * MIN_PERIODS {
        octaves.push((Centred::new(&coarse), scale));
        // From the end, so that what is newest is whole.
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

/// Multiples of the period tell it more exactly, as long as they can be made out.
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

/// Whether the last few periods are like one another, too.
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
