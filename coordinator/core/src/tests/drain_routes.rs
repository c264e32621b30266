//! Links that an operator drains.

use std::collections::BTreeSet;
use std::time::Duration;

use reweave_common::flow::FlowKey;
use reweave_common::ids::NodeId;
use reweave_common::operator::{FlowChange, Mode, Refused, Request, Response};
use reweave_common::plan::Generation;

use super::cluster::Cluster;
use super::mock_switch::Mood;
use super::network::Network;
use super::scene::{SETTLE_TIME, reasons, status};
use crate::{Change, Command, Outcome, Reason};

/// The time to apply a plan and to judge it.
const ROLLOUT_TIME: Duration = Duration::from_secs(20);

fn cluster() -> Cluster {
    let mut cluster = Cluster::on(Network::new(3, 4), Mode::Manual);
    cluster.run_for(SETTLE_TIME);
    cluster
}

fn ask(cluster: &mut Cluster, links: &[&str]) -> Response {
    let links = links.iter().map(|link| (*link).to_owned()).collect();
    cluster.ask(Request::Drain { links })
}

fn planned(cluster: &mut Cluster, links: &[&str]) -> Generation {
    match ask(cluster, links) {
        Response::Plan {
            plan: Some(plan), ..
        } => plan.generation,
        other => panic!("no plan: {other:?}"),
    }
}

fn drain(cluster: &mut Cluster, links: &[&str]) {
    let plan = planned(cluster, links);
    cluster.apply(plan);
    cluster.run_for(ROLLOUT_TIME);
}

#[test]
fn drained_link_sheds_flows_until_restored() {
    let mut cluster = cluster();
    let [stays, leaves] = [("h0", "h4", 1000, 0), ("h1", "h5", 1001, 1)]
        .map(|(from, to, port, spine)| cluster.network.start(from, to, port, spine));
    let back = cluster.network.start("h6", "h2", 1002, 1);
    cluster.run_for(SETTLE_TIME);
    cluster.network.end(stays);
    drain(&mut cluster, &["leaf0-spine1"]);
    assert_eq!(*cluster.last_outcome(), Outcome::Committed);
    assert_eq!(cluster.network.uplink(&leaves), "leaf0-spine0");
    // The spine above the link is avoided as well.
    assert_eq!(cluster.network.uplink(&back), "leaf1-spine0");
    let new = cluster.network.start("h2", "h6", 1003, 1);
    assert_eq!(cluster.network.uplink(&new), "leaf0-spine0");
    cluster.run_for(SETTLE_TIME);
    drain(&mut cluster, &[]);
    assert_eq!(cluster.network.uplink(&new), "leaf0-spine1");
    let held = cluster.network.switches.values();
    assert!(held.map(|it| it.routes.len()).sum::<usize>() == 0);
    cluster.assert_one_generation();
}

/// By the routes, a link over which nothing is sent is as drained as one that was named.
#[test]
fn link_without_use_is_drained_too() {
    let shown = |mut cluster: Cluster| {
        cluster.run_for(SETTLE_TIME);
        drain(&mut cluster, &["leaf0-spine1"]);
        let links = status(&mut cluster).links.into_iter();
        let drained = links.filter(|it| it.drained).map(|it| it.hop.link);
        drained
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
    };
    // Nothing from leaf1 goes to another leaf than leaf0, and spine1 does not lead there.
    let two_leaves = Cluster::on(Network::new(3, 4), Mode::Manual);
    assert_eq!(shown(two_leaves), ["leaf0-spine1", "leaf1-spine1"]);
    let three_leaves = "kind = \"leaf-spine\"\nleaves = 3\nspines = 3\nhosts_per_leaf = 4\n\
        host_gbps = 0.2\nuplink_gbps = 0.1";
    let three_leaves = Cluster::on(Network::of(three_leaves), Mode::Manual);
    assert_eq!(shown(three_leaves), ["leaf0-spine1"]);
}

#[test]
fn drained_switch_may_carry_again() {
    let mut cluster = cluster();
    let flow = cluster.network.start("h1", "h5", 1001, 1);
    let back = cluster.network.start("h6", "h2", 1002, 1);
    cluster.run_for(SETTLE_TIME);
    drain(&mut cluster, &["spine1"]);
    assert_eq!(*cluster.last_outcome(), Outcome::Committed);
    let uplinks = [flow, back].map(|flow| cluster.network.uplink(&flow));
    assert!(
        uplinks.iter().all(|it| !it.ends_with("spine1")),
        "{uplinks:?}"
    );
    drain(&mut cluster, &[]);
    assert_eq!(cluster.network.uplink(&flow), "leaf0-spine1");
}

#[test]
fn plan_avoids_drained_link() {
    let mut cluster = cluster();
    drain(&mut cluster, &["leaf0-spine1"]);
    for (from, to, port) in [("h0", "h4", 1000), ("h1", "h5", 1001)] {
        cluster.network.start(from, to, port, 0);
    }
    cluster.run_for(SETTLE_TIME);
    let Response::Plan {
        plan: Some(plan), ..
    } = cluster.ask(Request::Plan)
    else {
        panic!("no plan")
    };
    assert_eq!(plan.pins[0].hop.to, "spine2");
}

#[test]
fn drain_is_reverted_when_flows_slow() {
    let mut cluster = cluster();
    for (place, host) in ["h0", "h1", "h2"].into_iter().enumerate() {
        let to = format!("h{}", 4 + place);
        cluster.network.start(host, &to, 1000 + place as u16, place);
    }
    cluster.run_for(SETTLE_TIME);
    drain(&mut cluster, &["leaf0-spine1"]);
    let slower = |reason: &Reason| matches!(reason, Reason::GotSlower { .. });
    assert!(
        reasons(&cluster).iter().any(slower),
        "{:?}",
        reasons(&cluster)
    );
    let held = cluster.network.switches.values();
    assert!(held.map(|it| it.routes.len()).sum::<usize>() == 0);
    cluster.assert_one_generation();
}

/// An operator need not request that again.
#[test]
fn pins_leave_drained_link_on_path() {
    for leaf in ["leaf0", "leaf1"] {
        let mut cluster = cluster();
        for (from, to, port) in [("h0", "h4", 1000), ("h1", "h5", 1001)] {
            cluster.network.start(from, to, port, 0);
        }
        cluster.run_for(SETTLE_TIME);
        let plan = cluster.plan();
        cluster.apply(plan);
        cluster.run_for(ROLLOUT_TIME);
        let pinned = cluster.core.state().in_force().pins[0].flow;
        let uplink = cluster.network.uplink(&pinned);
        drain(&mut cluster, &[&uplink.replace("leaf0", leaf)]);
        assert_ne!(cluster.network.uplink(&pinned), uplink, "{leaf}");
        assert!(cluster.core.state().in_force().pins.is_empty());
        assert!(status(&mut cluster).useless_pins.is_empty());
    }
}

#[test]
fn severed_drain_routes_raise_alarm() {
    let mut cluster = cluster();
    drain(&mut cluster, &["leaf0-spine1"]);
    assert!(status(&mut cluster).alarms.is_empty());
    // There is no other path to the host.
    cluster.network.fail("h4", "leaf1");
    cluster.run_for(SETTLE_TIME);
    assert!(status(&mut cluster).alarms.is_empty());
    cluster.network.mend("h4", "leaf1");
    cluster.network.fail("leaf1", "spine0");
    cluster.run_for(SETTLE_TIME);
    let alarms = status(&mut cluster).alarms;
    let expected = "routes in force lead to a link that is down: leaf1-spine0; replace them with \
                    the plan of `reweave plan`";
    assert_eq!(alarms, [expected]);
    let plan = cluster.plan();
    cluster.apply(plan);
    cluster.run_for(ROLLOUT_TIME);
    assert!(status(&mut cluster).alarms.is_empty());
}

/// A cluster with two spines of which the first is drained, and a flow that hashes to it. Then the other one loses its
/// link to the sender's leaf, and sends back what is for that leaf.
fn without_detour(mode: Mode) -> (Cluster, FlowKey) {
    let mut cluster = Cluster::on(Network::new(2, 3), mode);
    cluster.run_for(SETTLE_TIME);
    let generation = planned(&mut cluster, &["spine0"]);
    let started = cluster.ask(Request::ApplyAnyway { generation });
    assert_eq!(started, Response::ApplyStarted { generation });
    cluster.run_until_ended(1);
    assert_eq!(*cluster.last_outcome(), Outcome::Committed);
    let flow = cluster.network.start("h0", "h3", 1000, 0);
    cluster.run_for(SETTLE_TIME);
    assert_eq!(cluster.network.uplink(&flow), "leaf0-spine1");
    cluster.network.fail("leaf0", "spine1");
    (cluster, flow)
}

#[test]
fn drain_ends_when_detour_fails() {
    let (mut cluster, flow) = without_detour(Mode::Manual);
    cluster.run_for(SETTLE_TIME);
    assert!(!cluster.network.arrives(&flow));
    assert!(!status(&mut cluster).alarms.is_empty());
    let generation = cluster.plan();
    let started = cluster.ask(Request::ApplyAnyway { generation });
    assert_eq!(started, Response::ApplyStarted { generation });
    cluster.run_until_ended(2);
    assert_eq!(*cluster.last_outcome(), Outcome::Committed);
    assert!(cluster.network.arrives(&flow));
    assert_eq!(status(&mut cluster).alarms, [""; 0]);
    cluster.assert_one_generation();
}

#[test]
fn policy_ends_drain_without_detour() {
    let (mut cluster, flow) = without_detour(Mode::Auto);
    cluster.run_for(Duration::from_secs(5));
    assert!(cluster.network.arrives(&flow), "{cluster:?}");
}

const THREE_LEAVES: &str = "kind = \"leaf-spine\"\nleaves = 3\nspines = 3\nhosts_per_leaf = 2\n\
                            host_gbps = 0.2\nuplink_gbps = 0.1";

/// A cluster with a drained spine. Each other spine has lost a link, so packets from leaf0 reach leaf2 over the drained
/// spine alone. Without its table, leaf1 might send to spine1 what that sends back, and now all of it arrives.
fn without_sound_plan(mode: Mode) -> Cluster {
    let mut cluster = Cluster::on(Network::of(THREE_LEAVES), mode);
    cluster.run_for(SETTLE_TIME);
    drain(&mut cluster, &["spine2"]);
    cluster.network.fail("leaf0", "spine1");
    cluster.run_for(SETTLE_TIME);
    if mode == Mode::Manual {
        let around = cluster.plan();
        cluster.apply(around);
    }
    cluster.run_until_ended(2);
    assert_eq!(*cluster.last_outcome(), Outcome::Committed);
    cluster.network.fail("leaf2", "spine0");
    cluster.run_for(SETTLE_TIME);
    cluster
}

#[test]
fn unsound_plan_is_not_offered() {
    let mut cluster = without_sound_plan(Mode::Manual);
    let log = cluster.log.len();
    let Response::Refused(Refused::Unfit { reasons }) = cluster.ask(Request::Plan) else {
        panic!("it is unsound")
    };
    assert!(
        reasons.iter().any(|it| it.contains("may circle")),
        "{reasons:?}"
    );
    let by_hand = "no sound plan is known: repair the links that are down (";
    let last = reasons.last().unwrap();
    assert!(last.starts_with(by_hand), "{last}");
    assert_eq!(cluster.log.len(), log, "nothing is proposed");
}

/// In how many seconds the policy makes a plan again.
fn rest_s(cluster: &mut Cluster) -> u64 {
    let waits = status(cluster).waits_because.unwrap_or_default();
    let rest = waits.split_once(" s, or once a link goes up or down");
    let rest = rest.and_then(|(before, _)| before.rsplit(' ').next()?.parse().ok());
    rest.unwrap_or_else(|| panic!("{waits}"))
}

#[test]
fn policy_backs_off_after_unsound_plans() {
    let mut cluster = without_sound_plan(Mode::Auto);
    let (log, first) = (cluster.log.len(), rest_s(&mut cluster));
    assert!((15..=20).contains(&first), "{first}");
    cluster.run_for(Duration::from_secs(first + 2));
    let second = rest_s(&mut cluster);
    assert!((35..=40).contains(&second), "{second}");
    assert_eq!(cluster.log.len(), log, "the history stays as it is");
    cluster.network.mend("leaf2", "spine0");
    cluster.run_for(SETTLE_TIME);
    let waits = status(&mut cluster).waits_because.unwrap_or_default();
    assert!(!waits.contains("sound plan"), "{waits}");
}

fn round_count(cluster: &Cluster) -> usize {
    let is_round = |command: &&Command| matches!(command.change, Change::StepIntent(_));
    cluster.log.iter().filter(is_round).count()
}

/// Routes that were sound in the first instruction may lead to a dead link by now.
#[test]
fn repeated_instruction_is_checked_again() {
    let mut cluster = cluster();
    drain(&mut cluster, &["leaf0-spine1"]);
    assert_eq!(*cluster.last_outcome(), Outcome::Committed);
    for (place, host) in ["h0", "h1", "h2"].into_iter().enumerate() {
        let to = format!("h{}", 4 + place);
        cluster.network.start(host, &to, 1000 + place as u16, place);
    }
    cluster.run_for(SETTLE_TIME);
    cluster.network.switch("leaf0").mood = Mood::RefusesLater;
    drain(&mut cluster, &["leaf0-spine0", "leaf0-spine1"]);
    cluster.network.fail("leaf0", "spine0");
    cluster.run_for(SETTLE_TIME);
    let report = round_count(&cluster);
    cluster.run_for(ROLLOUT_TIME);
    assert_eq!(round_count(&cluster), report);
    cluster.network.mend("leaf0", "spine0");
    cluster.network.switch("leaf0").mood = Mood::Obeys;
    cluster.run_for(ROLLOUT_TIME);
    assert!(round_count(&cluster) > report);
    let outcome = cluster.last_outcome();
    assert!(matches!(outcome, Outcome::RolledBack { .. }), "{outcome:?}");
    cluster.assert_one_generation();
}

/// The uplinks that leaf0 keeps when its link to spine1 is drained.
const REMAINING_SPINES: [&str; 2] = ["spine0", "spine2"];

/// A cluster whose leaf0 was sent a drained table, has not acknowledged it, and has disconnected.
fn disconnected_amid_drain() -> (Cluster, NodeId) {
    let mut cluster = cluster();
    let leaf = cluster.network.node("leaf0");
    cluster.network.switch("leaf0").mood = Mood::Deaf;
    let plan = planned(&mut cluster, &["leaf0-spine1"]);
    cluster.apply(plan);
    cluster.run_until("leaf0 was sent it", |it| it.installs_sent_to(leaf) > 0);
    cluster.disconnect(leaf);
    (cluster, leaf)
}

/// Its instruction is checked again, as for every switch.
#[test]
fn reconnected_switch_gets_no_unsound_table() {
    let (mut cluster, leaf) = disconnected_amid_drain();
    for spine in REMAINING_SPINES {
        cluster.network.fail("leaf0", spine);
    }
    cluster.run_for(SETTLE_TIME);
    let sent = cluster.installs_sent_to(leaf);
    cluster.connect(leaf);
    cluster.run_for(SETTLE_TIME);
    assert_eq!(cluster.installs_sent_to(leaf), sent, "it leads nowhere");
    for spine in REMAINING_SPINES {
        cluster.network.mend("leaf0", spine);
    }
    cluster.network.switch("leaf0").mood = Mood::Obeys;
    cluster.run_for(ROLLOUT_TIME);
    assert_eq!(*cluster.last_outcome(), Outcome::Committed);
}

/// The plan was rolled back meanwhile, since the switch was silent for too long.
#[test]
fn reconnected_switch_gets_no_aborted_steps() {
    let (mut cluster, leaf) = disconnected_amid_drain();
    let turned_back = |cluster: &Cluster| {
        let mut changes = cluster.log.iter().map(|command| &command.change);
        changes.any(|change| matches!(change, Change::TurnedBack { .. }))
    };
    cluster.run_until("it is aborted", turned_back);
    for spine in REMAINING_SPINES {
        cluster.network.fail("leaf0", spine);
    }
    let sent = cluster.installs_sent_to(leaf);
    cluster.connect(leaf);
    assert_eq!(cluster.installs_sent_to(leaf), sent, "it leads nowhere");
    for spine in REMAINING_SPINES {
        cluster.network.mend("leaf0", spine);
    }
    cluster.network.switch("leaf0").mood = Mood::Obeys;
    cluster.run_for(ROLLOUT_TIME);
    let outcome = cluster.last_outcome();
    assert!(matches!(outcome, Outcome::RolledBack { .. }), "{outcome:?}");
    cluster.assert_one_generation();
}

/// The operator forced the drain; the record still lists the slower flows.
#[test]
fn forced_drain_stays_despite_slower_flows() {
    let mut cluster = cluster();
    for (place, host) in ["h0", "h1", "h2"].into_iter().enumerate() {
        let to = format!("h{}", 4 + place);
        cluster.network.start(host, &to, 1000 + place as u16, place);
    }
    cluster.run_for(SETTLE_TIME);
    let generation = planned(&mut cluster, &["leaf0-spine1"]);
    let started = cluster.ask(Request::ApplyAnyway { generation });
    assert_eq!(started, Response::ApplyStarted { generation });
    cluster.run_for(ROLLOUT_TIME);
    let ended = cluster.core.state().history().next_back().unwrap();
    assert_eq!(ended.outcome, Outcome::Committed);
    let flows = &ended.verdict.as_ref().unwrap().flows;
    let slower = flows
        .iter()
        .filter(|flow| flow.change == FlowChange::Slower);
    assert_eq!(slower.count(), 2);
    let held = flows.iter().filter(|flow| {
        let [low, high] = flow.predicted.unwrap();
        (low..=high).contains(&flow.after.unwrap().mean)
    });
    assert_eq!(held.count(), 3, "{flows:?}");
    let uplinks = cluster
        .network
        .flows
        .keys()
        .map(|flow| cluster.network.uplink(flow));
    assert!(uplinks.into_iter().all(|link| link != "leaf0-spine1"));
}

#[test]
fn impossible_drain_is_refused_by_name() {
    let mut cluster = cluster();
    let refused = |cluster: &mut Cluster, links: &[&str]| match ask(cluster, links) {
        Response::Refused(refused) => refused,
        other => panic!("{other:?}"),
    };
    let name = "leaf0-spine9".to_owned();
    let unknown = refused(&mut cluster, &["leaf0-spine9"]);
    assert_eq!(unknown, Refused::NoSuchLink { name });
    let all = ["leaf0-spine0", "leaf0-spine1", "leaf0-spine2"];
    let cut = refused(&mut cluster, &all).to_string();
    assert_eq!(
        cut,
        "without these links leaf0 has no equally short path to h4"
    );
    assert!(
        refused(&mut cluster, &["h0-leaf0"])
            .to_string()
            .contains("h0")
    );
    assert_eq!(refused(&mut cluster, &[]), Refused::NothingToChange);
}
