//! Probes that vanish on untraced paths.

use super::*;

const FOUR_LEAVES: &str = "kind = \"leaf-spine\"\nleaves = 4\nspines = 2\nhosts_per_leaf = 2\n\
                    host_gbps = 100\nuplink_gbps = 100";

/// Returns the findings if all probes over a dead hop are lost, in either direction, and traces show the first `seen`
/// nodes of their paths, or none.
fn dead(is_dead: impl Fn(&[String]) -> bool, seen: usize) -> Vec<Cause> {
    let mut evidence = Evidence {
        probes: probes_on([4, 2, 2], |_| 0.0, 40),
        ..Evidence::default()
    };
    for probed in &mut evidence.probes {
        let back = probed.path.split_off(5);
        let back = [&probed.path[4..], &back].concat();
        if is_dead(&probed.path) || is_dead(&back) {
            probed.lost = probed.sent;
            let [there, back] = [&probed.path, &back].map(|way| gap(way, &is_dead, seen));
            probed.path = [&there[..], &back[1..]].concat();
        }
    }
    let fabric = Fabric::parse("fabric.toml", FOUR_LEAVES).unwrap();
    diagnose(&evidence, &fabric).unwrap()
}

fn gap(way: &[String], is_dead: impl Fn(&[String]) -> bool, seen: usize) -> Vec<String> {
    if is_dead(way) {
        [&way[..seen], &["*".to_owned()], &way[4..]].concat()
    } else {
        way.to_vec()
    }
}

fn crosses(way: &[String], hop: [&str; 2]) -> bool {
    way.windows(2)
        .any(|pair| pair.iter().zip(hop).all(|(a, b)| a == b))
}

#[test]
fn untraced_dead_link_found_by_others() {
    for hop in [["spine0", "leaf1"], ["leaf2", "spine1"]] {
        for seen in 1..=3 {
            let found = dead(|way| crosses(way, hop), seen);
            let [only] = &found[..] else {
                panic!("one finding of {hop:?}: {found:#?}")
            };
            assert_eq!(only.class, Class::LossyLink);
            let is_it = matches!(&only.subject, Subject::Hop { from, to, .. } if [from, to] == hop);
            assert!(is_it, "{hop:?} {seen}: {only:?}");
            assert!(only.evidence[1].contains("could not be traced"), "{only:?}");
        }
    }
}

#[test]
fn untraced_dead_switch_is_named() {
    let by_spine = |way: &[String]| way[1..4].contains(&"spine0".to_owned());
    let found = dead(by_spine, 2);
    let reports: Vec<_> = found
        .iter()
        .map(|it| (it.class, it.subject.to_string()))
        .collect();
    assert_eq!(reports, [named(Class::FaultySwitch, "spine0")]);
}

/// One route of one switch is missing.
#[test]
fn missing_route_names_its_hosts() {
    let is_dead = |way: &[String]| {
        let ends = [&way[0], &way[way.len() - 1]];
        ends == ["h0", "h6"] && way.contains(&"spine0".to_owned())
    };
    let found = dead(is_dead, 1);
    let [only] = &found[..] else {
        panic!("one finding: {found:#?}")
    };
    let said = (only.class, only.subject.to_string());
    assert_eq!(said, named(Class::LossyLink, "h0 and h6"));
    assert!(only.evidence[0].contains("lost between"), "{only:?}");
}
