//! Source port of each flow of a job: the sender's only influence on its path.

use std::collections::BTreeMap;

use reweave_common::ids::{LinkId, NodeId};
use reweave_common::scenario::PathChoice;

/// A link in the direction away from a node.
pub(crate) type Hop = (NodeId, LinkId);

/// A source port a flow could use, and where the switches would send it then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) port: u16,
    pub(crate) path: Vec<Hop>,
}

impl Candidate {
    fn passes(&self, node: NodeId) -> bool {
        self.path.iter().any(|(from, _)| *from == node)
    }
}

/// Returns the number of ports tried per flow: 32 ports cover four equal-cost paths except once in 3 000 cases.
pub(crate) fn candidates_per_flow(choice: PathChoice) -> u16 {
    match choice {
        PathChoice::Hash => 1,
        PathChoice::Collide | PathChoice::Spread | PathChoice::Via(_) => 32,
    }
}

/// Returns one candidate per flow, chosen flow by flow; none if a flow has no suitable candidate.
pub(crate) fn choose(choice: PathChoice, flows: Vec<Vec<Candidate>>) -> Option<Vec<Candidate>> {
    let mut loads = Loads::default();
    let mut chosen = Vec::with_capacity(flows.len());
    for candidates in flows {
        let best = match choice {
            PathChoice::Hash => candidates.into_iter().next(),
            // Every flow takes the first of its equal paths, so they all meet.
            PathChoice::Collide => candidates.into_iter().min_by(|a, b| a.path.cmp(&b.path)),
            PathChoice::Spread => candidates
                .into_iter()
                .min_by_key(|one| loads.cost(&one.path)),
            PathChoice::Via(node) => candidates.into_iter().find(|one| one.passes(node)),
        };
        let best = best?;
        loads.add(&best.path);
        chosen.push(best);
    }
    Some(chosen)
}

/// Number of flows on each hop so far.
#[derive(Default)]
struct Loads(BTreeMap<Hop, usize>);

impl Loads {
    fn add(&mut self, path: &[Hop]) {
        for &hop in path {
            *self.0.entry(hop).or_default() += 1;
        }
    }

    /// The fullest hop first, then the sum, so that ties go to the emptier path.
    fn cost(&self, path: &[Hop]) -> (usize, usize) {
        let loads = path.iter().map(|hop| self.0.get(hop).copied().unwrap_or(0));
        (loads.clone().max().unwrap_or(0), loads.sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(link: usize) -> Hop {
        (NodeId::from_index(0), LinkId::from_index(link))
    }

    /// Four flows, each with eight ports that fall on two uplinks by turns.
    fn flows() -> Vec<Vec<Candidate>> {
        let candidate = |flow: u16, n: u16| Candidate {
            port: 1000 + flow * 8 + n,
            path: vec![
                hop(usize::from(flow)),
                hop(10 + usize::from((flow + n) % 2)),
            ],
        };
        (0..4)
            .map(|flow| (0..8).map(|n| candidate(flow, n)).collect())
            .collect()
    }

    fn uplinks(choice: PathChoice) -> Vec<usize> {
        let chosen = choose(choice, flows()).unwrap();
        chosen.iter().map(|one| one.path[1].1.index()).collect()
    }

    #[test]
    fn path_choice_selects_named_uplinks() {
        assert_eq!(uplinks(PathChoice::Collide), [10, 10, 10, 10]);
        assert_eq!(uplinks(PathChoice::Spread), [10, 11, 10, 11]);
        assert_eq!(uplinks(PathChoice::Hash), [10, 11, 10, 11]);
        let by_hash = choose(PathChoice::Hash, flows()).unwrap();
        assert_eq!(by_hash[2].port, 1016);
        let [here, elsewhere] = [0, 1].map(NodeId::from_index);
        assert_eq!(uplinks(PathChoice::Via(here)), [10, 11, 10, 11]);
        assert_eq!(choose(PathChoice::Via(elsewhere), flows()), None);
    }
}
