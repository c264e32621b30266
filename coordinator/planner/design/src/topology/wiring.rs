//! Wirings: hosts, and the cables between them.

use std::time::Duration;

use reweave_common::fabric::{Fabric, FabricBuilder, Role, WiringError};
use reweave_common::units::Rate;

/// Hosts joined by cables; no two are joined twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wiring {
    neighbours: Vec<Vec<u32>>,
}

/// The ends of a cable, the smaller first.
pub type Pair = [u32; 2];

pub fn pair(a: u32, b: u32) -> Pair {
    [a.min(b), a.max(b)]
}

impl Wiring {
    pub fn new(hosts: usize) -> Self {
        Self {
            neighbours: vec![Vec::new(); hosts],
        }
    }

    /// Those of these pairs that are no repetition.
    pub fn of(hosts: usize, pairs: impl IntoIterator<Item = Pair>) -> Self {
        let mut wiring = Self::new(hosts);
        for [a, b] in pairs {
            wiring.join(a, b);
        }
        wiring
    }

    pub fn hosts(&self) -> usize {
        self.neighbours.len()
    }

    pub fn neighbours(&self, host: u32) -> &[u32] {
        &self.neighbours[host as usize]
    }

    pub fn degree(&self, host: u32) -> usize {
        self.neighbours(host).len()
    }

    /// The fewest hosts that one has at its end, and the most.
    pub fn degrees(&self) -> [usize; 2] {
        let degrees = || self.neighbours.iter().map(Vec::len);
        [degrees().min(), degrees().max()].map(Option::unwrap_or_default)
    }

    pub fn joins(&self, a: u32, b: u32) -> bool {
        self.neighbours(a).contains(&b)
    }

    /// Whether that was a new cable between two hosts.
    pub fn join(&mut self, a: u32, b: u32) -> bool {
        if a == b || self.joins(a, b) {
            return false;
        }
        self.neighbours[a as usize].push(b);
        self.neighbours[b as usize].push(a);
        true
    }

    pub fn part(&mut self, a: u32, b: u32) {
        self.neighbours[a as usize].retain(|&it| it != b);
        self.neighbours[b as usize].retain(|&it| it != a);
    }

    /// All cables in order.
    pub fn pairs(&self) -> Vec<Pair> {
        let of_host = |(a, neighbours): (usize, &Vec<u32>)| {
            let a = a as u32;
            let later = neighbours.iter().copied().filter(move |&b| a < b);
            later.map(move |b| [a, b]).collect::<Vec<_>>()
        };
        let mut pairs: Vec<_> = self
            .neighbours
            .iter()
            .enumerate()
            .flat_map(of_host)
            .collect();
        pairs.sort_unstable();
        pairs
    }

    pub fn cables(&self) -> usize {
        self.neighbours.iter().map(Vec::len).sum::<usize>() / 2
    }

    /// The hosts that can be reached from each other, part by part.
    pub fn parts(&self) -> Vec<Vec<u32>> {
        let mut seen = vec![false; self.hosts()];
        let mut parts = Vec::new();
        for first in 0..self.hosts() as u32 {
            if std::mem::replace(&mut seen[first as usize], true) {
                continue;
            }
            let mut part = vec![first];
            let mut at = 0;
            while let Some(&host) = part.get(at) {
                at += 1;
                for &next in self.neighbours(host) {
                    if !std::mem::replace(&mut seen[next as usize], true) {
                        part.push(next);
                    }
                }
            }
            parts.push(part);
        }
        parts
    }

    pub fn is_connected(&self) -> bool {
        self.parts().len() <= 1
    }

    /// Returns a fabric of forwarding hosts, called h0, h1, ...
    pub fn fabric(&self, rate: Rate, latency: Duration) -> Result<Fabric, WiringError> {
        let mut builder = FabricBuilder::new();
        let names = (0..self.hosts()).map(|host| format!("h{host}"));
        let nodes = names.map(|name| builder.add_node(&name, Role::Relay));
        let nodes: Vec<_> = nodes.collect::<Result<_, _>>()?;
        for ends in self.pairs() {
            let ends = ends.map(|end| nodes[end as usize]);
            builder.connect(ends, 1, rate, latency)?;
        }
        Ok(builder.build())
    }
}

/// One switch that carries all that its hosts send, called as those of a file are.
pub fn ideal_switch(hosts: usize, rate: Rate) -> Result<Fabric, WiringError> {
    let mut builder = FabricBuilder::new();
    let switch = builder.add_node("switch", Role::Switch)?;
    for host in 0..hosts {
        let host = builder.add_node(&format!("h{host}"), Role::Host)?;
        builder.connect([host, switch], 1, rate, Duration::ZERO)?;
    }
    Ok(builder.build())
}
