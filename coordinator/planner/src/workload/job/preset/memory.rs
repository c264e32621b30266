//! What a rank of a preset needs of its memory, by and large.
//!
//! Training in mixed precision keeps, for each parameter, its bf16 value, its gradient, and twelve
//! bytes of the optimizer (the full value and two moments); zero stages deal these out. Of a sample,
//! a layer keeps what its way back needs: of a transformer about 17 times its output (34 bytes for
//! each value of two bytes), a part of which for each slice, and of other layers their input and
//! output. Buffers for communication and fragmentation are left out.

use reweave_common::units::Bytes;

use super::layered::pieces;
use super::layers::Layer;
use super::{Family, Preset, PresetError, Zero};

const WEIGHT_BYTES: f64 = 2.0;
const OPTIMIZER_BYTES: f64 = 12.0;
/// Kept for the way back, against the output.
const OF_A_TRANSFORMER: f64 = 17.0;
const OF_ANOTHER: f64 = 2.0;

impl Preset {
    /// The fullest rank's; nothing for models around tables, whose size is not known.
    pub fn memory(&self, ranks: usize) -> Result<Option<Bytes>, PresetError> {
        let Family::Layered(layered) = self.family else {
            return Ok(None);
        };
        let spread = &self.parallelism;
        let data = self.replicas(ranks)?;
        let layers = self.layers(layered, self.samples(data)?)?;
        let pieces = pieces(&layers, spread.places())?;
        let of_stage = |stage: usize| -> f64 {
            let own = pieces.iter().skip(stage).step_by(spread.pipeline);
            // A stage works ahead by as many micro-batches as there are stages behind it.
            let ahead = (spread.pipeline - stage).min(spread.microbatches) as f64;
            let layer = |layer: &Layer| self.state(layer, data) + ahead * self.kept(layer);
            own.flat_map(|piece| piece.iter()).map(layer).sum()
        };
        let most = (0..spread.pipeline).map(of_stage).fold(0.0, f64::max);
        Ok(Some(Bytes::new(most as u64)))
    }

    /// Weights, gradients and the optimizer's.
    fn state(&self, layer: &Layer, data: usize) -> f64 {
        let zero = self.parallelism.zero;
        let dealt = |from: Zero, bytes: f64, among: usize| match zero >= from {
            true => bytes / among.max(1) as f64,
            false => bytes,
        };
        let of = |parameters: u64, replicas: usize| {
            let gradient = self.gradient_bytes as f64;
            let each = dealt(Zero::Weights, WEIGHT_BYTES, replicas)
                + dealt(Zero::Gradients, gradient, replicas)
                + dealt(Zero::Optimizer, OPTIMIZER_BYTES, replicas);
            parameters as f64 * each
        };
        let experts = layer
            .experts
            .as_ref()
            .map_or(0, |experts| experts.parameters);
        of(layer.parameters, data) + of(experts, data / self.parallelism.expert)
    }

    fn kept(&self, layer: &Layer) -> f64 {
        let times = match (
            self.recompute,
            layer.sliced_bytes.is_some() || layer.experts.is_some(),
        ) {
            (true, _) => 1.0,
            (false, true) => OF_A_TRANSFORMER / self.parallelism.tensor as f64,
            (false, false) => OF_ANOTHER,
        };
        layer.output_bytes as f64 * times
    }
}
