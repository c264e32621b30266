//! The load of a ring of hosts on links, before any of its flows was measured.

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::routes::hops_to;
use reweave_common::snapshot::Hop;
use reweave_common::units::Rate;

/// The load of each hop in Gb/s, if each host sends this much to the next, evenly over shortest paths.
pub(super) fn loads(fabric: &Fabric, hosts: &[NodeId], rate: Rate) -> BTreeMap<Hop, f64> {
    let mut loads = BTreeMap::new();
    let next = hosts.iter().cycle().skip(1);
    for (&from, &to) in hosts.iter().zip(next).filter(|(from, to)| from != to) {
        for (hop, share) in shares(fabric, from, to) {
            *loads.entry(hop).or_default() += share * rate.gbps();
        }
    }
    loads
}

/// The share of each hop in the traffic of one host to another.
fn shares(fabric: &Fabric, from: NodeId, to: NodeId) -> Vec<(Hop, f64)> {
    let hops = hops_to(fabric, to);
    let mut shares = Vec::new();
    let mut at = BTreeMap::from([(from, 1.0)]);
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
}
