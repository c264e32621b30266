//! What nccl-tests measured.

use reweave_common::input::InputError;

/// One line: bytes, and how long they took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measurement {
    pub bytes: f64,
    pub time_us: f64,
}

/// From simulated to measured times: stretched, and shifted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    pub shift_us: f64,
    pub stretch: f64,
}

impl Default for Calibration {
    fn default() -> Self {
        Self {
            shift_us: 0.0,
            stretch: 1.0,
        }
    }
}

/// Places of the columns in the output: `size count type redop root time ...`.
const SIZE: usize = 0;
const TIME: usize = 5;
const FEWEST_CELLS: usize = 8;

/// Reads what `all_reduce_perf` and its siblings print; `file` is the name that errors call it by.
pub fn read(file: &str, text: &str) -> Result<Vec<Measurement>, InputError> {
    let lines = (1..).zip(text.lines());
    let said = lines.filter(|(_, line)| {
        let line = line.trim_start();
        line.starts_with(|first: char| first.is_ascii_digit())
    });
    let measured = said.map(|(number, line)| {
        let cells: Vec<_> = line.split_ascii_whitespace().collect();
        let figure = |place: usize| cells.get(place)?.parse::<f64>().ok();
        let positive = |place| figure(place).filter(|it| *it > 0.0 && it.is_finite());
        let both = (cells.len() >= FEWEST_CELLS).then(|| positive(SIZE).zip(positive(TIME)));
        let (bytes, time_us) = both.flatten().ok_or_else(|| InputError {
            file: file.to_owned(),
            line: number,
            key: String::new(),
            problem: "this is no line of nccl-tests: size, count, type, redop, root, time"
                .to_owned(),
        })?;
        Ok(Measurement { bytes, time_us })
    });
    measured.collect()
}

impl Calibration {
    /// The line through simulated and measured times that is off by the least parts of them. One
    /// size alone only stretches.
    pub fn fit(pairs: &[(f64, f64)]) -> Option<Self> {
        let [mut w, mut x, mut y, mut xx, mut xy] = [0.0; 5];
        for &(simulated, measured) in pairs {
            let weight = 1.0 / (measured * measured);
            w += weight;
            x += weight * simulated;
            y += weight * measured;
            xx += weight * simulated * simulated;
            xy += weight * simulated * measured;
        }
        let spread = xx - x * x / w;
        let fitted = Self {
            stretch: (xy - x * y / w) / spread,
            shift_us: (y - (xy - x * y / w) / spread * x) / w,
        };
        let through_origin = Self {
            stretch: xy / xx,
            shift_us: 0.0,
        };
        match pairs.len() {
            0 => None,
            1 => Some(through_origin),
            _ if fitted.stretch > 0.0 && fitted.shift_us >= 0.0 => Some(fitted),
            // Nothing takes less than no time.
            _ => Some(through_origin),
        }
    }

    pub fn applied(&self, time_us: f64) -> f64 {
        self.shift_us + self.stretch * time_us
    }
}
