//! Failures: routes over what is left.

use std::time::Duration;

use reweave_common::ids::Rank;
use reweave_common::iteration::{Iteration, IterationBuilder, Operation, Work};
use reweave_common::units::{Bytes, Rate};

use super::*;
use crate::workload::Settings;

const HOSTS: usize = 16;

/// All reduce, and each sends to the one three further on.
fn iteration() -> Iteration {
    let mut builder = IterationBuilder::new(HOSTS);
    let ranks: Vec<_> = (0..HOSTS).map(Rank::from_index).collect();
    let group = builder.group(&ranks);
    let name = builder.name("reduce");
    let bytes = Bytes::new(100_000_000);
    let work = Work::Collective {
        operation: Operation::AllReduce,
        group,
        bytes,
        local: Duration::ZERO,
    };
    builder.add(name, work);
    for from in 0..HOSTS {
        let [from, to] = [from, (from + 3) % HOSTS].map(Rank::from_index);
        builder.add(name, Work::Transfer { from, to, bytes });
    }
    builder.build().unwrap()
}

fn request() -> Request {
    Request {
        limits: Limits::plain(HOSTS, 4),
        degree: 4,
        rate: Rate::from_gbps(100.0).unwrap(),
        seed: 1,
        work: 1 << 36,
        relay: None,
        interval: false,
    }
}

#[test]
fn any_cable_may_fail_and_all_still_arrive() {
    let (iteration, settings) = (iteration(), Settings::default());
    let place: Vec<_> = (0..HOSTS as u32).collect();
    let job = Job {
        iteration: &iteration,
        place: &place,
        settings: &settings,
    };
    let request = request();
    let proposal = plan(&job, &request).unwrap();
    let before = proposal.evaluation.iteration_ms;
    for cable in proposal.design.wiring.pairs() {
        let failed = [Failed::Cable(cable)];
        let repaired = repair(&proposal.design, Some(&proposal.routes), &job, &failed).unwrap();
        let [a, b] = cable;
        assert!(!repaired.design.wiring.joins(a, b));
        let after = repaired
            .iteration_ms(&job, request.rate, request.work)
            .unwrap();
        assert!(
            (before * 0.99..before * 1.6).contains(&after),
            "{cable:?}: {before} ms, then {after}"
        );
        for (from, to) in (0..HOSTS as u32).flat_map(|a| (0..HOSTS as u32).map(move |b| (a, b))) {
            let ways = repaired.routes.ways(from, to, 8);
            assert!(!ways.is_empty(), "{from} to {to}");
            let crosses = |way: &crate::routing::Way| {
                way.hosts
                    .windows(2)
                    .any(|hop| pair(hop[0], hop[1]) == cable)
            };
            assert!(!ways.iter().any(crosses));
        }
        assert!(repaired.changed.contains(&a) && repaired.changed.contains(&b));
    }
}

#[test]
fn what_is_cut_off_is_said() {
    let (iteration, settings) = (iteration(), Settings::default());
    let place: Vec<_> = (0..HOSTS as u32).collect();
    let job = Job {
        iteration: &iteration,
        place: &place,
        settings: &settings,
    };
    let proposal = plan(&job, &request()).unwrap();
    let refused = repair(&proposal.design, None, &job, &[Failed::Host(5)]).unwrap_err();
    assert!(refused.to_string().contains("leaves h"), "{refused}");
}

#[test]
fn each_cable_has_a_way_around_it_unless_it_is_a_bridge() {
    let square = Wiring::of(5, [[0, 1], [1, 2], [2, 3], [3, 0], [3, 4]]);
    let backups = backups(&square);
    assert_eq!(backups.len(), 5);
    assert!(backups.contains(&([0, 1], Some(vec![0, 3, 2, 1]))));
    assert!(backups.contains(&([3, 4], None)));
}

#[test]
fn pictures_show_every_host_and_cable() {
    let design = candidates::totient(12, 2);
    let picture = picture::svg(&design);
    assert_eq!(picture.matches("<line").count(), 24);
    assert_eq!(picture.matches("<circle").count(), 12);
    assert_eq!(picture::graphviz(&design).matches(" -- ").count(), 24);
}
