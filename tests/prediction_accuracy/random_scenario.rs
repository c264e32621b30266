//! Clusters and jobs, drawn by seed: on each, flows of one job meet on one uplink.

use std::fmt;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Hosts at each of two leaves.
const HOSTS_PER_LEAF: u64 = 4;
/// One kind of job after the other.
const JOB_KINDS: [Kind; 3] = [Kind::Streams, Kind::Ring, Kind::Mpi];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Streams,
    Ring,
    /// Streams by Open MPI, over the ways that kernels happen to choose: they meet on every second cluster.
    Mpi,
}

/// A loop of Open MPI's ranks: the first half of them sends to the other.
const MPI_PROGRAM: &str = "\
from mpi4py import MPI
import time
comm = MPI.COMM_WORLD
half = comm.size // 2
other = (comm.rank + half) % comm.size
data = bytearray(BYTES)
comm.Barrier()
began, count = time.monotonic(), 0
while True:
    time.sleep(COMPUTE_MS / 1e3)
    if comm.rank < half:
        comm.Send(data, other)
    else:
        comm.Recv(data, other)
    comm.Barrier()
    count += 1
    if comm.rank == 0:
        print(count, 1e3 * (time.monotonic() - began), flush=True)
";

#[derive(Debug)]
pub(crate) struct RandomScenario {
    pub(crate) seed: u64,
    pub(crate) kind: Kind,
    spines: u64,
    uplink_mbps: u64,
    /// That an iteration sends from each host, or in each stream.
    bytes: u64,
    compute_ms: u64,
    /// Streams beside each other, or half as many ranks.
    width: u64,
}

impl RandomScenario {
    pub(crate) fn by(seed: u64) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let kind = JOB_KINDS[seed as usize % JOB_KINDS.len()];
        // Streams that rest long find times at which they do not meet.
        let (most_spines, rests_ms) = match kind {
            Kind::Streams => (3, 10..=30),
            Kind::Ring | Kind::Mpi => (2, 60..=300),
        };
        let spines = rng.random_range(2..=most_spines);
        Self {
            seed,
            kind,
            spines,
            uplink_mbps: rng.random_range(80..=150),
            bytes: rng.random_range(2_000_000..=5_000_000),
            compute_ms: rng.random_range(rests_ms),
            width: if kind == Kind::Ring { 2 } else { spines },
        }
    }

    pub(crate) fn fabric(&self) -> String {
        format!(
            "kind = \"leaf-spine\"\nleaves = 2\nspines = {}\nhosts_per_leaf = {HOSTS_PER_LEAF}\n\
             host_gbps = 0.2\nuplink_gbps = {}\n",
            self.spines,
            self.uplink_mbps as f64 / 1e3
        )
    }

    /// From rack to rack and back, or all of one rack and then all of the other.
    fn hosts(&self) -> Vec<String> {
        let far = (0..self.width).map(|it| it + HOSTS_PER_LEAF);
        let hosts: Vec<_> = match self.kind {
            Kind::Ring => (0..self.width).zip(far).flat_map(|(a, b)| [a, b]).collect(),
            Kind::Streams | Kind::Mpi => (0..self.width).chain(far).collect(),
        };
        hosts.iter().map(|host| format!("h{host}")).collect()
    }

    pub(crate) fn hostfile(&self) -> String {
        let hosts = self.hosts().into_iter();
        hosts.map(|host| format!("{host} slots=1\n")).collect()
    }

    pub(crate) fn program(&self) -> String {
        let bytes = MPI_PROGRAM.replace("BYTES", &self.bytes.to_string());
        bytes.replace("COMPUTE_MS", &self.compute_ms.to_string())
    }

    /// What the lab runs itself.
    pub(crate) fn job(&self) -> String {
        let pattern = match self.kind {
            Kind::Streams => "streams",
            Kind::Ring => "ring-allreduce",
            Kind::Mpi => return String::new(),
        };
        let pairs = (0..self.width).map(|it| format!("[{it}, {}]", it + self.width));
        let pairs: Vec<_> = pairs.collect();
        let pairs = match self.kind {
            Kind::Streams => format!("pairs = [{}]\n", pairs.join(", ")),
            _ => String::new(),
        };
        format!(
            "[[job]]\nname = \"train\"\npattern = \"{pattern}\"\nhosts = {:?}\n{pairs}bytes = {}\n\
             compute_ms = {}\niterations = 1_000_000\npaths = \"collide\"\n",
            self.hosts(),
            self.bytes,
            self.compute_ms
        )
    }
}

impl fmt::Display for RandomScenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Streams => "streams",
            Kind::Ring => "ring all-reduce",
            Kind::Mpi => "streams of Open MPI",
        };
        write!(
            f,
            "{} {kind}, {} hosts, {:.1} MB, {} ms, {} x {} Mb/s",
            self.seed,
            2 * self.width,
            self.bytes as f64 / 1e6,
            self.compute_ms,
            self.spines,
            self.uplink_mbps
        )
    }
}
