//! Events of the event loop are found in the history, and the event loop never waits for it.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use reweave_common::collective::{Rank, RankPeer, RankReading};
use reweave_common::fabric::Fabric;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::hardware::Machine;
use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::operator::{Request, Response};
use reweave_common::probing::{PROBE_PORT, ProbePart, ProbeReading, ProbeTally};
use reweave_common::sample::{HostReading, Interface, Reading, Sample};
use reweave_common::time_span::TimeSpan;
use reweave_common::units::Bytes;
use reweave_core::Input;
use reweave_history::{Kind, Past, Question, Resolution, Rules, Window};

use super::scribe::Scribe;
use super::{History, Load, MAX_QUEUED_READINGS, QUEUE_LENGTH, Report, What};
use crate::config::HistoryConfig;
use crate::intake::{Event, Origin, SessionId};
use crate::local_health::LocalHealth;
use crate::tests::scene::Scene;

fn everything(url: &str) -> Window {
    let past = Past::open(url).unwrap();
    let question = Question {
        from: Moment::default(),
        to: Moment::from_micros(u64::MAX / 4),
        resolution: Some(Resolution::FiveMinutes),
        kinds: Kind::ALL.into(),
    };
    past.look(&question).unwrap()
}

#[test]
fn events_and_decisions_reach_history() {
    let mut scene = Scene::new();
    scene.collide();
    scene.put(Event::Tick);
    for (node, _) in scene.fabric.clone().nodes() {
        let session = SessionId(1);
        scene.report_sample(Origin { node, session });
    }
    let mut answer = scene.ask(Request::Plan);
    let url = scene.folder.path().join("history").display().to_string();
    let config = HistoryConfig {
        url: url.clone(),
        rules: Rules::default(),
    };
    let history = History::begin(&config, scene.fabric.clone(), LocalHealth::default()).unwrap();
    let alone = scene.alone_with(Some(history));
    scene.run(alone).unwrap();
    let answer = answer.try_recv();
    assert!(matches!(answer, Ok(Response::Plan { plan: Some(_), .. })));
    let window = everything(&url);
    assert_eq!(window.warnings, [""; 0]);
    assert_eq!(window.agents.len(), scene.fabric.nodes().len());
    let links = window.links_on(&scene.fabric, Moment::default());
    let full = links
        .values()
        .filter(|state| state.rate.mbps() == 198.0)
        .count();
    assert_eq!(full, 2, "leaf0 > spine0 > leaf1");
    let flows = window.flows_on(&scene.fabric, Moment::default());
    let hops: Vec<_> = flows
        .iter()
        .map(|flow| flow.path.as_ref().map(Vec::len))
        .collect();
    assert_eq!(hops, [Some(4), Some(4)]);
    let what = |events: &[reweave_history::Seen<reweave_history::Event>]| {
        events
            .iter()
            .map(|event| event.what.what.clone())
            .collect::<Vec<_>>()
    };
    let decided = ["coordinators-removed", "plan-proposed"];
    assert_eq!(what(&window.changes), decided, "none is removed at first");
    assert_eq!(what(&window.findings), ["ecmp-collision"]);
    let whose: Vec<_> = window
        .imbalance
        .iter()
        .map(|seen| (&*seen.what.job, &*seen.what.layer))
        .collect();
    let expected = [
        ("", ""),
        ("", "tier 1 to 2"),
        ("", "tier 2 to 1, chosen before"),
        ("h0 and h2", ""),
        ("h1 and h3", ""),
    ];
    assert_eq!(whose, expected);
}

/// Checks the history after a start with a wrong clock: queries use the time of day.
#[test]
fn history_rows_use_wall_clock() {
    let scene = Scene::new();
    let url = scene.folder.path().join("history").display().to_string();
    let config = HistoryConfig {
        url: url.clone(),
        rules: Rules::default(),
    };
    let history = History::begin(&config, scene.fabric.clone(), LocalHealth::default()).unwrap();
    let (noon, ahead) = (
        Moment::from_micros(1_800_000_000_000_000),
        Duration::from_mins(50),
    );
    history.hear_leads(noon + ahead, ahead);
    let (node, _) = scene.fabric.nodes().next().unwrap();
    history.hear(noon + ahead, &Input::AgentUp { node });
    drop(history);
    let seen: Vec<_> = everything(&url).agents.iter().map(|it| it.at).collect();
    let five_minutes = Duration::from_mins(5);
    assert!(
        seen.iter()
            .all(|at| noon.since(*at) < five_minutes && *at <= noon),
        "{seen:?}"
    );
    assert!(!seen.is_empty());
}

fn probes(from: u8, to: u8) -> Reading {
    let end = |last, port| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, last), port);
    let mut tally = ProbeTally {
        answered: 3,
        ..ProbeTally::default()
    };
    for micros in [10, 20, 30] {
        tally
            .times
            .record(ProbePart::Network, Duration::from_micros(micros));
    }
    let flow = FlowKey {
        protocol: Protocol::Udp,
        source: end(from, 7400),
        destination: end(to, PROBE_PORT),
    };
    Reading::Probes(Box::new(ProbeReading { flow, tally }))
}

fn interface(last: u8) -> Reading {
    Reading::Interface(Interface {
        name: "eth0".to_owned(),
        addresses: vec![Ipv4Addr::new(10, 0, 0, last)],
        gateways: vec![],
    })
}

#[test]
fn probes_are_kept_by_sender() {
    let scene = Scene::new();
    let url = scene.folder.path().join("history").display().to_string();
    let config = HistoryConfig {
        url: url.clone(),
        rules: Rules::default(),
    };
    let hosts = ["h0", "h1"].map(|name| scene.fabric.find(name).unwrap());
    let mut scribe = Scribe::new(
        config,
        scene.fabric.clone(),
        Arc::default(),
        LocalHealth::default(),
    );
    for node in hosts {
        scribe.take(Moment::default(), What::Up(node));
    }
    let values = [
        (hosts[0], vec![interface(1)]),
        (hosts[1], vec![interface(2)]),
        // The second is of another host.
        (hosts[0], vec![probes(1, 2), probes(2, 1)]),
    ];
    for (second, (node, readings)) in (1..).zip(values) {
        let taken = Moment::from_micros(second * 1_000_000);
        let report = Report::of(&Sample { taken, readings });
        scribe.take(taken, What::Report(node, report));
        scribe.take(taken, What::Time);
    }
    scribe.close();
    let window = everything(&url);
    let [seen] = &window.probes[..] else {
        panic!("{:?}", window.probes);
    };
    assert_eq!(
        (&*seen.what.node, seen.what.to_node.as_deref()),
        ("h0", Some("h1"))
    );
    assert_eq!(seen.what.sent.unwrap().max, 3);
    let [median, most] = [seen.what.median_ns, seen.what.most_ns].map(|it| it.unwrap().max);
    assert!((19_800..20_200).contains(&median), "{median}");
    assert!((29_700..30_300).contains(&most), "{most}");
}

/// A NIC of the storage network, whose switch has no agent.
const STORAGE_FABRIC: &str = "kind = \"graph\"
[[node]]
name = \"h0\"
role = \"host\"
[[node]]
name = \"store0\"
role = \"switch\"
[[nic]]
host = \"h0\"
to = \"store0\"
gbps = 1
use = \"storage\"
interface = \"eth0\"
";

#[test]
fn nic_rows_have_rail_and_use() {
    let scene = Scene::new();
    let url = scene.folder.path().join("history").display().to_string();
    let config = HistoryConfig {
        url: url.clone(),
        rules: Rules::default(),
    };
    let fabric = Arc::new(Fabric::parse("fabric.toml", STORAGE_FABRIC).unwrap());
    let node = fabric.find("h0").unwrap();
    let mut scribe = Scribe::new(config, fabric, Arc::default(), LocalHealth::default());
    let at = |second: u64| Moment::from_micros(second * 1_000_000);
    scribe.take(at(1), What::Up(node));
    for second in 2..5 {
        scribe.take(at(second), What::Time);
    }
    scribe.close();
    let states = everything(&url).states;
    let said = states.iter().map(|it| {
        let state = &it.what;
        [&state.node, &state.what, &state.subject, &state.detail].map(String::clone)
    });
    let detail = r#"{"rail":0,"plane":null,"use":"storage","link":"h0-store0"}"#;
    let expected = ["h0", "nic_use", "eth0", detail].map(str::to_owned);
    assert_eq!(said.collect::<Vec<_>>(), [expected]);
    assert_eq!(states[0].readings, 1, "once for each change");
}

/// Checks that hosts are resolved once all ranks have reported, because ranks know each other by numbers.
#[test]
fn rank_traffic_is_kept_by_hosts() {
    let scene = Scene::new();
    let url = scene.folder.path().join("history").display().to_string();
    let config = HistoryConfig {
        url: url.clone(),
        rules: Rules::default(),
    };
    let hosts = ["h0", "h3"].map(|name| scene.fabric.find(name).unwrap());
    let mut scribe = Scribe::new(
        config,
        scene.fabric.clone(),
        Arc::default(),
        LocalHealth::default(),
    );
    let at = |second: u64| Moment::from_micros(second * 1_000_000);
    for (rank, node) in (0..).zip(hosts) {
        scribe.take(at(0), What::Up(node));
        let readings = vec![Reading::Host(HostReading::Rank(Box::new(rank_of_two(
            rank,
        ))))];
        let report = Report::of(&Sample {
            taken: at(1),
            readings,
        });
        scribe.take(at(1), What::Report(node, report));
    }
    // No agent reports anything afterwards.
    for second in 2..20 {
        scribe.take(at(second), What::Time);
    }
    scribe.close();
    let window = everything(&url);
    let seen: Vec<_> = window
        .collectives
        .iter()
        .map(|it| (&it.what, it.readings))
        .collect();
    let [(there, readings)] = seen[..] else {
        panic!("{seen:?}");
    };
    assert_eq!((&*there.node, &*there.to_node, readings), ("h0", "h3", 3));
    assert_eq!(there.rate_bits_per_s.unwrap().max, 8000);
}

/// The first sends the second a thousand bytes a second.
fn rank_of_two(rank: u32) -> RankReading {
    let bytes = |count| Bytes::new(if count == rank { 10_000 } else { 0 });
    RankReading {
        rank: Rank {
            communicator: 7,
            name: "world".to_owned(),
            nodes: 2,
            ranks: 2,
            rank,
        },
        over: TimeSpan::from_secs(10),
        missed: 0,
        works: vec![],
        peers: vec![RankPeer {
            rank: 1 - rank,
            sent: bytes(0),
            received: bytes(1),
            sending: TimeSpan::ZERO,
            receiving: TimeSpan::ZERO,
        }],
    }
}

/// Checks the limit of the queue when no thread empties it.
#[test]
fn stuck_history_blocks_nothing() {
    let (queue, stuck) = sync_channel(QUEUE_LENGTH);
    let load = Arc::<Load>::default();
    let history = History {
        queue: Some(queue),
        load: load.clone(),
        writing: None,
    };
    let node = NodeId::from_index(0);
    let reading = Reading::Host(HostReading::Machine(Machine::default()));
    let sample = Input::Sample {
        node,
        sample: Sample {
            taken: Moment::default(),
            readings: vec![reading; MAX_QUEUED_READINGS / 3],
        },
    };
    // Three of the four samples fit, by the number of their readings.
    (0..4).for_each(|_| history.hear(Moment::default(), &sample));
    assert_eq!(load.take_dropped() as usize, MAX_QUEUED_READINGS / 3);
    // The rest finds no place in the queue.
    (0..QUEUE_LENGTH).for_each(|_| history.hear(Moment::default(), &Input::Tick));
    assert_eq!(load.take_dropped(), 3);
    stuck.recv().unwrap();
    history.hear(Moment::default(), &Input::Tick);
    assert_eq!(load.take_dropped(), 0);
}

/// It is logged, tried again, and the event loop leads on.
#[test]
fn unopenable_history_stops_nothing() {
    let mut scene = Scene::new();
    scene.collide();
    let mut answer = scene.ask(Request::Status);
    let file = scene.folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let config = HistoryConfig {
        url: file.join("history").display().to_string(),
        rules: Rules::default(),
    };
    let history = History::begin(&config, scene.fabric.clone(), LocalHealth::default()).unwrap();
    let alone = scene.alone_with(Some(history));
    scene.run(alone).unwrap();
    assert!(matches!(answer.try_recv(), Ok(Response::Status(_))));
}

#[test]
fn unknown_history_scheme_is_refused() {
    let scene = Scene::new();
    let config = HistoryConfig {
        url: "ftp://host/folder".to_owned(),
        rules: Rules::default(),
    };
    let error = History::begin(&config, scene.fabric.clone(), LocalHealth::default()).unwrap_err();
    assert_eq!(error.exit_code(), 2, "{error}");
}
