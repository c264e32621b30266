//! Random problems: the certificate after every event, nothing lost, no order preferred.

use proptest::prelude::*;
use reweave_common::split_mix::SplitMix64;

use super::super::certificate;
use super::super::{Problem, Run, SimTime, simulate, watched_within};
use super::seeded;
use reweave_common::units::Rate;

const MAX_SIMULATION_WORK: u64 = 1 << 30;

/// Parts of a random problem, which can be added in any order.
#[derive(Debug, Clone)]
struct Parts {
    gbps: Vec<u64>,
    flows: Vec<Flow>,
    waits: Vec<[usize; 2]>,
}

#[derive(Debug, Clone)]
struct Flow {
    links: Vec<u32>,
    bits: f64,
    delay: SimTime,
    weight: u32,
}

impl Parts {
    fn random(seed: u64) -> Self {
        let mut rng = SplitMix64::new(seed);
        let links = 1 + rng.below(12);
        let flows = 1 + rng.below(40);
        Self {
            gbps: (0..links)
                .map(|_| [10, 25, 100, 400][rng.below(4)])
                .collect(),
            flows: (0..flows).map(|_| Flow::random(&mut rng, links)).collect(),
            waits: (0..rng.below(flows))
                .map(|_| [rng.below(flows), rng.below(flows)])
                .filter(|[before, after]| before < after)
                .collect(),
        }
    }

    /// The problem with its flows in this order.
    fn problem(&self, order: &[usize]) -> Problem {
        let mut problem = Problem::new();
        for &gbps in &self.gbps {
            problem
                .add_link(Rate::from_bits_per_s(gbps * 1_000_000_000))
                .unwrap();
        }
        let mut paths = std::collections::BTreeMap::new();
        for &nth in order {
            let flow = &self.flows[nth];
            let path = *paths
                .entry(flow.links.clone())
                .or_insert_with(|| problem.add_path(&flow.links).unwrap());
            let task = problem.add_transfer(path, flow.bits, flow.delay).unwrap();
            problem.set_weight(task, flow.weight).unwrap();
        }
        let place = |nth: usize| order.iter().position(|&it| it == nth).unwrap() as u32;
        for &[before, after] in &self.waits {
            problem.add_wait(place(before), place(after)).unwrap();
        }
        problem
    }

    fn in_order(&self) -> Vec<usize> {
        (0..self.flows.len()).collect()
    }
}

impl Flow {
    fn random(rng: &mut SplitMix64, links: usize) -> Self {
        let mut path: Vec<_> = (0..=rng.below(7))
            .map(|_| rng.below(links) as u32)
            .collect();
        path.sort_unstable();
        path.dedup();
        Self {
            links: path,
            bits: [0.0, 1.0, 8e6, 8e6, 8e6, 1e7 / 3.0][rng.below(6)],
            delay: SimTime::from_ticks([0, 0, 1, 5_000_000_000][rng.below(4)]),
            weight: [1, 1, 1, 3][rng.below(4)],
        }
    }
}

fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut rng = SplitMix64::new(seed);
    let mut order: Vec<_> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, rng.below(last + 1));
    }
    order
}

proptest! {
    #![proptest_config(seeded(400))]

    #[test]
    fn rates_stay_max_min_fair(seed: u64) {
        let parts = Parts::random(seed);
        let problem = parts.problem(&parts.in_order());
        let mut run = Run::new(&problem, MAX_SIMULATION_WORK).unwrap();
        loop {
            let running: Vec<_> = run.rates().collect();
            prop_assert_eq!(certificate::check(&problem, &running), Ok(()));
            if !run.step().unwrap() {
                break;
            }
        }
    }

    #[test]
    fn every_transfer_moves_all_bits(seed: u64) {
        let parts = Parts::random(seed);
        let problem = parts.problem(&parts.in_order());
        let mut moved = vec![0.0; problem.paths()];
        let mut run = Run::new(&problem, MAX_SIMULATION_WORK).unwrap();
        loop {
            let (before, running) = (run.now(), run.rates().collect::<Vec<_>>());
            if !run.step().unwrap() {
                break;
            }
            let passed_s = run.now().since(before).seconds();
            for flow in running {
                moved[flow.path as usize] += flow.weight * flow.rate_bps * passed_s;
            }
        }
        let mut wanted = vec![0.0; problem.paths()];
        for (task, flow) in (0..).zip(&parts.flows) {
            let super::super::Work::Transfer { path, .. } = problem.work(task) else {
                continue;
            };
            wanted[path as usize] += flow.bits;
        }
        for (moved, wanted) in moved.into_iter().zip(wanted) {
            // Half a tick at 400 Gb/s for each flow.
            let rounding = 0.1 + wanted * 1e-9;
            prop_assert!((moved - wanted).abs() <= rounding, "{moved} of {wanted} bits");
        }
    }

    /// A caller that has time for it never hears that it is too late, and one that has not never hears its end.
    #[test]
    fn deadline_run_finishes_if_possible(seed: u64) {
        let parts = Parts::random(seed);
        let problem = parts.problem(&parts.in_order());
        let whole = simulate(&problem, MAX_SIMULATION_WORK).unwrap();
        let by = |latest: SimTime| watched_within(&problem, MAX_SIMULATION_WORK, latest, &mut |_| true).unwrap();
        prop_assert_eq!(by(whole.makespan()), Some(whole.clone()));
        if let Some(less) = whole.makespan().ticks().checked_sub(1) {
            prop_assert_eq!(by(SimTime::from_ticks(less)), None);
        }
    }

    #[test]
    fn insertion_order_does_not_matter(seed: u64, turn: u64) {
        let parts = Parts::random(seed);
        let order = shuffled(parts.flows.len(), turn);
        let straight = simulate(&parts.problem(&parts.in_order()), MAX_SIMULATION_WORK).unwrap();
        let turned = simulate(&parts.problem(&order), MAX_SIMULATION_WORK).unwrap();
        for (place, &nth) in order.iter().enumerate() {
            prop_assert_eq!(turned.starts[place], straight.starts[nth]);
            prop_assert_eq!(turned.finishes[place], straight.finishes[nth]);
        }
        prop_assert_eq!(turned.events, straight.events);
    }
}
