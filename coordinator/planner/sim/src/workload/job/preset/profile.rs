//! Measured times of the presets' layers, and interpolation for other batches.

use std::time::Duration;

use reweave_common::time_span::TimeSpan;

/// Layer by layer, with the conditions of the measurement in its head.
const H200_PROFILE: &str = include_str!("../../../../profiles/h200.csv");

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Conv,
    Dense,
    Transformer,
    Expert,
    Pool,
    Reshape,
    Embedding,
}

impl Kind {
    /// Whether arithmetic limits it; else it is memory.
    pub(super) fn is_arithmetic(self) -> bool {
        match self {
            Self::Conv | Self::Dense | Self::Transformer | Self::Expert => true,
            Self::Pool | Self::Reshape | Self::Embedding => false,
        }
    }

    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "conv" => Self::Conv,
            "dense" => Self::Dense,
            "transformer" => Self::Transformer,
            "expert" => Self::Expert,
            "pool" => Self::Pool,
            "reshape" => Self::Reshape,
            "embedding" => Self::Embedding,
            _ => return None,
        })
    }
}

/// One layer, or `count` equal ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    pub model: String,
    pub layer: String,
    pub kind: Kind,
    pub count: u32,
    /// Over how many ranks it is sliced; the other figures are those of one slice.
    pub tensor: u32,
    /// Tokens of a sample; zero where samples have none.
    pub seq: u32,
    pub parameters: u64,
    pub output_bytes_per_sample: u64,
    /// By batch, smallest first.
    pub points: Vec<Point>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    pub batch: f64,
    pub forward_ms: f64,
    pub backward_ms: f64,
}

/// Everything that was measured.
pub fn measured() -> Vec<Measured> {
    let lines = H200_PROFILE.lines().filter(|line| !line.starts_with('#'));
    let layer = |line| parse(line).expect("the file in the tree is well-formed");
    lines.map(layer).collect()
}

/// The first of which this is so; something is.
pub(super) fn the(is_it: impl Fn(&Measured) -> bool) -> Measured {
    let found = measured().into_iter().find(is_it);
    found.expect("the file in the tree has every layer that presets name")
}

fn parse(line: &str) -> Option<Measured> {
    let mut fields = line.split(',');
    let mut next = || fields.next();
    Some(Measured {
        model: next()?.to_owned(),
        layer: next()?.to_owned(),
        kind: Kind::named(next()?)?,
        count: next()?.parse().ok()?,
        tensor: next()?.parse().ok()?,
        seq: next()?.parse().ok()?,
        parameters: next()?.parse().ok()?,
        output_bytes_per_sample: next()?.parse().ok()?,
        points: next()?.split(' ').map(point).collect::<Option<_>>()?,
    })
}

fn point(text: &str) -> Option<Point> {
    let mut figures = text.split(':').map(str::parse::<f64>);
    let mut next = || figures.next()?.ok();
    Some(Point {
        batch: next()?,
        forward_ms: next()?,
        backward_ms: next()?,
    })
}

/// Cost of one layer for one batch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cost {
    pub forward_ms: f64,
    pub backward_ms: f64,
}

impl Cost {
    pub fn forward(self) -> Duration {
        TimeSpan::from_secs_f64(self.forward_ms / 1e3).get()
    }

    pub fn backward(self) -> Duration {
        TimeSpan::from_secs_f64(self.backward_ms / 1e3).get()
    }

    pub fn times(self, factor: f64) -> Self {
        Self {
            forward_ms: self.forward_ms * factor,
            backward_ms: self.backward_ms * factor,
        }
    }

    pub fn plus(self, other: Self) -> Self {
        Self {
            forward_ms: self.forward_ms + other.forward_ms,
            backward_ms: self.backward_ms + other.backward_ms,
        }
    }
}

impl Measured {
    /// Between two measured batches, on the line between them; above the largest, in proportion to
    /// it; below the smallest, as that one. A smaller batch never takes longer than a larger one:
    /// where it was measured so, the clock of an idle processor was slow, and the larger one's time
    /// stands.
    pub fn cost(&self, batch: f64) -> Cost {
        Cost {
            forward_ms: self.time(batch, |point| point.forward_ms),
            backward_ms: self.time(batch, |point| point.backward_ms),
        }
    }

    fn time(&self, batch: f64, of: fn(&Point) -> f64) -> f64 {
        let mut above: Option<(f64, f64)> = None;
        for point in self.points.iter().rev() {
            let ms = above.map_or(f64::INFINITY, |(_, ms)| ms).min(of(point));
            if point.batch <= batch {
                return match above {
                    None => ms * batch / point.batch,
                    Some((more, more_ms)) => {
                        ms + (more_ms - ms) * (batch - point.batch) / (more - point.batch)
                    }
                };
            }
            above = Some((point.batch, ms));
        }
        above.map_or(0.0, |(_, ms)| ms)
    }
}
