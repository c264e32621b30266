//! The resources of a cluster: blocks of hosts, their ports, and the switches between them.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::units::{Bytes, Rate};

use super::circuits::Circuit;

/// How circuits are moved, and the time that it takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Switching {
    /// However many circuits are moved.
    pub once_ms: f64,
    /// Additional time per circuit.
    pub each_ms: f64,
}

impl Switching {
    /// Switching times by technology. A person or a robot patches a panel, in a minute per fibre; mirrors turn at the
    /// same time.
    pub const SWITCHING_TIMES: [(&'static str, Self); 4] = [
        ("patch-panel", Self::of(0.0, 60_000.0)),
        ("3d-mems", Self::of(10.0, 0.0)),
        ("2d-mems", Self::of(0.02, 0.0)),
        ("silicon-photonic", Self::of(0.001, 0.0)),
    ];

    const fn of(once_ms: f64, each_ms: f64) -> Self {
        Self { once_ms, each_ms }
    }

    pub fn named(name: &str) -> Option<Self> {
        let known = Self::SWITCHING_TIMES
            .iter()
            .find(|(known, _)| *known == name);
        known.map(|(_, switching)| *switching)
    }

    /// Returns the time to move this number of circuits.
    pub fn time_ms(&self, circuits: usize) -> f64 {
        match circuits {
            0 => 0.0,
            _ => self.once_ms + self.each_ms * circuits as f64,
        }
    }
}

/// Hosts with ports on the same switches: only these can be joined by circuits.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    pub name: String,
    /// Ports of a host are assigned to these in turn.
    pub switches: usize,
    /// Rate of each host over additional packet switches, if there are any.
    pub switched: Option<Rate>,
}

/// Fibres from each switch of a block to the one of the same number of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trunk {
    /// The smaller first.
    pub blocks: [usize; 2],
    /// Fibres of each switch.
    pub fibres: u32,
}

/// A host, and the ports that circuits may use. Those for storage and control are not among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    pub block: usize,
    pub ports: Vec<u32>,
    /// Ports that no plan ever names in a circuit.
    pub left_alone: Vec<u32>,
    /// Number of servers into which the host is divided; each has its part of the ports.
    pub slices: usize,
}

/// A host, or a slice of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Server {
    pub host: u32,
    pub slice: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Ground {
    pub blocks: Vec<Block>,
    /// One at most between two blocks.
    pub trunks: Vec<Trunk>,
    pub hosts: Vec<Host>,
    pub rate: Rate,
    /// Memory of a GPU; unlimited if unknown.
    pub memory: Option<Bytes>,
    pub switching: Switching,
    /// Time to switch to circuits prepared on a second plane; none without a second plane.
    pub flip_ms: Option<f64>,
    /// Time that a job loses when its servers change: it saves its state and restarts.
    pub restart_ms: f64,
}

impl Ground {
    pub fn servers(&self) -> impl Iterator<Item = Server> {
        (0..)
            .zip(&self.hosts)
            .flat_map(|(host, it)| (0..it.slices as u32).map(move |slice| Server { host, slice }))
    }

    pub fn host(&self, server: Server) -> &Host {
        &self.hosts[server.host as usize]
    }

    pub fn block_of(&self, server: Server) -> usize {
        self.host(server).block
    }

    pub fn servers_of_block(&self, block: usize) -> usize {
        let of_block = self.hosts.iter().filter(|host| host.block == block);
        of_block.map(|host| host.slices).sum()
    }

    pub fn largest_block(&self) -> usize {
        let blocks = 0..self.blocks.len();
        let sizes = blocks.map(|block| self.servers_of_block(block));
        sizes.max().unwrap_or(0)
    }

    /// The blocks that servers are of, each once.
    pub fn blocks_of(&self, servers: &[Server]) -> BTreeSet<usize> {
        servers.iter().map(|&it| self.block_of(it)).collect()
    }

    /// `a`, or `a and b`.
    pub fn block_names(&self, servers: &[Server]) -> String {
        let blocks = self.blocks_of(servers).into_iter();
        let names: Vec<_> = blocks.map(|it| self.blocks[it].name.clone()).collect();
        names.join(" and ")
    }

    /// All blocks that trunks join to this one, itself among them.
    pub fn joined_to(&self, block: usize) -> BTreeSet<usize> {
        let mut joined = BTreeSet::from([block]);
        loop {
            let mut beside = joined.iter().flat_map(|&it| self.beside(it));
            match beside.find(|it| !joined.contains(it)) {
                Some(new) => joined.insert(new),
                None => return joined,
            };
        }
    }

    /// The blocks that a trunk joins to this one.
    pub fn beside(&self, block: usize) -> impl Iterator<Item = usize> {
        self.trunks.iter().filter_map(move |trunk| {
            let [a, b] = trunk.blocks;
            match block {
                _ if block == a => Some(b),
                _ if block == b => Some(a),
                _ => None,
            }
        })
    }

    /// Between blocks, the fibres that no circuit uses, and which switches they join.
    pub fn free_fibres(&self, used: &[Circuit]) -> BTreeMap<[usize; 2], Vec<(u32, u32)>> {
        let crossed = |circuit: &Circuit| {
            let [a, b] = circuit.ends.map(|end| self.hosts[end.host as usize].block);
            Some(([a.min(b), a.max(b)], circuit.fibre?, circuit.switch))
        };
        let used: BTreeSet<_> = used.iter().filter_map(crossed).collect();
        let of_trunk = |trunk: &Trunk| {
            let switches = trunk.blocks.map(|it| self.blocks[it].switches as u32);
            let switches = 0..switches[0].min(switches[1]);
            let all = switches.flat_map(|on| (0..trunk.fibres).map(move |number| (number, on)));
            let free = |&(number, on): &(u32, u32)| !used.contains(&(trunk.blocks, number, on));
            (trunk.blocks, all.filter(free).collect())
        };
        self.trunks.iter().map(of_trunk).collect()
    }

    /// Returns the ports of a server. Slices get ports in turn, so that each reaches as many switches as possible.
    pub fn ports(&self, server: Server) -> impl Iterator<Item = u32> {
        let host = self.host(server);
        let own = host.ports.iter().skip(server.slice as usize);
        own.step_by(host.slices).copied()
    }

    /// Returns the switch of a port in its block.
    pub fn switch(&self, host: u32, port: u32) -> u32 {
        let Host { block, ports, .. } = &self.hosts[host as usize];
        let place = ports.iter().position(|&it| it == port).unwrap_or(0);
        (place % self.blocks[*block].switches) as u32
    }

    pub fn find(&self, name: &str) -> Option<Server> {
        let (host, slice) = name
            .strip_prefix('h')?
            .split_once('.')
            .unwrap_or((&name[1..], "0"));
        let server = Server {
            host: host.parse().ok()?,
            slice: slice.parse().ok()?,
        };
        let there = self.hosts.get(server.host as usize)?.slices > server.slice as usize;
        there.then_some(server)
    }

    /// `h3`, or `h3.1` for the second slice of it.
    pub fn name(&self, server: Server) -> String {
        match self.host(server).slices {
            1 => format!("h{}", server.host),
            _ => format!("h{}.{}", server.host, server.slice),
        }
    }
}
