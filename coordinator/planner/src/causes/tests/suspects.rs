//! A host and the links at it: which of them loses probes.

use super::*;

#[test]
fn a_bad_host_is_a_host_and_never_a_spine() {
    let bad = |hop: &str| {
        if hop == "h6>leaf1" || hop == "leaf1>h6" {
            0.1
        } else {
            0.0
        }
    };
    let mut evidence = clean();
    evidence.probes = probes(bad, 100);
    assert_eq!(alone(&evidence), named(Class::FaultyHost, "h6"));
    // With two hosts to a leaf, one bad one makes half of the leaf's probes fail.
    evidence.probes.retain(|it| {
        [&it.path[0], &it.path[4]]
            .iter()
            .all(|end| ["h0", "h1", "h6", "h7"].contains(&&end[..]))
    });
    assert_eq!(alone(&evidence), named(Class::FaultyHost, "h6"));
    evidence
        .probes
        .retain(|it| it.path[0] == "h0" && it.path[4] == "h6");
    evidence.probes.truncate(1);
    assert_eq!(found(&evidence), [], "one path alone tells nothing apart");
}

/// Chance has one direction of its link lose most by now.
#[test]
fn a_host_that_loses_both_ways_comes_before_either_direction_of_its_link() {
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
fn a_host_comes_before_a_link_that_is_hardly_likelier() {
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

/// Eight hosts on two leaves and four spines; whoever probes another one goes past one spine, and every
/// probe is told by its direction. Uplinks of hosts are hops 0 to 7, the links back 8 to 15.
fn told(from: usize, to: usize, lost: u64) -> Probe {
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
        hosts,
        switches: vec![[None; 2]; hops],
        relays: vec![[None; 2]; hops],
    }
}

/// The switches at the ends of these hops: two leaves, after them the spines.
fn told_ground() -> Ground {
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
        hosts: 14,
        relays: vec![[None; 2]; switches.len()],
        switches,
    }
}

/// The first who is named alone, as probes come in one after another from each host to each.
fn first_named(seed: u64, loses: impl Fn(usize, usize) -> f64) -> Suspect {
    let pairs = (0..64).map(|it| (it / 8, it % 8)).filter(|(a, b)| a != b);
    let probes: Vec<_> = pairs.map(|(from, to)| told(from, to, 0)).collect();
    let of_probe = |probe: &Probe| match probe.hosts {
        [Some(from), Some(to)] => loses(from, to),
        _ => panic!("both are hosts"),
    };
    first_alone(seed, &told_ground(), probes, of_probe)
}

pub(super) fn first_alone(
    seed: u64,
    ground: &Ground,
    mut probes: Vec<Probe>,
    loses: impl Fn(&Probe) -> f64,
) -> Suspect {
    let mut dice = Dice::new(seed);
    for _ in 0..2000 {
        for probe in &mut probes {
            let part = loses(probe);
            probe.sent += 1;
            probe.lost += u64::from(dice.part() <= part);
        }
        let found = localise(ground, &probes);
        let alone = found.first().filter(|it| it.suspects.len() == 1);
        if let Some(culprit) = alone {
            return culprit.suspects[0];
        }
    }
    panic!("nobody was named")
}

/// Chance has one direction of its link lose more at first, and often much more: the link waits.
#[test]
fn a_bad_host_is_the_first_that_is_named() {
    let bad = |from, to| if [from, to].contains(&5) { 0.1 } else { 0.0 };
    for seed in 0..300 {
        assert_eq!(first_named(seed, bad), Suspect::Host(5), "{seed}");
    }
}

#[test]
fn one_direction_of_a_hosts_link_is_named_once_the_host_is_cleared() {
    let bad = |_, to| if to == 5 { 0.1 } else { 0.0 };
    for seed in 0..100 {
        assert_eq!(first_named(seed, bad), Suspect::Hop(8 + 5), "{seed}");
    }
}

/// Probes of hosts to their switch, and of a switch, speak of nobody else.
#[test]
fn who_probes_a_switch_accuses_no_host_that_has_nothing_to_do_with_it() {
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
    assert_eq!(alone(&evidence), named(Class::FaultyHost, "h5"));
    evidence.probes[5].lost = 0;
    evidence.probes.push(probed("leaf1>spine3", 15));
    assert_eq!(
        alone(&evidence),
        named(Class::LossyLink, "leaf1-spine3 from leaf1")
    );
}

/// What loses packets by itself is said beside whatever else is wrong there.
#[test]
fn losses_are_a_finding_beside_a_clock_that_is_off() {
    let mut evidence = clean();
    let bad = |hop: &str| {
        if hop == "h1>leaf0" || hop == "leaf0>h1" {
            0.1
        } else {
            0.0
        }
    };
    evidence.probes = probes(bad, 100);
    evidence.hosts[1].clock_skew_ms = Some(900.0);
    let classes: Vec<_> = found(&evidence).into_iter().map(|it| it.class).collect();
    assert_eq!(classes, [Class::FaultyHost, Class::ClocksApart]);
}

/// As bad as each other, and crossed by others' probes.
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
