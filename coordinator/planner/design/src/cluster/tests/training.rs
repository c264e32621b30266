//! A job for tests: all compute, and then reduce.

use std::time::Duration;

use reweave_common::ids::Rank;
use reweave_common::iteration::{IterationBuilder, Operation, TaskWork};
use reweave_common::units::{Bytes, Rate};
use reweave_sim::workload::Settings;

use crate::cluster::{Block, Forming, Ground, Host, Spread, Switching, Training, Trunk, Unfit};

/// On any number of servers: each computes for this long, and then all reduce so much.
#[derive(Debug)]
pub(super) struct Reduces {
    pub(super) compute_ms: u64,
    pub(super) bytes: u64,
    /// Number of a server's ports that are reserved for experts.
    pub(super) kept: usize,
    pub(super) key: String,
}

impl Reduces {
    pub(super) fn new(compute_ms: u64, bytes: u64) -> Self {
        Self {
            compute_ms,
            bytes,
            kept: 0,
            key: format!("{compute_ms} {bytes}"),
        }
    }
}

impl Training for Reduces {
    fn key(&self) -> &str {
        &self.key
    }

    fn kept_ports(&self) -> usize {
        self.kept
    }

    fn on(&self, servers: usize) -> Result<Spread, Unfit> {
        let mut builder = IterationBuilder::new(servers);
        let ranks: Vec<_> = (0..servers).map(Rank::from_index).collect();
        let (group, name) = (builder.group(&ranks), builder.name("step"));
        let reduce = builder.add(
            name,
            TaskWork::Collective {
                operation: Operation::AllReduce,
                group,
                bytes: Bytes::new(self.bytes),
                local: Duration::ZERO,
            },
        );
        for &rank in &ranks {
            let time = Duration::from_millis(self.compute_ms);
            let compute = builder.add(name, TaskWork::Compute { rank, time });
            builder.then(compute, reduce);
        }
        let iteration = builder.build();
        Ok(Spread {
            iteration: iteration.map_err(|error| Unfit(error.to_string()))?,
            server: (0..servers as u32).collect(),
            settings: Settings::default(),
            samples: servers as f64,
        })
    }
}

/// Blocks of this many hosts of four ports each, switched within 10 ms.
pub(super) fn ground(blocks: &[usize]) -> Ground {
    let host = |block| Host {
        block,
        ports: (0..4).collect(),
        left_alone: vec![4],
        slices: 1,
    };
    let of_block = |(block, &hosts): (usize, &usize)| vec![host(block); hosts];
    Ground {
        blocks: (0..blocks.len())
            .map(|block| Block {
                name: format!("b{block}"),
                switches: 1,
                switched: None,
            })
            .collect(),
        trunks: Vec::new(),
        hosts: blocks.iter().enumerate().flat_map(of_block).collect(),
        rate: Rate::from_bits_per_s(100_000_000_000),
        switching: Switching {
            once_ms: 10.0,
            each_ms: 0.0,
        },
        memory: None,
        flip_ms: None,
        restart_ms: 1000.0,
    }
}

/// The same blocks, with this many fibres between each and the next.
pub(super) fn joined(blocks: &[usize], fibres: u32) -> Ground {
    let trunk = |next: usize| Trunk {
        blocks: [next - 1, next],
        fibres,
    };
    Ground {
        trunks: (1..blocks.len()).map(trunk).collect(),
        ..ground(blocks)
    }
}

pub(super) fn forming(ground: Ground) -> Forming {
    Forming::new(ground, 1, u64::MAX)
}
