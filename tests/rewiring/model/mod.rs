//! Every order of events there can be, up to some crashes and some lost, late or doubled messages:
//! four hosts around one optical switch, or two, go from one set of circuits and routes to another. The same
//! cores decide, and the same laws are looked at, as in worlds drawn by seed.
//!
//! Time passes when nothing is on its way. A message that nothing waits for is therefore late, and may come at any time
//! after, or never.

mod scene;
mod walks;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Instant;

use reweave_sim_cluster::seeds::number;
use stateright::{Checker, Model, Property};

use scene::{Act, Budget, Rewired, Scene};

/// Longer than any run takes from anywhere, once nothing goes wrong any longer.
const MAX_ACTS: usize = 400;

const FOUR_HOSTS: Rewired = Rewired {
    fabric: include_str!("../../circuits/thirds.toml"),
    circuits: "2-3,5-6,8-9,11-12,1-4,7-10",
};
/// No host relays here; all else is done as among four, in far fewer orders.
const TWO_HOSTS: Rewired = Rewired {
    fabric: include_str!("two.toml"),
    circuits: "1-5,2-4,3-6",
};

/// All that may come of one plan.
struct RewiringModel {
    rewired: &'static Rewired,
    budget: Budget,
    /// Scenes that are known to end.
    ends: Mutex<BTreeSet<u64>>,
}

impl RewiringModel {
    fn within(rewired: &'static Rewired, budget: Budget) -> Self {
        Self {
            rewired,
            budget,
            ends: Mutex::new(BTreeSet::new()),
        }
    }

    /// Where nothing goes wrong from here on, the plan ends.
    fn ends_from(&self, scene: &Scene) -> bool {
        let mut passed = Vec::new();
        let mut scene = scene.clone();
        for _ in 0..MAX_ACTS {
            let is_known = || self.known().contains(&scene.print());
            if scene.is_over() || is_known() {
                self.known().extend(passed);
                return true;
            }
            passed.push(scene.print());
            scene.go_on();
        }
        false
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeSet<u64>> {
        self.ends.lock().expect("no thread died with it")
    }
}

impl Model for RewiringModel {
    type State = Scene;
    type Action = Act;

    fn init_states(&self) -> Vec<Scene> {
        vec![Scene::departing(self.rewired, self.budget)]
    }

    fn actions(&self, scene: &Scene, acts: &mut Vec<Act>) {
        acts.extend(scene.acts());
    }

    fn next_state(&self, scene: &Scene, act: Act) -> Option<Scene> {
        scene.after(&act)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no law is broken", |_, scene: &Scene| scene.is_lawful()),
            Property::always("every run can end", |model: &Self, scene| {
                model.ends_from(scene)
            }),
            Property::sometimes("it is applied", |_, scene: &Scene| scene.is_kept()),
            Property::sometimes("a node goes back", |model: &Self, scene: &Scene| {
                model.budget.mishaps == 0 || scene.went_back()
            }),
        ]
    }
}

/// `REWEAVE_CRASHES` and `REWEAVE_MISHAPS` say how much goes wrong otherwise.
fn check(rewired: &'static Rewired, usual: Budget) {
    let count = |name, usual| number(name).map_or(usual, |it| it as u8);
    let budget = Budget {
        crashes: count("REWEAVE_CRASHES", usual.crashes),
        mishaps: count("REWEAVE_MISHAPS", usual.mishaps),
    };
    let began = Instant::now();
    let checker = RewiringModel::within(rewired, budget).checker();
    let threads = std::thread::available_parallelism().map_or(1, Into::into);
    let checker = checker.threads(threads).spawn_dfs().join();
    let (states, unique) = (checker.state_count(), checker.unique_state_count());
    let seconds = began.elapsed().as_secs_f64();
    eprintln!("{budget:?}: {states} acts lead to {unique} states, in {seconds:.1} s");
    for (name, path) in checker.discoveries() {
        eprintln!("{name}: {:?}", path.into_actions());
    }
    checker.assert_properties();
}

#[test]
fn four_hosts_satisfy_laws_exhaustively() {
    let budget = Budget {
        crashes: 0,
        mishaps: 1,
    };
    check(&FOUR_HOSTS, budget);
}

#[test]
fn two_hosts_satisfy_laws_exhaustively() {
    let budget = Budget {
        crashes: 1,
        mishaps: 1,
    };
    check(&TWO_HOSTS, budget);
}
