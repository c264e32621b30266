//! A shared cluster: 432 servers and 16 jobs of 27 servers, each with an all-to-all among its servers.
//!
//! Each pair of servers of a job has 24 flows of 1 MB: on a leaf-spine, three connections for each of 8 NICs; on a
//! direct fabric of degree 8, the same number between the servers.

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_repair::paths::ecmp::{Ecmp, Fields};
use reweave_sim::engine::network::{Compass, Costs, Network, NetworkPath, Towards};
use reweave_sim::engine::{Problem, SimTime};

pub(super) const SEED: u64 = 1;

const SERVER_COUNT: usize = 432;
const JOB_COUNT: usize = 16;
const FLOWS_PER_PAIR: usize = 24;
const FLOW_BITS: f64 = 8e6;

/// Servers of each job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placement {
    /// Neighbours.
    InOrder,
    /// At random.
    Scattered,
}

/// Returns a fabric of 108 leaves, with one NIC of 32 servers each.
pub(super) fn on_leaf_spine(uplink_gbps: u32, spines: u32, placement: Placement) -> Problem {
    let text = format!(
        "kind = \"leaf-spine\"\nleaves = 108\nspines = {spines}\nhosts_per_leaf = 32\n\
         host_gbps = 100\nuplink_gbps = {uplink_gbps}"
    );
    all_to_all_jobs(&text, 8, placement)
}

pub(super) fn on_direct(placement: Placement) -> Problem {
    let text = "kind = \"direct\"\nhosts = 432\nlink_gbps = 100\nstrides = [1, 5, 25, 125]";
    all_to_all_jobs(text, 1, placement)
}

fn all_to_all_jobs(text: &str, cards: usize, placement: Placement) -> Problem {
    let fabric = Fabric::parse("fabric", text).expect("the fabric is sound");
    let mut cluster = Cluster::new(&fabric, cards);
    let order = order(placement);
    for job in order.chunks(SERVER_COUNT / JOB_COUNT) {
        for &from in job {
            for &to in job.iter().filter(|&&to| to != from) {
                cluster.connect(from, to);
            }
        }
    }
    cluster.problem
}

struct Cluster {
    network: Network,
    cards: usize,
    endpoints: Vec<NodeId>,
    towards: Vec<Towards>,
    problem: Problem,
    way: NetworkPath,
}

impl Cluster {
    fn new(fabric: &Fabric, cards: usize) -> Self {
        let network = Network::of(fabric, Costs::default());
        let endpoints: Vec<_> = fabric.endpoints().collect();
        let mut compass = Compass::default();
        let towards = |&to: &NodeId| compass.towards(&network, to);
        Self {
            towards: endpoints.iter().map(towards).collect(),
            problem: network.problem().expect("the links are sound"),
            network,
            cards,
            endpoints,
            way: NetworkPath::default(),
        }
    }

    fn connect(&mut self, from: usize, to: usize) {
        for nth in 0..FLOWS_PER_PAIR {
            let card = nth % self.cards;
            let [from, to] = [from, to].map(|server| server * self.cards + card);
            self.add_flow(from, to, nth as u16);
        }
    }

    fn add_flow(&mut self, from: usize, to: usize, source_port: u16) {
        let ecmp = Ecmp::Mixed { seed: SEED };
        let label = ecmp.label(Fields {
            source: from as u32,
            destination: to as u32,
            source_port,
            destination_port: 4791,
            protocol: 17,
        });
        let (from, towards) = (self.endpoints[from], &self.towards[to]);
        let found = self
            .network
            .find_way(from, towards, &ecmp, label, &mut self.way);
        assert!(found, "the fabric is whole");
        let path = self.problem.add_path(&self.way.links);
        let path = path.expect("the way is sound");
        let task = self.problem.add_transfer(path, FLOW_BITS, SimTime::ZERO);
        task.expect("the flow is sound");
    }
}

fn order(placement: Placement) -> Vec<usize> {
    let mut order: Vec<_> = (0..SERVER_COUNT).collect();
    if placement == Placement::InOrder {
        return order;
    }
    let mut state = SEED;
    for last in (1..SERVER_COUNT).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        order.swap(last, (state >> 33) as usize % (last + 1));
    }
    order
}
