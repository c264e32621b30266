//! Impossible evidence is refused with its item and the reason; uninformative evidence is reported as such.

use super::*;

#[test]
fn clock_skew_named_contradictions_refused() {
    let mut evidence = clean();
    evidence.hosts[1].clock_skew_ms = Some(-2000.0);
    assert_eq!(alone(&evidence), named(Class::ClocksApart, "h1"));
    let mut evidence = clean();
    evidence.probes[0].path[2] = "*".to_owned();
    evidence.probes[0].lost = 300;
    assert_eq!(
        found(&evidence),
        [],
        "a path that is not known is no evidence"
    );
    evidence.probes[0].lost = 401;
    assert_eq!(
        diagnose(&evidence, &fabric()).unwrap_err().to_string(),
        "probes[0]: more probes were lost than sent over h0>leaf0>*>leaf1>h4>leaf1>spine0>leaf0>h0"
    );
    let mut evidence = clean();
    evidence.probes[3].path[2] = "leaf1".to_owned();
    assert_eq!(
        diagnose(&evidence, &fabric()).unwrap_err().to_string(),
        "probes[3]: leaf0 and leaf1 are not linked in the fabric"
    );
}

type Spoil = fn(&mut Evidence);

#[test]
fn impossible_names_and_paths_are_refused() {
    refused(&[
        (
            |it| it.ports[0].peer = "*".to_owned(),
            "the fabric has no node named \"*\"",
        ),
        (
            |it| it.series[0].at = vec!["*".to_owned(), "leaf0".to_owned()],
            "the fabric has no node named \"*\"",
        ),
        (
            |it| it.traces.push(trace("nosuch", 4)),
            "the fabric has no node named \"nosuch\"",
        ),
        (
            |it| it.traces.extend([trace("h0", 4), trace("h0", 6)]),
            "the path of h0 to h5 is given twice, and not the same",
        ),
        (
            |it| it.pairs[0].to = "spine0".to_owned(),
            "spine0 is a switch, and no host",
        ),
        (
            |it| it.jobs[0].ranks[2] = "leaf0".to_owned(),
            "leaf0 is a switch, and no host",
        ),
        (
            |it| it.series[0].at = vec![],
            "the number of places of latency_us at  cannot be 0",
        ),
        (
            |it| it.pairs[0].to = "h0".to_owned(),
            "the bandwidth of h0 to h0 cannot be 90",
        ),
        (
            |it| {
                it.pairs[1] = PairFacts {
                    gbps: 10.0,
                    ..it.pairs[0].clone()
                }
            },
            "the bandwidth of h0 to h1 on rail 0 is given twice, and not the same",
        ),
        (
            |it| it.series[0].of = "latency".to_owned(),
            "\"latency\" is nothing that a series is of: there are latency_us, loss, errors, \
             corrected_bit_share",
        ),
        (
            |it| {
                it.traces.push(Trace {
                    to: "h0".to_owned(),
                    ..trace("h0", 6)
                });
            },
            "the number of hops of h0 to h0 cannot be 6",
        ),
        (
            |it| it.hosts[0].host = "leaf0".to_owned(),
            "leaf0 is a switch, and no host",
        ),
    ]);
}

/// Contradictory reports about the same end of a link, or about a host, are both ignored.
#[test]
fn contradictory_facts_are_refused() {
    refused(&[
        (
            |it| {
                it.ports.push(PortFacts {
                    mtu_bytes: Some(1500),
                    ..it.ports[0].clone()
                });
            },
            "the port of h0 towards leaf0 is given twice, and not the same",
        ),
        (
            |it| {
                it.hosts.push(HostFacts {
                    clock_skew_ms: Some(9000.0),
                    ..it.hosts[0].clone()
                });
            },
            "h0 is given twice, and not the same",
        ),
    ]);
    let mut evidence = clean();
    evidence.ports.push(evidence.ports[0].clone());
    evidence.hosts.push(evidence.hosts[0].clone());
    assert_eq!(found(&evidence), []);
}

#[test]
fn impossible_figures_are_refused_by_name() {
    refused(&[
        (
            |it| it.hosts[0].pcie_lanes = Some(0),
            "the width of the bus of h0 cannot be 0",
        ),
        (
            |it| it.series[0].values[0] = 1e300,
            "a value of latency_us at h1 cannot be 1e300",
        ),
        (
            |it| it.traces.push(trace("h0", 4_000_000_000)),
            "the number of hops of h0 to h5 cannot be 4000000000",
        ),
        (
            |it| it.traces.push(trace("h0", 0)),
            "the number of hops of h0 to h5 cannot be 0",
        ),
        (
            |it| it.ports[0].mtu_bytes = Some(0),
            "the MTU of h0 towards leaf0 cannot be 0",
        ),
        (
            |it| it.ports[0].paused_share = Some(40.0),
            "the share of time paused of h0 towards leaf0 cannot be 40",
        ),
        (
            |it| it.ports[0].frame_error_share = Some(f64::NAN),
            "the share of broken frames of h0 towards leaf0 cannot be NaN",
        ),
        (
            |it| it.flows[0].gbps = -1.0,
            "the rate of h0>leaf0>spine0>leaf1>h4 cannot be -1",
        ),
        (
            |it| it.series[0].every_s = -60.0,
            "the time between values of latency_us at h1 cannot be -60",
        ),
        (
            |it| it.hosts[0].cpu_busy_share = Some(7.0),
            "the share of time that is busy of h0 cannot be 7",
        ),
        (
            |it| it.hosts[0].pcie_gts = Some(-8.0),
            "the speed of the bus of h0 cannot be -8",
        ),
        (
            |it| it.hosts[0].clock_skew_ms = Some(-1e300),
            "the error of the clock of h0 cannot be -1e300",
        ),
        (
            |it| it.flows[0].gbps = 1e300,
            "the rate of h0>leaf0>spine0>leaf1>h4 cannot be 1e300",
        ),
        (
            |it| it.series[0].every_s = 0.0,
            "the time between values of latency_us at h1 cannot be 0",
        ),
        (
            |it| it.series = vec![series("loss", &["leaf0", "spine0"], |_| 5.0)],
            "a value of loss at leaf0-spine0 cannot be 5",
        ),
    ]);
}

/// Sums of them would be wrong.
#[test]
fn absurd_counts_are_refused() {
    refused(&[
        (
            |it| it.probes[0].sent = u64::MAX,
            "the number of probes of h0>leaf0>spine0>leaf1>h4>leaf1>spine0>leaf0>h0 cannot be \
             1.8446744073709552e19",
        ),
        (
            |it| it.probes[0].large_sent = u64::MAX,
            "the number of probes of h0>leaf0>spine0>leaf1>h4>leaf1>spine0>leaf0>h0 cannot be \
             1.8446744073709552e19",
        ),
        (
            |it| it.jobs[0].first = vec![u64::MAX; 2],
            "the number of collectives of job train cannot be 1.8446744073709552e19",
        ),
    ]);
}

#[test]
fn impossible_jobs_are_refused_by_name() {
    refused(&[
        (
            |it| it.jobs[0].first = vec![1; 9],
            "job train has 8 ranks, and first 9 values",
        ),
        (
            |it| it.jobs[0].first = vec![1],
            "job train has 8 ranks, and first 1 values",
        ),
        (
            |it| {
                it.jobs[0].will_send = vec![Demand {
                    path: names("h0>leaf0"),
                    gbps: -1.0,
                }];
            },
            "what is to come of job train cannot be -1",
        ),
        (
            |it| it.jobs[0].compute_ms = vec![-1.0],
            "a time of job train cannot be -1",
        ),
        (
            |it| {
                it.jobs.push(JobFacts {
                    job: "train".to_owned(),
                    ..JobFacts::default()
                });
            },
            "job train is given twice, and not the same",
        ),
    ]);
}

/// Each spoils sound evidence, and is refused in these words.
#[track_caller]
fn refused(cases: &[(Spoil, &str)]) {
    for (spoil, words) in cases {
        let mut evidence = clean();
        spoil(&mut evidence);
        let EvidenceError::At { error, .. } = diagnose(&evidence, &fabric()).unwrap_err() else {
            panic!("it is not said where: {words}")
        };
        assert_eq!(error.to_string(), *words);
    }
}

fn trace(from: &str, hops_there: u32) -> Trace {
    Trace {
        from: from.to_owned(),
        to: "h5".to_owned(),
        hops_there,
        hops_back: 4,
    }
}

#[test]
fn stage_without_ranks_crosses_no_racks() {
    let evidence = with_job(|job| job.pipeline_stages = vec![vec![], vec![1]]);
    assert_eq!(found(&evidence), []);
}

#[test]
fn omissions_are_reported_as_doubts() {
    let mut evidence = clean();
    assert_eq!(evidence.doubts(&fabric()), [""; 0]);
    evidence.probes[0].path[2] = "*".to_owned();
    evidence.flows[0].path.clear();
    evidence.series[0].values.truncate(15);
    let doubts = evidence.doubts(&fabric());
    assert_eq!(doubts.len(), 3);
    for (doubt, word) in doubts.iter().zip([
        "a flow over \"\"",
        "less than 16",
        "probes over \"h0>leaf0>*>",
    ]) {
        assert!(doubt.contains(word), "{doubt}");
    }
}

/// If all probes take one path, or all lose equally, the place of the loss is unknown.
#[test]
fn unlocalized_loss_is_reported() {
    let probe = |sent, lost| Probed {
        path: names("h0>leaf0>spine0>leaf1>h4"),
        sent,
        lost,
        ..Probed::default()
    };
    let of = |probes: Vec<Probed>| Evidence {
        probes,
        ..Evidence::default()
    };
    let evidence = of(vec![probe(100, 60)]);
    assert_eq!(found(&evidence), []);
    let doubts = evidence.doubts(&fabric());
    assert_eq!(doubts, ["60 of 100 probes were lost at an unknown place"]);
    for little in [probe(100, 2), probe(100_000, 20)] {
        assert_eq!(of(vec![little]).doubts(&fabric()), [""; 0]);
    }
}

/// Nor where a large one does not fit.
#[test]
fn unlocalized_large_probe_loss_is_reported() {
    let with = |large_lost| {
        let mut evidence = clean();
        evidence.probes = vec![Probed {
            path: names("h0>leaf0>spine0>leaf1>h4"),
            sent: 100,
            large_sent: 100,
            large_lost,
            ..Probed::default()
        }];
        evidence
    };
    assert_eq!(found(&with(100)), []);
    let said = "100 of 100 probes as large as the MTU were lost at an unknown place, where small \
                ones pass";
    assert_eq!(with(100).doubts(&fabric()), [said]);
    assert_eq!(with(20).doubts(&fabric()), [""; 0]);
    let mut alone = with(100);
    alone.probes[0].sent = 0;
    let said = "100 of 100 probes as large as the MTU got lost where no small ones were sent: it may not be their size";
    assert_eq!(alone.doubts(&fabric()), [said]);
}

/// If half of the hosts have each value, either may be wrong. Names, which each host has of its own, are no settings.
#[test]
fn settings_without_majority_are_reported() {
    let with = |hosts: usize, value: fn(usize) -> usize| {
        let mut evidence = clean();
        evidence.hosts.truncate(hosts);
        evidence.ports.clear();
        for (nth, host) in evidence.hosts.iter_mut().enumerate() {
            let value = value(nth).to_string();
            host.settings.insert("MTU".to_owned(), value);
        }
        assert_eq!(found(&evidence), []);
        evidence.doubts(&fabric())
    };
    let said = |values| format!("MTU is {values}: which of them is wrong is unknown");
    let halves = said("1500 on 4 hosts, 9000 on 4 hosts");
    assert_eq!(with(8, |nth| [1500, 9000][nth % 2]), [halves]);
    assert_eq!(
        with(2, |nth| [1500, 9000][nth % 2]),
        [said("1500 on h0, 9000 on h1")]
    );
    assert_eq!(with(8, |nth| nth), [""; 0]);
}

#[test]
fn impossible_pcie_speed_is_omitted() {
    let mut evidence = clean();
    evidence.hosts[2].pcie_gts = Some(64.0);
    evidence.hosts[2].pcie_most_gts = Some(16.0);
    assert_eq!(found(&evidence), []);
    let doubts = evidence.doubts(&fabric());
    assert_eq!(
        doubts,
        ["the bus of h2 left out: it runs at more than it could"]
    );
}

/// Two cables between switches.
fn with_two_cables() -> Fabric {
    let text = "kind = \"graph\"\n\
        node = [{ name = \"a\", role = \"host\" }, { name = \"b\", role = \"host\" },\
                { name = \"c\", role = \"host\" }, { name = \"d\", role = \"host\" },\
                { name = \"x\", role = \"switch\" }, { name = \"y\", role = \"switch\" }]\n\
        link = [{ a = \"a\", b = \"x\", gbps = 100 }, { a = \"b\", b = \"x\", gbps = 100 },\
                { a = \"c\", b = \"y\", gbps = 100 }, { a = \"d\", b = \"y\", gbps = 100 },\
                { a = \"x\", b = \"y\", gbps = 100, count = 2 }]";
    Fabric::parse("fabric.toml", text).unwrap()
}

/// A path does not say which of two cables a flow takes, now or when it starts.
#[test]
fn flows_over_parallel_links_never_collide() {
    let fabric = with_two_cables();
    let flow = |path: &str| FlowFacts {
        path: names(path),
        gbps: 80.0,
        ..FlowFacts::default()
    };
    let mut evidence = Evidence {
        flows: vec![flow("a>x>y>c"), flow("b>x>y>d")],
        ..Evidence::default()
    };
    assert_eq!(diagnose(&evidence, &fabric).unwrap(), []);
    let doubts = evidence.doubts(&fabric);
    assert!(
        doubts.len() == 2 && doubts[0].contains("parallel"),
        "{doubts:?}"
    );
    let to_come = |path: &str| Demand {
        path: names(path),
        gbps: 60.0,
    };
    evidence.flows.clear();
    evidence.jobs = vec![JobFacts {
        job: "next".to_owned(),
        will_send: vec![to_come("a>x>y>c"), to_come("b>x>y>d")],
        ..JobFacts::default()
    }];
    assert_eq!(diagnose(&evidence, &fabric).unwrap(), []);
    // If both cables are full, the choice does not matter.
    evidence.jobs[0].will_send = vec![to_come("x>y"); 4];
    let found = diagnose(&evidence, &fabric).unwrap();
    let subjects: Vec<_> = found.iter().map(|it| it.subject.to_string()).collect();
    assert_eq!(subjects.len(), 1, "{subjects:?}");
    assert!(subjects[0].starts_with("ambiguous: "), "{subjects:?}");
}

/// A flow that crosses a switch twice never arrives: its path is wrong.
#[test]
fn looping_flows_are_left_out() {
    let mut evidence = clean();
    for host in ["h0", "h1"] {
        evidence.flows.push(FlowFacts {
            path: names(&format!("{host}>leaf0>spine3>leaf0>h2")),
            gbps: 60.0,
            ..FlowFacts::default()
        });
    }
    assert_eq!(found(&evidence), []);
    let doubts = evidence.doubts(&fabric());
    assert_eq!(
        doubts[0],
        "a flow over \"h0>leaf0>spine3>leaf0>h2\" left out: leaf0 occurs twice on its path"
    );
}

/// On the round trip the probes cross the same nodes again; in one direction no node repeats.
#[test]
fn looping_probes_are_left_out() {
    let ways = [
        ("h0>leaf0>spine3>leaf0>h2", Some("leaf0")),
        ("h0>leaf0>spine3>leaf0>h2>leaf0>h0", Some("leaf0")),
        (
            "h0>leaf0>spine0>leaf1>h4>leaf1>spine0>leaf1>spine1>leaf0>h0",
            Some("leaf1"),
        ),
        ("h0>leaf0>spine0>leaf1>h4>leaf1>spine0>leaf0>h0", None),
        ("h0>leaf0>spine0>leaf1>h4>leaf1>*>leaf0>h0", None),
    ];
    for (way, twice) in ways {
        let probed = Probed {
            path: names(way),
            sent: 400,
            lost: 300,
            ..Probed::default()
        };
        let evidence = Evidence {
            probes: vec![probed],
            ..clean()
        };
        let said = evidence.doubts(&fabric());
        let circle = twice.map(|twice| {
            format!("probes over \"{way}\" left out: {twice} occurs twice on its path")
        });
        let is_said = said.iter().find(|it| it.contains("twice"));
        assert_eq!(is_said, circle.as_ref(), "{said:?}");
        assert!(twice.is_none() || found(&evidence).is_empty(), "{way}");
    }
}

/// Not even their ends are known: they are said, and the cluster is not called well.
#[test]
fn probes_without_known_hops_are_reported() {
    let evidence = Evidence {
        probes: vec![Probed {
            path: names("*>*"),
            sent: 100,
            lost: 100,
            ..Probed::default()
        }],
        ..Evidence::default()
    };
    assert_eq!(found(&evidence), []);
    let doubts = evidence.doubts(&fabric());
    assert_eq!(
        doubts,
        ["probes over \"*>*\" left out: not every hop is known"]
    );
}

/// A switch is not called a host.
#[test]
fn pausing_switch_is_named_as_switch() {
    let mut evidence = clean();
    port_of(&mut evidence, "spine0", "leaf0").pause_storms = 2;
    let found = found(&evidence);
    let subjects: Vec<_> = found.into_iter().map(|it| it.subject).collect();
    assert_eq!(subjects, [Subject::Switch("spine0".to_owned())]);
}

/// A pause travels back through the fabric: its origin is the node that is not paused itself.
#[test]
fn pause_storm_is_traced_to_origin() {
    let mut evidence = clean();
    port_of(&mut evidence, "h3", "leaf0").pause_storms = 2;
    for (node, peer) in [
        ("leaf0", "h3"),
        ("spine0", "leaf0"),
        ("leaf1", "spine0"),
        ("h5", "leaf1"),
    ] {
        port_of(&mut evidence, node, peer).paused_share = Some(0.4);
    }
    assert_eq!(alone(&evidence), named(Class::PfcStorm, "h3"));
}

#[test]
fn ring_straggler_is_named() {
    let mut evidence = clean();
    let next = |from: usize| {
        flow(
            from,
            from % 4,
            (from + 1) % 8,
            if [1, 2].contains(&from) { 8.0 } else { 40.0 },
        )
    };
    evidence.flows = (0..8).map(next).collect();
    for flow in &mut evidence.flows {
        if flow.path[1] == flow.path[3] {
            flow.path.drain(2..4);
        }
    }
    assert_eq!(alone(&evidence), named(Class::Straggler, "h2"));
}

#[test]
fn transient_hides_no_lasting_change() {
    let late = |nth: usize| match nth {
        30..33 => 5.0,
        93.. => 9.0,
        _ => 0.0,
    };
    let values: Vec<_> = (0..133).map(late).collect();
    let found = changes(&values).unwrap();
    assert_eq!((found.at, found.after), (93, 9.0));
}

/// Two that contradict each other are both left out, and what cannot be is; all else is believed.
#[test]
fn inconsistent_evidence_is_sifted_out() {
    let mut evidence = clean();
    evidence.ports[0].frame_error_share = Some(0.1);
    let honest = found(&evidence);
    assert!(!honest.is_empty());
    let pair = |to: &str, gbps| PairFacts {
        from: "h3".to_owned(),
        to: to.to_owned(),
        rail: 0,
        gbps,
    };
    evidence.pairs = vec![pair("h3", 1.0), pair("h4", 1.0), pair("h4", 2.0)];
    evidence.traces.push(trace("h9", 3));
    assert!(diagnose(&evidence, &fabric()).is_err());
    let (sifted, doubts) = evidence.sifted(&fabric());
    assert_eq!(sifted.diagnose(&fabric()), Ok(honest));
    let expected = [
        "left out: the bandwidth of h3 to h3 cannot be 1",
        "left out: the bandwidth of h3 to h4 on rail 0 is given twice, and not the same",
        "left out: the fabric has no node named \"h9\"",
    ];
    assert_eq!(doubts, expected);
}

#[test]
fn contradictory_series_are_refused_by_name() {
    let check = |second: Series| {
        let mut evidence = clean();
        evidence.series.push(second);
        diagnose(&evidence, &fabric())
    };
    let same = clean().series.remove(0);
    assert_eq!(check(same.clone()), Ok(vec![]));
    let other = Series {
        values: vec![11.0; 120],
        ..same.clone()
    };
    let refused = check(other).unwrap_err().to_string();
    assert_eq!(
        refused,
        "series[1]: the series of latency_us at h1 is given twice, and not the same"
    );
    // From the other end the counter is another one, of another host.
    for at in [["h0", "leaf0"], ["leaf0", "h0"]] {
        let at = at.map(str::to_owned).to_vec();
        assert_eq!(check(Series { at, ..same.clone() }), Ok(vec![]));
    }
}

/// A measured rate is at most that of the narrowest link on its path; the sum of several may exceed it.
#[test]
fn rate_above_link_speed_is_refused() {
    refused(&[
        (
            |it| it.flows[0].gbps = 2e6,
            "a flow over h0>leaf0>spine0>leaf1>h4 cannot be 2000000.0 Gb/s: h0-leaf0 carries 100.0 Gb/s",
        ),
        (
            |it| it.ports[0].sent_gbps = Some(1000.0),
            "what h0 towards leaf0 sends cannot be 1000.0 Gb/s: h0-leaf0 carries 100.0 Gb/s",
        ),
        (
            |it| it.pairs[0].gbps = 1e6,
            "the bandwidth of h0 to h1 cannot be 1000000.0 Gb/s: all links of one of them carry 100.0 Gb/s",
        ),
    ]);
    let mut evidence = clean();
    evidence.flows = [(0, 4), (1, 5), (2, 6)]
        .map(|(from, to)| flow(from, 0, to, 60.0))
        .to_vec();
    let found = found(&evidence);
    assert!(found.iter().any(|it| it.class == Class::EcmpCollision));
    for said in found.iter().flat_map(|it| &it.evidence) {
        assert!(
            said.starts_with("3 large flows share it at 100 %"),
            "{said}"
        );
    }
}
