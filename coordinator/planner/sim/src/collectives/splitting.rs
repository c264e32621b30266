//! Removes switches from a graph: traffic through a switch becomes links between its neighbours, so that all hosts keep
//! their rates.

use std::collections::BTreeMap;

use super::CollectiveError;
use super::bound::{Capacities, Demand};

/// Links between hosts, each with the paths that it represents and their amounts.
pub(super) type Logical = BTreeMap<(usize, usize), Vec<(i128, Vec<usize>)>>;

/// A graph of whole capacities in which `roots` each send `rate` to all hosts.
pub(super) struct Splitting<'c> {
    graph: &'c Capacities,
    roots: &'c [usize],
    rate: i128,
    ways: Logical,
    limit: u64,
    work: u64,
}

impl<'c> Splitting<'c> {
    pub(super) fn new(graph: &'c Capacities, roots: &'c [usize], rate: i128, limit: u64) -> Self {
        let ways = graph.edges.iter();
        let ways = ways.map(|&(from, to, capacity)| ((from, to), vec![(capacity, vec![from, to])]));
        Self {
            graph,
            roots,
            rate,
            ways: ways.collect(),
            limit,
            work: 0,
        }
    }

    pub(super) fn without_switches(mut self) -> Result<Logical, CollectiveError> {
        let is_host = |node: &usize| self.graph.hosts.contains(node);
        let switches: Vec<_> = (0..self.graph.nodes)
            .filter(|node| !is_host(node))
            .collect();
        for switch in switches {
            self.take_out(switch)?;
        }
        Ok(self.ways)
    }

    fn take_out(&mut self, switch: usize) -> Result<(), CollectiveError> {
        let neighbours = |this: &Self, end: usize| -> Vec<usize> {
            let ends = this.ways.keys().map(|&(from, to)| [from, to]);
            ends.filter(|ends| ends[1 - end] == switch)
                .map(|ends| ends[end])
                .collect()
        };
        let (sources, targets) = (neighbours(self, 0), neighbours(self, 1));
        for &to in &targets {
            for &from in sources.iter().filter(|&&from| from != to) {
                self.split_off(from, switch, to)?;
            }
        }
        // The rest leads only back.
        self.ways
            .retain(|&(from, to), _| from != switch && to != switch);
        Ok(())
    }

    fn capacity(&self, from: usize, to: usize) -> i128 {
        let ways = self.ways.get(&(from, to)).into_iter().flatten();
        ways.map(|(amount, _)| amount).sum()
    }

    /// Leads as much as can be past the switch.
    fn split_off(&mut self, from: usize, switch: usize, to: usize) -> Result<(), CollectiveError> {
        let most = self.capacity(from, switch).min(self.capacity(switch, to));
        if most == 0 {
            return Ok(());
        }
        let amount = most - self.missing_without(most, [from, switch, to]);
        if self.work > self.limit {
            return Err(CollectiveError::TooMuchWork { limit: self.limit });
        }
        if amount > 0 {
            let first = take(&mut self.ways, (from, switch), amount);
            let second = take(&mut self.ways, (switch, to), amount);
            let joined = join(first, second);
            self.ways.entry((from, to)).or_default().extend(joined);
        }
        Ok(())
    }

    /// Returns the missing flow to the worst host.
    fn missing_without(&mut self, amount: i128, [from, switch, to]: [usize; 3]) -> i128 {
        let mut demand = Demand::new(self.graph.nodes, self.roots, self.rate);
        for &(a, b) in self.ways.keys() {
            let capacity = self.capacity(a, b);
            let gone = (a, b) == (from, switch) || (a, b) == (switch, to);
            demand
                .flow
                .add(a, b, if gone { capacity - amount } else { capacity });
        }
        demand.flow.add(from, to, amount);
        let hosts = self.graph.hosts.iter();
        let missing = hosts.map(|&host| demand.short_of(host)).max().unwrap_or(0);
        self.work += demand.flow.work;
        missing.min(amount)
    }
}

/// Takes an amount from the paths of a link.
fn take(ways: &mut Logical, link: (usize, usize), mut amount: i128) -> Vec<(i128, Vec<usize>)> {
    let mut taken = Vec::new();
    let Some(list) = ways.get_mut(&link) else {
        return taken;
    };
    while amount > 0
        && let Some((there, way)) = list.last_mut()
    {
        let part = amount.min(*there);
        taken.push((part, way.clone()));
        *there -= part;
        amount -= part;
        if *there == 0 {
            list.pop();
        }
    }
    if list.is_empty() {
        ways.remove(&link);
    }
    taken
}

/// Joins paths to a node with paths from it.
fn join(
    mut first: Vec<(i128, Vec<usize>)>,
    mut second: Vec<(i128, Vec<usize>)>,
) -> Vec<(i128, Vec<usize>)> {
    let mut joined = Vec::new();
    while let (Some(a), Some(b)) = (first.last_mut(), second.last_mut()) {
        let part = a.0.min(b.0);
        let way = a.1.iter().chain(&b.1[1..]).copied().collect();
        joined.push((part, way));
        a.0 -= part;
        b.0 -= part;
        if a.0 == 0 {
            first.pop();
        }
        if b.0 == 0 {
            second.pop();
        }
    }
    joined
}
