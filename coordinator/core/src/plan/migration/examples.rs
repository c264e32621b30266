//! Small random fabrics of circuits, and possible circuits on them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use reweave_common::circuit::{Circuit, PortId};
use reweave_common::fabric::{Circuits, Fabric};
use reweave_common::forwarding::{ForwardingTable, NextHop};
use reweave_common::migration_plan::Tables;
use reweave_common::split_mix::SplitMix64;

/// Three to six hosts with two to four fibres each, and some cables.
pub(crate) fn some_fabric(rng: &mut SplitMix64) -> Fabric {
    let (hosts, fibres, opticals) = (3 + rng.below(4), 2 + rng.below(3), 1 + rng.below(2));
    let mut text = "kind = \"graph\"\n".to_owned();
    for host in 0..hosts {
        let _ = writeln!(
            text,
            "[[node]]\nname = \"h{host}\"\nrole = \"relay\"\naddress = \"10.255.0.{host}\""
        );
    }
    for optical in 0..opticals {
        let ports = hosts * fibres;
        let _ = writeln!(
            text,
            "[[optical]]\nname = \"ocs{optical}\"\nports = {ports}"
        );
    }
    let mut port = vec![0; opticals];
    for (host, fibre) in (0..hosts).flat_map(|host| (0..fibres).map(move |fibre| (host, fibre))) {
        let optical = rng.below(opticals);
        port[optical] += 1;
        let _ = writeln!(
            text,
            "[[fibre]]\nnode = \"h{host}\"\ninterface = \"fab{fibre}\"\noptical = \"ocs{optical}\"\n\
             port = {}\ngbps = 1",
            port[optical]
        );
    }
    let mut joined = BTreeSet::new();
    for _ in 0..rng.below(2 * hosts) {
        let (a, b) = (rng.below(hosts), rng.below(hosts));
        if a < b && joined.insert((a, b)) {
            let _ = writeln!(text, "[[link]]\na = \"h{a}\"\nb = \"h{b}\"\ngbps = 1");
        }
    }
    Fabric::parse("random.toml", &text).expect("what is drawn is a fabric")
}

/// Random circuits, as many as possible or fewer.
pub(crate) fn some_circuits(fabric: &Fabric, rng: &mut SplitMix64) -> Circuits {
    let of_switch = |(optical, _)| {
        let mut ports: Vec<_> = fabric.fibres().filter(|it| it.optical == optical).collect();
        rng.shuffle(&mut ports);
        let mut circuits: Vec<Circuit> = Vec::new();
        let mut left: Vec<PortId> = Vec::new();
        for fibre in ports {
            let partner = left.iter().position(|&port| {
                fabric
                    .fibre(optical, port)
                    .expect("a port with a fibre")
                    .node
                    != fibre.node
            });
            match partner.filter(|_| rng.below(8) > 0) {
                Some(index) => circuits.push(Circuit::new(left.swap_remove(index), fibre.port)),
                None => left.push(fibre.port),
            }
        }
        (optical, circuits.into_iter().collect())
    };
    fabric.opticals().map(of_switch).collect()
}

/// A random tree to every host; in some cases all shortest paths.
pub(crate) fn some_tables(fabric: &Fabric, circuits: &Circuits, rng: &mut SplitMix64) -> Tables {
    let several = rng.below(4) == 0;
    tables(fabric, circuits, rng, several)
}

/// All shortest paths to every host, or a random tree.
pub(crate) fn tables(
    fabric: &Fabric,
    circuits: &Circuits,
    rng: &mut SplitMix64,
    several: bool,
) -> Tables {
    let dark = fabric.dark(circuits);
    let mut tables = Tables::new();
    for to in fabric.endpoints() {
        let mut reached = BTreeMap::from([(to, 0)]);
        let mut open = vec![to];
        while !open.is_empty() {
            // Shortest paths extend the oldest node first, trees a random one.
            let at = open.remove(if several { 0 } else { rng.below(open.len()) });
            for &link in fabric
                .links_of(at)
                .iter()
                .filter(|link| !dark.contains(link))
            {
                let next = fabric.link(link).far(at).node;
                let far = reached[&at] + 1;
                let known = reached.get(&next).copied();
                if known.is_none() {
                    reached.insert(next, far);
                    open.push(next);
                }
                if known.is_none() || several && known == Some(far) {
                    let table = tables.entry(next).or_insert_with(|| ForwardingTable {
                        at: next,
                        towards: BTreeMap::new(),
                        raises: Vec::new(),
                    });
                    table
                        .towards
                        .entry(to)
                        .or_default()
                        .push(NextHop { link, weight: 1 });
                }
            }
        }
    }
    tables
}
