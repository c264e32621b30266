//! Replies to operators: with names, and with keys that scripts may rely on.

use std::time::Duration;

use reweave_common::member::{Digest, Member, Role};
use reweave_common::operator::{
    AgentState, Mode, NotSeen, Outcome, Phase, Refused, Request, Response,
};
use reweave_common::plan::Generation;
use reweave_common::time_span::TimeSpan;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::mock_switch::Mood;
use super::network::Network;
use super::scene::status;
use crate::Input;

const SETTLE_TIME: Duration = Duration::from_secs(2);

fn collision() -> Cluster {
    let mut cluster = Cluster::new(Mode::Manual);
    cluster.network.start("h0", "h3", 1000, 0);
    cluster.network.start("h1", "h4", 1001, 0);
    cluster.run_for(SETTLE_TIME);
    cluster
}

fn ask(cluster: &mut Cluster, request: Request) -> Value {
    serde_json::to_value(cluster.ask(request)).unwrap()
}

#[test]
fn status_names_nodes_links_and_paths() {
    let mut cluster = collision();
    let status = ask(&mut cluster, Request::Status)["status"].take();
    assert_eq!(
        (&status["generation"], &status["mode"]),
        (&json!(0), &json!("manual"))
    );
    assert_eq!(
        (&status["alarms"], &status["change"]),
        (&json!([]), &Value::Null)
    );
    assert_eq!(status["agents"].as_array().unwrap().len(), 10);
    let leaf = &status["agents"][6];
    assert_eq!(
        (&leaf["node"], &leaf["state"]),
        (&json!("leaf0"), &json!("up"))
    );
    assert_eq!(
        (&leaf["known_links"], &leaf["links"]),
        (&json!(5), &json!(5))
    );
    let flow = &status["flows"][0];
    assert_eq!((&flow["from"], &flow["to"]), (&json!("h0"), &json!("h3")));
    let links: Vec<_> = flow["path"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hop| &hop["link"])
        .collect();
    assert_eq!(
        links,
        ["h0-leaf0", "leaf0-spine0", "leaf1-spine0", "h3-leaf1"]
    );
    let full = |link: &&Value| {
        link["hop"] == json!({"from": "leaf0", "to": "spine0", "link": "leaf0-spine0"})
    };
    let full = status["links"]
        .as_array()
        .unwrap()
        .iter()
        .find(full)
        .unwrap();
    assert_eq!(full["rate_bits_per_s"], full["capacity_bits_per_s"]);
}

#[test]
fn agents_are_up_silent_down_unseen() {
    let mut cluster = collision();
    let [silent, down] = ["h2", "h5"].map(|name| cluster.network.node(name));
    cluster.connected.remove(&silent);
    cluster.disconnect(down);
    cluster.run_for(2 * SETTLE_TIME);
    let Response::Status(status) = cluster.ask(Request::Status) else {
        panic!("no status")
    };
    let states = [0, 2, 5].map(|agent| status.agents[agent].state);
    assert_eq!(
        states,
        [AgentState::Up, AgentState::Silent, AgentState::Down]
    );
    cluster.connected.remove(&down);
    cluster.restart();
    let Response::Status(status) = cluster.ask(Request::Status) else {
        panic!("no status")
    };
    assert!(
        status
            .agents
            .iter()
            .all(|agent| agent.state == AgentState::Unseen)
    );
}

#[test]
fn diagnosis_names_full_link_and_losers() {
    let mut cluster = collision();
    let found = ask(&mut cluster, Request::Diagnose)["findings"].take();
    let collision = &found["findings"][0]["ecmp-collision"];
    assert_eq!(collision["hop"]["link"], json!("leaf0-spine0"));
    assert_eq!(collision["losers"].as_array().unwrap().len(), 2);
    assert_eq!(collision["with_room"][0]["link"], json!("leaf0-spine1"));
    assert_eq!(collision["imbalance"]["fim_percent"], json!(100.0));
}

#[test]
fn status_reports_rollout_progress() {
    let mut cluster = collision();
    let plan = cluster.plan();
    cluster.network.switch("leaf0").mood = Mood::Deaf;
    cluster.apply(plan);
    cluster.run_for(Duration::from_millis(500));
    let Response::Status(status) = cluster.ask(Request::Status) else {
        panic!("no status")
    };
    let change = &status.changes[0];
    assert_eq!((change.generation, change.phase), (plan, Phase::Applying));
    assert_eq!(change.waiting_for, ["leaf0"]);
}

/// The switch installs it once the link is up.
#[test]
fn pin_over_dead_link_raises_alarm() {
    let mut cluster = collision();
    let plan = cluster.plan();
    cluster.apply(plan);
    cluster.run_until_ended(1);
    let pin = cluster.core.state().in_force().pins[0];
    let spine = cluster.network.fabric.link(pin.link).far(pin.at).node;
    let spine = cluster.network.fabric.name(spine).to_owned();
    let interface = cluster.network.interface(pin.at, &spine);
    cluster.network.fail("leaf0", &spine);
    cluster.network.switch("leaf0").rules.clear();
    cluster.run_for(Duration::from_millis(500));
    let Response::Status(status) = cluster.ask(Request::Status) else {
        panic!("no status")
    };
    let link = cluster.network.fabric.link_name(pin.link);
    let expected = format!(
        "leaf0 leaves out pins and hops over interfaces that are down: {interface} ({link})"
    );
    assert_eq!(status.alarms[0], expected);
}

#[test]
fn lost_rules_raise_alarm() {
    let mut cluster = collision();
    let plan = cluster.plan();
    cluster.apply(plan);
    cluster.run_until_ended(1);
    cluster.network.switch("leaf0").rules.clear();
    cluster.run_for(Duration::from_millis(500));
    let Response::Status(status) = cluster.ask(Request::Status) else {
        panic!("no status")
    };
    assert!(
        status.alarms[0].starts_with("leaf0 holds rules that differ"),
        "{:?}",
        status.alarms
    );
}

#[test]
fn history_lists_newest_with_outcome() {
    let mut cluster = collision();
    let first = cluster.plan();
    cluster.network.switch("leaf0").mood = Mood::Refuses;
    cluster.apply(first);
    cluster.run_until_ended(1);
    cluster.network.switch("leaf0").mood = Mood::Obeys;
    cluster.run_for(SETTLE_TIME);
    let second = cluster.plan();
    let Response::History(history) = cluster.ask(Request::History { before: None }) else {
        panic!("no history")
    };
    let plans: Vec<_> = history
        .iter()
        .map(|record| record.plan.generation)
        .collect();
    assert_eq!(plans, [second, first]);
    assert_eq!(
        (&history[0].outcome, &history[0].approved_by),
        (&Outcome::Offered, &None)
    );
    let Outcome::RolledBack {
        reasons,
        generation,
    } = &history[1].outcome
    else {
        panic!()
    };
    assert_eq!(reasons, &["leaf0 refused: its kernel refused: no space"]);
    assert!(*generation > first && second > *generation);
}

/// Each plan moves one flow and ends because the switch refuses it.
#[test]
fn history_pages_and_finds_by_generation() {
    let mut cluster = collision();
    cluster.network.switch("leaf0").mood = Mood::Refuses;
    let mut applied = Vec::new();
    for ended in 1..=3 {
        let plan = cluster.plan();
        cluster.apply(plan);
        cluster.run_until_ended(ended);
        cluster.run_for(SETTLE_TIME);
        applied.push(plan);
    }
    let [first, second, third] = applied[..] else {
        panic!()
    };
    let mut older_than = |before| -> Vec<Generation> {
        match cluster.ask(Request::History { before }) {
            Response::History(page) => page.iter().map(|record| record.plan.generation).collect(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(older_than(None), [third, second, first]);
    assert_eq!(older_than(Some(third)), [second, first]);
    assert!(older_than(Some(first)).is_empty());
    for (generation, known) in [(second, true), (Generation(999), false)] {
        let Response::Record(found) = cluster.ask(Request::Record { generation }) else {
            panic!("no record");
        };
        let found = found.map(|record| record.plan.generation);
        assert_eq!(found, known.then_some(generation));
    }
}

#[test]
fn responses_survive_wire_and_json() {
    let mut cluster = collision();
    let requests = [
        Request::Status,
        Request::Diagnose,
        Request::Plan,
        Request::History { before: None },
    ];
    for request in requests {
        let answer = cluster.ask(request);
        let wire = postcard::to_stdvec(&answer).unwrap();
        #[expect(clippy::disallowed_methods, reason = "it was just written")]
        let read: Response = postcard::from_bytes(&wire).unwrap();
        assert_eq!(read, answer);
        let json = serde_json::to_string(&answer).unwrap();
        assert_eq!(serde_json::from_str::<Response>(&json).unwrap(), answer);
    }
}

#[test]
fn status_reports_flow_imbalance() {
    let mut cluster = collision();
    let Response::Status(status) = cluster.ask(Request::Status) else {
        panic!("no status")
    };
    let imbalance = status.flow_imbalance.unwrap();
    assert_eq!(imbalance.worst.fim_percent, 100.0);
    let over: Vec<_> = imbalance.worst_over.iter().map(|hop| &hop.to[..]).collect();
    assert_eq!(over, ["spine0", "spine1"]);
}

/// The imbalance above its floor, in percent.
fn above_floor(cluster: &mut Cluster) -> f64 {
    let worst = status(cluster).flow_imbalance.unwrap().worst;
    worst.fim_percent - worst.floor_percent
}

#[test]
fn committed_plan_reaches_minimum_imbalance() {
    // The spines that the hash selects for the flows of one leaf.
    let cases: [&[usize]; 5] = [
        &[0, 0, 2, 3],
        &[1, 1, 1, 1, 0],
        &[2; 6],
        &[0, 0, 0, 1, 1, 1, 2],
        &[3; 8],
    ];
    for spines in cases {
        let mut cluster = Cluster::on(Network::new(4, 8), Mode::Manual);
        for (host, &spine) in spines.iter().enumerate() {
            let [from, to] = [host, 8 + host].map(|it| format!("h{it}"));
            cluster.network.start(&from, &to, 1000 + host as u16, spine);
        }
        cluster.run_for(SETTLE_TIME);
        assert!(above_floor(&mut cluster) > 20.0, "{spines:?}");
        let plan = cluster.plan();
        cluster.apply(plan);
        cluster.run_until_ended(1);
        cluster.run_for(SETTLE_TIME);
        assert_eq!(
            *cluster.last_outcome(),
            crate::Outcome::Committed,
            "{spines:?}"
        );
        assert!(above_floor(&mut cluster).abs() < 1e-9, "{spines:?}");
    }
}

#[test]
fn unseen_paths_accompany_findings_and_plan() {
    let mut cluster = collision();
    let everything = NotSeen::default();
    assert_eq!(not_seen(&mut cluster), [everything.clone(), everything]);
    let spine = cluster.network.node("spine1");
    cluster.connected.remove(&spine);
    cluster.run_for(Duration::from_secs(5));
    let flow = cluster.network.start("h2", "h5", 1002, 1);
    cluster.run_for(Duration::from_secs(20));
    let expected = NotSeen {
        nodes: vec!["spine1".to_owned()],
        ways_of: vec![flow],
        doubts: vec![],
    };
    let stays = "leaf0 > spine0 is 100 % full and stays as it is: leaf0-spine1 is not measured";
    let planned = NotSeen {
        doubts: vec![stays.to_owned()],
        ..expected.clone()
    };
    assert_eq!(not_seen(&mut cluster), [expected.clone(), planned]);
    assert_eq!(
        expected.to_string(),
        format!("spine1 does not report; the path of {flow} is unknown")
    );
}

/// The missing facts, in findings and in a plan.
fn not_seen(cluster: &mut Cluster) -> [NotSeen; 2] {
    [Request::Diagnose, Request::Plan].map(|request| match cluster.ask(request) {
        Response::Findings(found) => found.not_seen,
        Response::Plan { not_seen, .. } => not_seen,
        other => panic!("{other:?}"),
    })
}

/// Nothing is written to the log, and everything else continues.
#[test]
fn full_disk_stops_decisions_not_status() {
    let mut cluster = Cluster::new(Mode::Auto);
    cluster.network.start("h0", "h3", 1000, 0);
    cluster.network.start("h1", "h4", 1001, 0);
    cluster.handle(Input::Disk { is_full: true });
    cluster.run_for(20 * SETTLE_TIME);
    assert_eq!(cluster.log, []);
    let token = Digest([1; 32]);
    let lasting = SETTLE_TIME;
    let member = Member::new(Role::Agent, "h0");
    let decisions = [
        Request::Plan,
        Request::Invite {
            member: member.clone(),
            token,
            lasting: lasting.into(),
        },
        Request::Revoke { member },
        Request::Visit {
            token,
            lasting: TimeSpan::from_secs(60),
        },
    ];
    for decision in decisions {
        let refused = cluster.ask(decision.clone());
        assert_eq!(
            refused,
            Response::Refused(Refused::DiskFull),
            "{decision:?}"
        );
    }
    let Response::Status(status) = cluster.ask(Request::Status) else {
        panic!("no status")
    };
    assert!(
        status.warnings[0].contains("is full"),
        "{:?}",
        status.warnings
    );
    assert_eq!(status.flows.len(), 2);
    assert!(
        matches!(cluster.ask(Request::Diagnose), Response::Findings(found) if !found.findings.is_empty())
    );

    cluster.handle(Input::Disk { is_full: false });
    cluster.run_for(20 * SETTLE_TIME);
    assert!(!cluster.log.is_empty(), "it mends what it saw before");
    let Response::Status(status) = cluster.ask(Request::Status) else {
        panic!("no status")
    };
    assert!(!status.warnings.iter().any(|it| it.contains("is full")));
}
