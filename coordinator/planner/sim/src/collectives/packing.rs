//! Packs spanning trees into a graph: together they exceed no link's capacity, and each root reaches every host at the
//! maximum rate.
//!
//! Trees grow edge by edge. An edge is added to as many trees as possible while all unfinished trees can still be
//! completed, which a maximum flow verifies.

use reweave_common::ids::NodeId;
use reweave_common::iteration::Operation;

use super::bound::{Capacities, gcd, roots_of};
use super::flow::{FlowGraph, UNBOUNDED_CAPACITY};
use super::pipelined::{Edge, Tree};
use super::splitting::{Logical, Splitting};
use super::{Collective, CollectiveError};

/// Equal trees.
#[derive(Debug, Clone)]
struct Batch {
    /// Whether each host is reached.
    reached: Vec<bool>,
    /// In the order of being reached.
    order: Vec<usize>,
    edges: Vec<Edge>,
    count: i128,
}

/// The trees over which an operation is as fast as it can be.
pub(super) fn trees(collective: &Collective<'_>, limit: u64) -> Result<Vec<Tree>, CollectiveError> {
    let hosts = collective.hosts()?;
    let mut graph = Capacities::of(collective.fabric, &hosts);
    let roots = roots_of(collective.operation, hosts.len());
    let best = graph.best_rate(roots, limit)?;
    let scale = graph.edges.iter().map(|edge| edge.2 * best.under);
    let common = scale.fold(best.over, gcd).max(1);
    for edge in &mut graph.edges {
        edge.2 = edge.2 * best.under / common;
    }
    let rate = best.over / common;
    let splitting = Splitting::new(&graph, &graph.hosts[..roots], rate, limit);
    let packing = Packing::new(splitting.without_switches()?, &graph.hosts, limit);
    let batches = packing.pack(roots, rate)?;
    let whole = match collective.operation {
        Operation::Broadcast => collective.bytes,
        _ => collective.bytes / hosts.len() as f64,
    };
    let common = batches.iter().map(|batch| batch.count).fold(0, gcd).max(1);
    Ok(batches
        .into_iter()
        .map(|batch| Tree {
            bytes: whole * batch.count as f64 / rate as f64,
            weight: u32::try_from(batch.count / common).unwrap_or(u32::MAX),
            edges: batch.edges,
        })
        .collect())
}

struct Packing<'h> {
    /// Remaining capacity by pair of hosts, in rank order.
    left: Logical,
    nodes: &'h [usize],
    limit: u64,
    work: u64,
}

impl<'h> Packing<'h> {
    fn new(logical: Logical, nodes: &'h [usize], limit: u64) -> Self {
        let rank = |node: usize| nodes.iter().position(|&it| it == node);
        let ranked = logical
            .into_iter()
            .filter_map(|((from, to), ways)| Some(((rank(from)?, rank(to)?), ways)));
        Self {
            left: ranked.collect(),
            nodes,
            limit,
            work: 0,
        }
    }

    fn pack(mut self, roots: usize, rate: i128) -> Result<Vec<Batch>, CollectiveError> {
        let hosts = self.nodes.len();
        let batch = |root: usize| Batch {
            reached: (0..hosts).map(|host| host == root).collect(),
            order: vec![root],
            edges: Vec::new(),
            count: rate,
        };
        let mut growing: Vec<_> = (0..roots).map(batch).collect();
        let mut done = Vec::new();
        while let Some(mut batch) = growing.pop() {
            while batch.order.len() < hosts {
                let ((from, to), count) = self.next_edge(&batch, &growing)?;
                if count < batch.count {
                    let mut rest = batch.clone();
                    rest.count -= count;
                    growing.push(rest);
                    batch.count = count;
                }
                self.grow(&mut batch, from, to);
            }
            done.push(batch);
        }
        Ok(done)
    }

    fn grow(&mut self, batch: &mut Batch, from: usize, to: usize) {
        let along = self.use_up((from, to), batch.count);
        batch.reached[to] = true;
        batch.order.push(to);
        batch.edges.push(Edge {
            parent: from,
            child: to,
            along: along.into_iter().map(NodeId::from_index).collect(),
        });
    }

    /// Takes capacity from a link, and returns the path of this capacity. The link has as much.
    fn use_up(&mut self, link: (usize, usize), amount: i128) -> Vec<usize> {
        let Some(ways) = self.left.get_mut(&link) else {
            return Vec::new();
        };
        let Some((there, way)) = ways.last_mut() else {
            return Vec::new();
        };
        *there -= amount;
        let way = way.clone();
        if ways.last().is_some_and(|(there, _)| *there == 0) {
            ways.pop();
        }
        if ways.is_empty() {
            self.left.remove(&link);
        }
        way
    }

    /// An edge that leads on, and for how many trees of the batch.
    fn next_edge(
        &mut self,
        batch: &Batch,
        others: &[Batch],
    ) -> Result<((usize, usize), i128), CollectiveError> {
        let onwards = batch.order.iter().flat_map(|&from| {
            let links = self.left.range((from, 0)..(from + 1, 0));
            links.filter_map(|(link, ways)| Some((*link, ways.last()?.0)))
        });
        let onwards = onwards.filter(|&((_, to), _)| !batch.reached[to]);
        for ((from, to), on_way) in onwards.collect::<Vec<_>>() {
            let most = on_way.min(batch.count);
            let count = most.min(self.possible(from, to, others, most));
            if self.work > self.limit {
                break;
            }
            if count > 0 {
                return Ok(((from, to), count));
            }
        }
        // There always is one, so that only the work can have run out.
        Err(CollectiveError::TooMuchWork { limit: self.limit })
    }

    /// Returns the number of trees that can use a link while the others can still be completed.
    fn possible(&mut self, from: usize, to: usize, others: &[Batch], most: i128) -> i128 {
        let hosts = self.nodes.len();
        let mut graph = FlowGraph::new(hosts + others.len());
        for (&(a, b), ways) in &self.left {
            graph.add(a, b, ways.iter().map(|(amount, _)| amount).sum());
        }
        let mut promised = 0;
        for (nth, other) in others.iter().enumerate() {
            promised += other.count;
            graph.add(from, hosts + nth, other.count);
            for &host in &other.order {
                graph.add(hosts + nth, host, UNBOUNDED_CAPACITY);
            }
        }
        graph.reset();
        let flow = graph.most(from, to, promised + most);
        self.work += graph.work;
        flow - promised
    }
}
