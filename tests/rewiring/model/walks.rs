//! Where more goes wrong than all orders of events could be gone through with: some of them, drawn by seed.

use reweave_sim_cluster::chance::Chance;
use reweave_sim_cluster::seeds::{number, sum_of};

use super::scene::{Act, Budget, Scene};
use super::{FOUR_HOSTS, MAX_ACTS, RewiringModel};

use crate::seeds::Tally;

const TWO_FAULTS_EACH: Budget = Budget {
    crashes: 2,
    mishaps: 2,
};
/// `REWEAVE_WALKS` says how many otherwise.
const DEFAULT_WALKS: u64 = 300;
/// Of all acts: where it is seldom, it strikes the plan's last steps as well as its first.
const FAULT_SHARE_RANGE: [f64; 2] = [0.05, 0.6];

fn is_trouble(act: &Act) -> bool {
    !matches!(
        act,
        Act::Wait(None) | Act::Deliver(_, None) | Act::DeliverLate(_)
    )
}

/// What happens next, of all that may. What is late comes at some time, or never.
fn next(scene: &Scene, trouble: f64, chance: &mut Chance) -> Option<Scene> {
    let (troubles, usual): (Vec<_>, Vec<_>) = scene.acts().into_iter().partition(is_trouble);
    let strikes = !troubles.is_empty() && chance.happens(trouble);
    let acts = if strikes { troubles } else { usual };
    if acts.is_empty() {
        return None;
    }
    let act = chance.one_of(&acts);
    // A crash that comes to nothing is none.
    Some(scene.after(act).unwrap_or_else(|| scene.clone()))
}

/// Through this many acts, and then undisturbed to its end.
fn walk(seed: u64) -> Tally {
    let (model, mut chance) = (
        RewiringModel::within(&FOUR_HOSTS, TWO_FAULTS_EACH),
        Chance::of(seed),
    );
    let mut scene = Scene::departing(&FOUR_HOSTS, TWO_FAULTS_EACH);
    let [least, most] = FAULT_SHARE_RANGE;
    let (trouble, mut acts) = (chance.share(least, most), 0);
    for _ in 0..chance.below(MAX_ACTS) {
        match next(&scene, trouble, &mut chance) {
            Some(after) => scene = after,
            None => break,
        }
        acts += 1;
        assert!(scene.is_lawful(), "a law is broken by act {acts}");
    }
    assert!(model.ends_from(&scene), "it never ends");
    Tally {
        events: acts,
        all_went_wrong: u64::from(scene.is_spent()),
        kept: u64::from(scene.is_kept()),
        taken_back: u64::from(scene.is_over() && !scene.is_kept()),
        ..Tally::default()
    }
}

#[test]
fn random_walks_satisfy_laws_and_end() {
    let seed = number("REWEAVE_SEED");
    let count = number("REWEAVE_WALKS").unwrap_or(DEFAULT_WALKS);
    let sum = match seed {
        Some(seed) => walk(seed),
        None => sum_of(&(0..count).collect::<Vec<_>>(), walk),
    };
    let is_enough = sum.all_went_wrong > count / 2 && sum.kept > count / 8;
    assert!(seed.is_some() || is_enough, "little was tried: {sum:?}");
}
