//! The spread of a preset: all degrees that its layers, its batch and the memory allow.

use reweave_common::iteration::Iteration;
use reweave_common::units::Bytes;

use crate::workload::job::preset::{Parallelism, Preset, Zero};

/// A spread, what an iteration with it takes, and what the fullest rank holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Spread {
    pub parallelism: Parallelism,
    pub ms: f64,
    pub memory: Option<Bytes>,
}

/// Why no spread will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom {
    /// The least that a rank would need.
    pub least: Bytes,
}

/// Every spread of a preset over so many ranks that fits into the memory of a rank, the fastest by
/// `time` first; those of which `time` knows nothing are left out.
pub fn search<E>(
    preset: &Preset,
    ranks: usize,
    memory: Option<Bytes>,
    time: &mut dyn FnMut(&Iteration) -> Result<f64, E>,
) -> Result<Result<Vec<Spread>, NoRoom>, E> {
    let (mut found, mut least) = (Vec::new(), None::<Bytes>);
    for parallelism in all(ranks) {
        let mut spread = preset.clone();
        let needed = match fitting(&mut spread, parallelism, ranks, memory) {
            Fit::Fits(needed) => needed,
            Fit::TooLarge(needed) => {
                least = Some(least.map_or(needed, |it| it.min(needed)));
                continue;
            }
            Fit::Impossible => continue,
        };
        let Ok(iteration) = spread.iteration(ranks) else {
            continue;
        };
        found.push(Spread {
            parallelism: spread.parallelism,
            ms: time(&iteration)?,
            memory: needed,
        });
    }
    found.sort_by(|a, b| a.ms.total_cmp(&b.ms));
    match (found.is_empty(), least) {
        (true, Some(least)) => Ok(Err(NoRoom { least })),
        _ => Ok(Ok(found)),
    }
}

enum Fit {
    Fits(Option<Bytes>),
    TooLarge(Bytes),
    Impossible,
}

/// Deals out no more of the state than memory asks for: each stage of it costs traffic.
fn fitting(spread: &mut Preset, plain: Parallelism, ranks: usize, memory: Option<Bytes>) -> Fit {
    let mut fit = Fit::Impossible;
    for zero in zeros(plain.data.unwrap_or(1)) {
        spread.parallelism = Parallelism { zero, ..plain };
        fit = match (spread.memory(ranks), memory) {
            (Ok(Some(needed)), Some(memory)) if needed > memory => Fit::TooLarge(needed),
            (Ok(needed), _) => return Fit::Fits(needed),
            (Err(_), _) => return Fit::Impossible,
        };
    }
    fit
}

/// Slices and experts beyond these are not worth what they exchange.
const MOST_SLICES: usize = 8;
const MOST_EXPERTS: usize = 64;
const MOST_STAGES: usize = 64;

fn all(ranks: usize) -> Vec<Parallelism> {
    let mut all = Vec::new();
    for tensor in doublings(MOST_SLICES) {
        for pipeline in doublings(MOST_STAGES) {
            let each = tensor * pipeline;
            if !ranks.is_multiple_of(each) {
                continue;
            }
            let data = ranks / each;
            for expert in doublings(MOST_EXPERTS.min(data)) {
                all.extend(micro(pipeline).into_iter().map(|microbatches| Parallelism {
                    data: Some(data),
                    tensor,
                    pipeline,
                    microbatches,
                    expert,
                    ..Parallelism::default()
                }));
            }
        }
    }
    all
}

fn doublings(most: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1usize), |it| Some(it * 2)).take_while(move |&it| it <= most)
}

fn micro(pipeline: usize) -> Vec<usize> {
    match pipeline {
        1 => vec![1],
        stages => vec![stages, 2 * stages, 4 * stages],
    }
}

fn zeros(data: usize) -> impl Iterator<Item = Zero> {
    let stages = if data > 1 { 4 } else { 1 };
    (0..stages).filter_map(Zero::stage)
}
