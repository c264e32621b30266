//! The coordinator dies at every entry of its log, combined with other faults: at the end, no switch holds anything
//! that is not in force.

use std::time::Duration;

use proptest::prelude::*;
use reweave_common::operator::{Mode, Request};
use reweave_common::plan::Generation;

use super::cluster::Cluster;
use super::mock_switch::Mood;
use super::scene::{assert_rolled_back, collision};
use crate::{Change, Core, Outcome, Phase, Rollout};

const SETTLE_TIME: Duration = Duration::from_secs(2);

/// A collision, and an operator who requests its repair until it succeeds.
fn run_with_deaths(deaths: &[usize], trouble: impl Fn(&mut Cluster)) -> Cluster {
    let mut cluster = Cluster::new(Mode::Manual);
    cluster.network.start("h0", "h3", 1000, 0);
    cluster.network.start("h1", "h4", 1001, 0);
    cluster.run_for(SETTLE_TIME);
    cluster.dies_at = deaths.to_vec();
    let insist = |cluster: &mut Cluster| {
        let proposed = cluster
            .core
            .state()
            .rollouts()
            .next()
            .filter(|r| r.phase == Phase::Proposed);
        let proposed = proposed.map(|rollout| rollout.plan.generation);
        cluster.tell(proposed.map_or(Request::Plan, |generation| Request::Apply { generation }));
    };
    insist(&mut cluster);
    trouble(&mut cluster);
    for _ in 0..60 {
        if cluster.core.state().ended() > 0 {
            break;
        }
        insist(&mut cluster);
        cluster.run_for(Duration::from_secs(1));
    }
    cluster
}

/// Restarts at every log entry of the undisturbed run, and checks how each run ends.
fn restart_everywhere(trouble: fn(&mut Cluster), end: fn(&Outcome) -> bool) {
    let undisturbed = run_with_deaths(&[], trouble);
    assert!(end(undisturbed.last_outcome()), "{undisturbed:?}");
    for entries in 1..=undisturbed.log.len() {
        let cluster = run_with_deaths(&[entries], trouble);
        assert!(
            cluster.restarts == 1 && end(cluster.last_outcome()),
            "{entries}: {cluster:?}"
        );
        cluster.assert_one_generation();
    }
}

#[test]
fn plan_commits_across_any_restart() {
    restart_everywhere(|_| {}, |outcome| *outcome == Outcome::Committed);
}

#[test]
fn failing_plan_rolls_back_across_restarts() {
    let newcomer = |cluster: &mut Cluster| {
        cluster.network.start("h2", "h5", 1002, 1);
        cluster.run_for(SETTLE_TIME);
    };
    restart_everywhere(newcomer, |outcome| {
        matches!(outcome, Outcome::RolledBack { .. })
    });
}

#[test]
fn refused_plan_rolls_back_across_restarts() {
    let refuses = |cluster: &mut Cluster| cluster.network.switch("leaf0").mood = Mood::Refuses;
    restart_everywhere(refuses, |outcome| {
        matches!(outcome, Outcome::RolledBack { .. })
    });
}

#[test]
fn ended_flow_drops_plan_across_restarts() {
    let ends = |cluster: &mut Cluster| {
        let rollout = cluster
            .core
            .state()
            .rollouts()
            .next()
            .expect("a plan is proposed");
        let flow = rollout.plan.moves[0].flow;
        cluster.network.end(flow);
    };
    restart_everywhere(ends, |outcome| {
        matches!(
            outcome,
            Outcome::Withdrawn { .. } | Outcome::RolledBack { .. }
        )
    });
}

/// Whether the switch was instructed before is no longer known.
#[test]
fn restart_holds_plan_while_switch_away() {
    let mut cluster = Cluster::new(Mode::Manual);
    cluster.network.start("h0", "h3", 1000, 0);
    cluster.network.start("h1", "h4", 1001, 0);
    cluster.run_for(SETTLE_TIME);
    let generation = cluster.plan();
    cluster.dies_at = vec![2];
    cluster.connected.remove(&cluster.network.node("leaf0"));
    cluster.tell(Request::Apply { generation });
    assert_eq!((cluster.restarts, cluster.log.len()), (1, 2));
    cluster.run_for(Duration::from_mins(1));
    let is_held = cluster.core.state().rollouts().any(Rollout::is_held);
    assert!(is_held, "{cluster:?}");
    cluster.connect(cluster.network.node("leaf0"));
    cluster.run_until_ended(1);
    let is_back = matches!(cluster.last_outcome(), Outcome::RolledBack { .. });
    assert!(is_back, "{cluster:?}");
    cluster.assert_one_generation();
}

/// A temporary fault.
#[derive(Debug, Clone)]
enum Trouble {
    Mood(&'static str, Mood),
    Gone(&'static str),
    Starts(u16, usize),
    Ends,
    Passes,
}

fn trouble() -> impl Strategy<Value = Trouble> {
    let moods = [
        Mood::Botches,
        Mood::Refuses,
        Mood::RefusesLater,
        Mood::Mute,
        Mood::Deaf,
        Mood::Careless,
    ];
    let switch = prop::sample::select(vec!["leaf0", "leaf1", "spine0"]);
    let mood = (switch.clone(), prop::sample::select(moods.to_vec()));
    prop_oneof![
        mood.prop_map(|(switch, mood)| Trouble::Mood(switch, mood)),
        switch.prop_map(Trouble::Gone),
        (2000..2100_u16, 0..2_usize).prop_map(|(port, spine)| Trouble::Starts(port, spine)),
        Just(Trouble::Ends),
        Just(Trouble::Passes),
    ]
}

/// Usually shorter than a change, and sometimes longer than the timeouts.
fn pause_ms() -> impl Strategy<Value = u64> {
    prop_oneof![5 => 0..1500_u64, 1 => 5000..15_000_u64]
}

fn afflict(cluster: &mut Cluster, trouble: &Trouble) {
    match trouble {
        Trouble::Mood(switch, mood) => cluster.network.switch(switch).mood = mood.clone(),
        Trouble::Gone(node) => cluster.disconnect(cluster.network.node(node)),
        Trouble::Starts(port, spine) => {
            cluster.network.start("h2", "h5", *port, *spine);
        }
        Trouble::Ends => {
            if let Some(&flow) = cluster.network.flows.keys().next_back() {
                cluster.network.end(flow);
            }
        }
        Trouble::Passes => {}
    }
}

fn heal(cluster: &mut Cluster) {
    cluster
        .network
        .switches
        .values_mut()
        .for_each(|switch| switch.mood = Mood::Obeys);
    let nodes: Vec<_> = cluster
        .network
        .fabric
        .nodes()
        .map(|(node, _)| node)
        .collect();
    for node in nodes
        .into_iter()
        .filter(|node| !cluster.connected.contains(node))
        .collect::<Vec<_>>()
    {
        cluster.connect(node);
    }
}

/// Each intent has a new generation.
fn assert_generations_grow(cluster: &Cluster) {
    let intents = cluster
        .log
        .iter()
        .filter_map(|command| match &command.change {
            Change::StepIntent(intent) => Some(intent.generation),
            _ => None,
        });
    assert!(intents.is_sorted_by(|a, b| a < b), "{:?}", cluster.log);
}

/// The log alone leads to the state.
fn assert_log_restores_all(cluster: &Cluster) {
    let mut again = Core::new(crate::Policy::default(), cluster.network.fabric.clone());
    cluster
        .log
        .iter()
        .cloned()
        .for_each(|command| again.apply(command));
    assert_eq!(again.state(), cluster.core.state());
    assert!(
        again.poll_effect().is_none(),
        "applying the log decides nothing"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() })]

    #[test]
    fn switches_end_with_generation_in_force(
        deaths in prop::collection::btree_set(1..12_usize, 0..4),
        troubles in prop::collection::vec((trouble(), pause_ms()), 1..8),
        doubled in any::<bool>(),
    ) {
        let mut cluster = Cluster::new(Mode::Auto);
        if doubled {
            cluster.on_the_way = |acks| acks.iter().rev().chain(&acks).cloned().collect();
        }
        cluster.network.start("h0", "h3", 1000, 0);
        cluster.network.start("h1", "h4", 1001, 0);
        cluster.dies_at = deaths.into_iter().collect();
        cluster.run_for(Duration::from_millis(500));
        for (trouble, millis) in &troubles {
            afflict(&mut cluster, trouble);
            cluster.run_for(Duration::from_millis(*millis));
        }
        heal(&mut cluster);
        cluster.run_until("calm", |cluster| cluster.core.state().rollouts().next().is_none());
        cluster.assert_one_generation();
        assert_generations_grow(&cluster);
        assert_log_restores_all(&cluster);
    }
}

#[test]
fn lost_log_resumes_beyond_switch_generations() {
    for mode in [Mode::Auto, Mode::Manual] {
        let (mut cluster, flows) = collision(mode);
        cluster.network.switch("leaf0").followed(700, 9000);
        cluster.run_for(SETTLE_TIME);
        if mode == Mode::Manual {
            let plan = cluster.plan();
            cluster.apply(plan);
        }
        let took = cluster.run_until_ended(1);
        assert!(took < Duration::from_secs(10), "{took:?}");
        assert_rolled_back(&cluster);
        if mode == Mode::Manual {
            cluster.run_for(SETTLE_TIME);
            let plan = cluster.plan();
            assert!(plan > Generation(700));
            cluster.apply(plan);
        }
        cluster.run_until_ended(2);
        assert_eq!(cluster.last_outcome(), &Outcome::Committed);
        let uplinks = flows.map(|flow| cluster.network.uplink(&flow));
        assert_ne!(uplinks[0], uplinks[1]);
    }
}

#[test]
fn generation_exceeds_every_switch_ahead() {
    let (mut cluster, _) = collision(Mode::Auto);
    cluster.network.start("h3", "h0", 1002, 0);
    cluster.network.start("h4", "h1", 1003, 0);
    cluster.network.switch("leaf0").followed(70, 900);
    cluster.network.switch("leaf1").followed(900, 70);
    cluster.run_until("kept", |c| {
        c.core.state().ended() > 0 && c.last_outcome() == &Outcome::Committed
    });
    cluster.assert_one_generation();
}
