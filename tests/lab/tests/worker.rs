//! The traffic program: real processes, real sockets, on the addresses of the loopback interface.

#[path = "worker/job.rs"]
mod job;

use std::process::ExitStatus;
use std::time::Duration;

use job::{Flow, Job, Order, Transport, first_assignment, refusal};
use reweave_common::ids::Rank;
use reweave_common::workload::Pattern;
use serde_json::{Value, json};

const TRANSPORTS: [Transport; 3] = [Transport::Tcp, Transport::Udp, Transport::Quic];

fn patterns() -> [(Pattern, usize); 5] {
    let pairs = vec![[0, 2], [1, 2], [0, 1]].into_iter();
    let pairs = pairs.map(|pair| pair.map(Rank::from_index)).collect();
    [
        (Pattern::RingAllReduce, 4),
        (Pattern::HierarchicalAllReduce { group_size: 2 }, 4),
        (Pattern::AllToAll, 4),
        (Pattern::Pipeline { microbatches: 3 }, 3),
        (Pattern::Streams { pairs }, 3),
    ]
}

/// A ring that lasts longer than any test waits.
fn endless(transport: Transport) -> Order {
    Order {
        transport,
        pattern: Pattern::RingAllReduce,
        ranks: 3,
        bytes: 400_000,
        compute: Duration::ZERO,
        iterations: 1_000_000,
    }
}

/// Returns the reports of the flow's sender and receiver.
fn ends<'r>(flow: &Flow, reports: &'r [Value]) -> [&'r Value; 2] {
    [(flow.from, "sent"), (flow.to, "received")].map(|(rank, side)| {
        let flows = reports[rank][side].as_array().expect("a list");
        let found = flows.iter().find(|report| report["id"] == flow.id);
        found.expect("each end reports each of its flows")
    })
}

#[test]
fn every_pattern_delivers_its_programs() {
    for transport in TRANSPORTS {
        for (pattern, ranks) in patterns() {
            let order = Order {
                transport,
                pattern,
                ranks,
                bytes: 3_000_003,
                compute: Duration::from_millis(1),
                iterations: 3,
            };
            delivers(&order);
        }
    }
}

fn delivers(order: &Order) {
    let what = format!("{:?} {:?}", order.pattern, order.transport);
    let mut job = Job::connected(order);
    job.tell("start");
    let reports: Vec<_> = (0..order.ranks)
        .map(|rank| job.wait_for(rank, "report"))
        .collect();
    for (rank, report) in reports.iter().enumerate() {
        assert_eq!(report["broken"], Value::Null, "{what}");
        assert_eq!(report["stopped"], false, "{what}");
        assert_eq!(job.events(rank, "iteration").count(), 3, "{what}");
    }
    for flow in &job.flows {
        for end in ends(flow, &reports) {
            assert_eq!(end["bytes"], job.bytes_of(flow), "{what} {end}");
            assert_eq!(end["resets"], 0, "{what} {end}");
            assert_eq!(end["corrupted"], 0, "{what} {end}");
        }
        let [sender, receiver] = ends(flow, &reports);
        // A loopback may be faster than the receiver, which then cannot measure the rate.
        assert_ne!(receiver["rate_bits_per_s"], 0, "{what} {receiver}");
        assert_eq!(sender["rate_bits_per_s"], Value::Null, "{what} {sender}");
        assert!(sender["retransmits"].is_u64(), "{what} {sender}");
        assert!(sender["rtt_us"].as_u64() > Some(0), "{what} {sender}");
    }
    let ended = job.leave();
    assert!(ended.iter().all(ExitStatus::success), "{what} {ended:?}");
}

#[test]
fn peers_report_dead_rank() {
    for transport in TRANSPORTS {
        let mut job = Job::connected(&endless(transport));
        job.tell("start");
        job.wait_for(1, "iteration");
        job.kill(1);
        for (rank, lost) in [(0, [0, 1]), (2, [1, 2])] {
            let report = job.wait_for(rank, "report");
            let broken = report["broken"]
                .as_str()
                .expect("a session of this rank broke");
            let mut own = job.flows.iter().filter(|flow| [flow.from, flow.to] == lost);
            assert!(
                own.any(|flow| broken.contains(&flow.name())),
                "{transport:?}: {broken}"
            );
            assert_eq!(report["stopped"], false);
        }
    }
}

#[test]
fn dead_peer_is_noticed_while_idle() {
    for transport in TRANSPORTS {
        let compute = Duration::from_secs(3600);
        let mut job = Job::connected(&Order {
            compute,
            ..endless(transport)
        });
        job.tell("start");
        job.kill(1);
        for rank in [0, 2] {
            let report = job.wait_for(rank, "report");
            assert!(report["broken"].is_string(), "{transport:?}: {report}");
        }
    }
}

#[test]
fn all_report_when_they_are_stopped() {
    for transport in TRANSPORTS {
        let mut job = Job::connected(&endless(transport));
        job.tell("start");
        job.wait_for(0, "sample");
        job.tell("stop");
        let reports: Vec<_> = (0..3).map(|rank| job.wait_for(rank, "report")).collect();
        for report in &reports {
            assert_eq!(
                (&report["stopped"], &report["broken"]),
                (&json!(true), &Value::Null)
            );
        }
        for flow in &job.flows {
            let [sender, receiver] = ends(flow, &reports);
            assert!(
                sender["resets"] == 0 && receiver["resets"] == 0,
                "{sender} {receiver}"
            );
        }
        assert!(job.leave().iter().all(ExitStatus::success));
    }
}

#[test]
fn rank_exits_cleanly_without_lab() {
    for transport in TRANSPORTS {
        let job = Job::instructed(&endless(transport));
        assert!(job.leave().iter().all(ExitStatus::success));
        let mut running = Job::connected(&endless(transport));
        running.tell("start");
        running.wait_for(0, "iteration");
        assert!(running.leave().iter().all(ExitStatus::success));
    }
}

#[test]
fn invalid_assignment_is_one_error() {
    let sound = || first_assignment(&endless(Transport::Tcp));
    let changed = |change: fn(&mut Value)| {
        let mut report = sound();
        change(&mut report);
        report
    };
    let cases = [
        (json!("start"), "struct Assignment"),
        (
            changed(|report| report["colour"] = json!("red")),
            "unknown field `colour`",
        ),
        (
            changed(|report| report["transport"] = json!("pigeon")),
            "pigeon",
        ),
        (changed(|report| report["iterations"] = json!(-1)), "-1"),
        (
            changed(|report| report["flows"] = json!([])),
            "no flow to rank 1",
        ),
        (
            changed(|report| report["rank"] = json!(9)),
            "flow 0 neither begins nor ends at rank 9",
        ),
        (
            changed(|report| report["flows"][1] = report["flows"][0].clone()),
            "twice",
        ),
        (
            changed(|report| report["flows"][1]["nth"] = json!(5)),
            "nth",
        ),
    ];
    for (report, says) in cases {
        let (code, said) = refusal(&report);
        assert_eq!(code, Some(2), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(
            said.starts_with("error: ") && said.contains(says),
            "{says}: {said}"
        );
    }
}

#[test]
fn address_in_use_is_named() {
    let report = first_assignment(&endless(Transport::Tcp));
    let incoming = &report["flows"]
        .as_array()
        .unwrap()
        .iter()
        .find(|flow| flow["to"] == 0)
        .unwrap();
    let place = incoming["destination"].as_str().unwrap();
    let _taken = std::net::TcpListener::bind(place).unwrap();
    let (code, said) = refusal(&report);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(place), "{said}");
}
