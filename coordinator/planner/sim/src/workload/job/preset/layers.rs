//! The presets as sequences of layers, each with what it costs one rank.

use super::gpu::Gpu;
use super::profile::{self, Cost, Kind, Measured, measured};
use super::{Layered, PresetError};

/// One layer, as one rank works on it for one micro-batch.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layer {
    pub(super) name: String,
    pub(super) cost: Cost,
    /// The weights that every replica holds, of this rank's slice.
    pub(super) parameters: u64,
    pub(super) output_bytes: u64,
    /// Bytes that the ranks of a slice reduce after each half of the layer.
    pub(super) sliced_bytes: Option<u64>,
    pub(super) experts: Option<Experts>,
}

/// The second half of a layer whose tokens go to experts on other ranks.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Experts {
    pub(super) cost: Cost,
    /// Parameters of the experts on this rank.
    pub(super) parameters: u64,
    /// Bytes that a rank sends and keeps, to the experts and back.
    pub(super) exchanged_bytes: u64,
}

/// bf16.
const BYTES_PER_VALUE: u64 = 2;
/// Throughput of large matrix products on the measured GPU.
const MATMUL_TFLOPS: f64 = 800.3;

/// The part of a model on one rank.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    pub(super) gpu: Gpu,
    pub(super) tensor: u32,
    pub(super) expert: u32,
    /// Samples of a micro-batch.
    pub(super) samples: f64,
    pub(super) seq: Option<u32>,
}

impl Layered {
    pub(super) fn layers(self, view: &View) -> Result<Vec<Layer>, PresetError> {
        match self {
            Self::Chain { model } => chain(model, view),
            Self::Transformer { model } => transformer(model, view),
            Self::Mixtral => mixtral(view),
            Self::FineGrained => fine_grained(view),
        }
    }
}

fn of_model(model: &str) -> Vec<Measured> {
    let mut layers = measured();
    layers.retain(|layer| layer.model == model);
    layers
}

pub(super) fn chain(model: &str, view: &View) -> Result<Vec<Layer>, PresetError> {
    if view.tensor > 1 {
        return Err(PresetError::NotSliced {
            model: model.to_owned(),
        });
    }
    Ok(of_model(model)
        .into_iter()
        .flat_map(|layer| {
            let one = Layer {
                name: layer.layer.clone(),
                cost: view.gpu.scaled(layer.kind, layer.cost(view.samples)),
                parameters: layer.parameters,
                output_bytes: (layer.output_bytes_per_sample as f64 * view.samples) as u64,
                sliced_bytes: None,
                experts: None,
            };
            std::iter::repeat_n(one, layer.count as usize)
        })
        .collect())
}

fn transformer(model: &str, view: &View) -> Result<Vec<Layer>, PresetError> {
    let block = sliced(model, "layer", view)?;
    let head = sliced(model, "lm_head", view)?;
    let one = Layer {
        sliced_bytes: (view.tensor > 1).then_some(block.output_bytes),
        ..block.layer
    };
    let blocks = std::iter::repeat_n(one, block.count as usize);
    Ok(blocks.chain([head.layer]).collect())
}

struct Sliced {
    layer: Layer,
    count: u32,
    seq: u32,
    output_bytes: u64,
}

/// A layer of a transformer for this many slices and such samples. What was not measured sliced is
/// taken to cost each slice its equal part.
fn sliced(model: &str, layer: &str, view: &View) -> Result<Sliced, PresetError> {
    let all = of_model(model).into_iter();
    let all: Vec<_> = all.filter(|it| it.layer == layer).collect();
    let whole = || all.iter().filter(|it| it.tensor == 1);
    let seqs = || whole().map(|it| it.seq);
    let seq = match view.seq {
        // The head costs each token the same, however long the samples are.
        Some(seq) if layer == "lm_head" => seq,
        Some(seq) if seqs().any(|known| known == seq) => seq,
        None => seqs().next().unwrap_or_default(),
        Some(seq) => {
            return Err(PresetError::NoSuchSeq {
                seq,
                known: seqs().collect(),
            });
        }
    };
    let fits = |it: &&Measured| it.seq == seq || layer == "lm_head";
    let exact = all.iter().filter(fits).find(|it| it.tensor == view.tensor);
    let (found, slices) = match exact.or_else(|| whole().find(fits)) {
        Some(found) => (found, f64::from(view.tensor / found.tensor)),
        None => {
            return Err(PresetError::NoSuchSeq {
                seq,
                known: seqs().collect(),
            });
        }
    };
    let samples = view.samples * f64::from(seq) / f64::from(found.seq);
    let cost = view.gpu.scaled(found.kind, found.cost(samples));
    let output_bytes = (found.output_bytes_per_sample as f64 * samples) as u64;
    Ok(Sliced {
        layer: Layer {
            name: found.layer.clone(),
            cost: cost.times(1.0 / slices),
            parameters: (found.parameters as f64 / slices) as u64,
            output_bytes,
            sliced_bytes: None,
            experts: None,
        },
        count: found.count,
        seq,
        output_bytes,
    })
}

/// A measured expert, and how many of them a layer has and a token visits.
struct Mixture {
    expert: Measured,
    experts: u32,
    visits: u32,
}

impl Mixture {
    fn named(layer: &str, experts: u32, visits: u32) -> Self {
        Self {
            expert: profile::the(|it| it.model == "moe_experts" && it.layer == layer),
            experts,
            visits,
        }
    }

    /// Tokens are spread evenly over all experts. `token_bytes` are sent in each direction per visit.
    fn half(&self, view: &View, tokens: f64, token_bytes: u64) -> Result<Experts, PresetError> {
        if !self.experts.is_multiple_of(view.expert) {
            return Err(PresetError::UnevenExperts {
                experts: self.experts,
                expert: view.expert,
            });
        }
        let here = self.experts / view.expert;
        let visits = tokens * f64::from(self.visits);
        let each = self.expert.cost(visits / f64::from(here));
        let each = view.gpu.scaled(Kind::Expert, each);
        Ok(Experts {
            cost: each.times(f64::from(here) / f64::from(view.tensor)),
            parameters: self.expert.parameters * u64::from(here) / u64::from(view.tensor),
            exchanged_bytes: (visits * token_bytes as f64) as u64 / u64::from(view.tensor),
        })
    }
}

/// Mixtral 8x7B: a layer is that of Llama 8B, whose dense half is as wide as one expert, with eight
/// experts in its place.
fn mixtral(view: &View) -> Result<Vec<Layer>, PresetError> {
    let dense = sliced("llama_8b", "layer", view)?;
    let head = sliced("llama_8b", "lm_head", view)?;
    let mixture = Mixture::named("mixtral_8x7b", 8, 2);
    let tokens = view.samples * f64::from(dense.seq);
    let token_bytes = 4096 * BYTES_PER_VALUE;
    let as_dense = view.gpu.scaled(Kind::Expert, mixture.expert.cost(tokens));
    let as_dense = as_dense.times(1.0 / f64::from(view.tensor));
    let dense_parameters = mixture.expert.parameters / u64::from(view.tensor);
    let one = Layer {
        cost: less(dense.layer.cost, as_dense),
        parameters: dense.layer.parameters.saturating_sub(dense_parameters),
        sliced_bytes: (view.tensor > 1).then_some(dense.output_bytes),
        experts: Some(mixture.half(view, tokens, token_bytes)?),
        ..dense.layer
    };
    let blocks = std::iter::repeat_n(one, dense.count as usize);
    Ok(blocks.chain([head.layer]).collect())
}

/// A tenth of the whole at least: two measurements, one taken from the other, may say anything.
fn less(whole: Cost, part: Cost) -> Cost {
    let rest = |whole: f64, part: f64| (whole - part).max(whole / 10.0);
    Cost {
        forward_ms: rest(whole.forward_ms, part.forward_ms),
        backward_ms: rest(whole.backward_ms, part.backward_ms),
    }
}

/// 61 layers of 64 narrow experts, eight of them visited. Attention of this width was not measured:
/// it is taken from its arithmetic, at what large products reach, and backward as twice forward.
fn fine_grained(view: &View) -> Result<Vec<Layer>, PresetError> {
    const HIDDEN_SIZE: u64 = 7168;
    const LAYER_COUNT: usize = 61;
    let seq = view.seq.unwrap_or(4096);
    let mixture = Mixture::named("fine_grained_64x", 64, 8);
    let tokens = view.samples * f64::from(seq);
    let parameters = 4 * HIDDEN_SIZE * HIDDEN_SIZE;
    let flops_per_token = 2 * parameters + 4 * u64::from(seq) * HIDDEN_SIZE;
    let forward_ms = tokens * flops_per_token as f64 / (MATMUL_TFLOPS * 1e9);
    let cost = Cost {
        forward_ms,
        backward_ms: 2.0 * forward_ms,
    };
    let slices = f64::from(view.tensor);
    let output_bytes = (tokens * (HIDDEN_SIZE * BYTES_PER_VALUE) as f64) as u64;
    let one = Layer {
        name: "layer".to_owned(),
        cost: view.gpu.scaled(Kind::Transformer, cost).times(1.0 / slices),
        parameters: parameters / u64::from(view.tensor),
        output_bytes,
        sliced_bytes: (view.tensor > 1).then_some(output_bytes),
        experts: Some(mixture.half(view, tokens, HIDDEN_SIZE * BYTES_PER_VALUE)?),
    };
    Ok(std::iter::repeat_n(one, LAYER_COUNT).collect())
}
