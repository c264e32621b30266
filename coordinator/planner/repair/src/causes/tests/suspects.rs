//! A host and the links at it: which of them loses probes.

use super::*;

#[test]
fn bad_host_is_never_spine() {
    let bad = |hop: &str| {
        if hop == "h6>leaf1" || hop == "leaf1>h6" {
            0.1
        } else {
            0.0
        }
    };
    let mut evidence = clean();
    evidence.probes = one_way([2, 4, 4], bad, 100);
    assert_eq!(alone(&evidence), named(Class::FaultyHost, "h6"));
    assert!(found(&evidence)[0].confidence > 0.9);
    // With two hosts per leaf, a bad host makes half of the leaf's probes fail.
    evidence.probes.retain(|it| {
        [&it.path[0], &it.path[4]]
            .iter()
            .all(|end| ["h0", "h1", "h6", "h7"].contains(&&end[..]))
    });
    assert_eq!(alone(&evidence), named(Class::FaultyHost, "h6"));
    evidence.probes = probes(bad, 100);
    evidence
        .probes
        .retain(|it| it.path[0] == "h0" && it.path[4] == "h6");
    evidence.probes.truncate(1);
    assert_eq!(found(&evidence), [], "one path alone tells nothing apart");
}

/// All that is known of a host went there and back over its only link: either direction may be it as well.
#[test]
fn round_trip_probes_keep_host_ambiguous() {
    for bad in [&["h0>leaf0"][..], &["leaf0>h0"], &["h0>leaf0", "leaf0>h0"]] {
        let loss = |hop: &str| if bad.contains(&hop) { 0.1 } else { 0.0 };
        let mut evidence = clean();
        evidence.probes = probes(loss, 100);
        let text = "ambiguous: h0 or h0-leaf0 from h0 or h0-leaf0 from leaf0";
        let found = found(&evidence);
        let [only] = &found[..] else {
            panic!("one finding: {found:#?}")
        };
        let said = (only.class, only.subject.to_string());
        assert_eq!(said, named(Class::FaultyHost, text));
        assert!(only.confidence < 0.5, "{only:?}");
        // The direction of the loss identifies the cause.
        evidence.probes.extend(one_way([2, 4, 4], loss, 100));
        let (class, subject) = alone(&evidence);
        match bad {
            [_, _] => assert_eq!((class, &subject[..]), (Class::FaultyHost, "h0")),
            _ => assert_eq!(class, Class::LossyLink, "{subject}"),
        }
    }
}

/// Chance has one direction of its link lose most by now.
#[test]
fn host_losing_both_ways_outranks_link() {
    let probe = |hops: &[usize], hosts: [usize; 2], sent, lost| Probe {
        hops: hops.to_vec(),
        hosts: hosts.map(Some),
        sent,
        lost,
    };
    let with_back = |lost| {
        let probes = [
            probe(&[5, 6], [0, 1], 60, 12),
            probe(&[7, 4], [1, 0], 200, lost),
            probe(&[6, 7], [1, 2], 5000, 0),
        ];
        localise(&no_switches(8, 4), &probes)[0].suspects[0]
    };
    assert_eq!(with_back(1), Suspect::Host(0));
    assert_eq!(with_back(0), Suspect::Hop(5), "only one direction loses");
}

/// A link of the host's own neighbourhood fits a little better: the host is named all the same, first.
#[test]
fn host_outranks_hardly_likelier_link() {
    let probe = |hops: &[usize], hosts: [usize; 2], sent, lost| Probe {
        hops: hops.to_vec(),
        hosts: hosts.map(Some),
        sent,
        lost,
    };
    let probes = [
        probe(&[5, 6], [0, 1], 200, 60),
        probe(&[6], [0, 2], 2, 0),
        probe(&[7], [1, 2], 5000, 1),
        probe(&[6], [2, 3], 5000, 1),
    ];
    let found = localise(&no_switches(8, 4), &probes);
    assert_eq!(found[0].suspects, [Suspect::Host(0), Suspect::Hop(5)]);
}

/// Returns a probe between eight hosts on two leaves and four spines; a probe to another leaf crosses one spine, and
/// the direction of each loss is known. Uplinks of hosts are hops 0 to 7, downlinks 8 to 15.
fn lossy_probe(from: usize, to: usize, lost: u64) -> Probe {
    let spine = (from + to) % 4;
    let mut hops = vec![from, 8 + to];
    if from / 4 != to / 4 {
        hops.extend([16 + 4 * (from / 4) + spine, 24 + 4 * (to / 4) + spine]);
    }
    Probe {
        hops,
        hosts: [from, to].map(Some),
        sent: 1,
        lost,
    }
}

fn no_switches(hops: usize, hosts: usize) -> Ground {
    Ground {
        switches: vec![[None; 2]; hops],
        relays: vec![[None; 2]; hops],
        cables: vec![vec![]; hosts],
    }
}

/// The switches at the ends of these hops: two leaves, after them the spines.
fn probed_ground() -> Ground {
    let (leaf, spine) = (
        |host: usize| Some(8 + host / 4),
        |hop: usize| Some(10 + hop % 4),
    );
    let up = (0..8).map(|host| [None, leaf(host)]);
    let down = (0..8).map(|host| [leaf(host), None]);
    let to_spines = (0..8).map(|hop| [leaf(hop), spine(hop)]);
    let from_spines = (0..8).map(|hop| [spine(hop), leaf(hop)]);
    let ends = up.chain(down).chain(to_spines).chain(from_spines);
    let switches: Vec<_> = ends.collect();
    Ground {
        relays: vec![[None; 2]; switches.len()],
        cables: (0..14)
            .map(|node| Vec::from_iter((node < 8).then_some(node)))
            .collect(),
        switches,
    }
}

/// Returns the first suspect that is named alone, as probes between all hosts arrive one after another.
fn first_named(seed: u64, loses: impl Fn(usize, usize) -> f64) -> Suspect {
    let pairs = (0..64).map(|it| (it / 8, it % 8)).filter(|(a, b)| a != b);
    let probes: Vec<_> = pairs.map(|(from, to)| lossy_probe(from, to, 0)).collect();
    let of_probe = |probe: &Probe| match probe.hosts {
        [Some(from), Some(to)] => loses(from, to),
        _ => panic!("both are hosts"),
    };
    first_alone(seed, &probed_ground(), probes, of_probe)
}

pub(super) fn first_alone(
    seed: u64,
    ground: &Ground,
    mut probes: Vec<Probe>,
    loses: impl Fn(&Probe) -> f64,
) -> Suspect {
    let mut rng = SplitMix64::new(seed);
    for _ in 0..2000 {
        for probe in &mut probes {
            let part = loses(probe);
            probe.sent += 1;
            probe.lost += u64::from(rng.nonzero_fraction() <= part);
        }
        let found = localise(ground, &probes);
        let alone = found.first().filter(|it| it.suspects.len() == 1);
        if let Some(culprit) = alone {
            return culprit.suspects[0];
        }
    }
    panic!("no suspect was named")
}

/// Chance has one direction of its link lose more at first, and often much more: the link waits.
#[test]
fn bad_host_is_named_first() {
    let bad = |from, to| if [from, to].contains(&5) { 0.1 } else { 0.0 };
    for seed in 0..300 {
        assert_eq!(first_named(seed, bad), Suspect::Host(5), "{seed}");
    }
}

#[test]
fn link_direction_named_once_host_cleared() {
    let bad = |_, to| if to == 5 { 0.1 } else { 0.0 };
    for seed in 0..100 {
        assert_eq!(first_named(seed, bad), Suspect::Hop(8 + 5), "{seed}");
    }
}

/// Probes of hosts to their switch, and of a switch, speak of no other.
#[test]
fn switch_probes_accuse_no_unrelated_host() {
    let probed = |path: &str, lost| Probed {
        path: names(path),
        sent: 300,
        lost,
        ..Probed::default()
    };
    let mut evidence = clean();
    evidence.probes = (0..8)
        .map(|host| probed(&format!("h{host}>leaf{}", host / 4), 0))
        .collect();
    evidence.probes[5].lost = 15;
    let either = "ambiguous: h5 or h5-leaf1 from h5";
    let found = found(&evidence);
    let said: Vec<_> = found.iter().map(|it| it.subject.to_string()).collect();
    assert_eq!(said, [either]);
    evidence.probes[5].lost = 0;
    evidence.probes.push(probed("leaf1>spine3", 15));
    assert_eq!(
        alone(&evidence),
        named(Class::LossyLink, "leaf1-spine3 from leaf1")
    );
}

/// A lossy element is reported in addition to any other fault there.
#[test]
fn losses_and_clock_skew_both_named() {
    let mut evidence = clean();
    let bad = |hop: &str| {
        if hop == "h1>leaf0" || hop == "leaf0>h1" {
            0.1
        } else {
            0.0
        }
    };
    evidence.probes = one_way([2, 4, 4], bad, 100);
    evidence.hosts[1].clock_skew_ms = Some(900.0);
    let classes: Vec<_> = found(&evidence).into_iter().map(|it| it.class).collect();
    assert_eq!(classes, [Class::FaultyHost, Class::ClocksApart]);
}

/// Two equally bad links, each crossed by probes of others.
#[test]
fn two_bad_links_are_two_findings() {
    let four = "kind = \"leaf-spine\"\nleaves = 4\nspines = 2\nhosts_per_leaf = 2\n\
                host_gbps = 100\nuplink_gbps = 100";
    let fabric = Fabric::parse("fabric.toml", four).unwrap();
    let bad = ["leaf0>spine0", "leaf3>spine1"];
    let loss = |hop: &str| if bad.contains(&hop) { 0.02 } else { 0.0 };
    let evidence = Evidence {
        probes: probes_on([4, 2, 2], loss, 300),
        ..Evidence::default()
    };
    let found = diagnose(&evidence, &fabric).unwrap();
    let mut subjects: Vec<_> = found.iter().map(|it| it.subject.to_string()).collect();
    subjects.sort();
    assert_eq!(
        subjects,
        ["leaf0-spine0 from leaf0", "leaf3-spine1 from leaf3"]
    );
}

/// Every hop loses one packet in fifty, so a round trip loses twice as much as one way.
#[test]
fn round_trip_probes_are_not_overblamed() {
    for seed in 0..20 {
        let mut rng = SplitMix64::new(seed);
        let mut evidence = Evidence {
            probes: probes_by(&mut rng, [2, 4, 4], |_| 0.02, 400),
            ..Evidence::default()
        };
        let goes_back = |probed: &Probed| ["h1", "h3", "h5"].contains(&&probed.path[0][..]);
        for probed in evidence.probes.iter_mut().filter(|it| !goes_back(it)) {
            probed.path.truncate(5);
            probed.lost = (0..400).filter(|_| rng.nonzero_fraction() < 0.078).count() as u64;
        }
        assert_eq!(found(&evidence), [], "{seed}");
    }
}

/// Returns probes of hosts with a cable to each of two leaves. The loss of each pair's round trip depends on how often
/// the path crosses the first cable of the second host.
fn with_two_cables(
    is_known: impl Fn([usize; 2], usize) -> bool,
    lost: impl Fn([usize; 2], usize) -> u64,
) -> Vec<(Class, String)> {
    let links =
        (0..4).flat_map(|host| [0, 1].map(|leaf| (format!("h{host}"), format!("leaf{leaf}"))));
    let links = links.map(|(a, b)| format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\ngbps = 100\n"));
    let node = |name: &str, role| format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n");
    let nodes = ["h0", "h1", "h2", "h3"].map(|name| node(name, "host"));
    let switches = ["leaf0", "leaf1"].map(|name| node(name, "switch"));
    let text = [nodes.concat(), switches.concat(), links.collect()].concat();
    let fabric = Fabric::parse("fabric.toml", &format!("kind = \"graph\"\n{text}")).unwrap();
    let ways = (0..64).map(|it| [it % 4, it / 4 % 4, it / 16 % 2, it / 32]);
    let mut evidence = Evidence::default();
    for [from, to, there, back] in ways.filter(|it| it[0] != it[1]) {
        let path = format!("h{from}>leaf{there}>h{to}>leaf{back}>h{from}");
        let crossings = path.matches("h1>leaf0").count() + path.matches("leaf0>h1").count();
        if is_known([from, to], crossings) {
            evidence.probes.push(Probed {
                path: names(&path),
                sent: 200,
                lost: lost([from, to], crossings),
                ..Probed::default()
            });
        }
    }
    let found = diagnose(&evidence, &fabric).unwrap().into_iter();
    found.map(|it| (it.class, it.subject.to_string())).collect()
}

/// Probes over the other cable are not lost, and probes that cross the lossy one twice are lost more often.
#[test]
fn lossy_cable_of_dual_homed_host() {
    let by_cable = |_, crossings| [0, 60, 102][crossings];
    let by_host = |ends: [usize; 2], _| if ends.contains(&1) { 60 } else { 0 };
    let is_others = |ends: [usize; 2]| !ends.contains(&1);
    // Hardly any, or none, of its probes come by the other one alone.
    let hardly = |ends, crossings| is_others(ends) || crossings > 0 || ends == [1, 0];
    let none = |ends, crossings| is_others(ends) || crossings > 0;
    let cable = [named(Class::LossyLink, "h1-leaf0")];
    assert_eq!(with_two_cables(hardly, by_cable), cable);
    assert_eq!(with_two_cables(none, by_cable), cable);
    let host = [named(Class::FaultyHost, "h1")];
    assert_eq!(with_two_cables(hardly, by_host), host);
    assert_eq!(with_two_cables(none, by_host), host);
    // No evidence shows whether the other cable would lose as much.
    let both_ways = |ends, crossings| is_others(ends) || crossings == 2;
    let text = "ambiguous: h1 or h1-leaf0 from h1 or h1-leaf0 from leaf0";
    let any = [named(Class::FaultyHost, text)];
    assert_eq!(with_two_cables(both_ways, by_cable), any);
    assert_eq!(with_two_cables(both_ways, by_host), any);
    // If each probe uses both cables, neither can be named.
    let both_cables = |ends, crossings| is_others(ends) || crossings == 1;
    let any = [named(
        Class::FaultyHost,
        "ambiguous: h1 or h1-leaf0 or h1-leaf1",
    )];
    assert_eq!(with_two_cables(both_cables, by_host), any);
}
