//! How many ports a job needs so that circuits are as fast as packet switches of the same cost.

use reweave_common::units::Rate;
use serde::Serialize;

use super::circuits::Lying;
use super::ground::{Block, Ground, Host, Server};
use super::shard::{Forming, Shard, Training, Unfit};
use crate::topology::prices::PUBLISHED_PRICES;

/// No operator buys more ports than this many times those there are for one job.
const MAX_PORT_FACTOR: usize = 4;

/// A job over circuits, and over a fat tree of the same cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Degree {
    pub ports: usize,
    pub iteration_ms: f64,
    pub fat_tree_ms: f64,
    /// If the fat tree is faster: number of ports at which it no longer is. None if no tried number is enough.
    pub enough_ports: Option<usize>,
}

impl Degree {
    pub fn suffices(&self) -> bool {
        self.iteration_ms <= self.fat_tree_ms
    }

    /// Describes the result for text output.
    pub fn words(&self) -> String {
        let [circuits, tree] = [self.iteration_ms, self.fat_tree_ms];
        match (self.suffices(), self.enough_ports) {
            (true, _) => format!(
                "{:.2} times as fast as on a fat tree of the same cost ({tree:.2} ms)",
                tree / circuits
            ),
            (false, Some(ports)) => format!(
                "{:.2} times as slow as on a fat tree of the same cost ({tree:.2} ms): it sends too much from \
                 all to all for {} ports, and {ports} would be enough",
                circuits / tree,
                self.ports
            ),
            (false, None) => format!(
                "{:.2} times as slow as on a fat tree of the same cost ({tree:.2} ms), and even {} times the \
                 ports would not do: run it on packet switches",
                circuits / tree,
                MAX_PORT_FACTOR
            ),
        }
    }
}

impl Forming {
    /// Compares the shard with a fat tree: with its present ports and, if these are too few, with more.
    pub fn degree(&self, training: &dyn Training, shard: &Shard) -> Result<Degree, Unfit> {
        let ports = shard
            .servers
            .iter()
            .map(|&it| self.ground.ports(it).count());
        let ports = ports.max().unwrap_or(1);
        let fat_tree_ms = self.on_a_switch_ms(training, &shard.servers, self.affordable(ports))?;
        let mut degree = Degree {
            ports,
            iteration_ms: shard.estimate.ms,
            fat_tree_ms,
            enough_ports: None,
        };
        if !degree.suffices() {
            let servers = shard.servers.len();
            let more = (ports + 1..=ports * MAX_PORT_FACTOR).filter(|it| it.is_multiple_of(2));
            degree.enough_ports = more
                .into_iter()
                .find(|&ports| self.would_do(training, servers, ports));
        }
        Ok(degree)
    }

    /// Returns the rate per host of a fat tree that costs as much as circuits for this number of ports.
    fn affordable(&self, ports: usize) -> Rate {
        let whole = self.ground.rate.bits_per_s() as f64 * ports as f64;
        Rate::from_bits_per_s((whole / PUBLISHED_PRICES.fat_tree) as u64)
    }

    fn would_do(&self, training: &dyn Training, servers: usize, ports: usize) -> bool {
        let host = Host {
            block: 0,
            ports: (0..ports as u32).collect(),
            left_alone: Vec::new(),
            slices: 1,
        };
        let block = Block {
            name: "wider".to_owned(),
            switches: 1,
            switched: None,
        };
        let wider = Ground {
            blocks: vec![block],
            trunks: Vec::new(),
            hosts: vec![host; servers],
            ..self.ground.clone()
        };
        let wider = Self::new(wider, self.seed, self.work);
        let all: Vec<Server> = wider.ground.servers().collect();
        let tree_ms = wider.on_a_switch_ms(training, &all, self.affordable(ports));
        let shard = wider.shard(training, &all, Lying::default());
        matches!((shard, tree_ms), (Ok(shard), Ok(tree_ms)) if shard.estimate.ms <= tree_ms)
    }
}
