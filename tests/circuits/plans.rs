//! Plans for circuits that an operator makes: the cluster checks and applies them while sessions run.

use std::collections::BTreeSet;

use libtest_mimic::Trial;
use reweave_common::operator::{Outcome, Phase, Plan, RunningChange, Tag, What};
use reweave_tests::{STAGE_TIMEOUT, wait_for};

use crate::LAB_NEEDS;
use crate::cluster::Cluster;
use crate::fixed::Stream;
use crate::needs::trial;
use crate::scene::{Over, Thirds};
use crate::session_jobs::{Running, outlive, reconfigurations};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("circuit_plan_shows_job_impact", LAB_NEEDS, is_shown),
        trial("circuits_wait_for_equal_fibre_macs", LAB_NEEDS, unlike),
        trial(
            "sessions_outlive_plans_for_circuits",
            LAB_NEEDS,
            sessions_outlive_plans,
        ),
        trial("faulty_switch_costs_no_session", LAB_NEEDS, goes_wrong),
        trial("killed_programs_still_finish_plan", LAB_NEEDS, killed),
        trial("deleted_circuit_is_found", LAB_NEEDS, deleted),
    ]
}

/// Plans of circuits, tables and relays together.
const DEFAULT_RECONFIGURATIONS: usize = 50;

fn is_shown() {
    let cluster = Cluster::up(Over::Restconf);
    let plan = cluster.plan(Thirds::Along);
    let tags = |is_kind: fn(&What) -> bool| -> BTreeSet<Tag> {
        let lines = plan.changes.iter().filter(|line| is_kind(&line.what));
        lines.map(|line| line.tag).collect()
    };
    let circuits = tags(|what| matches!(what, What::Connect(_) | What::Disconnect(_)));
    assert_eq!(circuits, BTreeSet::from([Tag::NeedsDrain]), "{plan:#?}");
    let routes = tags(|what| matches!(what, What::Routes { .. }));
    assert_eq!(routes, BTreeSet::from([Tag::LiveSafe]), "{plan:#?}");
    let none = cluster.reweave(&["plan", "circuits", "ocs1=1-2"]);
    let said = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(said.contains("no optical switch named \"ocs1\""), "{said}");
    let apart = cluster.reweave(&["plan", "circuits", "ocs0="]);
    let said = String::from_utf8_lossy(&apart.stderr).into_owned();
    assert_eq!(apart.status.code(), Some(1), "{said}");
    assert!(said.contains("unsound"), "{said}");
}

/// A restarted agent reports its interfaces at once, and sets their hardware addresses.
fn unlike() {
    let mut cluster = Cluster::up(Over::Restconf);
    let own = ["ip", "link", "set", "fab2", "address", "0c:42:a1:00:00:07"];
    let set = cluster.scene.0.output("h2", &own);
    set.expect("it takes another");
    let refused = |cluster: &Cluster| {
        let said = cluster.offer(Thirds::Along);
        String::from_utf8_lossy(&said.stderr).contains("0c:42:a1:00:00:07 at fab2 of h2;")
    };
    let started = |cluster: &mut Cluster, words: &[&str]| {
        cluster.kill_agent("h2");
        cluster.start_agent_with("h2", words);
        cluster.wait_until_known();
    };
    started(&mut cluster, &[]);
    wait_for("it is refused", STAGE_TIMEOUT, || {
        Ok(refused(&cluster).then_some(()))
    })
    .expect("it is");
    started(&mut cluster, &["--fibres", "fab0,fab1,fab2"]);
    let is_offered = || Ok(cluster.offer(Thirds::Along).status.success().then_some(()));
    wait_for("it is offered", STAGE_TIMEOUT, is_offered).expect("it is");
}

fn sessions_outlive_plans() {
    let cluster = Cluster::up(Over::Restconf);
    let stage = &cluster.scene.0;
    outlive(stage, |running| {
        // The first hop stays; from there, one path leads on, or two.
        let stream = Stream::begin(stage, ["h3", "fab1", "h1"]);
        move_circuits(&cluster, running);
        let [sent, arrived] = stream.end();
        eprintln!("with a fixed first hop: {sent} sent, {arrived} arrived");
        assert!(sent > 1000 && arrived == sent, "{arrived} of {sent}");
    });
}

fn move_circuits(cluster: &Cluster, running: &Running) {
    let turns = [Thirds::Along, Thirds::Across].into_iter().cycle();
    let before = cluster.scene.thrown_away();
    let identities = cluster.scene.identities();
    for to in turns.take(reconfigurations(DEFAULT_RECONFIGURATIONS)) {
        commit_circuits(cluster, to);
        running.go_on(1);
    }
    assert_eq!(
        cluster.scene.thrown_away(),
        before,
        "packets were thrown away"
    );
    assert_eq!(cluster.scene.identities(), identities);
}

fn commit_circuits(cluster: &Cluster, to: Thirds) {
    cluster.wait_until_known();
    let plan = cluster.plan(to);
    cluster.begin(&plan);
    let outcome = cluster.ended(&plan);
    assert_eq!(outcome, Outcome::Committed, "{:?}", cluster.status());
}

fn goes_wrong() {
    let cluster = Cluster::up(Over::Restconf);
    let running = Running::begin(&cluster.scene.0);
    moves_unsaid(&cluster);
    moves_wrongly(&cluster);
    moves_by_halves(&cluster);
    stays_dark(&cluster, &running);
    is_given_up(&cluster);
    running.end_without_loss();
}

/// The device moves without an answer: the driver reads the circuits back, and the plan goes on.
fn moves_unsaid(cluster: &Cluster) {
    cluster.scene.goes_wrong("\"silent\"");
    let record = cluster.apply(&cluster.plan(Thirds::Along));
    assert_eq!(record.outcome, Outcome::Committed, "{record:#?}");
    cluster.scene.goes_wrong("null");
    let record = cluster.apply(&cluster.plan(Thirds::Across));
    assert_eq!(record.outcome, Outcome::Committed, "{record:#?}");
}

/// The device moves to wrong ports: the plan is held, and routes return to no fibre until an operator repairs the
/// circuits.
fn moves_wrongly(cluster: &Cluster) {
    cluster.scene.goes_wrong("\"wrong-port\"");
    let plan = cluster.plan(Thirds::Along);
    cluster.begin(&plan);
    let outcome = cluster.outcome(&plan);
    assert!(matches!(outcome, Outcome::Held { .. }), "{outcome:?}");
    let status = cluster.status().expect("an answer");
    let alarm = "the circuits of ocs0 are unknown, old or new";
    assert!(
        status.alarms.iter().any(|it| it.contains(alarm)),
        "{:?}",
        status.alarms
    );
    cluster.scene.wait_until_drained();
    cluster.scene.goes_wrong("null");
    let across = Thirds::Across.circuits();
    // The running driver retries from time to time, and may move first.
    let put_right = || {
        let driven = cluster
            .scene
            .driver(&["apply", "ocs0", "--desired", &across]);
        Ok(driven.status.success().then_some(()))
    };
    wait_for("a person has put it right", STAGE_TIMEOUT, put_right).expect("it is put right");
    cluster.ended(&plan);
    back_to(cluster, Thirds::Across);
}

/// The device moves half of the circuits: the driver finishes the move when it is instructed again.
fn moves_by_halves(cluster: &Cluster) {
    cluster.scene.goes_wrong("\"partial\"");
    let plan = cluster.plan(Thirds::Along);
    cluster.begin(&plan);
    let outcome = cluster.outcome(&plan);
    assert!(
        !matches!(outcome, Outcome::RolledBack { .. }),
        "{outcome:?}"
    );
    cluster.scene.goes_wrong("null");
    assert_eq!(cluster.ended(&plan), Outcome::Committed);
    back_to(cluster, Thirds::Across);
}

/// A new circuit stays dark: the plan is rolled back, but not while an operator holds it.
fn stays_dark(cluster: &Cluster, running: &Running) {
    cluster.scene.goes_wrong("\"stays-dark\"");
    let plan = cluster.plan(Thirds::Along);
    let before = cluster.driver_said("holds");
    cluster.begin(&plan);
    cluster.wait_until_driver_said("holds", before + 1);
    cluster.steer("hold", &plan);
    cluster.scene.goes_wrong("null");
    let is_stopped =
        |change: &RunningChange| change.phase == Phase::RollingBack && change.stopped_by.is_some();
    cluster.wait_until_change(&plan, is_stopped);
    let moved = cluster.driver_said("set circuits");
    running.go_on(10);
    cluster.wait_until_change(&plan, is_stopped);
    assert_eq!(cluster.driver_said("set circuits"), moved);
    cluster.steer("resume", &plan);
    let outcome = cluster.ended(&plan);
    let Outcome::RolledBack { reasons, .. } = &outcome else {
        panic!("{outcome:?}");
    };
    assert!(reasons[0].contains("has no stable light"), "{reasons:?}");
}

/// An operator aborts the plan while it waits for light that stays away: everything is rolled back.
fn is_given_up(cluster: &Cluster) {
    cluster.scene.goes_wrong("\"stays-dark\"");
    let plan = cluster.plan(Thirds::Along);
    let before = cluster.driver_said("holds");
    cluster.begin(&plan);
    cluster.wait_until_driver_said("holds", before + 1);
    cluster.scene.goes_wrong("null");
    cluster.steer("abort", &plan);
    let outcome = cluster.ended(&plan);
    let Outcome::RolledBack { reasons, .. } = &outcome else {
        panic!("{outcome:?}");
    };
    assert!(reasons[0].ends_with(" aborted it"), "{reasons:?}");
    let status = cluster.status().expect("an answer");
    let circuits = status.opticals[0].circuits.to_string();
    assert_eq!(circuits, Thirds::Across.circuits_in_order());
}

/// A person deletes a circuit on the device: routes lead around it, and a plan sets it again.
fn deleted() {
    let cluster = Cluster::up(Over::Restconf);
    commit_circuits(&cluster, Thirds::Along);
    cluster.scene.delete_circuit(1);
    let lost = "ocs0 has lost circuit 1-4, which plan ";
    let over_it = "routes in force lead over a circuit that is gone: ";
    let are_both = |alarms: &[String]| {
        let begins = |words: &str| alarms.iter().any(|it| it.starts_with(words));
        begins(lost) && begins(over_it)
    };
    cluster.wait_until_alarms("the circuit is missed", are_both);
    let status = cluster.status().expect("an answer");
    let circuits = status.opticals[0].circuits.to_string();
    assert_eq!(circuits, "2-3 5-6 7-10 8-9 11-12");
    let is_blamed = |alarm: &String| alarm.contains("check its agent");
    assert!(!status.alarms.iter().any(is_blamed), "{:?}", status.alarms);
    let record = cluster.apply(&cluster.plan_repair());
    assert_eq!(record.outcome, Outcome::Committed, "{record:#?}");
    commit_circuits(&cluster, Thirds::Along);
    cluster.wait_until_alarms("all is as it was ordered", <[String]>::is_empty);
}

/// The driver is killed with an open connection, and reconnects.
fn killed() {
    let mut cluster = Cluster::up(Over::Tl1);
    let running = Running::begin(&cluster.scene.0);
    let turns = [Thirds::Along, Thirds::Across].into_iter().cycle();
    let victims: [fn(&mut Cluster, &Plan); 5] = [leader, driver, agent, driver_amid, leader_amid];
    for (victim, to) in victims.into_iter().zip(turns) {
        back_to(&cluster, to.other());
        let plan = cluster.plan(to);
        victim(&mut cluster, &plan);
        let outcome = cluster.ended(&plan);
        let is_whole = matches!(outcome, Outcome::Committed | Outcome::RolledBack { .. });
        assert!(is_whole, "{outcome:?}");
        cluster.wait_until_known();
        running.go_on(2);
    }
    running.end_without_loss();
}

pub(crate) fn back_to(cluster: &Cluster, thirds: Thirds) {
    let status = cluster.status().expect("an answer");
    if status.opticals[0].circuits.to_string() != thirds.circuits_in_order() {
        let record = cluster.apply(&cluster.plan(thirds));
        assert_eq!(record.outcome, Outcome::Committed, "{record:#?}");
    }
}

fn leader(cluster: &mut Cluster, plan: &Plan) {
    cluster.begin(plan);
    let place = cluster.kill_leader();
    cluster.start_coordinator(place);
}

fn driver(cluster: &mut Cluster, plan: &Plan) {
    cluster.begin(plan);
    driver_dies(cluster);
}

fn agent(cluster: &mut Cluster, plan: &Plan) {
    cluster.begin(plan);
    cluster.kill_agent("h1");
    cluster.start_agent("h1");
}

/// Waits until the driver moves circuits.
fn driver_amid(cluster: &mut Cluster, plan: &Plan) {
    let before = cluster.driver_said("set circuits");
    cluster.begin(plan);
    cluster.wait_until_driver_said("set circuits", before + 1);
    driver_dies(cluster);
}

fn driver_dies(cluster: &mut Cluster) {
    cluster.kill_driver();
    cluster.start_driver();
}

fn leader_amid(cluster: &mut Cluster, plan: &Plan) {
    let before = cluster.driver_said("set circuits");
    cluster.begin(plan);
    cluster.wait_until_driver_said("set circuits", before + 1);
    let place = cluster.kill_leader();
    cluster.start_coordinator(place);
}
