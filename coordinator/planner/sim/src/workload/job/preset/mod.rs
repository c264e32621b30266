//! Presets: well-known models with measured layers, spread over ranks as people spread them.

pub mod gpu;
mod grid;
mod layered;
mod layers;
mod losses;
mod memory;
mod profile;
mod schedule;
mod tables;
mod task_chains;

use std::fmt;

use reweave_common::iteration::{Iteration, IterationError};

pub use gpu::Gpu;
pub use profile::{Cost, Kind, Measured, Point, measured};

use layers::{Layer, View};

/// Parts of a model's state that are distributed over its replicas.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Zero {
    #[default]
    Off,
    Optimizer,
    Gradients,
    Weights,
}

impl Zero {
    pub fn stage(stage: u64) -> Option<Self> {
        [Self::Off, Self::Optimizer, Self::Gradients, Self::Weights]
            .get(usize::try_from(stage).ok()?)
            .copied()
    }
}

/// Distribution of a model over ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parallelism {
    /// Replicas; as many as there is room for when it is not said.
    pub data: Option<usize>,
    /// Slices of each layer.
    pub tensor: usize,
    /// Stages of layers.
    pub pipeline: usize,
    /// Pieces that each stage has.
    pub interleave: usize,
    pub microbatches: usize,
    /// Replicas over which the experts of a layer are spread.
    pub expert: usize,
    /// Number of parts into which the columns of each embedding table are divided.
    pub columns: usize,
    pub zero: Zero,
}

impl Default for Parallelism {
    fn default() -> Self {
        Self {
            data: None,
            tensor: 1,
            pipeline: 1,
            interleave: 1,
            microbatches: 1,
            expert: 1,
            columns: 1,
            zero: Zero::Off,
        }
    }
}

impl Parallelism {
    /// Returns the number of pieces of the layers.
    pub(super) fn places(&self) -> usize {
        self.pipeline * self.interleave
    }
}

/// A model as a sequence of layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layered {
    Chain { model: &'static str },
    Transformer { model: &'static str },
    Mixtral,
    FineGrained,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Layered(Layered),
    /// A model around embedding tables.
    Tables {
        model: &'static str,
        tables: usize,
        /// Rows of each table.
        rows: u64,
    },
}

/// Presets by name, and by size if there are several; the first size is the default.
const PRESETS: [(&str, &[(&str, Family)]); 10] = [
    ("vgg16", &[("", chain("vgg16"))]),
    ("vgg19", &[("", chain("vgg19"))]),
    ("resnet50", &[("", chain("resnet50"))]),
    ("candle", &[("", chain("candle"))]),
    ("bert", &[("", transformer("bert_h1024"))]),
    (
        "gpt",
        &[
            ("6.7b", transformer("gpt_6_7b")),
            ("125m", transformer("gpt_125m")),
            ("1.3b", transformer("gpt_1_3b")),
            ("175b", transformer("gpt_175b")),
        ],
    ),
    (
        "llama",
        &[
            ("8b", transformer("llama_8b")),
            ("70b", transformer("llama_70b")),
        ],
    ),
    (
        "moe",
        &[
            ("8x7b", Family::Layered(Layered::Mixtral)),
            ("64e", Family::Layered(Layered::FineGrained)),
        ],
    ),
    ("dlrm", &[("", tables("dlrm", 10_000_000))]),
    ("ncf", &[("", tables("ncf", 1_000_000))]),
];

const fn chain(model: &'static str) -> Family {
    Family::Layered(Layered::Chain { model })
}

const fn transformer(model: &'static str) -> Family {
    Family::Layered(Layered::Transformer { model })
}

const fn tables(model: &'static str, rows: u64) -> Family {
    Family::Tables {
        model,
        tables: 64,
        rows,
    }
}

pub fn names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|(name, _)| *name)
}

/// Returns the sizes of a preset; none if there is only one.
pub fn sizes(name: &str) -> impl Iterator<Item = &'static str> {
    let preset = PRESETS.iter().find(|(known, _)| *known == name);
    let sizes = preset.into_iter().flat_map(|(_, sizes)| sizes.iter());
    sizes.map(|(size, _)| *size).filter(|size| !size.is_empty())
}

/// Samples per iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Batch {
    /// Over all replicas.
    Whole(u64),
    PerReplica(u64),
}

/// A job that trains a preset.
#[derive(Debug, Clone, PartialEq)]
pub struct Preset {
    family: Family,
    pub batch: Batch,
    /// Tokens of a sample; as measured first when it is not said.
    pub seq: Option<u32>,
    pub gpu: Gpu,
    pub gpus_per_host: usize,
    pub gradient_bytes: u64,
    /// Whether activations are recomputed in the backward pass instead of being kept.
    pub recompute: bool,
    /// Embedding tables, for the models that have some, and the rows of each.
    pub tables: Option<usize>,
    pub table_rows: Option<u64>,
    pub parallelism: Parallelism,
}

/// Maximum of layers times micro-batches times ranks, for both passes.
const MAX_STEPS: usize = 1 << 23;

#[derive(Debug, Clone, PartialEq)]
pub enum PresetError {
    NotSliced {
        model: String,
    },
    NotSpread {
        what: &'static str,
    },
    NoSuchSeq {
        seq: u32,
        known: Vec<u32>,
    },
    UnevenExperts {
        experts: u32,
        expert: u32,
    },
    UnevenReplicas {
        data: usize,
        expert: usize,
    },
    NoExperts,
    NoTables,
    UnevenColumns {
        bytes: u64,
        columns: usize,
    },
    FewLayers {
        layers: usize,
        places: usize,
    },
    FewRanks {
        ranks: usize,
        needed: usize,
    },
    UnevenRanks {
        ranks: usize,
        each: usize,
    },
    UnevenBatch {
        what: &'static str,
        batch: u64,
        parts: usize,
        nearest: u64,
    },
    Interleave {
        problem: &'static str,
    },
    TooManySteps {
        steps: usize,
    },
    Iteration(IterationError),
}

impl fmt::Display for PresetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSliced { model } => {
                write!(
                    f,
                    "{model} has no layers that can be sliced: write tensor = 1"
                )
            }
            Self::NotSpread { what } => {
                write!(f, "a model of tables cannot be spread so: leave out {what}")
            }
            Self::NoSuchSeq { seq, known } => {
                let known: Vec<_> = known.iter().map(ToString::to_string).collect();
                let known = known.join(", ");
                write!(
                    f,
                    "samples of {seq} tokens were not measured; known are {known}"
                )
            }
            Self::UnevenExperts { experts, expert } => write!(
                f,
                "{experts} experts cannot be dealt out evenly to {expert} replicas; write expert = {}",
                nearest_divisor(u64::from(*experts), u64::from(*expert))
            ),
            Self::UnevenReplicas { data, expert } => write!(
                f,
                "{data} replicas cannot be dealt out evenly to groups of {expert}; write expert = {}",
                nearest_divisor(*data as u64, *expert as u64)
            ),
            Self::NoExperts => f.write_str("this model has no experts: write expert = 1"),
            Self::NoTables => f.write_str("this model has no embedding tables: write columns = 1"),
            Self::UnevenColumns { bytes, columns } => write!(
                f,
                "rows of {bytes} bytes cannot be cut into {columns} parts alike; write columns = {}",
                nearest_divisor(*bytes, *columns as u64)
            ),
            Self::FewLayers { layers, places } => write!(
                f,
                "{layers} layers cannot be cut into {places} pieces; write pipeline times interleave = \
                 {layers} or less"
            ),
            Self::FewRanks { ranks, needed } => write!(
                f,
                "the job needs {needed} GPUs, and the hosts have {ranks}; take hosts of {needed} GPUs in \
                 all, or write smaller degrees under [parallelism]"
            ),
            Self::UnevenRanks { ranks, each } => write!(
                f,
                "{ranks} GPUs are not a whole number of replicas of {each}: write data = {}",
                (ranks / each).max(1)
            ),
            Self::UnevenBatch {
                what,
                batch,
                parts,
                nearest,
            } => write!(
                f,
                "a batch of {batch} cannot be dealt out evenly to {parts} {what}; {nearest} can"
            ),
            Self::Interleave { problem } => f.write_str(problem),
            Self::TooManySteps { steps } => write!(
                f,
                "an iteration of {steps} steps is more than the {MAX_STEPS} that are simulated; take \
                 fewer micro-batches or ranks"
            ),
            Self::Iteration(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PresetError {}

/// Returns the largest divisor of the whole that is not above the wanted number.
pub(in crate::workload::job) fn nearest_divisor(whole: u64, wanted: u64) -> u64 {
    let fits = |part: &u64| whole.is_multiple_of(*part);
    (1..=wanted.min(whole)).rev().find(fits).unwrap_or(1)
}

impl Preset {
    /// The preset of this name and size, with nothing special about it.
    pub fn named(name: &str, size: Option<&str>, batch: Batch) -> Option<Self> {
        let (_, sizes) = PRESETS.iter().find(|(known, _)| *known == name)?;
        let (_, family) = match size {
            None => sizes.first()?,
            Some(size) => sizes.iter().find(|(known, _)| *known == size)?,
        };
        Some(Self {
            family: *family,
            batch,
            seq: None,
            gpu: gpu::H200,
            gpus_per_host: 1,
            gradient_bytes: 2,
            recompute: false,
            tables: None,
            table_rows: None,
            parallelism: Parallelism::default(),
        })
    }

    pub fn has_tables(&self) -> bool {
        matches!(self.family, Family::Tables { .. })
    }

    /// Returns the numbers of parts into which the columns of each table can be divided, up to one per rank; none
    /// without tables.
    pub fn columns(&self, ranks: usize) -> Option<Vec<usize>> {
        let Family::Tables { tables, .. } = self.family else {
            return None;
        };
        let tables = self.tables.unwrap_or(tables).max(1);
        let row_bytes = embedding().output_bytes_per_sample;
        let doublings = std::iter::successors(Some(1), |columns| Some(columns * 2));
        let most = ranks.div_ceil(tables).next_power_of_two();
        let even = doublings.take_while(|&columns| columns <= most);
        Some(
            even.filter(|&columns| row_bytes.is_multiple_of(columns as u64))
                .collect(),
        )
    }

    /// One iteration on as many ranks as the job takes of these.
    pub fn iteration(&self, ranks: usize) -> Result<Iteration, PresetError> {
        let data = self.replicas(ranks)?;
        let samples = self.samples(data)?;
        match self.family {
            Family::Layered(layered) => self.layered(layered, data, samples),
            Family::Tables { model, tables, .. } => {
                let tables = self.tables.unwrap_or(tables);
                self.around_tables(model, tables, data, samples)
            }
        }
    }

    fn replicas(&self, ranks: usize) -> Result<usize, PresetError> {
        let each = (self.parallelism.tensor * self.parallelism.pipeline).max(1);
        match self.parallelism.data {
            Some(data) if data * each > ranks => Err(PresetError::FewRanks {
                ranks,
                needed: data * each,
            }),
            Some(0) => Err(PresetError::FewRanks {
                ranks,
                needed: each,
            }),
            Some(data) => Ok(data),
            None if ranks < each => Err(PresetError::FewRanks {
                ranks,
                needed: each,
            }),
            None if !ranks.is_multiple_of(each) => Err(PresetError::UnevenRanks { ranks, each }),
            None => Ok(ranks / each),
        }
    }

    /// Returns the samples of one replica.
    fn samples(&self, data: usize) -> Result<u64, PresetError> {
        match self.batch {
            Batch::PerReplica(batch) => Ok(batch),
            Batch::Whole(batch) => dealt_out(batch, data, "replicas"),
        }
    }

    fn layered(
        &self,
        layered: Layered,
        data: usize,
        samples: u64,
    ) -> Result<Iteration, PresetError> {
        let spread = &self.parallelism;
        self.check_spread(data)?;
        let layers = self.layers(layered, samples)?;
        if spread.expert > 1 && layers.iter().all(|layer| layer.experts.is_none()) {
            return Err(PresetError::NoExperts);
        }
        if spread.columns > 1 {
            return Err(PresetError::NoTables);
        }
        let ranks = data * spread.tensor * spread.pipeline;
        let steps = 2 * layers.len() * spread.microbatches * ranks / spread.pipeline;
        if steps > MAX_STEPS {
            return Err(PresetError::TooManySteps { steps });
        }
        let plan = layered::Plan {
            layers: &layers,
            parallelism: spread,
            data,
            gradient_bytes: self.gradient_bytes,
            recompute: self.recompute,
        };
        plan.iteration()
    }

    /// Returns the layers for one micro-batch; `samples` are those of a replica.
    fn layers(&self, layered: Layered, samples: u64) -> Result<Vec<Layer>, PresetError> {
        let spread = &self.parallelism;
        let micro = dealt_out(samples, spread.microbatches, "micro-batches")?;
        layered.layers(&View {
            gpu: self.gpu,
            tensor: spread.tensor as u32,
            expert: spread.expert as u32,
            samples: micro as f64,
            seq: self.seq,
        })
    }

    fn check_spread(&self, data: usize) -> Result<(), PresetError> {
        let spread = &self.parallelism;
        let interleave = |problem| Err(PresetError::Interleave { problem });
        if !data.is_multiple_of(spread.expert) {
            return Err(PresetError::UnevenReplicas {
                data,
                expert: spread.expert,
            });
        }
        if spread.interleave > 1 && spread.pipeline == 1 {
            return interleave("interleave needs a pipeline of more than one stage");
        }
        if spread.interleave > 1 && !spread.microbatches.is_multiple_of(spread.pipeline) {
            return interleave(
                "interleave needs micro-batches in multiples of the pipeline's stages",
            );
        }
        Ok(())
    }

    /// Tables are spread over ranks, and nothing else of a model around them is spread.
    fn check_columns(&self) -> Result<(), PresetError> {
        let columns = self.parallelism.columns;
        let plain = Parallelism {
            data: self.parallelism.data,
            columns,
            ..Parallelism::default()
        };
        if self.parallelism != plain {
            let what = "all of [parallelism] but data and columns";
            return Err(PresetError::NotSpread { what });
        }
        let bytes = embedding().output_bytes_per_sample;
        if bytes.is_multiple_of(columns as u64) {
            Ok(())
        } else {
            Err(PresetError::UnevenColumns { bytes, columns })
        }
    }

    fn around_tables(
        &self,
        model: &str,
        tables: usize,
        ranks: usize,
        samples: u64,
    ) -> Result<Iteration, PresetError> {
        self.check_columns()?;
        let view = View {
            gpu: self.gpu,
            tensor: 1,
            expert: 1,
            samples: samples as f64,
            seq: None,
        };
        let dense = |width: &str| {
            let layers = layers::chain(model, &view)?;
            let named = layers.into_iter().filter(|layer| layer.name == width);
            Ok::<Vec<_>, PresetError>(named.collect())
        };
        let lookup = embedding();
        let (row_bytes, columns) = (lookup.output_bytes_per_sample, self.parallelism.columns);
        // A narrower row is read in as much less time.
        let whole = samples as f64 * ranks as f64;
        let one = lookup.cost(whole).times(1.0 / columns as f64);
        tables::Tables {
            bottom: &dense(DENSE_LAYERS[0])?,
            top: &dense(DENSE_LAYERS[1])?,
            held: tables::dealt_out(tables * columns, ranks, self.gpus_per_host),
            lookup: self.gpu.scaled(Kind::Embedding, one),
            entry_bytes: row_bytes / columns as u64,
            samples,
            ranks,
            gradient_bytes: self.gradient_bytes,
        }
        .iteration()
    }
}

/// Layers of models around tables before what is looked up arrives, and after that.
const DENSE_LAYERS: [&str; 2] = ["dense_2048_2048", "dense_4096_4096"];

fn embedding() -> Measured {
    profile::the(|it| it.kind == Kind::Embedding)
}

fn dealt_out(batch: u64, parts: usize, what: &'static str) -> Result<u64, PresetError> {
    let each = batch / parts as u64;
    if each > 0 && batch.is_multiple_of(parts as u64) {
        return Ok(each);
    }
    Err(PresetError::UnevenBatch {
        what,
        batch,
        parts,
        nearest: each.max(1) * parts as u64,
    })
}
