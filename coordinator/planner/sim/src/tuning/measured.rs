//! Output of nccl-tests, and the calibration of simulated times by it.

use reweave_common::input::InputError;

/// One line: bytes, and how long they took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measurement {
    pub bytes: f64,
    pub time_us: f64,
}

/// All lines of a run, and what it says of itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Printed {
    pub lines: Vec<Measurement>,
    /// Operation, such as `all_reduce_perf`; absent in older versions.
    pub operation: Option<String>,
    pub ranks: Option<usize>,
}

/// Ratios of measured to simulated time: until the first byte, for the start of all channels, and for the bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    pub latency: f64,
    pub start: f64,
    pub wire: f64,
    /// Remaining relative error of the times.
    pub off: f64,
}

impl Default for Calibration {
    fn default() -> Self {
        Self {
            latency: 1.0,
            start: 1.0,
            wire: 1.0,
            off: 0.0,
        }
    }
}

/// Parts of a time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Parts {
    pub(super) latency_us: f64,
    /// Start of all channels but the first.
    pub(super) start_us: f64,
    pub(super) wire_us: f64,
}

/// Simulated parts, and the measured time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    pub(super) parts: Parts,
    pub(super) measured_us: f64,
}

/// Places of the columns in the output: `size count type redop root time ...`.
const SIZE_COLUMN: usize = 0;
const TIME_COLUMN: usize = 5;
const MIN_CELLS: usize = 8;
const START_LINE: &str = "# Collective test starting:";
const RANK_LINE: &str = "#  Rank ";
/// Parts that are proportional cannot be distinguished.
const MIN_PIVOT_RATIO: f64 = 1e-6;

/// Reads what `all_reduce_perf` and its siblings print; `file` is the name that errors call it by.
pub fn read(file: &str, text: &str) -> Result<Printed, InputError> {
    let lines = (1..).zip(text.lines());
    let figures = lines.filter(|(_, line)| {
        let line = line.trim_start();
        line.starts_with(|first: char| first.is_ascii_digit())
    });
    let measured = figures.map(|(number, line)| {
        measurement(line).ok_or_else(|| InputError {
            file: file.to_owned(),
            line: number,
            key: String::new(),
            problem: "not a line of nccl-tests: size, count, type, redop, root, time".to_owned(),
        })
    });
    let ranks = text
        .lines()
        .filter(|line| line.starts_with(RANK_LINE))
        .count();
    let operation = text.lines().find_map(|line| line.strip_prefix(START_LINE));
    Ok(Printed {
        lines: measured.collect::<Result<_, _>>()?,
        operation: operation.map(|name| name.trim().to_owned()),
        ranks: (ranks > 0).then_some(ranks),
    })
}

fn measurement(line: &str) -> Option<Measurement> {
    let cells: Vec<_> = line.split_ascii_whitespace().collect();
    let figure = |place: usize| cells.get(place)?.parse::<f64>().ok();
    let positive = |place| figure(place).filter(|it| *it > 0.0 && it.is_finite());
    let both = (cells.len() >= MIN_CELLS).then(|| positive(SIZE_COLUMN).zip(positive(TIME_COLUMN)));
    let (bytes, time_us) = both.flatten()?;
    Some(Measurement { bytes, time_us })
}

impl Calibration {
    /// The factors by which all samples are off by the least parts of them. What samples say nothing
    /// of, or nonsense, stays as it was simulated.
    pub(super) fn fit(samples: &[Sample]) -> Option<Self> {
        let parts = samples.iter().map(|it| {
            let Parts {
                latency_us,
                start_us,
                wire_us,
            } = it.parts;
            [latency_us, start_us, wire_us].map(|part| part / it.measured_us)
        });
        let parts: Vec<_> = parts.collect();
        let [latency, start, wire] = factors(&parts)?;
        Some(Self {
            latency,
            start,
            wire,
            off: (squares(&parts, &[latency, start, wire]) / parts.len() as f64).sqrt(),
        })
    }

    pub(super) fn applied(&self, parts: &Parts) -> f64 {
        self.latency * parts.latency_us + self.start * parts.start_us + self.wire * parts.wire_us
    }
}

const PART_COUNT: usize = 3;

/// Columns that one factor each is fitted to; what is not named stays as it was simulated. Starts are distinguished
/// from latency where numbers of channels differ, and both from bytes where sizes do.
const FACTOR_GROUPS: [&[&[usize]]; 6] = [
    &[&[0], &[1], &[2]],
    &[&[0, 1], &[2]],
    &[&[0], &[2]],
    &[&[0, 1, 2]],
    &[&[0, 1]],
    &[&[2]],
];
/// A later fit must be off by so much less, and by more than rounding.
const MAX_BETTER_RATIO: f64 = 0.9;
const ROUNDING_TOLERANCE: f64 = 1e-12;

/// Returns factors of latency, starts and transfer, by least squares of relative errors.
fn factors(parts: &[[f64; PART_COUNT]]) -> Option<[f64; PART_COUNT]> {
    let fits = FACTOR_GROUPS
        .iter()
        .filter_map(|groups| factors_of(parts, groups));
    let off = |factors: &[f64; PART_COUNT]| squares(parts, factors);
    fits.reduce(|a, b| {
        if off(&b) + ROUNDING_TOLERANCE < MAX_BETTER_RATIO * off(&a) {
            b
        } else {
            a
        }
    })
}

fn squares(parts: &[[f64; PART_COUNT]], factors: &[f64; PART_COUNT]) -> f64 {
    let off = |of: &[f64; PART_COUNT]| {
        let whole = of.iter().zip(factors).map(|(part, factor)| part * factor);
        whole.sum::<f64>() - 1.0
    };
    parts.iter().map(|of| off(of) * off(of)).sum()
}

/// Returns none if some groups are proportional, or a factor would be implausible.
fn factors_of(parts: &[[f64; PART_COUNT]], groups: &[&[usize]]) -> Option<[f64; PART_COUNT]> {
    let row = |of: &[f64; PART_COUNT]| {
        let sum = |group: &&[usize]| group.iter().map(|&it| of[it]).sum::<f64>();
        let fitted: Vec<_> = groups.iter().map(sum).collect();
        let rest = of.iter().sum::<f64>() - fitted.iter().sum::<f64>();
        (fitted, 1.0 - rest)
    };
    let found = least_squares(&parts.iter().map(row).collect::<Vec<_>>())?;
    let mut factors = [1.0; PART_COUNT];
    for (group, factor) in groups.iter().zip(&found) {
        group.iter().for_each(|&it| factors[it] = *factor);
    }
    found
        .iter()
        .all(|factor| *factor > MIN_PIVOT_RATIO)
        .then_some(factors)
}

/// Values of the columns, and their target.
type Line = (Vec<f64>, f64);

/// Returns the factors of the columns that best approximate the target; none if columns are dependent.
fn least_squares(rows: &[Line]) -> Option<Vec<f64>> {
    let columns = rows.first()?.0.len();
    let sum = |of: &dyn Fn(&Line) -> f64| rows.iter().map(of).sum::<f64>();
    let line = |a: usize| {
        let products = (0..columns).map(|b| sum(&|row| row.0[a] * row.0[b]));
        let target = sum(&|row| row.0[a] * row.1);
        products.chain([target]).collect::<Vec<_>>()
    };
    let mut lines: Vec<_> = (0..columns).map(line).collect();
    for at in 0..columns {
        let whole = lines[at][at];
        for above in 0..at {
            let factor = lines[at][above] / lines[above][above];
            let (before, rest) = lines.split_at_mut(at);
            let pairs = rest[0].iter_mut().zip(&before[above]);
            pairs.for_each(|(it, above)| *it -= factor * above);
        }
        if lines[at][at] <= MIN_PIVOT_RATIO * whole {
            return None;
        }
    }
    let mut found = vec![0.0; columns];
    for at in (0..columns).rev() {
        let known = (at + 1..columns).map(|it| lines[at][it] * found[it]);
        found[at] = (lines[at][columns] - known.sum::<f64>()) / lines[at][at];
    }
    Some(found)
}
