//! Processors other than the measured one.
//!
//! The rule: layers that arithmetic limits (convolutions, dense, attention, experts) take time in inverse proportion to
//! the peak of dense bf16 (on the oldest fp16) arithmetic, and layers that memory limits (pooling, reshaping,
//! embeddings) in inverse proportion to memory bandwidth, both as the makers' data sheets give them. Overheads that do
//! not shrink with a faster processor are not separated.

use super::profile::{Cost, Kind};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gpu {
    pub name: &'static str,
    pub peak_tflops: f64,
    pub memory_tb_per_s: f64,
    pub memory_gb: u64,
}

const fn gpu(name: &'static str, peak_tflops: f64, memory_tb_per_s: f64, memory_gb: u64) -> Gpu {
    Gpu {
        name,
        peak_tflops,
        memory_tb_per_s,
        memory_gb,
    }
}

/// The one that was measured.
pub const H200: Gpu = gpu("h200", 989.0, 4.8, 141);

pub const KNOWN_GPUS: [Gpu; 7] = [
    gpu("v100", 125.0, 0.9, 32),
    gpu("a100-40", 312.0, 1.555, 40),
    gpu("a100", 312.0, 2.039, 80),
    gpu("l40s", 362.0, 0.864, 48),
    gpu("h100", 989.0, 3.35, 80),
    H200,
    gpu("b200", 2250.0, 8.0, 180),
];

impl Gpu {
    pub fn named(name: &str) -> Option<Self> {
        KNOWN_GPUS.into_iter().find(|gpu| gpu.name == name)
    }

    /// Converts a cost on the measured GPU to this one.
    pub(super) fn scaled(&self, kind: Kind, cost: Cost) -> Cost {
        cost.times(if kind.is_arithmetic() {
            H200.peak_tflops / self.peak_tflops
        } else {
            H200.memory_tb_per_s / self.memory_tb_per_s
        })
    }
}
