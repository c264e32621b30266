//! The load of a ring of hosts on links, before any of its flows was measured.

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::routes::hops_to;
use reweave_common::snapshot::Hop;
use reweave_common::units::Rate;

/// The load of each hop in Gb/s, if each host sends this much to the next: as much over each rail of both, and evenly
/// over shortest paths.
pub(super) fn loads(fabric: &Fabric, hosts: &[NodeId], rate: Rate) -> BTreeMap<Hop, f64> {
    let mut loads = BTreeMap::new();
    let mut paths = RingPaths {
        fabric,
        hops: BTreeMap::new(),
    };
    let next = hosts.iter().cycle().skip(1);
    for (&from, &to) in hosts.iter().zip(next).filter(|(from, to)| from != to) {
        for (hop, share) in paths.shares_of_hosts(from, to) {
            *loads.entry(hop).or_default() += share * rate.gbps();
        }
    }
    loads
}

struct RingPaths<'f> {
    fabric: &'f Fabric,
    /// Number of hops from each node, by destination: hosts share their leaves.
    hops: BTreeMap<NodeId, Vec<Option<u32>>>,
}

impl RingPaths<'_> {
    /// The share of each hop in the traffic of one host to another. On rails it leaves and arrives over NICs of one
    /// rail.
    fn shares_of_hosts(&mut self, from: NodeId, to: NodeId) -> Vec<(Hop, f64)> {
        let fabric = self.fabric;
        let rails = fabric.rail_pairs(from, to);
        if rails.is_empty() {
            return self.shares(from, to, 1.0);
        }
        let each = 1.0 / rails.len() as f64;
        let mut shares = Vec::new();
        for pair in &rails {
            let [Some(first), Some(last)] = pair.map(|nic| fabric.leaf_of(nic)) else {
                continue;
            };
            let [out, into] = pair.map(|nic| fabric.nic(nic).link);
            let ends = [(from, out), (last, into)].map(|(from, link)| (Hop { from, link }, each));
            shares.extend(ends);
            shares.extend(self.shares(first, last, each));
        }
        shares
    }

    /// The same from one node to another, of a share that is spread evenly.
    fn shares(&mut self, from: NodeId, to: NodeId, share: f64) -> Vec<(Hop, f64)> {
        let fabric = self.fabric;
        let hops = self.hops.entry(to).or_insert_with(|| hops_to(fabric, to));
        let mut shares = Vec::new();
        let mut at = BTreeMap::from([(from, share)]);
        for left in (0..hops[from.index()].unwrap_or(0)).rev() {
            let mut next: BTreeMap<NodeId, f64> = BTreeMap::new();
            for (from, share) in at {
                let far = |link| fabric.link(link).far(from).node;
                let links = fabric.links_of(from).iter().copied();
                let closer: Vec<_> = links
                    .filter(|&link| hops[far(link).index()] == Some(left))
                    .filter(|&link| left == 0 || fabric.node(far(link)).role.forwards())
                    .collect();
                let each = share / closer.len() as f64;
                for link in closer {
                    shares.push((Hop { from, link }, each));
                    *next.entry(far(link)).or_default() += each;
                }
            }
            at = next;
        }
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_load_spreads_evenly_over_uplinks() {
        let text = "kind = \"leaf-spine\"\nleaves = 2\nspines = 4\nhosts_per_leaf = 2\n\
                    host_gbps = 10\nuplink_gbps = 10";
        let fabric = Fabric::parse("fabric.toml", text).unwrap();
        let hosts: Vec<_> = fabric.endpoints().collect();
        let ring = |places: [usize; 4]| {
            let rate = Rate::from_bits_per_s(8_000_000_000);
            let loads = loads(&fabric, &places.map(|it| hosts[it]), rate);
            let up = |hop: &Hop| fabric.name(hop.from) == "leaf0";
            let up = loads.iter().filter(|(hop, _)| up(hop));
            let up = up.filter(|(hop, _)| fabric.is_between_switches(hop.link));
            up.map(|(_, gbps)| *gbps).collect::<Vec<_>>()
        };
        assert_eq!(ring([0, 1, 2, 3]), [2.0; 4]);
        assert_eq!(ring([0, 2, 1, 3]), [4.0; 4]);
    }

    /// Both rails of a pod hang on leaves of their own, and storage NICs on one switch.
    #[test]
    fn ring_load_stays_on_rails() {
        let text = "kind = \"rails\"\npods = 2\nhosts_per_pod = 2\nrails = 2\nspines = 1\n\
                    host_gbps = 10\nuplink_gbps = 10\nstorage_nics = 1";
        let fabric = Fabric::parse("fabric.toml", text).unwrap();
        let hosts: Vec<_> = fabric.endpoints().collect();
        let rate = Rate::from_bits_per_s(8_000_000_000);
        let ring = |hosts: &[NodeId]| {
            let loads = loads(&fabric, hosts, rate).into_iter();
            let named = loads.map(|(hop, gbps)| {
                let link = fabric.link_name(hop.link);
                (format!("{link} of {}", fabric.name(hop.from)), gbps)
            });
            named.collect::<BTreeMap<_, _>>()
        };
        let within = ring(&hosts[..2]);
        assert_eq!(within.len(), 8, "{within:?}");
        assert!(within.values().all(|&gbps| gbps == 4.0), "{within:?}");
        assert!(within.contains_key("h1-leaf0-1 of leaf0-1"), "{within:?}");
        let across = ring(&hosts[1..3]);
        assert_eq!(across.len(), 16, "{across:?}");
        assert_eq!(across["leaf1-0-spine0 of spine0"], 4.0);
    }
}
