//! The iteration of a model that is a sequence of layers: replicas, slices, stages and experts.

use std::collections::BTreeMap;

use reweave_common::ids::Rank;
use reweave_common::iteration::{Iteration, IterationError, Operation, TaskId};
use reweave_common::time_span::TimeSpan;

use super::grid::Grid;
use super::layers::Layer;
use super::schedule::{PassDirection, Shape, Step};
use super::task_chains::TaskChains;
use super::{Parallelism, PresetError, Zero};

/// Weights travel as bf16.
const BF16_WEIGHT_BYTES: u64 = 2;

pub(super) struct Plan<'p> {
    pub(super) layers: &'p [Layer],
    pub(super) parallelism: &'p Parallelism,
    pub(super) data: usize,
    pub(super) gradient_bytes: u64,
    pub(super) recompute: bool,
}

impl Plan<'_> {
    pub(super) fn iteration(&self) -> Result<Iteration, PresetError> {
        let pieces = pieces(self.layers, self.parallelism.places())?;
        let grid = Grid {
            tensor: self.parallelism.tensor,
            data: self.data,
            stages: self.parallelism.pipeline,
            expert: self.parallelism.expert,
        };
        let mut laying = Laying {
            plan: self,
            grid,
            pieces,
            chains: TaskChains::new(grid.ranks()),
            steps: BTreeMap::new(),
            before_layer: vec![Vec::new(); grid.ranks()],
            scattered: BTreeMap::new(),
        };
        for stage in 0..grid.stages {
            laying.stage(stage);
        }
        laying.pass_on();
        let built = laying.chains.builder.build();
        built.map_err(|error: IterationError| PresetError::Iteration(error))
    }
}

/// Cuts the layers into as many pieces as there are places, of about the same cost; none is empty.
pub(super) fn pieces(layers: &[Layer], places: usize) -> Result<Vec<&[Layer]>, PresetError> {
    if layers.len() < places {
        return Err(PresetError::FewLayers {
            layers: layers.len(),
            places,
        });
    }
    let cost = |layer: &Layer| {
        let experts = layer.experts.as_ref().map(|experts| experts.cost);
        let all = layer.cost.plus(experts.unwrap_or_default());
        all.forward_ms + all.backward_ms
    };
    let total: f64 = layers.iter().map(cost).sum();
    let (mut pieces, mut rest, mut passed) = (Vec::new(), layers, 0.0);
    for place in 1..places {
        let end = total * place as f64 / places as f64;
        let most = rest.len() - (places - place);
        let mut length = 1;
        passed += cost(&rest[0]);
        while length < most && passed + cost(&rest[length]) / 2.0 < end {
            passed += cost(&rest[length]);
            length += 1;
        }
        let (piece, others) = rest.split_at(length);
        pieces.push(piece);
        rest = others;
    }
    pieces.push(rest);
    Ok(pieces)
}

/// A part of what a layer does.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Act {
    Compute {
        ms: f64,
    },
    /// Among the slices.
    Reduce {
        bytes: u64,
    },
    /// Between the ranks that have the experts.
    Exchange {
        bytes: u64,
    },
}

impl Layer {
    fn acts(&self, direction: PassDirection, recompute: bool) -> Vec<Act> {
        let forward = self.acts_one_way(|cost| cost.forward_ms);
        match direction {
            PassDirection::Forward => forward,
            PassDirection::Backward => {
                let mut backward = self.acts_one_way(|cost| cost.backward_ms);
                backward.reverse();
                let again = forward.into_iter().filter(|_| recompute);
                again.chain(backward).collect()
            }
        }
    }

    fn acts_one_way(&self, time: impl Fn(&super::profile::Cost) -> f64) -> Vec<Act> {
        let ms = time(&self.cost);
        let reduce = self.sliced_bytes.map(|bytes| Act::Reduce { bytes });
        let mut acts = Vec::new();
        match &self.experts {
            None if reduce.is_none() => acts.push(Act::Compute { ms }),
            None => {
                for _ in 0..2 {
                    acts.push(Act::Compute { ms: ms / 2.0 });
                    acts.extend(reduce);
                }
            }
            Some(experts) => {
                let bytes = experts.exchanged_bytes;
                let ms_there = time(&experts.cost);
                acts.push(Act::Compute { ms });
                acts.extend(reduce);
                acts.push(Act::Exchange { bytes });
                acts.push(Act::Compute { ms: ms_there });
                acts.push(Act::Exchange { bytes });
                acts.extend(reduce);
            }
        }
        acts
    }
}

/// The first task of a step on each rank of its stage, and the last.
struct Ends {
    first: BTreeMap<Rank, TaskId>,
    last: BTreeMap<Rank, Vec<TaskId>>,
}

struct Laying<'l> {
    plan: &'l Plan<'l>,
    grid: Grid,
    /// By place: the first piece of every stage, then the second.
    pieces: Vec<&'l [Layer]>,
    chains: TaskChains,
    /// By place, micro-batch and direction.
    steps: BTreeMap<(usize, usize, bool), Ends>,
    /// Predecessors of each rank at the start of the previous layer.
    before_layer: Vec<Vec<TaskId>>,
    /// Reduce-scatters of gradients, by place and layer.
    scattered: BTreeMap<(usize, usize), Vec<TaskId>>,
}

impl Laying<'_> {
    fn stage(&mut self, stage: usize) {
        let parallelism = self.plan.parallelism;
        let shape = Shape {
            stages: parallelism.pipeline,
            pieces: parallelism.interleave,
            micros: parallelism.microbatches,
        };
        for step in shape.of_stage(stage) {
            self.step(stage, step);
        }
        if matches!(parallelism.zero, Zero::Optimizer | Zero::Gradients) {
            self.gather_updated(stage);
        }
    }

    fn step(&mut self, stage: usize, step: Step) {
        let place = step.piece * self.grid.stages + stage;
        let layers = self.pieces[place];
        let mut first = BTreeMap::new();
        let nths: Vec<_> = match step.direction {
            PassDirection::Forward => (0..layers.len()).collect(),
            PassDirection::Backward => (0..layers.len()).rev().collect(),
        };
        for nth in nths {
            self.layer(stage, step.direction, &layers[nth], &mut first);
            let is_last = step.micro + 1 == self.plan.parallelism.microbatches;
            let reduces_now = is_last || self.plan.parallelism.zero >= Zero::Gradients;
            if step.direction == PassDirection::Backward && reduces_now {
                self.reduce_gradients(stage, (place, nth), &layers[nth]);
            }
        }
        let ranks = self.grid.stage(stage).into_iter();
        let last = ranks
            .map(|rank| (rank, self.chains.tail(rank).to_vec()))
            .collect();
        let backward = step.direction == PassDirection::Backward;
        self.steps
            .insert((place, step.micro, backward), Ends { first, last });
    }

    fn layer(
        &mut self,
        stage: usize,
        direction: PassDirection,
        layer: &Layer,
        first: &mut BTreeMap<Rank, TaskId>,
    ) {
        if self.plan.parallelism.zero == Zero::Weights {
            self.gather_weights(stage, layer);
        }
        let name = match direction {
            PassDirection::Forward => "forward",
            PassDirection::Backward => "backward",
        };
        for act in layer.acts(direction, self.plan.recompute) {
            match act {
                Act::Compute { ms } => {
                    for rank in self.grid.stage(stage) {
                        let time = TimeSpan::from_secs_f64(ms / 1e3).get();
                        let task = self.chains.compute(rank, name, time);
                        first.entry(rank).or_insert(task);
                    }
                }
                Act::Reduce { bytes } => {
                    for group in self.grid.slices(stage) {
                        let operation = Operation::AllReduce;
                        self.chains
                            .together(&group, "all-reduce of slices", operation, bytes);
                    }
                }
                Act::Exchange { bytes } => {
                    // If all experts are local, nothing is exchanged.
                    let groups = self.grid.expert_groups(stage).into_iter();
                    for group in groups.filter(|group| group.len() > 1) {
                        let operation = Operation::AllToAll;
                        self.chains
                            .together(&group, "all-to-all of experts", operation, bytes);
                    }
                }
            }
        }
    }

    /// Weights that are spread over the replicas come one layer ahead of their use.
    fn gather_weights(&mut self, stage: usize, layer: &Layer) {
        let bytes = layer.parameters * BF16_WEIGHT_BYTES;
        let name = format!("all-gather of {}", layer.name);
        let now: Vec<_> = self
            .grid
            .stage(stage)
            .into_iter()
            .map(|rank| (rank, self.chains.tail(rank).to_vec()))
            .collect();
        for group in self.grid.replicas(stage) {
            if bytes == 0 || group.len() < 2 {
                continue;
            }
            let before = group
                .iter()
                .flat_map(|rank| self.before_layer[rank.index()].clone());
            let before: Vec<_> = before.collect();
            let operation = Operation::AllGather;
            let gathered = self.chains.after(&before, &group, &name, operation, bytes);
            group
                .iter()
                .for_each(|&rank| self.chains.also_wait(rank, gathered));
        }
        for (rank, tail) in now {
            self.before_layer[rank.index()] = tail;
        }
    }

    fn reduce_gradients(&mut self, stage: usize, at: (usize, usize), layer: &Layer) {
        let operation = match self.plan.parallelism.zero {
            Zero::Off => Operation::AllReduce,
            _ => Operation::ReduceScatter,
        };
        let of_experts = layer
            .experts
            .as_ref()
            .map_or(0, |experts| experts.parameters);
        let groups = [
            (self.grid.replicas(stage), layer.parameters, &layer.name[..]),
            (self.grid.expert_replicas(stage), of_experts, "experts"),
        ];
        for (groups, parameters, name) in groups {
            let bytes = parameters * self.plan.gradient_bytes;
            let name = format!("{} of {name}", operation.name());
            for group in groups.iter().filter(|group| group.len() > 1 && bytes > 0) {
                let reduced = self.chains.beside(group, &name, operation, bytes);
                self.scattered.entry(at).or_default().push(reduced);
            }
        }
    }

    /// Each replica has updated its part of the weights; the others need it for the next iteration.
    fn gather_updated(&mut self, stage: usize) {
        for piece in 0..self.plan.parallelism.interleave {
            let place = piece * self.grid.stages + stage;
            for (nth, layer) in self.pieces[place].iter().enumerate() {
                let scattered = self
                    .scattered
                    .get(&(place, nth))
                    .cloned()
                    .unwrap_or_default();
                let of_experts = layer
                    .experts
                    .as_ref()
                    .map_or(0, |experts| experts.parameters);
                let groups = [
                    (self.grid.replicas(stage), layer.parameters),
                    (self.grid.expert_replicas(stage), of_experts),
                ];
                for (groups, parameters) in groups {
                    let bytes = parameters * BF16_WEIGHT_BYTES;
                    for group in groups.iter().filter(|group| group.len() > 1 && bytes > 0) {
                        let tails = group
                            .iter()
                            .flat_map(|&rank| self.chains.tail(rank).to_vec());
                        let before: Vec<_> = tails.chain(scattered.clone()).collect();
                        let name = "all-gather of updated weights";
                        self.chains
                            .after(&before, group, name, Operation::AllGather, bytes);
                    }
                }
            }
        }
    }

    /// Activations go to the next place, gradients to the one before; each slice sends its part.
    fn pass_on(&mut self) {
        let places = self.pieces.len();
        let steps = std::mem::take(&mut self.steps);
        for (&(place, micro, backward), ends) in &steps {
            let next = match backward {
                false if place + 1 < places => place + 1,
                true if place > 0 => place - 1,
                _ => continue,
            };
            let (name, from_layer) = if backward {
                ("gradients", next)
            } else {
                ("activations", place)
            };
            let output = self.pieces[from_layer]
                .last()
                .map_or(0, |layer| layer.output_bytes);
            let bytes = output / self.grid.tensor as u64;
            let Some(there) = steps.get(&(next, micro, backward)) else {
                continue;
            };
            let ranks = ends.last.iter().zip(&there.first);
            for ((&from, last), (&to, &first)) in ranks {
                let passed = self.chains.transfer(last, [from, to], name, bytes);
                self.chains.builder.then(passed, first);
            }
        }
    }
}
