//! Hosts with slow flows, and hosts that are not slow although their flows are.

use super::*;

/// Flows with h2 at an end, which is slow.
fn of_h2(evidence: &mut Evidence, change: impl Fn(&mut FlowFacts)) {
    for flow in &mut evidence.flows {
        if flow.path[0] == "h2" || flow.path[4] == "h2" {
            flow.gbps = 10.0;
            change(flow);
        }
    }
}

#[test]
fn other_slower_job_has_no_stragglers() {
    let mut evidence = clean();
    for (from, to) in (0..3).flat_map(|from| (5..8).map(move |to| (from, to))) {
        for (from, to) in [(from, to), (to, from)] {
            let job = Some("evaluate".to_owned());
            let slow = flow(from, 3, to, 1.0);
            evidence.flows.push(FlowFacts { job, ..slow });
        }
    }
    evidence
        .flows
        .retain(|it| it.job.as_deref() != Some("train") || !touches(it, &[0, 1, 2, 5, 6, 7]));
    evidence.flows.push(flow(3, 0, 4, 40.0));
    (0..12).for_each(|_| evidence.flows.push(flow(4, 1, 3, 5.0)));
    assert_eq!(found(&evidence), []);
}

fn touches(flow: &FlowFacts, hosts: &[usize]) -> bool {
    let names: Vec<_> = hosts.iter().map(|host| format!("h{host}")).collect();
    [&flow.path[0], &flow.path[4]]
        .into_iter()
        .any(|end| names.contains(end))
}

#[test]
fn straggler_needs_enough_own_readings() {
    let named_after = |readings| {
        let mut evidence = clean();
        of_h2(&mut evidence, |flow| flow.readings = Some(readings));
        found(&evidence).len()
    };
    assert_eq!([1, 2, 3, 5].map(named_after), [0, 0, 1, 1]);
}

/// The usual rate of others is unknown for flows that have hardly begun.
#[test]
fn straggler_needs_enough_peer_readings() {
    let mut evidence = clean();
    for flow in &mut evidence.flows {
        flow.readings = Some(1);
    }
    of_h2(&mut evidence, |flow| flow.readings = Some(5));
    assert_eq!(found(&evidence), []);
}

#[test]
fn once_fast_flow_is_not_slow() {
    let named_where_most_is = |gbps| {
        let mut evidence = clean();
        of_h2(&mut evidence, |flow| flow.most_gbps = Some(gbps));
        found(&evidence).len()
    };
    assert_eq!([12.0, 30.0].map(named_where_most_is), [1, 0]);
}

/// If all send little, none waits for a port.
#[test]
fn low_rate_job_has_no_stragglers() {
    let mut evidence = clean();
    for flow in &mut evidence.flows {
        flow.gbps = 4.0;
    }
    of_h2(&mut evidence, |flow| flow.gbps = 1.0);
    assert_eq!(found(&evidence), []);
}

/// A rate of a slow fabric is printed as a person would write it.
#[test]
fn peer_rate_has_readable_unit() {
    let slow = FABRIC.replace("_gbps = 100", "_gbps = 0.1");
    let fabric = Fabric::parse("fabric.toml", &slow).unwrap();
    let mut evidence = Evidence {
        flows: clean().flows,
        ..Evidence::default()
    };
    of_h2(&mut evidence, |_| ());
    for flow in &mut evidence.flows {
        flow.gbps /= 1000.0;
    }
    let found = diagnose(&evidence, &fabric).unwrap();
    let said = &found[0].evidence[0];
    assert!(said.ends_with("others get 40.0 Mb/s"), "{said}");
}

/// Four send through a door to a host that forwards, or to one behind it.
#[test]
fn incast_counts_flows_ending_there() {
    let link = |a: &str, b: &str, gbps: u32| {
        format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\ngbps = {gbps}\n")
    };
    let node = |name: &str| format!("[[node]]\nname = \"{name}\"\nrole = \"relay\"\n");
    let senders = ["h0", "h1", "h2", "h3"];
    let nodes = [&senders[..], &["door", "h4", "h5"]].concat();
    let text = nodes.into_iter().map(node).collect::<String>()
        + &senders.map(|host| link(host, "door", 100)).concat()
        + &link("door", "h4", 100)
        + &link("h4", "h5", 400);
    let fabric = Fabric::parse("fabric.toml", &format!("kind = \"graph\"\n{text}")).unwrap();
    let towards = |ends: [&str; 4]| {
        let flow = |(host, end): (&str, &str)| FlowFacts {
            path: names(&format!("{host}>door>{end}")),
            gbps: 24.0,
            ..FlowFacts::default()
        };
        let evidence = Evidence {
            flows: senders.into_iter().zip(ends).map(flow).collect(),
            ..Evidence::default()
        };
        let found = diagnose(&evidence, &fabric).unwrap().into_iter();
        found
            .map(|it| (it.class, it.subject.to_string()))
            .collect::<Vec<_>>()
    };
    let flooded = [named(Class::Incast, "h4")];
    assert_eq!(towards(["h4"; 4]), flooded);
    assert_eq!(towards(["h4", "h4", "h4", "h4>h5"]), flooded);
    assert_eq!(towards(["h4>h5"; 4]), []);
}

/// Six hosts with two NICs each: the first NICs are at one switch, the second ones at two switches, three each. Half of
/// the rate of pairs on the other rail, or within racks, is normal.
#[test]
fn pairs_compare_by_rail_and_distance() {
    let links = (0..6).map(|host| {
        let second = format!("leaf{}", 1 + host / 3);
        ["leaf0", &second]
            .map(|leaf| format!("[[link]]\na = \"h{host}\"\nb = \"{leaf}\"\ngbps = 100\n"))
            .concat()
    });
    let node = |name: String, role| format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n");
    let hosts = (0..6).map(|host| node(format!("h{host}"), "host"));
    let leaves = (0..3).map(|leaf| node(format!("leaf{leaf}"), "switch"));
    let text: String = hosts.chain(leaves).chain(links).collect();
    let fabric = Fabric::parse("fabric.toml", &format!("kind = \"graph\"\n{text}")).unwrap();
    let slow = (1, 4, 1);
    let mut pairs = Vec::new();
    for (from, to, rail) in (0..72).map(|it| (it / 12, it / 2 % 6, it % 2)) {
        let usual = match (rail, from / 3 == to / 3) {
            (0, _) => 100.0,
            (_, true) => 50.0,
            (_, false) => 25.0,
        };
        let [a, b] = [from, to].map(|host| format!("h{host}"));
        if from != to {
            pairs.push(PairFacts {
                from: a,
                to: b,
                rail,
                gbps: if (from, to, rail) == slow {
                    15.0
                } else {
                    usual
                },
            });
        }
    }
    let beside = beside_peers(&pairs, &fabric).unwrap();
    let describe = |from: &str, to: &str, rail| {
        let is_it = |it: &PairFacts| (&it.from[..], &it.to[..], it.rail) == (from, to, rail);
        let beside = beside[pairs.iter().position(is_it).unwrap()];
        (beside.in_rack, beside.usual_gbps, beside.peers)
    };
    assert_eq!(describe("h1", "h4", 0), (true, 100.0, 30));
    assert_eq!(describe("h1", "h4", 1), (false, 25.0, 18));
    assert_eq!(describe("h1", "h2", 1), (true, 50.0, 12));
    let slow = pairs.iter().zip(&beside).filter(|(_, it)| it.is_slow);
    let slow: Vec<_> = slow
        .map(|(it, _)| (&it.from[..], &it.to[..], it.rail))
        .collect();
    assert_eq!(slow, [("h1", "h4", 1)]);
}

/// The file lists the NICs of one host from rail 1 on.
#[test]
fn declared_rail_decides_the_rack() {
    let node = |name: &str, role: &str| format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n");
    let nic = |host: &str, rail: u32| {
        format!("[[nic]]\nhost = \"{host}\"\nto = \"leaf{rail}\"\ngbps = 100\nrail = {rail}\n")
    };
    let parts = [
        node("h0", "host"),
        node("h1", "host"),
        node("leaf0", "switch"),
        node("leaf1", "switch"),
        nic("h0", 0),
        nic("h0", 1),
        nic("h1", 1),
        nic("h1", 0),
    ];
    let text = format!("kind = \"graph\"\n{}", parts.concat());
    let fabric = Fabric::parse("fabric.toml", &text).unwrap();
    let pairs = [0, 1].map(|rail| PairFacts {
        from: "h0".to_owned(),
        to: "h1".to_owned(),
        rail,
        gbps: 100.0,
    });
    let beside = beside_peers(&pairs, &fabric).unwrap();
    assert!(beside.iter().all(|it| it.in_rack), "both have a switch");
}

/// This number of hosts is a group: an operator who set them deliberately should not get a finding for each.
#[test]
fn many_odd_settings_merge_into_one() {
    let describe = |odd: usize| {
        let mut evidence = clean();
        for host in &mut evidence.hosts[..odd] {
            host.settings.insert("ECN".to_owned(), "off".to_owned());
        }
        found(&evidence)
    };
    let [only] = &describe(3)[..] else {
        panic!("{:#?}", describe(3))
    };
    assert_eq!(only.class, Class::ConfigurationMismatch);
    assert_eq!(only.subject.to_string(), "h0, h1, h2");
    assert_eq!(
        only.evidence,
        ["ECN is off on 3 hosts (h0, h1, h2), and on on 5 others"]
    );
    let [only] = &describe(1)[..] else {
        panic!("{:#?}", describe(1))
    };
    assert_eq!(only.subject, Subject::Host("h0".to_owned()));
}
