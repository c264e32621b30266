//! A plan from the collision to its end.

use std::time::Duration;

use reweave_common::forwarding::{ForwardingTable, NextHop};
use reweave_common::ids::LinkId;
use reweave_common::operator::{
    AgentState, FlowChange, Mode, Outcome as Shown, Phase, Refused, Request, Response,
};
use reweave_common::plan::{Generation, Pin, Plan};
use reweave_common::sample::{Reading, Sample};
use reweave_common::units::Rate;

use super::cluster::Cluster;
use super::mock_switch::Mood;
use super::network::Network;
use super::scene::*;
use crate::{Author, Change, Decision, Input, Outcome, Reason};

#[test]
fn collision_is_planned_applied_and_committed() {
    let (mut cluster, flows, plan) = planned();
    cluster.apply(plan);
    cluster.run_until_ended(1);
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
    assert_ne!(
        cluster.network.uplink(&flows[0]),
        cluster.network.uplink(&flows[1])
    );
    cluster.assert_one_generation();
    let Response::History(history) = cluster.ask(Request::History { before: None }) else {
        panic!()
    };
    assert_eq!(history[0].outcome, Shown::Committed);
    assert_eq!(history[0].approved_by.as_deref(), Some("ada"));
    for flow in &history[0].flows {
        let gain =
            flow.measured_bits_per_s.unwrap().mbps() / flow.before_bits_per_s.unwrap().mbps();
        assert!(gain > 1.8 && flow.change == FlowChange::Faster, "{flow:?}");
    }
}

/// The seal that a client sees now.
fn seal(cluster: &mut Cluster, generation: Generation) -> String {
    match cluster.ask(Request::Record { generation }) {
        Response::Record(Some(record)) => record.plan.seal,
        other => panic!("no record: {other:?}"),
    }
}

#[test]
fn approval_needs_plan_as_shown() {
    let (mut cluster, _, generation) = planned();
    let seen = seal(&mut cluster, generation);
    assert_eq!(seal(&mut cluster, generation), seen);
    let approve = |cluster: &mut Cluster, seals: &[&String]| {
        cluster.ask(Request::ApplySealed {
            generation,
            anyway: false,
            now: false,
            seals: seals.iter().map(|it| (*it).clone()).collect(),
        })
    };
    let changed = Response::Refused(Refused::ChangedMeanwhile { generation });
    assert_eq!(approve(&mut cluster, &[]), changed);
    assert_eq!(approve(&mut cluster, &[&"x".to_owned()]), changed);
    // Another operator has frozen the job meanwhile, and then unfreezes it.
    let hosts = vec!["h0".to_owned()];
    cluster.ask(Request::Freeze {
        hosts: hosts.clone(),
    });
    let frozen = seal(&mut cluster, generation);
    assert_ne!(frozen, seen);
    assert_eq!(approve(&mut cluster, &[&seen]), changed);
    cluster.ask(Request::Thaw { hosts });
    assert_eq!(approve(&mut cluster, &[&frozen]), changed);
    let begun = Response::ApplyStarted { generation };
    assert_eq!(approve(&mut cluster, &[&frozen, &seen]), begun);
}

/// Other plans are shown before and after.
#[test]
fn approval_bears_seal_of_its_turn() {
    let (mut cluster, _, generation) = planned();
    let seen = seal(&mut cluster, generation);
    let approve = |cluster: &mut Cluster| {
        let id = cluster.effects.len() as u64;
        let answer = cluster.ask(Request::Apply { generation });
        (answer, cluster.core.take_seal(id))
    };
    let hosts = vec!["h0".to_owned()];
    cluster.ask(Request::Freeze {
        hosts: hosts.clone(),
    });
    let (refused, judged) = approve(&mut cluster);
    assert!(matches!(refused, Response::Refused(_)), "{refused:?}");
    assert!(judged.is_some() && judged.as_ref() != Some(&seen));
    cluster.ask(Request::Thaw { hosts });
    let begun = Response::ApplyStarted { generation };
    assert_eq!(approve(&mut cluster), (begun, Some(seen)));
    let (_, carried_out) = approve(&mut cluster);
    assert_eq!(carried_out, None, "it is not on offer");
    // The reply to an operator is the record.
    assert_eq!(cluster.core.poll_record(), None);
}

#[test]
fn auto_mode_repairs_collision_in_5s() {
    let mut cluster = Cluster::new(Mode::Auto);
    cluster.network.start("h0", "h3", 1000, 0);
    cluster.run_for(SETTLE_TIME);
    cluster.network.start("h1", "h4", 1001, 0);
    let took = cluster.run_until_ended(1);
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
    assert!(took < Duration::from_secs(5), "{took:?}");
    cluster.assert_one_generation();
}

#[test]
fn job_change_before_apply_rolls_back() {
    let (mut cluster, flows, plan) = planned();
    let before = flows.map(|flow| cluster.network.uplink(&flow));
    let newcomer = cluster.network.start("h2", "h5", 1002, 1);
    cluster.run_for(SETTLE_TIME);
    cluster.apply(plan);
    cluster.run_until_ended(1);
    assert_rolled_back(&cluster);
    assert_eq!(flows.map(|flow| cluster.network.uplink(&flow)), before);
    let report = reasons(&cluster);
    assert!(
        matches!(report[..], [Reason::TooLittleGain { .. }, Reason::GotSlower { flow, .. }]
        if flow == newcomer),
        "{report:?}"
    );
}

#[test]
fn verdict_skips_settling_readings() {
    let (mut cluster, _, plan) = planned();
    cluster.apply(plan);
    cluster.run_until_ended(1);
    let at = |what: fn(&Change) -> bool| cluster.log.iter().find(|c| what(&c.change)).unwrap().at;
    let acked = at(|change| matches!(change, Change::Acked { .. }));
    let judged = at(|change| matches!(change, Change::Verified { .. }));
    let took = judged.since(acked);
    let expected = Duration::from_millis(300 + 4 * 100);
    assert!(
        took >= expected && took < expected + SETTLE_TIME,
        "{took:?}"
    );
}

#[test]
fn paused_flow_rolls_plan_back() {
    let (mut cluster, flows, plan) = planned();
    cluster.apply(plan);
    cluster.run_until("verifying", |c| phase(c) == Some(Phase::Verifying));
    cluster.network.pause(flows[0]);
    let took = cluster.run_until_ended(1);
    assert!((10..11).contains(&took.as_secs()), "{took:?}");
    assert_rolled_back(&cluster);
    assert!(reasons(&cluster).contains(&Reason::Vanished { flow: flows[0] }));
}

#[test]
fn stall_restarts_verification() {
    let (mut cluster, _, plan) = planned();
    cluster.apply(plan);
    cluster.run_until("verifying", |c| phase(c) == Some(Phase::Verifying));
    cluster.stall(Duration::from_secs(15));
    let took = cluster.run_until_ended(1);
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn stall_restarts_ack_timeout() {
    let (mut cluster, _, plan) = planned();
    cluster.on_the_way = |_| Vec::new();
    cluster.apply(plan);
    cluster.run_for(Duration::from_secs(1));
    cluster.stall(Duration::from_secs(30));
    cluster.on_the_way = |acks| acks;
    cluster.run_until_ended(1);
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
}

/// A client's repeated request may arrive before the first tick.
#[test]
fn request_after_stall_times_nothing_out() {
    let (mut cluster, _, plan) = planned();
    cluster.on_the_way = |_| Vec::new();
    cluster.apply(plan);
    cluster.run_for(Duration::from_secs(1));
    cluster.stall(Duration::from_secs(30));
    cluster.ask(Request::Status);
    cluster.on_the_way = |acks| acks;
    cluster.run_until_ended(1);
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
}

/// Readings of flows are too old by then, and the first sample may be about something else.
#[test]
fn stall_ends_no_flow() {
    let (mut cluster, _, plan) = planned();
    cluster.on_the_way = |_| Vec::new();
    cluster.apply(plan);
    cluster.run_for(Duration::from_secs(1));
    cluster.stall(Duration::from_millis(3500));
    cluster.handle(Input::Tick);
    for host in ["h0", "h1"] {
        let (node, taken) = (cluster.network.node(host), cluster.now());
        let readings = vec![];
        let sample = Sample { taken, readings };
        cluster.handle(Input::Sample { node, sample });
    }
    cluster.handle(Input::Tick);
    cluster.on_the_way = |acks| acks;
    cluster.run_until_ended(1);
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
}

#[test]
fn stall_makes_no_agent_silent() {
    let mut cluster = Cluster::new(Mode::Manual);
    cluster.run_for(SETTLE_TIME);
    cluster.stall(Duration::from_secs(10));
    let status = status(&mut cluster);
    let silent = status.agents.iter().find(|it| it.state != AgentState::Up);
    assert_eq!(silent.map(|it| &it.node), None);
}

#[test]
fn stalls_do_not_hold_plan_open() {
    let (mut cluster, flows, plan) = planned();
    cluster.apply(plan);
    cluster.run_until("verifying", |c| phase(c) == Some(Phase::Verifying));
    cluster.network.pause(flows[0]);
    for _ in 0..4 {
        assert_eq!(phase(&cluster), Some(Phase::Verifying));
        cluster.run_for(Duration::from_secs(8));
        cluster.stall(Duration::from_secs(2));
    }
    cluster.run_until_ended(1);
    assert_rolled_back(&cluster);
}

#[test]
fn generation_belongs_to_one_plan() {
    let (mut cluster, flows, plan) = planned();
    cluster.network.end(moved(&cluster));
    cluster.run_until_ended(1);
    flows.into_iter().for_each(|flow| {
        cluster.network.flows.remove(&flow);
    });
    cluster.network.start("h1", "h4", 2000, 1);
    cluster.network.start("h2", "h5", 2001, 1);
    cluster.run_for(2 * SETTLE_TIME);
    let second = cluster.plan();
    assert!(second > plan);
    cluster.apply(second);
    cluster.run_until_ended(2);
    assert_eq!(
        cluster.last_outcome(),
        &Outcome::Committed,
        "{:?}",
        reasons(&cluster)
    );
}

#[test]
fn flow_ended_before_pin_withdraws_plan() {
    let (mut cluster, _, _) = planned();
    let flow = moved(&cluster);
    cluster.network.end(flow);
    cluster.run_until_ended(1);
    assert_eq!(
        cluster.last_outcome(),
        &Outcome::Withdrawn {
            reasons: vec![Reason::FlowEnded { flow }]
        }
    );
    assert_nothing_installed(&cluster);
}

#[test]
fn flow_ended_during_install_rolls_back() {
    let (mut cluster, _, plan) = planned();
    let flow = moved(&cluster);
    cluster.network.switch("leaf0").mood = Mood::Mute;
    cluster.apply(plan);
    cluster.run_until("installed", |c| {
        c.network.switches.values().any(|s| !s.rules.is_empty())
    });
    cluster.network.switch("leaf0").mood = Mood::Obeys;
    cluster.network.end(flow);
    cluster.run_until_ended(1);
    assert_rolled_back(&cluster);
    assert_eq!(reasons(&cluster), [Reason::FlowEnded { flow }]);
}

#[test]
fn flow_ended_during_verify_rolls_back() {
    let (mut cluster, _, plan) = planned();
    let flow = moved(&cluster);
    cluster.apply(plan);
    cluster.run_until("verifying", |c| phase(c) == Some(Phase::Verifying));
    cluster.network.end(flow);
    cluster.run_until_ended(1);
    assert_rolled_back(&cluster);
    assert!(reasons(&cluster).contains(&Reason::Vanished { flow }));
}

#[test]
fn looping_plan_is_refused() {
    let (mut cluster, _, plan) = planned();
    let [spine, leaf] = ["spine1", "leaf0"].map(|name| cluster.network.node(name));
    let mut looping = cluster.core.state().rollouts().next().unwrap().plan.clone();
    let link = cluster
        .network
        .fabric
        .links_between(spine, leaf)
        .next()
        .unwrap();
    looping.generation = plan.next();
    looping.pins.push(Pin {
        flow: looping.moves[0].flow,
        at: spine,
        link,
    });
    let by = Author::Operator("mallory".to_owned());
    cluster.propose(looping, by);
    let answer = cluster.ask(Request::Apply {
        generation: plan.next(),
    });
    assert!(
        matches!(answer, Response::Refused(Refused::Unfit { .. })),
        "{answer:?}"
    );
    assert!(matches!(cluster.last_outcome(), Outcome::Refused { .. }));
    assert!(
        reasons(&cluster).iter().any(|reason| {
            matches!(reason, Reason::Unsound(reweave_check::Unsound::Loop { .. }))
        })
    );
    assert_nothing_installed(&cluster);
}

#[test]
fn only_shown_plan_can_be_applied() {
    let (mut cluster, _, plan) = planned();
    let asked = Request::Apply {
        generation: plan.next(),
    };
    assert_eq!(
        cluster.ask(asked),
        Response::Refused(Refused::OtherPlan {
            offered: vec![plan]
        })
    );
    assert_eq!(cluster.plan(), plan, "the same plan keeps its number");
    cluster.apply(plan);
    let asked = Request::Apply { generation: plan };
    assert_eq!(
        cluster.ask(asked),
        Response::Refused(Refused::Busy { running: plan })
    );
}

#[test]
fn healthy_network_gets_no_plan() {
    let mut cluster = Cluster::new(Mode::Manual);
    assert!(nothing_planned(&mut cluster));
    assert_eq!(
        cluster.ask(Request::Apply {
            generation: Generation(1)
        }),
        Response::Refused(Refused::NoPlan)
    );
    cluster.network.start("h0", "h3", 1000, 0);
    cluster.network.start("h1", "h4", 1001, 1);
    cluster.run_for(SETTLE_TIME);
    assert!(nothing_planned(&mut cluster));
    assert!(cluster.log.is_empty());
}

#[test]
fn verdict_keeps_its_figures() {
    let (mut cluster, flows, plan) = planned();
    cluster.apply(plan);
    cluster.run_until_ended(1);
    let state = cluster.core.state();
    let verdict = state.history().next().unwrap().verdict.clone().unwrap();
    assert_eq!(verdict.decision, Decision::Commit);
    for (judged, flow) in verdict.flows.iter().zip(flows) {
        let (before, after) = (
            judged.before.unwrap().mean.mbps(),
            judged.after.unwrap().mean.mbps(),
        );
        let [low, high] = judged.predicted.unwrap().map(Rate::mbps);
        assert_eq!(judged.flow, flow);
        assert!((48.0..52.0).contains(&before) && (97.0..101.0).contains(&after));
        assert!((low..=high).contains(&after), "{low} {after} {high}");
    }
}

#[test]
fn rollback_restores_pins_of_parent() {
    let mut cluster = Cluster::on(Network::new(3, 4), Mode::Manual);
    cluster.network.start("h0", "h4", 1000, 0);
    cluster.network.start("h1", "h5", 1001, 0);
    cluster.run_for(SETTLE_TIME);
    let first = cluster.plan();
    cluster.apply(first);
    cluster.run_until_ended(1);
    let pins = cluster.core.state().in_force().pins.clone();
    let rules = cluster.network.switch("leaf0").rules.clone();
    assert_eq!((pins.len(), rules.len()), (1, 1));

    let idle = cluster.idle_spine();
    cluster.network.start("h2", "h6", 1002, 0);
    cluster.run_for(SETTLE_TIME);
    let second = cluster.plan();
    cluster.network.start("h3", "h7", 1003, idle);
    cluster.run_for(SETTLE_TIME);
    cluster.apply(second);
    cluster.run_until("pinned twice", |c| {
        c.network.switches.values().any(|s| s.rules.len() == 2)
    });
    cluster.run_until_ended(2);
    let outcome = cluster.last_outcome();
    assert!(matches!(outcome, Outcome::RolledBack { generation, .. } if *generation > second));
    assert_eq!(cluster.core.state().in_force().pins, pins);
    assert_eq!(cluster.network.switch("leaf0").rules, rules);
    cluster.assert_one_generation();
}

#[test]
fn reconnected_sender_keeps_its_flows() {
    let (mut cluster, _, plan) = planned();
    let node = cluster.network.node("h0");
    cluster.disconnect(node);
    cluster.connect(node);
    let mut sample = cluster.network.sample(node, cluster.now());
    sample
        .readings
        .retain(|reading| matches!(reading, Reading::Interface(_)));
    cluster.handle(Input::Sample { node, sample });
    cluster.handle(Input::Tick);
    assert_eq!(phase(&cluster), Some(Phase::Proposed));
    cluster.run_for(SETTLE_TIME);
    cluster.apply(plan);
    cluster.run_until_ended(1);
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
}

#[test]
fn twelve_flows_on_uplink_are_spread() {
    let mut cluster = Cluster::on(Network::new(2, 12), Mode::Auto);
    for host in 0..12 {
        let to = format!("h{}", 12 + host);
        cluster.network.start(&format!("h{host}"), &to, 1000, 0);
    }
    cluster.run_until_ended(1);
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
    let rates = cluster.network.rates();
    assert!(rates.values().all(|rate| *rate > 16e6), "{rates:?}");
}

#[test]
fn three_to_one_flows_are_spread() {
    let mut cluster = Cluster::on(Network::new(2, 4), Mode::Auto);
    for (host, spine) in [(0, 0), (1, 0), (2, 0), (3, 1)] {
        let to = format!("h{}", 4 + host);
        cluster.network.start(&format!("h{host}"), &to, 1000, spine);
    }
    cluster.run_until_ended(1);
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
    let rates = cluster.network.rates();
    assert!(rates.values().all(|rate| *rate > 49e6), "{rates:?}");
}

#[test]
fn unapproved_plan_is_withdrawn() {
    let (mut cluster, _, _) = planned();
    let took = cluster.run_until_ended_within(1, Duration::from_mins(11));
    assert!((597..601).contains(&took.as_secs()), "{took:?}");
    assert_eq!(reasons(&cluster), [Reason::NotApproved]);
    assert_nothing_installed(&cluster);
}

#[test]
fn silent_agent_blocks_apply() {
    let (mut cluster, _, plan) = planned();
    let leaf = cluster.network.node("leaf0");
    cluster.connected.remove(&leaf);
    cluster.run_for(2 * SETTLE_TIME);
    let answer = cluster.ask(Request::Apply { generation: plan });
    let Response::Refused(Refused::Unfit { reasons }) = answer else {
        panic!("leaf0 is connected, and silent: {answer:?}")
    };
    assert_eq!(reasons, ["the agent of leaf0 is not connected"]);
    assert_nothing_installed(&cluster);
}

#[test]
fn plan_onto_failed_path_is_refused() {
    let (mut cluster, _, plan) = planned();
    let spine = cluster.core.state().rollouts().next().unwrap().plan.pins[0];
    let to = cluster.network.fabric.link(spine.link).far(spine.at).node;
    let to = cluster.network.fabric.name(to).to_owned();
    cluster.network.fail(&to, "leaf1");
    cluster.run_for(Duration::from_millis(500));
    let answer = cluster.ask(Request::Apply { generation: plan });
    assert!(
        matches!(answer, Response::Refused(Refused::Unfit { .. })),
        "{answer:?}"
    );
    assert!(
        reasons(&cluster).iter().any(|reason| {
            matches!(
                reason,
                Reason::Unsound(reweave_check::Unsound::BlackHole { .. })
            )
        }),
        "{:?}",
        reasons(&cluster)
    );
    assert_nothing_installed(&cluster);
}

/// A plan of any proposer: its rounds would be as large.
#[test]
fn plan_exceeding_log_limit_is_refused() {
    let (mut cluster, _, plan) = planned();
    let at = cluster.network.node("leaf0");
    let hop = NextHop {
        link: LinkId::from_index(0),
        weight: 1,
    };
    let table = ForwardingTable {
        at,
        towards: [(at, vec![hop; (1 << 18) + 1])].into(),
        raises: vec![],
    };
    let offered = &cluster.core.state().rollout(plan).unwrap().plan;
    let generation = Generation(plan.0 + 1);
    let large = Plan {
        generation,
        tables: [(at, table)].into(),
        ..offered.clone()
    };
    cluster.propose(large, Author::Operator("ada".to_owned()));
    let answer = cluster.ask(Request::Apply { generation });
    let Response::Refused(Refused::Unfit { reasons }) = answer else {
        panic!("{answer:?}")
    };
    assert!(
        reasons[0].contains("more than the 262144 that fit"),
        "{reasons:?}"
    );
}
