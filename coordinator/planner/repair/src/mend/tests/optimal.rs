//! No assignment of all is better than the plan, and none as good needs fewer moves. What each
//! assignment brings is worked out on the scene, without the planner's model of it.

use std::collections::BTreeSet;

use proptest::prelude::*;
use reweave_common::finding::Finding;
use reweave_common::plan::Plan;
use reweave_common::snapshot::Hop;
use reweave_common::units::Rate;

use super::plans::planned;
use crate::tests::scene::{Scene, seeded};
use crate::{Policy, repair};

/// Differences below this are crumbs.
const GAIN_TOLERANCE: f64 = 0.01;
const HOSTS_PER_LEAF: usize = 6;

/// A leaf-spine fabric with greedy flows from leaf to leaf.
#[derive(Debug, Clone)]
struct Case {
    leaves: usize,
    spines: usize,
    uplink_mbps: u64,
    /// Sender, receiver and spine of each.
    flows: Vec<(usize, usize, usize)>,
}

fn case() -> impl Strategy<Value = Case> {
    let size = (
        2..=3usize,
        2..=4usize,
        prop::sample::select(vec![100, 150, 200]),
    );
    size.prop_flat_map(|(leaves, spines, uplink_mbps)| {
        let host = move || (0..leaves, 0..HOSTS_PER_LEAF);
        let between = move |((leaf, from), (step, to)): ((usize, usize), (usize, usize))| {
            let other = (leaf + 1 + step % (leaves - 1)) % leaves;
            (leaf * HOSTS_PER_LEAF + from, other * HOSTS_PER_LEAF + to)
        };
        // Most of them on the first spine.
        let spine = (0..spines, 0..2usize).prop_map(|(spine, other)| spine * other);
        let flow = ((host(), host()).prop_map(between), spine);
        let flow = flow.prop_map(|((from, to), spine)| (from, to, spine));
        let flows = prop::collection::vec(flow, 2..=6);
        flows.prop_map(move |flows| Case {
            leaves,
            spines,
            uplink_mbps,
            flows,
        })
    })
}

impl Case {
    fn scene(&self) -> Scene {
        let [leaves, spines] = [self.leaves, self.spines].map(|count| count as u64);
        let hosts = HOSTS_PER_LEAF as u64;
        let mut scene = Scene::leaf_spine(leaves, spines, hosts, 100, self.uplink_mbps);
        for (flow, &(from, to, spine)) in self.flows.iter().enumerate() {
            let path = self.path(&scene, flow, spine);
            scene.flow_on(&format!("h{from}"), &format!("h{to}"), path);
        }
        scene
    }

    fn path(&self, scene: &Scene, flow: usize, spine: usize) -> Vec<Hop> {
        let (from, to, _) = self.flows[flow];
        let [up, down] = [from, to].map(|host| format!("leaf{}", host / HOSTS_PER_LEAF));
        let [from, to] = [from, to].map(|host| format!("h{host}"));
        scene.path(&from, &to, &[&up, &format!("spine{spine}"), &down])
    }

    fn present(&self) -> Vec<usize> {
        self.flows.iter().map(|&(_, _, spine)| spine).collect()
    }

    /// Returns all assignments of spines to flows.
    fn assignments(&self) -> impl Iterator<Item = Vec<usize>> {
        let (flows, spines) = (self.flows.len() as u32, self.spines);
        let digit = move |number: usize, place: u32| number / spines.pow(place) % spines;
        (0..spines.pow(flows)).map(move |number| (0..flows).map(|i| digit(number, i)).collect())
    }

    fn assign(&self, scene: &mut Scene, spines: &[usize]) -> Vec<f64> {
        for (flow, &spine) in spines.iter().enumerate() {
            scene.flows[flow].path = self.path(scene, flow, spine);
        }
        scene.rates().into_iter().map(Rate::mbps).collect()
    }

    /// The spines of the flows under a plan.
    fn under(&self, plan: &Plan, scene: &Scene) -> Vec<usize> {
        let mut spines = self.present();
        for moved in &plan.moves {
            let flow = scene
                .flows
                .iter()
                .position(|flow| flow.flow == moved.flow)
                .unwrap();
            let spine = scene.fabric.link(moved.to.link).far(moved.to.from).node;
            spines[flow] = scene.fabric.name(spine)["spine".len()..].parse().unwrap();
        }
        spines
    }
}

/// Every gain counts, and nothing is left untried.
fn exacting() -> Policy {
    Policy {
        least_gain: GAIN_TOLERANCE,
        most_evaluations: 20_000,
        ..Policy::default()
    }
}

fn slower(a: f64, b: f64) -> bool {
    a < b * (1.0 - GAIN_TOLERANCE)
}

fn count_moves(one: &[usize], other: &[usize]) -> usize {
    one.iter().zip(other).filter(|(a, b)| a != b).count()
}

/// Demands of the findings, judged from plain rates.
struct Judge {
    loses: Vec<bool>,
    now: Vec<f64>,
}

impl Judge {
    fn new(scene: &Scene, findings: &[Finding], now: Vec<f64>) -> Self {
        let named = findings
            .iter()
            .filter_map(|finding| match finding {
                Finding::EcmpCollision(found) => Some(&found.losers),
                _ => None,
            })
            .flatten();
        let named: BTreeSet<_> = named.map(|loser| loser.flow).collect();
        Self {
            loses: scene
                .flows
                .iter()
                .map(|flow| named.contains(&flow.flow))
                .collect(),
            now,
        }
    }

    /// Returns the rate of the slowest of the losers and of the flows that become slower.
    fn slowest(&self, rates: &[f64]) -> f64 {
        let flows = 0..rates.len();
        let concerned = flows.filter(|&i| self.loses[i] || slower(rates[i], self.now[i]));
        concerned.map(|flow| rates[flow]).fold(f64::MAX, f64::min)
    }

    /// Whether no loser gets less than under the other, and no other flow that had it before.
    fn as_good(&self, rates: &[f64], other: &[f64]) -> bool {
        (0..rates.len()).all(|flow| {
            let kept = other[flow].min(self.now[flow]);
            !slower(
                rates[flow],
                if self.loses[flow] { other[flow] } else { kept },
            )
        })
    }
}

proptest! {
    #![proptest_config(seeded(400))]

    #[test]
    fn assignment_is_optimal_with_fewest_moves(case in case()) {
        let (mut scene, present) = (case.scene(), case.present());
        let snapshot = scene.snapshot();
        let policy = exacting();
        let repair = repair(&snapshot, &policy);
        let findings = repair.findings().to_vec();
        let Some(plan) = repair.into_plan() else {
            prop_assert_eq!(findings, []);
            return Ok(());
        };
        let now = case.assign(&mut scene, &present);
        let judge = Judge::new(&scene, &findings, now);
        let chosen = case.under(&plan, &scene);
        let reached = case.assign(&mut scene, &chosen);
        for other in case.assignments() {
            let rates = case.assign(&mut scene, &other);
            prop_assert!(
                !slower(judge.slowest(&reached), judge.slowest(&rates)),
                "{other:?} gives {rates:?}, but {chosen:?} {reached:?}"
            );
            let fewer = count_moves(&other, &present) < plan.moves.len();
            prop_assert!(
                !fewer || !judge.as_good(&rates, &reached),
                "{other:?} gives {rates:?}, {chosen:?} no more: {reached:?}"
            );
        }
    }

    #[test]
    fn applied_plan_leaves_nothing_to_plan(case in case()) {
        for policy in [Policy::default(), exacting()] {
            let mut scene = case.scene();
            let Some(plan) = planned(&scene.snapshot(), &policy) else { continue };
            let chosen = case.under(&plan, &scene);
            case.assign(&mut scene, &chosen);
            scene.pins = plan.pins;
            prop_assert_eq!(repair(&scene.snapshot(), &policy).into_findings(), []);
        }
    }
    #[test]
    fn predictions_come_true(case in case(), strangers_mbps in 0..60u64) {
        let mut scene = case.scene();
        scene.strangers("leaf0", "spine0", strangers_mbps);
        let before = scene.snapshot();
        let Some(plan) = planned(&before, &Policy::default()) else { return Ok(()) };
        let chosen = case.under(&plan, &scene);
        case.assign(&mut scene, &chosen);
        for (was, is) in before.flows.iter().zip(scene.snapshot().flows) {
            match plan.predictions.iter().find(|predicted| predicted.flow == is.flow) {
                Some(predicted) => prop_assert!(
                    predicted.low <= is.rate && is.rate <= predicted.high,
                    "{predicted:?}, but {}", is.rate
                ),
                None => prop_assert!((is.rate.mbps() / was.rate.mbps() - 1.0).abs() < 0.1),
            }
        }
    }
}
