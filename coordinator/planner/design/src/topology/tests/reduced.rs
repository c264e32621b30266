//! An all-reduce is as fast as the narrowest cut lets it, on any layout.

use std::time::Duration;

use reweave_common::fabric::Fabric;
use reweave_common::ids::{NodeId, Rank};
use reweave_common::iteration::{Iteration, IterationBuilder, Operation, TaskWork};
use reweave_common::units::{Bytes, Rate};
use reweave_sim::collectives::{Collective, bound};
use reweave_sim::engine::network::Costs;
use reweave_sim::workload::{self, Network, Settings};

use super::*;
use crate::routing::{self, Effort};

const REDUCED_BYTES: u64 = 100_000_000;
const MAX_SIMULATION_WORK: u64 = 1 << 36;

fn all_reduce(hosts: usize) -> Iteration {
    let mut builder = IterationBuilder::new(hosts);
    let ranks: Vec<_> = (0..hosts).map(Rank::from_index).collect();
    let group = builder.group(&ranks);
    let name = builder.name("all-reduce");
    let work = TaskWork::Collective {
        operation: Operation::AllReduce,
        group,
        bytes: Bytes::new(REDUCED_BYTES),
        local: Duration::ZERO,
    };
    builder.add(name, work);
    builder.build().unwrap()
}

/// The first host sends to each, as if it held a table.
fn lopsided(hosts: usize) -> Demand {
    let pairs = (1..hosts as u32).flat_map(|to| [(0, to), (to, to / 2)]);
    let pairs = pairs.filter(|(a, b)| a != b).map(|pair| (pair, 1e6));
    let everybody = Group {
        members: (0..hosts as u32).collect(),
        bytes: 1e6,
    };
    Demand {
        hosts,
        groups: vec![everybody],
        pairs: pairs.collect(),
    }
}

fn bare() -> Settings {
    Settings {
        costs: Costs::default(),
        ..Settings::default()
    }
}

/// Milliseconds, and those of the cut bound.
pub(super) fn times(design: &families::Design) -> [f64; 2] {
    let hosts = design.wiring.hosts();
    let rate = Rate::from_gbps(100.0).unwrap();
    let fabric = design.wiring.fabric(rate, Duration::ZERO).unwrap();
    let iteration = all_reduce(hosts);
    let place: Vec<_> = (0..hosts as u32).collect();
    let demand = Demand::of(&iteration, &place, hosts);
    let routes = routing::balanced(&design.wiring, &demand.pairs, Effort::default());
    let wired = Wired {
        design,
        routes: &routes,
        known: &Known::nothing(design),
    };
    let carriage = carriage(wired, &iteration, &place, &demand, MAX_SPREAD_PAIRS);
    let placement: Vec<_> = (0..hosts).map(NodeId::from_index).collect();
    let network = Network::new(&fabric, &placement, &carriage, bare());
    let end = workload::simulate(&iteration, &network, MAX_SIMULATION_WORK)
        .unwrap()
        .end;
    [end.millis(), cut_bound_ms(&fabric)]
}

fn cut_bound_ms(fabric: &Fabric) -> f64 {
    let collective = Collective {
        fabric,
        members: None,
        operation: Operation::AllReduce,
        bytes: REDUCED_BYTES as f64,
    };
    bound::optimum_us(&collective, 1.0, MAX_SIMULATION_WORK).unwrap() / 1e3
}

#[test]
fn candidates_reduce_near_cut_bound() {
    let mut families = std::collections::BTreeSet::new();
    for (hosts, degree) in [
        (12, 4),
        (12, 8),
        (16, 4),
        (13, 4),
        (13, 3),
        (16, 3),
        (20, 5),
        (32, 6),
    ] {
        let limits = Limits::plain(hosts, degree);
        for design in families::all(&lopsided(hosts), &limits, 3) {
            let [found, bound] = times(&design);
            let what = format!("{hosts} hosts of {degree}: {}", design.family);
            assert!(limits.hold(&design.wiring), "{what}");
            assert!(design.wiring.is_connected(), "{what}");
            assert!(
                found <= bound * 1.01,
                "{what}: {found} ms, the cut allows {bound}"
            );
            families.insert(design.family.word());
        }
    }
    assert_eq!(families.len(), 8, "{families:?}");
}

#[test]
fn failed_link_costs_third_at_most() {
    let whole = families::totient(12, 2);
    let [before, _] = times(&whole);
    for [a, b] in whole.wiring.pairs() {
        let mut broken = whole.clone();
        broken.wiring.part(a, b);
        broken.rings.clear();
        let [after, bound] = times(&broken);
        assert!(after <= before * 4.0 / 3.0, "{after} of {before}");
        assert!(after <= bound * 1.01);
    }
}
