//! Cables as lanes: one per direction, identified by the sender.

use crate::topology::Wiring;

/// Lane numbers of a host are consecutive, in the order of the hosts at their ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lanes {
    starts: Vec<u32>,
    ends: Vec<u32>,
}

impl Lanes {
    pub fn of(wiring: &Wiring) -> Self {
        let mut lanes = Self {
            starts: vec![0],
            ends: Vec::new(),
        };
        for host in 0..wiring.hosts() as u32 {
            let mut neighbours = wiring.neighbours(host).to_vec();
            neighbours.sort_unstable();
            lanes.ends.extend(neighbours);
            lanes.starts.push(lanes.ends.len() as u32);
        }
        lanes
    }

    pub fn hosts(&self) -> usize {
        self.starts.len() - 1
    }

    pub fn count(&self) -> usize {
        self.ends.len()
    }

    pub fn end(&self, lane: usize) -> u32 {
        self.ends[lane]
    }

    pub fn from(&self, host: u32) -> std::ops::Range<usize> {
        let host = host as usize;
        self.starts[host] as usize..self.starts[host + 1] as usize
    }

    /// The lane between two neighbours.
    pub fn between(&self, from: u32, to: u32) -> Option<usize> {
        self.from(from).find(|&lane| self.ends[lane] == to)
    }
}
