//! Failures: routes over what is left.

use std::time::Duration;

use reweave_common::ids::Rank;
use reweave_common::iteration::{Iteration, IterationBuilder, Operation, TaskWork};
use reweave_common::units::{Bytes, Rate};

use super::chosen::Training;
use super::*;
use crate::crew::Alone;

pub(super) const HOSTS: usize = 16;

/// All reduce, and each sends to the one three further on.
fn iteration() -> Iteration {
    let mut builder = IterationBuilder::new(HOSTS);
    let ranks: Vec<_> = (0..HOSTS).map(Rank::from_index).collect();
    let group = builder.group(&ranks);
    let name = builder.name("reduce");
    let bytes = Bytes::new(100_000_000);
    let work = TaskWork::Collective {
        operation: Operation::AllReduce,
        group,
        bytes,
        local: Duration::ZERO,
    };
    builder.add(name, work);
    for from in 0..HOSTS {
        let [from, to] = [from, (from + 3) % HOSTS].map(Rank::from_index);
        builder.add(name, TaskWork::Transfer { from, to, bytes });
    }
    builder.build().unwrap()
}

pub(super) fn training() -> Training {
    Training::of(iteration())
}

pub(super) fn request() -> Request {
    chosen::request(HOSTS, 4)
}

/// Returns the repair of a proposal and of its tables.
fn repaired(proposal: &Proposal, job: &Job<'_>, failed: Failed) -> Repair {
    let before = Some(&proposal.routes);
    repair(&proposal.design, before, job, &request(), &[failed]).unwrap()
}

#[test]
fn some_host_must_remain() {
    let training = training();
    let (job, request) = (training.job(), request());
    let proposal = plan(&job, &request).unwrap();
    let without = |hosts: std::ops::Range<u32>| {
        let failed: Vec<_> = hosts.map(Failed::Host).collect();
        repair(&proposal.design, None, &job, &request, &failed).map(|it| it.iteration)
    };
    assert!(without(1..HOSTS as u32).is_ok());
    let hosts = HOSTS;
    let refused = Err(TopologyError::NoHostLeft { hosts });
    assert_eq!(without(0..HOSTS as u32).map(|_| ()), refused);
}

#[test]
fn any_cable_may_fail() {
    let training = training();
    let job = training.job();
    let request = request();
    let proposal = plan(&job, &request).unwrap();
    let before = proposal.evaluation.iteration_ms;
    for cable in proposal.design.wiring.pairs() {
        let repaired = repaired(&proposal, &job, Failed::Cable(cable));
        let [a, b] = cable;
        assert!(!repaired.design.wiring.joins(a, b));
        let after = repaired.iteration_ms(&job, &request).unwrap();
        assert!(
            (before * 0.99..before * 1.6).contains(&after),
            "{cable:?}: {before} ms, then {after}"
        );
        for (from, to) in (0..HOSTS as u32).flat_map(|a| (0..HOSTS as u32).map(move |b| (a, b))) {
            let ways = repaired.routes.ways(from, to, 8);
            assert!(!ways.is_empty(), "{from} to {to}");
            let crosses = |way: &crate::routing::WeightedPath| {
                way.hosts
                    .windows(2)
                    .any(|hop| pair(hop[0], hop[1]) == cable)
            };
            assert!(!ways.iter().any(crosses));
        }
        assert!(repaired.changed.contains(&a) && repaired.changed.contains(&b));
    }
}

/// Hosts that forward little make an iteration longer after a repair as before it.
#[test]
fn forwarding_limit_applies_after_repair() {
    let training = training();
    let (job, free) = (training.job(), request());
    let slow = Request {
        relay: Some(Rate::from_gbps(5.0).unwrap()),
        ..free.clone()
    };
    let design = plan(&job, &free).unwrap().design;
    let failed = [Failed::Cable(design.wiring.pairs()[0])];
    let after = |request: &Request| {
        let repaired = repair(&design, None, &job, request, &failed).unwrap();
        let alone = repaired.iteration_ms(&job, request).unwrap();
        let proposal = repaired.proposal(&job, request).unwrap();
        assert!((proposal.evaluation.iteration_ms / alone - 1.0).abs() < 1e-9);
        let outlook = outlook(&design, &repaired.routes, &job, request, &Alone, &|| true);
        (alone, outlook.cases[0].iteration_ms.unwrap())
    };
    let [(plain, case), (limited, limited_case)] = [&free, &slow].map(after);
    assert!(
        limited > plain * 2.0,
        "{limited} ms, without a limit {plain}"
    );
    assert!(
        limited_case > case * 2.0,
        "{limited_case} ms, without a limit {case}"
    );
}

#[test]
fn partitioned_hosts_are_named() {
    let training = training();
    let job = training.job();
    let proposal = plan(&job, &request()).unwrap();
    let others = proposal.design.wiring.neighbours(5).to_vec();
    let cables: Vec<_> = others
        .iter()
        .map(|&it| Failed::Cable(pair(5, it)))
        .collect();
    let refused = repair(&proposal.design, None, &job, &request(), &cables).unwrap_err();
    assert!(refused.to_string().contains("leaves h"), "{refused}");
}

#[test]
fn other_hosts_survive_host_failure() {
    let training = training();
    let job = training.job();
    let request = request();
    let proposal = plan(&job, &request).unwrap();
    let repaired = repaired(&proposal, &job, Failed::Host(5));
    assert_eq!(repaired.design.wiring.degree(5), 0);
    let left = Demand::of(&repaired.iteration, &training.place, HOSTS);
    assert!(left.pairs.keys().all(|&(a, b)| a != 5 && b != 5));
    assert_eq!(left.pairs.len(), HOSTS - 2);
    assert_eq!(left.groups[0].members.len(), HOSTS - 1);
    let after = repaired.iteration_ms(&job, &request).unwrap();
    assert!(after < proposal.evaluation.iteration_ms * 1.6, "{after}");
    assert!(!repaired.changed.contains(&5), "it hears nothing any more");
    let ports = repaired.proposal(&job, &request).unwrap().ports;
    assert_eq!((ports[5], ports.iter().sum::<usize>()), (0, 60));
}

#[test]
fn failed_panel_removes_its_cables() {
    let training = training();
    let job = training.job();
    let mut request = request();
    let panel = |nth| Panel::numbered(format!("panel{nth}"), &[1; HOSTS]);
    request.limits.panels = (0..4).map(panel).collect();
    let proposal = plan(&job, &request).unwrap();
    let failed = [Failed::Panel(2)];
    let repaired = repair(&proposal.design, None, &job, &request, &failed).unwrap();
    assert_eq!(repaired.design.wiring.degrees()[1], 3);
    assert!(repaired.design.patches.iter().all(|patch| patch.panel != 2));
    let outlook = outlook(
        &proposal.design,
        &proposal.routes,
        &job,
        &request,
        &Alone,
        &|| true,
    );
    assert!(outlook.backups.iter().all(|(_, entries)| entries.is_some()));
    let failures: Vec<_> = outlook.cases.iter().map(|case| case.failed).collect();
    let panels = failures.len() - 4;
    assert_eq!(failures[panels..], [0, 1, 2, 3].map(Failed::Panel));
    let after = repaired.iteration_ms(&job, &request).unwrap();
    assert_eq!(outlook.cases[panels + 2].iteration_ms, Some(after));
}

/// Each single cable, and the host that forwards most.
#[test]
fn failure_costs_are_precomputed() {
    let training = training();
    let (job, request) = (training.job(), request());
    let proposal = plan(&job, &request).unwrap();
    let (design, before) = (&proposal.design, proposal.evaluation.iteration_ms);
    let outlook = outlook(design, &proposal.routes, &job, &request, &Alone, &|| true);
    let cables = outlook.cases.iter().filter_map(|case| match case.failed {
        Failed::Cable(cable) => Some((cable, case.iteration_ms.unwrap())),
        _ => None,
    });
    let (cables, times): (Vec<_>, Vec<_>) = cables.unzip();
    assert_eq!(cables, design.wiring.pairs());
    let near = before * 0.99..before * 1.6;
    assert!(times.iter().all(|ms| near.contains(ms)), "{times:?}");
    let hosts = outlook
        .cases
        .iter()
        .filter(|it| matches!(it.failed, Failed::Host(_)));
    assert_eq!(hosts.count(), 1);
    let backed: Vec<_> = outlook.backups.iter().map(|(cable, _)| *cable).collect();
    assert_eq!(backed, cables);
    assert!(outlook.backups.iter().all(|(_, entries)| entries.is_some()));
}

#[test]
fn pictures_show_every_host_and_cable() {
    let design = families::totient(12, 2);
    let picture = picture::svg(&design);
    // The legend has a line for each of the two rings.
    assert_eq!(picture.matches("<line").count(), 24 + 2);
    assert!(picture.contains("<title>h0-h1, ring 1</title>") && picture.contains(">ring 2</text>"));
    assert_eq!(picture.matches("<circle").count(), 12);
    assert_eq!(picture::graphviz(&design).matches(" -- ").count(), 24);
}
