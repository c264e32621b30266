//! A switch and the links at it: which of them loses probes.

use super::suspects::first_alone;
use super::*;
use crate::paths::Atlas;

/// Returns a fabric of leaves and spines, with two hosts per leaf.
fn leaf_spine(leaves: usize, spines: usize) -> Fabric {
    let text = format!(
        "kind = \"leaf-spine\"\nleaves = {leaves}\nspines = {spines}\nhosts_per_leaf = 2\n\
         host_gbps = 100\nuplink_gbps = 100"
    );
    Fabric::parse("fabric.toml", &text).unwrap()
}

/// Each host probes each, past each spine, within a leaf too; every direction by itself.
fn all_probes(atlas: &Atlas<'_>, leaves: usize, spines: usize) -> Vec<Probe> {
    let fabric = atlas.fabric;
    let hosts = 2 * leaves;
    let all = (0..hosts * hosts * spines).map(|it| (it / spines, it % spines));
    let all = all.map(|(pair, spine)| (pair / hosts, pair % hosts, spine));
    let probe = |(from, to, spine): (usize, usize, usize)| {
        let (up, down) = (from / 2, to / 2);
        let way = if up == down {
            format!("h{from}>leaf{up}>h{to}")
        } else {
            format!("h{from}>leaf{up}>spine{spine}>leaf{down}>h{to}")
        };
        let hops = hops(fabric, &names(&way)).unwrap();
        let ends = [from, to].map(|host| fabric.find(&format!("h{host}")).unwrap());
        Probe {
            hops: hops.iter().map(|&hop| atlas.index(hop)).collect(),
            hosts: ends.map(|node| Some(node.index())),
            ..Probe::default()
        }
    };
    all.filter(|(from, to, _)| from != to).map(probe).collect()
}

/// Returns the first suspect that is named alone, if each crossing of the ports or links with these names loses one
/// packet in twenty.
fn first_named(seed: u64, size: [usize; 2], bad: impl Fn(&Atlas<'_>, usize) -> bool) -> Suspect {
    let fabric = leaf_spine(size[0], size[1]);
    let atlas = Atlas::new(&fabric);
    let probes = all_probes(&atlas, size[0], size[1]);
    let lost = |probe: &Probe| {
        if probe.hops.iter().any(|&hop| bad(&atlas, hop)) {
            0.05
        } else {
            0.0
        }
    };
    first_alone(seed, &Ground::of(&atlas), probes, lost)
}

fn is_at(atlas: &Atlas<'_>, hop: usize, name: &str) -> bool {
    let hop = atlas.hop(hop);
    [hop.from, atlas.far(hop)].contains(&atlas.fabric.find(name).unwrap())
}

fn index(size: [usize; 2], name: &str) -> usize {
    let fabric = leaf_spine(size[0], size[1]);
    fabric.find(name).unwrap().index()
}

#[test]
fn bad_switch_is_named_first() {
    for (size, name) in [([4, 4], "spine2"), ([4, 2], "leaf3"), ([8, 2], "spine0")] {
        for seed in 0..100 {
            let first = first_named(seed, size, |atlas, hop| is_at(atlas, hop, name));
            assert_eq!(first, Suspect::Switch(index(size, name)), "{name} {seed}");
        }
    }
}

/// The switch is never named for one direction of a link, or for two of its links.
#[test]
fn single_links_never_name_switch() {
    let of = |ends: [&'static str; 2]| {
        move |atlas: &Atlas<'_>, hop: usize| {
            let hop = atlas.hop(hop);
            [hop.from, atlas.far(hop)].map(|node| atlas.fabric.name(node).to_owned()) == ends
        }
    };
    let bad = [["leaf0", "spine1"], ["leaf2", "spine1"]];
    for seed in 0..300 {
        let one = first_named(seed, [4, 4], of(bad[0]));
        let two = first_named(seed, [4, 4], |atlas, hop| {
            bad.iter().any(|ends| of(*ends)(atlas, hop))
        });
        for first in [one, two] {
            assert!(matches!(first, Suspect::Hop(_)), "{seed}: {first:?}");
        }
    }
}

fn lost_over(size: [usize; 3], bad: impl Fn(&str) -> bool) -> Vec<Cause> {
    let evidence = Evidence {
        probes: probes_on(size, |hop| if bad(hop) { 0.02 } else { 0.0 }, 400),
        ..Evidence::default()
    };
    diagnose(&evidence, &leaf_spine(size[0], size[1])).unwrap()
}

#[test]
fn bad_switch_is_only_finding() {
    let [only] = &lost_over([4, 2, 2], |hop| hop.contains("spine1"))[..] else {
        panic!("one finding")
    };
    assert_eq!(only.class, Class::FaultySwitch);
    assert_eq!(only.subject, Subject::Switch("spine1".to_owned()));
    assert!(only.confidence > 0.9 && only.remedy.contains("switch"));
}

/// All that passes a spine between two leaves passes both its cables.
#[test]
fn spine_between_two_leaves_is_ambiguous() {
    let [only] = &lost_over([2, 2, 2], |hop| hop.contains("spine1"))[..] else {
        panic!("one finding")
    };
    let said = only.subject.to_string();
    assert_eq!(said, "ambiguous: spine1 or leaf0-spine1 or leaf1-spine1");
}

/// Answers come back past any spine, so that some probes pass the bad one twice, and others once; and elsewhere one
/// in two thousand is lost over each hop.
#[test]
fn lossy_spine_is_named_despite_asymmetry() {
    let fabrics = [2, 3, 4].map(|spines| (spines, leaf_spine(4, spines)));
    for (seed, (spines, fabric)) in (0..120).zip(fabrics.iter().cycle()) {
        let loss = |hop: &str| if hop.contains("spine1") { 0.15 } else { 0.0005 };
        let evidence = Evidence {
            probes: probes_by(&mut SplitMix64::new(seed), [4, *spines, 2], loss, 50),
            ..Evidence::default()
        };
        let found = diagnose(&evidence, fabric).unwrap();
        let reports: Vec<_> = found.iter().map(ToString::to_string).collect();
        let is_it =
            matches!(&found[..], [it] if it.subject == Subject::Switch("spine1".to_owned()));
        assert!(is_it, "{seed}, {spines} spines: {reports:#?}");
    }
}

/// All traffic of the leaf uses the cable and ends at the host.
#[test]
fn single_host_leaf_is_ambiguous() {
    let fabric = FABRIC.replace("leaves = 2", "leaves = 4");
    let fabric = fabric.replace("hosts_per_leaf = 4", "hosts_per_leaf = 1");
    let fabric = Fabric::parse("fabric.toml", &fabric).unwrap();
    let is_dead = |hop: &str| hop == "h1>leaf1" || hop == "leaf1>h1";
    let evidence = Evidence {
        probes: one_way([4, 4, 1], |hop| f64::from(is_dead(hop)), 100),
        ..Evidence::default()
    };
    let found = diagnose(&evidence, &fabric).unwrap();
    let reports: Vec<_> = found.iter().map(|it| it.subject.to_string()).collect();
    assert_eq!(reports, ["ambiguous: h1 or leaf1 or h1-leaf1"]);
}
