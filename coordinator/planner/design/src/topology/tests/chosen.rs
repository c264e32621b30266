//! Tests of the choice for jobs with known best wirings.

use std::time::Duration;

use reweave_common::ids::Rank;
use reweave_common::iteration::{Iteration, IterationBuilder, Operation, TaskWork};
use reweave_common::units::{Bytes, Rate};
use reweave_sim::workload::Settings;

use super::reduced::times;
use super::*;

pub(super) fn request(hosts: usize, degree: usize) -> Request {
    Request {
        limits: Limits::plain(hosts, degree),
        degree,
        rate: Rate::from_gbps(100.0).unwrap(),
        seed: 1,
        work: 1 << 36,
        relay: None,
        interval: false,
    }
}

/// A job with one rank on each host.
pub(super) struct Training {
    pub(super) iteration: Iteration,
    pub(super) place: Vec<u32>,
    settings: Settings,
}

impl Training {
    pub(super) fn of(iteration: Iteration) -> Self {
        Self {
            place: (0..iteration.ranks() as u32).collect(),
            settings: Settings::default(),
            iteration,
        }
    }

    pub(super) fn job(&self) -> Job<'_> {
        Job {
            iteration: &self.iteration,
            place: &self.place,
            settings: &self.settings,
        }
    }
}

/// Every group does this at once.
pub(super) fn together(hosts: usize, groups: &[Vec<usize>], operation: Operation) -> Iteration {
    let mut builder = IterationBuilder::new(hosts);
    let name = builder.name("together");
    for group in groups {
        let ranks: Vec<_> = group.iter().copied().map(Rank::from_index).collect();
        let work = TaskWork::Collective {
            operation,
            group: builder.group(&ranks),
            bytes: Bytes::new(100_000_000),
            local: Duration::ZERO,
        };
        builder.add(name, work);
    }
    builder.build().unwrap()
}

/// Hosts, ports, and the mean hops of the best of twenty random regular graphs.
const RANDOM_GRAPHS: [(usize, usize, f64); 3] = [(128, 4, 3.75), (128, 8, 2.53), (432, 8, 3.17)];

#[test]
fn all_to_all_matches_random_graphs() {
    for (hosts, degree, best) in RANDOM_GRAPHS {
        let all = vec![(0..hosts).collect()];
        let iteration = together(hosts, &all, Operation::AllToAll);
        let training = Training::of(iteration);
        let drafts = drafts(&training.job(), &request(hosts, degree)).unwrap();
        let (design, mean) = (&drafts[0].design, drafts[0].distances.mean());
        assert!(mean <= best * 1.03, "{hosts} of {degree}: {mean}");
        let [found, bound] = times(design);
        assert!(found <= bound * 1.01, "{found} ms, the cut allows {bound}");
    }
}

#[test]
fn concurrent_groups_get_own_rings() {
    let groups: Vec<_> = (0..4).map(|nth| (nth * 8..nth * 8 + 8).collect()).collect();
    let iteration = together(32, &groups, Operation::AllReduce);
    let training = Training::of(iteration);
    let job = training.job();
    let proposal = plan(&job, &request(32, 4)).unwrap();
    assert_eq!(proposal.design.family.word(), "grouped");
    let (took, ideal) = (
        proposal.evaluation.iteration_ms,
        proposal.ideal.iteration_ms,
    );
    assert!(took < ideal * 1.35, "{took} ms, on a switch {ideal}");
}

/// A ring with irregular additional links may be as fast as a cube, and is less robust.
#[test]
fn regular_design_outranks_irregular() {
    let training = Training::of(together(8, &[(0..8).collect()], Operation::AllReduce));
    let proposal = plan(&training.job(), &request(8, 3)).unwrap();
    assert_eq!(proposal.design.words(), "the product of K2 and K2 and K2");
}

#[test]
fn single_items_are_named_singular() {
    let (rings, matchings) = (1, 1);
    let family = Family::Grouped { rings, matchings };
    let said =
        "1 ring within each group that reduces and 1 matching of those that send each other most";
    assert_eq!(family.to_string(), said);
}

#[test]
fn iteration_lies_within_interval() {
    let iteration = together(12, &[(0..12).collect()], Operation::AllReduce);
    let training = Training::of(iteration);
    let job = training.job();
    let request = Request {
        interval: true,
        ..request(12, 4)
    };
    let proposal = plan(&job, &request).unwrap();
    let interval = proposal.interval.unwrap();
    let took = proposal.evaluation.iteration_ms;
    assert!(interval.low_ms < took && took < interval.high_ms);
    // Headers alone are what a bare iteration lacks.
    assert!((took / interval.low_ms - 9000.0 / 8936.0).abs() < 1e-3);
    assert!(interval.costs.iter().any(|it| it.effect == "cold starts"));
}

#[test]
fn rivals_are_slower_on_full_links() {
    let iteration = together(32, &[(0..32).collect()], Operation::AllReduce);
    let training = Training::of(iteration);
    let job = training.job();
    let request = request(32, 4);
    let took = plan(&job, &request).unwrap().evaluation.iteration_ms;
    let rivals = rivals(
        &job,
        &request,
        prices::PUBLISHED_PRICES.fat_tree,
        &crate::crew::Alone,
        crate::crew::NO_DEADLINE,
    )
    .unwrap();
    let times = |rival| {
        let found = rivals.iter().find(|(it, _)| *it == rival).unwrap();
        found.1.unwrap() / took
    };
    assert!((times(Rival::EqualCost) - prices::PUBLISHED_PRICES.fat_tree).abs() < 0.01);
    assert!((times(Rival::IdealSwitch) - 1.0).abs() < 0.01);
    // A ring crosses the spine once per leaf: half of the uplinks are enough.
    assert!((times(Rival::TwoToOne) - 1.0).abs() < 0.01);
    assert!(times(Rival::Expander) > 1.5);
}

/// A ring uses two ports of three, and none of one.
#[test]
fn rivals_use_all_ports() {
    for (hosts, degree) in [(2, 1), (12, 3)] {
        let iteration = together(hosts, &[(0..hosts).collect()], Operation::AllReduce);
        let training = Training::of(iteration);
        let request = request(hosts, degree);
        let fabric = Rival::Expander.fabric(&request, 1.0).unwrap().unwrap();
        assert_eq!(fabric.links().len(), hosts * degree / 2);
        let (crew, in_time) = (&crate::crew::Alone, crate::crew::NO_DEADLINE);
        let all = rivals(&training.job(), &request, 1.0, crew, in_time).unwrap();
        assert!(all.iter().all(|(_, ms)| ms.is_some()), "{all:?}");
    }
}
