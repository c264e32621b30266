//! Two concurrent plans, for two independent collisions.

use std::time::Duration;

use reweave_common::operator::{Mode, Phase, Refused, Request, Response};
use reweave_common::plan::Generation;

use super::cluster::Cluster;
use super::mock_switch::Mood;
use super::network::Network;
use super::scene::{SETTLE_TIME, status};
use crate::{Author, Outcome, Rollout};

/// Hosts of two leaves send to hosts of the two others.
const FABRIC: &str = "kind = \"leaf-spine\"\nleaves = 4\nspines = 2\nhosts_per_leaf = 3\n\
                      host_gbps = 0.2\nuplink_gbps = 0.1";

fn collide(cluster: &mut Cluster, ends: [[&str; 2]; 2]) {
    for ([from, to], port) in ends.into_iter().zip(1000..) {
        cluster.network.start(from, to, port, 0);
    }
}

const FIRST_PAIRS: [[&str; 2]; 2] = [["h0", "h3"], ["h1", "h4"]];
const SECOND_PAIRS: [[&str; 2]; 2] = [["h6", "h9"], ["h7", "h10"]];

#[test]
fn plan_names_owners_of_pinned_addresses() {
    let mut cluster = Cluster::on(Network::of(FABRIC), Mode::Manual);
    collide(&mut cluster, FIRST_PAIRS);
    cluster.run_for(SETTLE_TIME);
    let Response::Plan {
        plan: Some(plan), ..
    } = cluster.ask(Request::Plan)
    else {
        panic!("no plan")
    };
    let base = plan.base.unwrap();
    let addresses = base.addresses.unwrap();
    assert!(!plan.pins.is_empty());
    let led_to = plan
        .pins
        .iter()
        .map(|pin| addresses.get(pin.flow.destination.ip()));
    let led_to: Vec<_> = led_to.map(|it| it.map(String::as_str)).collect();
    let wanted = FIRST_PAIRS.map(|[_, to]| to);
    let is_wanted = |it: &Option<&str>| it.is_some_and(|it| wanted.contains(&it));
    assert!(led_to.iter().all(is_wanted), "{led_to:?}");
}

/// The first plan waits for a silent switch; the second is proposed.
fn one_waits() -> (Cluster, [Generation; 2]) {
    let mut cluster = Cluster::on(Network::of(FABRIC), Mode::Manual);
    collide(&mut cluster, FIRST_PAIRS);
    cluster.run_for(SETTLE_TIME);
    let first = cluster.plan();
    cluster.network.switch("leaf0").mood = Mood::Deaf;
    cluster.apply(first);
    collide(&mut cluster, SECOND_PAIRS);
    cluster.run_for(SETTLE_TIME);
    let second = cluster.plan();
    (cluster, [first, second])
}

fn phases(cluster: &mut Cluster) -> Vec<(Generation, Phase)> {
    let changes = status(cluster).changes;
    changes.iter().map(|it| (it.generation, it.phase)).collect()
}

fn assert_both_kept(cluster: &Cluster) {
    let state = cluster.core.state();
    let outcomes: Vec<_> = state.history().map(|ended| &ended.outcome).collect();
    assert_eq!(outcomes, [&Outcome::Committed; 2]);
    let pinned: Vec<_> = state.in_force().pins.iter().map(|pin| pin.at).collect();
    let leaves = ["leaf0", "leaf2"].map(|name| cluster.network.node(name));
    assert!(
        leaves.iter().all(|leaf| pinned.contains(leaf)),
        "{pinned:?}"
    );
    cluster.assert_one_generation();
}

#[test]
fn waiting_plan_does_not_block_another() {
    let (mut cluster, [first, second]) = one_waits();
    assert_eq!(
        phases(&mut cluster),
        [(first, Phase::Applying), (second, Phase::Proposed)]
    );
    cluster.apply(second);
    cluster.run_for(Duration::from_millis(500));
    assert_eq!(
        phases(&mut cluster),
        [(first, Phase::Applying), (second, Phase::Verifying)]
    );
    cluster.network.switch("leaf0").mood = Mood::Obeys;
    cluster.run_until_ended(2);
    assert_both_kept(&cluster);
    let Response::History(history) = cluster.ask(Request::History { before: None }) else {
        panic!("no history")
    };
    let numbers: Vec<_> = history.iter().map(|it| it.plan.generation).collect();
    assert_eq!(numbers.len(), 2);
    assert!(numbers.contains(&first) && numbers.contains(&second));
}

#[test]
fn rollback_leaves_concurrent_plan_committed() {
    let (mut cluster, [first, second]) = one_waits();
    cluster.apply(second);
    cluster.run_until("rolled back", |c| {
        c.core
            .state()
            .rollout(first)
            .is_none_or(Rollout::leads_back)
    });
    cluster.network.switch("leaf0").mood = Mood::Obeys;
    cluster.run_until_ended(2);
    let state = cluster.core.state();
    let kept = state
        .history()
        .filter(|it| it.outcome == Outcome::Committed);
    let kept: Vec<_> = kept.map(|it| it.plan.generation).collect();
    assert_eq!(kept, [second]);
    let leaf = cluster.network.node("leaf2");
    assert!(state.in_force().pins.iter().all(|pin| pin.at == leaf));
    cluster.assert_one_generation();
    // The rollback of the kept plan restores the state before it.
    assert!(matches!(
        cluster.ask(Request::TakeBack {
            generation: Some(second)
        }),
        Response::Plan { plan: Some(_), .. }
    ));
}

#[test]
fn new_leader_continues_both_plans() {
    let (mut cluster, [_, second]) = one_waits();
    cluster.apply(second);
    cluster.dies_at = (cluster.log.len() + 1..cluster.log.len() + 12).collect();
    cluster.run_for(Duration::from_millis(600));
    cluster.network.switch("leaf0").mood = Mood::Obeys;
    cluster.run_until_ended(2);
    assert!(cluster.restarts > 2, "{}", cluster.restarts);
    assert_both_kept(&cluster);
}

#[test]
fn claimed_resources_refuse_with_plan_number() {
    let (mut cluster, [first, second]) = one_waits();
    let same = cluster.core.state().rollout(first).unwrap().plan.clone();
    let claims = cluster.core.claims(&same);
    let taken = cluster.core.state().taken(second, &claims);
    assert_eq!(taken.map(|(by, _)| by), Some(first));
    cluster.apply(second);
    // There is nothing else to repair.
    assert_eq!(
        cluster.ask(Request::Plan),
        Response::Refused(Refused::Busy { running: first })
    );
    for running in [first, second] {
        let generation = running;
        assert_eq!(
            cluster.ask(Request::Apply { generation }),
            Response::Refused(Refused::Busy { running })
        );
    }
    let links = vec!["leaf0-spine0".to_owned()];
    let answer = cluster.ask(Request::Drain { links });
    assert!(
        matches!(answer, Response::Refused(Refused::Busy { running }) if running == first),
        "{answer:?}"
    );
}

#[test]
fn two_offers_are_addressed_by_number() {
    let (made_by, plans) = one_waits();
    let offers = plans.map(|plan| made_by.core.state().rollout(plan).unwrap().plan.clone());
    let mut cluster = Cluster::on(Network::of(FABRIC), Mode::Manual);
    collide(&mut cluster, FIRST_PAIRS);
    collide(&mut cluster, SECOND_PAIRS);
    cluster.run_for(SETTLE_TIME);
    for offer in offers {
        cluster.propose(offer, Author::Policy);
    }
    let offered = cluster.core.state().rollouts().map(|it| it.plan.generation);
    let offered: Vec<_> = offered.collect();
    assert_eq!(offered, plans);
    let generation = Generation(99);
    let refused = cluster.ask(Request::Apply { generation });
    let expected = Refused::OtherPlan { offered };
    assert!(
        expected.to_string().contains("generations 1 and 2"),
        "{expected}"
    );
    assert_eq!(refused, Response::Refused(expected));
    // Both are approved, one after the other, and both are kept.
    plans.into_iter().for_each(|plan| cluster.apply(plan));
    cluster.run_until_ended(2);
    assert_both_kept(&cluster);
}

#[test]
fn wide_plan_names_jobs_needs_confirmation() {
    let policy = crate::Policy {
        most_touched: 0.4,
        ..crate::Policy::default()
    };
    let mut cluster = Cluster::with(Network::of(FABRIC), policy);
    collide(&mut cluster, FIRST_PAIRS);
    cluster.run_for(SETTLE_TIME);
    let Response::Plan {
        plan: Some(plan), ..
    } = cluster.ask(Request::Plan)
    else {
        panic!("no plan")
    };
    let [one, other] = plan.touched.as_slice() else {
        panic!("two jobs of two hosts each: {:?}", plan.touched)
    };
    assert_eq!([one.flows, other.flows], [1, 1]);
    assert_eq!(one.moved + other.moved, 1, "one goes another way");
    assert_eq!(
        one.slowed + other.slowed,
        0,
        "and the other has more without it"
    );
    let generation = plan.generation;
    let refused = cluster.ask(Request::Apply { generation });
    let expected = Refused::TooWide {
        touched_percent: 100,
        most_percent: 40,
    };
    assert_eq!(refused, Response::Refused(expected));
    let insisted = cluster.ask(Request::ApplyAnyway { generation });
    assert_eq!(insisted, Response::ApplyStarted { generation });
}
