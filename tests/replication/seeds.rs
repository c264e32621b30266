//! Many lives in trouble. Each is one seed.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use reweave_sim_cluster::replicas::client::History;
use reweave_sim_cluster::replicas::linear::{Event, judge};
use reweave_sim_cluster::replicas::machine::{Answer, Op};
use reweave_sim_cluster::replicas::trouble::{Life, Trouble};
use reweave_sim_cluster::seeds::{number, sample_seeds, sum_of};

use crate::judging::Register;

const SEED_COUNT: u64 = 72;
const UPGRADE_SEED_COUNT: u64 = 36;
const DOWNGRADE_SEED_COUNT: u64 = 36;
/// Seeds that found mistakes.
const REGRESSION_SEEDS: [u64; 3] = [413, 749, 1739];
const DEFAULT_OPERATIONS: u64 = 5000;
const FAULT_TIME: Duration = Duration::from_secs(3);

#[test]
fn laws_hold_under_any_faults() {
    if let Some(seed) = number("REWEAVE_SEED") {
        return eprintln!("{:?}", live(seed));
    }
    let seeds = sample_seeds(SEED_COUNT, &REGRESSION_SEEDS);
    let count = seeds.len() as u64;
    let sum = sum_of(&seeds, live);
    assert!(
        sum.killed > count / 2 && sum.restored > 0 && sum.replaced > 0,
        "{sum:?}"
    );
    assert!(sum.answered > 10 * count, "{sum:?}");
    assert!(
        sum.haunted > 0 && sum.added > 0 && sum.removed > 0,
        "{sum:?}"
    );
    assert!(
        sum.kept > 0 && sum.taken_back > 0 && sum.inherited > 0 && sum.let_in > 0,
        "{sum:?}"
    );
    assert!(sum.in_parts > count && sum.cut_off > 0, "{sum:?}");
    // Of crash, partition, pause, full disk and damaged disk, nearly all at one moment.
    assert!(
        sum.filled_up > count / 8 && sum.refused > 0 && sum.together >= 4,
        "{sum:?}"
    );
}

/// Coordinators of the release before come back as those of this one, beside other faults.
#[test]
fn no_member_gets_unreadable_entry() {
    let upgraded = |seed| {
        let trouble = Trouble::amid_upgrade(seed).with_agents(seed, FAULT_TIME);
        let (life, cluster) = trouble.live(FAULT_TIME);
        assert_linearizable(&cluster.history);
        life
    };
    if let Some(seed) = number("REWEAVE_SEED") {
        return eprintln!("{:?}", upgraded(seed));
    }
    let seeds = sample_seeds(UPGRADE_SEED_COUNT, &[]);
    let sum = sum_of(&seeds, upgraded);
    assert!(sum.policy_changes > 0 && sum.too_early > 0, "{sum:?}");
    assert!(sum.steered > 0, "{sum:?}");
}

/// An operator lowers the cluster version, and coordinators come back as those of the release before, beside other
/// faults.
#[test]
fn downgraded_coordinators_read_all_they_get() {
    let downgraded = |seed| {
        let trouble = Trouble::amid_downgrade(seed).with_agents(seed, FAULT_TIME);
        let (life, cluster) = trouble.live(FAULT_TIME);
        assert_linearizable(&cluster.history);
        life
    };
    if let Some(seed) = number("REWEAVE_SEED") {
        return eprintln!("{:?}", downgraded(seed));
    }
    let seeds = sample_seeds(DOWNGRADE_SEED_COUNT, &[]);
    let sum = sum_of(&seeds, downgraded);
    assert_eq!(sum.lowered, seeds.len() as u64, "each is, once: {sum:?}");
    assert!(
        sum.went_back > 0 && sum.policy_changes > 0 && sum.too_early > 0,
        "{sum:?}"
    );
    assert!(sum.steered > 0, "{sum:?}");
}

/// One long life: `REWEAVE_OPERATIONS=COUNT` makes it longer.
#[test]
fn long_history_is_linearizable() {
    let count = number("REWEAVE_OPERATIONS").unwrap_or(DEFAULT_OPERATIONS);
    let began = Instant::now();
    let mut trouble = Trouble::new(number("REWEAVE_SEED").unwrap_or(7));
    // Registers are what is judged here, and the more of that the better.
    trouble.cluster().is_deciding = false;
    let (life, cluster) = trouble.live_while(|cluster| cluster.answered() < count);
    assert_linearizable(&cluster.history);
    let seconds = began.elapsed().as_secs_f64();
    eprintln!("{count} operations in {seconds:.1} s: {life:?}");
}

fn live(seed: u64) -> Life {
    let trouble = Trouble::new(seed).with_agents(seed, FAULT_TIME);
    let (life, cluster) = trouble.live(FAULT_TIME);
    assert_linearizable(&cluster.history);
    life
}

/// Registers have nothing to do with each other, so each is judged by itself.
pub(crate) fn assert_linearizable(history: &History) {
    let keys = history.events.iter().map(|(key, _)| *key);
    for key in keys.collect::<BTreeSet<_>>() {
        let events = history.events.iter().filter(|(of, _)| *of == key);
        let mut events: Vec<_> = events.map(|(_, event)| event.clone()).collect();
        forget_unheard_reads(&mut events);
        let verdict = judge::<Register>(0, &events);
        assert_eq!(verdict, Ok(()), "register {key}: {events:#?}");
    }
}

/// A read without an answer says nothing.
fn forget_unheard_reads(events: &mut Vec<Event<Op, Answer>>) {
    let returned = events.iter().filter_map(|event| match event {
        Event::Returned { id, .. } => Some(*id),
        Event::Called { .. } => None,
    });
    let returned: BTreeSet<_> = returned.collect();
    events.retain(|event| match event {
        Event::Called { id, call: Op::Read } => returned.contains(id),
        _ => true,
    });
}

/// Two lives with one seed are the same, event by event.
#[test]
fn seed_determines_whole_run() {
    for seed in 0..5 {
        let life = || {
            let trouble = Trouble::new(seed).with_agents(seed, FAULT_TIME);
            let (life, cluster) = trouble.live(FAULT_TIME);
            (format!("{life:?}"), cluster.history.events)
        };
        assert_eq!(life(), life(), "seed {seed}");
    }
}
