//! Autocorrelation of a series at a lag.

/// A series with its rare peaks clipped and its mean subtracted. Sent and received bytes are separate components,
/// because they differ.
pub(super) struct Centred {
    directions: [Vec<f64>; 2],
    /// Cumulative sums of squares.
    energy: Vec<f64>,
}

/// Values above this quantile are clipped, so that a checkpoint does not mask the iterations.
const CLIP_QUANTILE: f64 = 0.95;

impl Centred {
    pub(super) fn new(values: &[[f64; 2]]) -> Self {
        let directions = [0, 1].map(|way| centred(values.iter().map(|value| value[way])));
        let mut energy = vec![0.0];
        let mut sum = 0.0;
        let pairs = directions[0].iter().zip(&directions[1]);
        energy.extend(pairs.map(|(sent, received)| {
            sum += sent * sent + received * received;
            sum
        }));
        Self { directions, energy }
    }

    pub(super) fn len(&self) -> usize {
        self.directions[0].len()
    }

    /// The correlation of all but the last `lag` values with all but the first, from -1 to 1.
    pub(super) fn at(&self, lag: usize) -> f64 {
        self.between(0, lag)
    }

    /// The same for the values from `start` on.
    pub(super) fn between(&self, start: usize, lag: usize) -> f64 {
        let end = self.len();
        if start + lag >= end {
            return 0.0;
        }
        let product = |values: &Vec<f64>| dot(&values[start..end - lag], &values[start + lag..]);
        let product: f64 = self.directions.iter().map(product).sum();
        let energy = |from: usize, to: usize| self.energy[to] - self.energy[from];
        let norm = energy(start, end - lag) * energy(start + lag, end);
        if norm > 0.0 {
            product / norm.sqrt()
        } else {
            0.0
        }
    }
}

fn centred(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let values: Vec<_> = values.collect();
    let most = quantile_of_busy(&values, CLIP_QUANTILE);
    let cut = values.iter().map(|&value| value.min(most));
    let mean = cut.clone().sum::<f64>() / values.len().max(1) as f64;
    cut.map(|value| value - mean).collect()
}

/// The dot product in eight partial sums, for SIMD.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a_blocks, b_blocks) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = a_blocks
        .remainder()
        .iter()
        .zip(b_blocks.remainder())
        .map(|(a, b)| a * b)
        .sum();
    let mut sums = [0.0; 8];
    for (a, b) in a_blocks.zip(b_blocks) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    rest + sums.iter().sum::<f64>()
}

/// The quantile of the values above zero.
pub(super) fn quantile_of_busy(values: &[f64], part: f64) -> f64 {
    let mut busy: Vec<_> = values
        .iter()
        .copied()
        .filter(|&value| value > 0.0)
        .collect();
    if busy.is_empty() {
        return 0.0;
    }
    let at = ((busy.len() - 1) as f64 * part) as usize;
    *busy.select_nth_unstable_by(at, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saw(period: usize, len: usize) -> Vec<[f64; 2]> {
        (0..len).map(|at| [(at % period) as f64, 0.0]).collect()
    }

    #[test]
    fn series_correlates_after_one_period() {
        let saw = Centred::new(&saw(10, 200));
        assert!(saw.at(10) > 0.999 && saw.at(20) > 0.999);
        assert!(saw.at(5) < 0.0);
    }

    #[test]
    fn send_and_receive_are_anticorrelated() {
        let turns: Vec<_> = (0..100)
            .map(|at| [[9.0, 0.0], [0.0, 9.0]][at / 5 % 2])
            .collect();
        let turns = Centred::new(&turns);
        assert!(turns.at(5) < -0.9 && turns.at(10) > 0.9);
    }

    #[test]
    fn outlier_does_not_hide_correlation() {
        let mut values = saw(10, 200);
        values[77][0] = 1e9;
        assert!(Centred::new(&values).at(10) > 0.9);
    }

    #[test]
    fn constant_series_has_no_correlation() {
        assert_eq!(Centred::new(&[[5.0; 2]; 100]).at(7), 0.0);
        assert_eq!(Centred::new(&[]).at(0), 0.0);
    }

    #[test]
    fn quantiles_cover_busy_spans_only() {
        assert_eq!(quantile_of_busy(&[0.0, 0.0, 1.0, 2.0, 3.0], 0.5), 2.0);
        assert_eq!(quantile_of_busy(&[0.0], 0.5), 0.0);
    }
}
