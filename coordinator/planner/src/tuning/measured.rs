//! What nccl-tests measured, and what that says of the simulated times.

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
    /// As in `all_reduce_perf`; older versions do not say it.
    pub operation: Option<String>,
    pub ranks: Option<usize>,
}

/// How many times as long as simulated it takes until the first byte is there, and the bytes take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    pub latency: f64,
    pub wire: f64,
    /// By what part of what was measured the times are off still.
    pub off: f64,
}

impl Default for Calibration {
    fn default() -> Self {
        Self {
            latency: 1.0,
            wire: 1.0,
            off: 0.0,
        }
    }
}

/// What was simulated, in two parts, and what was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    pub latency_us: f64,
    pub wire_us: f64,
    pub measured_us: f64,
}

/// Places of the columns in the output: `size count type redop root time ...`.
const SIZE: usize = 0;
const TIME: usize = 5;
const FEWEST_CELLS: usize = 8;
const STARTING: &str = "# Collective test starting:";
const RANK: &str = "#  Rank ";
/// Parts that grow alike are not told apart.
const ALIKE: f64 = 1e-6;

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
            problem: "this is no line of nccl-tests: size, count, type, redop, root, time"
                .to_owned(),
        })
    });
    let ranks = text.lines().filter(|line| line.starts_with(RANK)).count();
    let operation = text.lines().find_map(|line| line.strip_prefix(STARTING));
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
    let both = (cells.len() >= FEWEST_CELLS).then(|| positive(SIZE).zip(positive(TIME)));
    let (bytes, time_us) = both.flatten()?;
    Some(Measurement { bytes, time_us })
}

impl Calibration {
    /// The factors by which all samples are off by the least parts of them. What samples say nothing
    /// of, or nonsense, stays as it was simulated.
    pub fn fit(samples: &[Sample]) -> Option<Self> {
        let parts = samples.iter().map(|it| {
            let [latency, wire] = [it.latency_us, it.wire_us].map(|part| part / it.measured_us);
            (latency, wire)
        });
        let parts: Vec<_> = parts.collect();
        let factors = factors(&parts)?;
        let off = |(latency, wire): &(f64, f64)| {
            let off = factors[0] * latency + factors[1] * wire - 1.0;
            off * off
        };
        let mean = parts.iter().map(off).sum::<f64>() / parts.len() as f64;
        Some(Self {
            latency: factors[0],
            wire: factors[1],
            off: mean.sqrt(),
        })
    }

    pub fn applied(&self, latency_us: f64, wire_us: f64) -> f64 {
        self.latency * latency_us + self.wire * wire_us
    }
}

/// By least squares, of latency and wire as parts of what was measured.
fn factors(parts: &[(f64, f64)]) -> Option<[f64; 2]> {
    let sum = |of: fn(&(f64, f64)) -> f64| parts.iter().map(of).sum::<f64>();
    let [a, b] = [sum(|it| it.0), sum(|it| it.1)];
    let [aa, ab, bb] = [
        sum(|it| it.0 * it.0),
        sum(|it| it.0 * it.1),
        sum(|it| it.1 * it.1),
    ];
    let determinant = aa * bb - ab * ab;
    if parts.is_empty() || aa + bb == 0.0 {
        return None;
    }
    if determinant <= ALIKE * aa * bb {
        let both = (a + b) / (aa + 2.0 * ab + bb);
        return Some([both; 2]);
    }
    let latency = (a * bb - b * ab) / determinant;
    let wire = (b * aa - a * ab) / determinant;
    let or_as_simulated = |factor: f64| if factor > 0.0 { factor } else { 1.0 };
    Some(match (latency > 0.0, wire > 0.0) {
        (true, true) => [latency, wire],
        (true, false) => [or_as_simulated((a - ab) / aa), 1.0],
        _ => [1.0, or_as_simulated((b - ab) / bb)],
    })
}
