//! Approximate memory of a rank of a preset.
//!
//! Mixed-precision training keeps for each parameter its bf16 value, its gradient, and twelve bytes of the optimizer
//! (the full value and two moments); zero stages distribute these. For the backward pass a layer keeps activations of
//! each sample: for a transformer about 17 times its output (34 bytes per two-byte value), partly divided by slices,
//! and for other layers their input and output. Communication buffers and fragmentation are left out.

use reweave_common::units::Bytes;

use super::layered::pieces;
use super::layers::{self, Layer, View};
use super::{DENSE_LAYERS, Family, Layered, Preset, PresetError, Zero, embedding, tables};

const WEIGHT_BYTES: f64 = 2.0;
const OPTIMIZER_BYTES: f64 = 12.0;
/// Optimizer state per row of a table.
const ROW_STATE_BYTES: f64 = 4.0;
/// Activations kept for the backward pass, relative to the output.
const TRANSFORMER_ACTIVATION_RATIO: f64 = 17.0;
const OTHER_ACTIVATION_RATIO: f64 = 2.0;

impl Preset {
    /// The fullest rank's.
    pub fn memory(&self, ranks: usize) -> Result<Bytes, PresetError> {
        match self.family {
            Family::Layered(layered) => self.memory_of_layers(layered, ranks),
            Family::Tables {
                model,
                tables,
                rows,
            } => {
                let tables = self.tables.unwrap_or(tables);
                let rows = self.table_rows.unwrap_or(rows);
                self.memory_of_tables(model, ranks, tables, rows)
            }
        }
    }

    /// The tables of the rank that has most, and the dense layers, which all have.
    fn memory_of_tables(
        &self,
        model: &str,
        ranks: usize,
        tables: usize,
        rows: u64,
    ) -> Result<Bytes, PresetError> {
        self.check_columns()?;
        let data = self.replicas(ranks)?;
        let columns = self.parallelism.columns;
        let held = tables::dealt_out(tables * columns, data, self.gpus_per_host);
        let most = held.into_iter().max().unwrap_or(0) as f64;
        let of_row = embedding().output_bytes_per_sample as f64 / columns as f64 + ROW_STATE_BYTES;
        let view = View {
            gpu: self.gpu,
            tensor: 1,
            expert: 1,
            samples: self.samples(data)? as f64,
            seq: None,
        };
        let dense = layers::chain(model, &view)?;
        let dense: f64 = dense
            .iter()
            .filter(|layer| DENSE_LAYERS.contains(&layer.name.as_str()))
            .map(|it| self.state(it, data) + self.kept(it))
            .sum();
        Ok(Bytes::new((most * rows as f64 * of_row + dense) as u64))
    }

    fn memory_of_layers(&self, layered: Layered, ranks: usize) -> Result<Bytes, PresetError> {
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
        Ok(Bytes::new(most as u64))
    }

    /// Weights, gradients and the optimizer's.
    fn state(&self, layer: &Layer, data: usize) -> f64 {
        let zero = self.parallelism.zero;
        let dealt = |from: Zero, bytes: f64, among: usize| {
            if zero >= from {
                bytes / among.max(1) as f64
            } else {
                bytes
            }
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
            (false, true) => TRANSFORMER_ACTIVATION_RATIO / self.parallelism.tensor as f64,
            (false, false) => OTHER_ACTIVATION_RATIO,
        };
        layer.output_bytes as f64 * times
    }
}
