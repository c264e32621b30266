//! All paths of flows between two hosts: flows with different source ports are traced, until an unseen next hop is
//! unlikely.
//!
//! For a router with a number of known next hops, enough flows have passed when one more next hop, as likely as the
//! others, would have been missed in one case of twenty (multipath detection, Augustin and others, 2007). Parallel
//! links count as next hops of their own if routers name themselves by the link on which a probe arrived.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use reweave_common::flow::FlowKey;
use reweave_common::sample::TracedPath;
use serde::Serialize;

/// Flows that must have been seen to pass, by how many next hops are known.
const MDA_STOPPING_POINTS: [usize; 32] = [
    6, 11, 16, 21, 27, 33, 39, 45, 51, 57, 63, 70, 77, 83, 90, 97, 103, 110, 117, 124, 131, 138,
    146, 153, 160, 167, 174, 182, 189, 197, 204, 211,
];
/// A router that more flows are needed for is not looked at to its end.
const MAX_FLOWS: usize = 1024;
/// This many are traced at a time.
const BATCH_SIZES: std::ops::RangeInclusive<usize> = 4..=64;

#[derive(Debug)]
pub struct MultipathTrace {
    /// But for the source port, all flows are like it.
    like: FlowKey,
    asked: BTreeSet<FlowKey>,
    paths: BTreeMap<FlowKey, Vec<Option<Ipv4Addr>>>,
}

/// A router, its distance, and its next hops.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fork {
    /// The sender is hop 0.
    pub hop: usize,
    /// Absent for the sender.
    pub router: Option<Ipv4Addr>,
    pub next: Vec<Ipv4Addr>,
    /// This many flows were seen to go on from it.
    pub flows: usize,
    /// Whether these flows are enough to know all next hops.
    pub complete: bool,
}

impl MultipathTrace {
    pub fn new(like: FlowKey) -> Self {
        Self {
            like,
            asked: BTreeSet::new(),
            paths: BTreeMap::new(),
        }
    }

    pub fn handle_path(&mut self, path: TracedPath) {
        if self.asked.contains(&path.flow) {
            self.paths.insert(path.flow, path.routers);
        }
    }

    /// Whether all flows that were asked for have been traced.
    pub fn is_settled(&self) -> bool {
        self.paths.len() == self.asked.len()
    }

    /// Flows to be traced now, in place of those before; none when all is known, or as much as
    /// can be.
    pub fn poll_flows(&mut self) -> Vec<FlowKey> {
        let missing = self.forks().iter().map(missing).max();
        let wanted = missing.unwrap_or(MDA_STOPPING_POINTS[0]);
        let room = MAX_FLOWS.saturating_sub(self.asked.len());
        let wanted = match wanted.min(room) {
            0 => return vec![],
            wanted => wanted.clamp(*BATCH_SIZES.start(), *BATCH_SIZES.end()),
        };
        let first = self.asked.len();
        let flows: Vec<_> = (first..first + wanted).map(|nth| self.flow(nth)).collect();
        self.asked.extend(&flows);
        flows
    }

    /// Routers and where flows go on from them, from the sender on.
    pub fn forks(&self) -> Vec<Fork> {
        let mut seen: BTreeMap<_, (BTreeSet<Ipv4Addr>, usize)> = BTreeMap::new();
        for path in self.paths.values() {
            let sender = [(0, None)].into_iter();
            let routers = (1..).zip(path.iter().copied());
            let from = sender.chain(routers.filter(|(_, router)| router.is_some()));
            for (hop, router) in from {
                if let Some(Some(next)) = path.get(hop) {
                    let (nexts, flows) = seen.entry((hop, router)).or_default();
                    nexts.insert(*next);
                    *flows += 1;
                }
            }
        }
        seen.into_iter()
            .map(|((hop, router), (next, flows))| Fork::new(hop, router, next, flows))
            .collect()
    }

    /// Hops at which a router said nothing to any flow.
    pub fn silent_hops(&self) -> Vec<usize> {
        let longest = self.paths.values().map(Vec::len).max().unwrap_or(0);
        (0..longest)
            .filter(|hop| !self.speaks(*hop))
            .map(|hop| hop + 1)
            .collect()
    }

    fn speaks(&self, hop: usize) -> bool {
        let mut at = self.paths.values().filter_map(|path| path.get(hop));
        at.any(Option::is_some)
    }

    /// How many flows were traced.
    pub fn flows(&self) -> usize {
        self.paths.len()
    }

    fn flow(&self, nth: usize) -> FlowKey {
        let mut flow = self.like;
        let port = flow.source.port().wrapping_add(nth as u16);
        flow.source.set_port(port.max(1));
        flow
    }
}

impl Fork {
    fn new(hop: usize, router: Option<Ipv4Addr>, next: BTreeSet<Ipv4Addr>, flows: usize) -> Self {
        let enough = MDA_STOPPING_POINTS.get(next.len() - 1);
        Self {
            hop,
            router,
            complete: enough.is_some_and(|enough| flows >= *enough),
            next: next.into_iter().collect(),
            flows,
        }
    }
}

/// The lower bound of missing flows, because only a part of new flows pass a router behind a fork.
fn missing(fork: &Fork) -> usize {
    let enough = MDA_STOPPING_POINTS.get(fork.next.len() - 1).copied();
    enough.unwrap_or(fork.flows).saturating_sub(fork.flows)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddrV4;

    use reweave_common::flow::Protocol;
    use reweave_common::split_mix::SplitMix64;

    use super::*;

    fn like() -> FlowKey {
        let end = |host, port| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), port);
        FlowKey {
            protocol: Protocol::Udp,
            source: end(1, 65_000),
            destination: end(2, 4791),
        }
    }

    fn router(tier: u8, number: u64) -> Option<Ipv4Addr> {
        Some(Ipv4Addr::new(10, 1, tier, number as u8))
    }

    /// A leaf, one of `spines`, one of `cores`, a leaf; each flow's way is drawn.
    fn explore(spines: u64, cores: u64, seed: u64) -> MultipathTrace {
        let mut rng = SplitMix64::new(seed);
        let mut spread = MultipathTrace::new(like());
        loop {
            let flows = spread.poll_flows();
            if flows.is_empty() {
                return spread;
            }
            for flow in flows {
                let [spine, core] = [spines, cores].map(|many| rng.next_u64() % many);
                let leaf = router(4, core);
                let routers = vec![router(1, 0), router(2, spine), router(3, core), leaf];
                spread.handle_path(TracedPath {
                    flow,
                    routers,
                    confirmed: true,
                });
            }
            assert!(spread.is_settled());
        }
    }

    #[test]
    fn nearly_all_next_hops_are_found() {
        for (spines, cores) in [(1, 1), (2, 2), (4, 4), (8, 2), (16, 1)] {
            let mut found = 0;
            for seed in 0..100 {
                let spread = explore(spines, cores, seed);
                let forks = spread.forks();
                let of_hop = |hop| forks.iter().filter(move |fork: &&Fork| fork.hop == hop);
                let first = of_hop(1).next().unwrap();
                let rest = of_hop(2).all(|fork| fork.next.len() as u64 == cores);
                found += usize::from(first.next.len() as u64 == spines && rest);
                assert!(forks.iter().all(|fork| fork.complete));
            }
            assert!(found >= 85, "{spines} and {cores}: {found} of 100");
        }
    }

    #[test]
    fn single_path_needs_few_distinct_flows() {
        let spread = explore(1, 1, 1);
        assert_eq!(spread.flows(), 6);
        let ports: BTreeSet<_> = spread.asked.iter().map(|flow| flow.source.port()).collect();
        assert_eq!(ports.len(), 6);
        let spread = explore(8, 8, 1);
        assert!(spread.flows() > 300 && !spread.asked.iter().any(|it| it.source.port() == 0));
    }

    #[test]
    fn silent_hop_is_named_without_fork() {
        let mut spread = MultipathTrace::new(like());
        for flow in spread.poll_flows() {
            let routers = vec![router(1, 0), None, router(3, 0)];
            spread.handle_path(TracedPath {
                flow,
                routers,
                confirmed: true,
            });
        }
        assert_eq!(spread.silent_hops(), [2]);
        let hops: Vec<_> = spread.forks().iter().map(|fork| fork.hop).collect();
        assert_eq!(hops, [0]);
        assert_eq!(spread.poll_flows(), []);
    }

    #[test]
    fn too_many_paths_end_search() {
        let spread = explore(200, 1, 3);
        assert!(spread.flows() <= MAX_FLOWS);
        assert!(spread.forks().iter().any(|fork| !fork.complete));
    }
}
