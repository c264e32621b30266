//! Every class of failure in turn: its evidence leads to this class and place, and to nothing else.

use super::*;

/// The evidence of a cluster that has this fault, and the subject of the finding.
fn happens(class: Class) -> (Evidence, &'static str) {
    match class {
        Class::BadOptic => (
            at_port("spine2", "leaf0", |port| {
                port.frame_error_share = Some(1e-4);
            }),
            "leaf0-spine2 from leaf0",
        ),
        Class::LossyLink => (lossy_link(), "leaf0-spine2 from leaf0"),
        Class::FaultyHost => (faulty_host(), "h6"),
        Class::FaultySwitch => (faulty_switch(), "leaf1"),
        Class::EcmpCollision => (
            with_flows(&[(0, 1, 4, 47.0), (1, 1, 5, 47.0), (2, 0, 6, 20.0)]),
            "leaf0-spine1 from leaf0",
        ),
        Class::PfcStorm => (storm(), "h3"),
        Class::PfcDeadlock => (deadlock(), "leaf0, spine0, leaf1, spine1"),
        Class::Straggler => (straggler(), "h2"),
        Class::PcieDowngrade => (at_host(2, |host| host.pcie_lanes = Some(4)), "h2"),
        Class::NicFlap => (
            at_port("h5", "leaf1", |port| port.link_downs = 3),
            "h5-leaf1",
        ),
        Class::MtuMismatch => (
            at_port("leaf1", "spine3", |port| port.mtu_bytes = Some(1500)),
            "leaf1-spine3",
        ),
        Class::ConfigurationMismatch => (at_host(4, |host| set(host, "ECN", "off")), "h4"),
        Class::AsymmetricRoute => (lopsided(), "h0 and h5"),
        Class::Incast => (
            with_flows(&[
                (0, 0, 5, 24.0),
                (1, 1, 5, 24.0),
                (2, 2, 5, 24.0),
                (3, 3, 5, 24.0),
            ]),
            "h5",
        ),
        Class::SlowPair => (slow_pair(), "h0 and h4"),
        Class::Latency => (with_series(jump()), "h1"),
        Class::DyingOptic => (with_series(climb()), "leaf0-spine1 from spine1"),
        Class::Saturation => (next_job(), "leaf0-spine1 from leaf0"),
        Class::ClocksApart => (at_host(1, |host| host.clock_skew_ms = Some(-2000.0)), "h1"),
        Class::UnsentProbes => (
            at_host(3, |host| {
                host.unsent.push(UnsentFacts {
                    to: "h5".to_owned(),
                    due: 40,
                    forbidden: 12,
                    ..UnsentFacts::default()
                });
            }),
            "h3",
        ),
        Class::NodeAlwaysFirst => (always_first(), "h0"),
        of_job => (with_job(of(of_job)), "job train"),
    }
}

/// Returns the change of a job that shows this class.
fn of(class: Class) -> fn(&mut JobFacts) {
    match class {
        Class::RankOrder => |job| job.ring = vec![0, 4, 1, 5, 2, 6, 3, 7],
        Class::AllreduceLinear => |job| {
            job.allreduce_ms = vec![(2.0, 2.1), (4.0, 4.0), (8.0, 8.1), (16.0, 16.0)];
        },
        Class::PipelineAcrossSpine => |job| {
            job.pipeline_stages = vec![vec![0], vec![4], vec![1], vec![5]];
        },
        Class::TensorAcrossHosts => |job| job.tensor_groups = vec![vec![0, 1]],
        Class::HostBound => |job| {
            job.compute_ms[3] = 200.0;
            job.communicate_ms = vec![5.0; 8];
        },
        other => panic!("no case for {other}"),
    }
}

#[test]
fn every_class_is_named_alone() {
    for class in Class::ALL {
        let (evidence, subject) = happens(class);
        let fabric = match class {
            Class::NodeAlwaysFirst => lone(),
            _ => fabric(),
        };
        let found = diagnose(&evidence, &fabric).unwrap();
        let [only] = &found[..] else {
            panic!("{class}: {found:#?}")
        };
        assert_eq!(
            (only.class, &only.subject.to_string()[..]),
            (class, subject)
        );
        assert!(!only.evidence.is_empty() && only.remedy == class.remedy());
        assert!((0.5..=1.0).contains(&only.confidence), "{only:?}");
    }
}

fn at_port(node: &str, peer: &str, change: impl Fn(&mut PortFacts)) -> Evidence {
    let mut evidence = clean();
    change(port_of(&mut evidence, node, peer));
    evidence
}

fn at_host(host: usize, change: impl Fn(&mut HostFacts)) -> Evidence {
    let mut evidence = clean();
    change(&mut evidence.hosts[host]);
    evidence
}

fn set(host: &mut HostFacts, setting: &str, value: &str) {
    host.settings.insert(setting.to_owned(), value.to_owned());
}

fn with_series(series: Series) -> Evidence {
    Evidence {
        series: vec![series],
        ..clean()
    }
}

/// Flows of this many Gb/s from host to host past a spine, and no others.
fn with_flows(flows: &[(usize, usize, usize, f64)]) -> Evidence {
    let flows = flows.iter();
    let flows = flows.map(|&(from, spine, to, gbps)| flow(from, spine, to, gbps));
    Evidence {
        flows: flows.collect(),
        ..clean()
    }
}

/// The same probes cross the link down from the spine; only the sender's counter distinguishes them.
fn lossy_link() -> Evidence {
    Evidence {
        probes: probes(|hop| if hop == "leaf0>spine2" { 0.02 } else { 0.0 }, 400),
        ..at_port("leaf0", "spine2", |port| port.send_drops = 9)
    }
}

/// All probes between leaves pass both of them. Only probes within a leaf show which one it is.
fn faulty_switch() -> Evidence {
    let mut evidence = clean();
    evidence.probes = probes(|hop| if hop.contains("leaf1") { 0.02 } else { 0.0 }, 400);
    let within = (0..8).map(|host| {
        let (leaf, next) = (host / 4, host / 4 * 4 + (host + 1) % 4);
        Probed {
            path: names(&format!("h{host}>leaf{leaf}>h{next}")),
            sent: 400,
            lost: 8 * leaf,
            ..Probed::default()
        }
    });
    evidence.probes.extend(within);
    evidence
}

fn faulty_host() -> Evidence {
    let own = ["h6>leaf1", "leaf1>h6"];
    Evidence {
        probes: one_way(
            [2, 4, 4],
            |hop| if own.contains(&hop) { 0.1 } else { 0.0 },
            100,
        ),
        ..clean()
    }
}

/// The counters of both ends report it: that is one storm.
fn storm() -> Evidence {
    let mut evidence = at_port("h3", "leaf0", |port| port.pause_storms = 2);
    port_of(&mut evidence, "leaf0", "h3").paused_share = Some(0.4);
    evidence
}

fn deadlock() -> Evidence {
    let mut evidence = clean();
    let circle = ["leaf0", "spine0", "leaf1", "spine1", "leaf0"];
    for pair in circle.windows(2) {
        let port = port_of(&mut evidence, pair[0], pair[1]);
        (port.paused_share, port.sent_gbps) = (Some(1.0), Some(0.0));
    }
    evidence
}

fn straggler() -> Evidence {
    let mut evidence = clean();
    let own = |flow: &&mut FlowFacts| flow.path[0] == "h2" || flow.path[4] == "h2";
    evidence
        .flows
        .iter_mut()
        .filter(own)
        .for_each(|flow| flow.gbps = 10.0);
    evidence
}

/// Both ends report it.
fn lopsided() -> Evidence {
    let trace = |[from, to]: [&str; 2], [hops_there, hops_back]: [u32; 2]| Trace {
        from: from.to_owned(),
        to: to.to_owned(),
        hops_there,
        hops_back,
    };
    Evidence {
        traces: vec![trace(["h0", "h5"], [4, 6]), trace(["h5", "h0"], [6, 4])],
        ..clean()
    }
}

fn slow_pair() -> Evidence {
    let mut evidence = clean();
    evidence.pairs[3].gbps = 50.0;
    evidence
}

fn jump() -> Series {
    let late = |nth: usize| {
        if nth < 80 {
            10.0 + (nth % 3) as f64 * 0.2
        } else {
            14.0
        }
    };
    series("latency_us", &["h1"], late)
}

fn climb() -> Series {
    let share = |nth: usize| 1e-7 * libm::exp(0.03 * nth as f64);
    series("corrected_bit_share", &["leaf0", "spine1"], share)
}

fn next_job() -> Evidence {
    let demand = Demand {
        path: names("leaf0>spine1"),
        gbps: 30.0,
    };
    let mut evidence = clean();
    evidence.jobs.push(JobFacts {
        job: "next".to_owned(),
        will_send: vec![demand],
        ..JobFacts::default()
    });
    evidence
}

fn always_first() -> Evidence {
    let job = JobFacts {
        job: "train".to_owned(),
        ranks: ["h0", "h1", "h2"].map(str::to_owned).to_vec(),
        first: vec![97, 2, 1],
        ..JobFacts::default()
    };
    Evidence {
        jobs: vec![job],
        ..Evidence::default()
    }
}

/// Returns a fabric in which one host is attached where the paths of the two others meet.
fn lone() -> Fabric {
    let node = |name: &str, role: &str| format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n");
    let link = |a: &str, b: &str| format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\ngbps = 1\n");
    let mut text = "kind = \"graph\"\n".to_owned();
    text.extend(["h0", "h1", "h2"].map(|host| node(host, "host")));
    text.extend(["x", "y", "z"].map(|switch| node(switch, "switch")));
    let links = [
        ("h0", "x"),
        ("x", "y"),
        ("x", "z"),
        ("h1", "y"),
        ("h2", "z"),
    ];
    text.extend(links.map(|(a, b)| link(a, b)));
    Fabric::parse("fabric.toml", &text).unwrap()
}

#[test]
fn collective_straggler_is_named() {
    let describe = |communicate_ms: [f64; 8]| {
        let mut evidence = clean();
        let job = &mut evidence.jobs[0];
        job.compute_ms = communicate_ms.map(|ms| 100.0 - ms).to_vec();
        job.communicate_ms = communicate_ms.to_vec();
        diagnose(&evidence, &fabric()).unwrap()
    };
    let mut late = [60.0; 8];
    late[2] = 30.0;
    let found = describe(late);
    let [only] = &found[..] else {
        panic!("{found:#?}")
    };
    assert_eq!(
        (only.class, &only.subject.to_string()[..]),
        (Class::Straggler, "h2")
    );
    // Two that are early are none that is late; nor is one that is hardly waited for.
    late[5] = 32.0;
    assert_eq!(describe(late), []);
    let mut little = [12.0; 8];
    little[2] = 6.0;
    assert_eq!(describe(little), []);
}

/// The first pipeline follows the racks, the second alternates between them.
#[test]
fn all_pipelines_of_job_are_checked() {
    let stages = |second: [usize; 4]| {
        let stages = [0, 1, 4, 5].into_iter().zip(second);
        let stages: Vec<_> = stages.map(|(a, b)| vec![a, b]).collect();
        found(&with_job(|job| job.pipeline_stages.clone_from(&stages)))
    };
    assert_eq!(stages([2, 3, 6, 7]), []);
    let found = stages([2, 6, 3, 7]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].class, Class::PipelineAcrossSpine);
    assert_eq!(
        found[0].evidence,
        ["stages cross racks 4 times, 2 would do"]
    );
}

/// The rate of a port counts with or without listed flows. The job's own traffic, which both report, does not count
/// twice.
#[test]
fn busy_link_has_no_room() {
    let describe = |counted: f64, flows: &[(&str, f64)]| of_next_job(90.0, counted, flows);
    let said = |now| {
        format!("it carries {now}.0 Gb/s of 100.0 Gb/s, and job next will bring 90.0 Gb/s more")
    };
    assert_eq!(describe(50.0, &[]), [said(50)]);
    assert_eq!(describe(50.0, &[("train", 40.0)]), [said(50)]);
    assert_eq!(describe(30.0, &[("train", 40.0)]), [said(40)]);
    assert_eq!(describe(60.0, &[("next", 40.0)]), [said(20)]);
    assert_eq!(describe(50.0, &[("next", 48.0)]), [""; 0]);
    assert_eq!(describe(3.0, &[]), [""; 0]);
}

#[test]
fn full_link_has_room_for_little() {
    let describe = |brings: f64| of_next_job(brings, 98.0, &[]);
    let said = "it carries 98.0 Gb/s of 100.0 Gb/s, and job next will bring 30.0 Gb/s more";
    assert_eq!(describe(30.0), [said]);
    assert_eq!(describe(1.0), [""; 0]);
}

/// Returns the findings about a link with this counted rate and these flows, when the next job will add `brings`.
fn of_next_job(brings: f64, counted: f64, flows: &[(&str, f64)]) -> Vec<String> {
    let mut evidence = next_job();
    evidence.jobs[1].will_send[0].gbps = brings;
    evidence.flows.clear();
    evidence
        .flows
        .extend(flows.iter().map(|&(job, gbps)| FlowFacts {
            job: Some(job.to_owned()),
            ..flow(0, 1, 4, gbps)
        }));
    let port = port_of(&mut evidence, "leaf0", "spine1");
    port.sent_gbps = Some(counted);
    // Said twice, it is not sent twice.
    let again = port.clone();
    evidence.ports.push(again);
    let found = found(&evidence).into_iter();
    found.map(|it| it.evidence.concat()).collect()
}
