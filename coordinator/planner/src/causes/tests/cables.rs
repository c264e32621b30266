//! What is wrong with both directions of a cable is one trouble.

use super::*;

const FOUR: &str = "kind = \"leaf-spine\"\nleaves = 4\nspines = 2\nhosts_per_leaf = 2\n\
                    host_gbps = 100\nuplink_gbps = 100";

/// Probes whose losses are known by direction.
fn one_way(loss: impl Fn(&str) -> f64) -> Evidence {
    let mut evidence = Evidence {
        probes: probes_on([4, 2, 2], |_| 0.0, 400),
        ..Evidence::default()
    };
    let mut dice = Dice::new(1);
    for probed in &mut evidence.probes {
        probed.path.truncate(5);
        let hops = probed.path.windows(2);
        let hops = hops.map(|pair| format!("{}>{}", pair[0], pair[1]));
        let passes: f64 = hops.map(|hop| 1.0 - loss(&hop)).product();
        probed.lost = (0..probed.sent).filter(|_| dice.part() > passes).count() as u64;
    }
    evidence
}

fn lossy(there: f64, back: f64) -> Vec<Cause> {
    let loss = |hop: &str| match hop {
        "leaf1>spine0" => there,
        "spine0>leaf1" => back,
        _ => 0.0,
    };
    let fabric = Fabric::parse("fabric.toml", FOUR).unwrap();
    diagnose(&one_way(loss), &fabric).unwrap()
}

#[test]
fn a_cable_that_loses_as_much_both_ways_is_one_finding_that_names_both() {
    for (there, back) in [(0.02, 0.02), (0.03, 0.01), (1.0, 1.0)] {
        let found = lossy(there, back);
        let [only] = &found[..] else {
            panic!("one finding: {found:#?}")
        };
        let said = (only.class, only.subject.to_string());
        assert_eq!(said, named(Class::LossyLink, "leaf1-spine0"));
        assert!(matches!(only.subject, Subject::Link { .. }));
        let mut told = only.evidence.clone();
        told.sort();
        assert!(told[0].starts_with("leaf1 to spine0: "), "{told:?}");
        assert!(told[1].starts_with("spine0 to leaf1: "), "{told:?}");
    }
}

#[test]
fn directions_that_differ_clearly_are_two_findings() {
    let found = lossy(0.3, 0.02);
    let mut told: Vec<_> = found.iter().map(|it| it.subject.to_string()).collect();
    told.sort();
    let both = ["leaf1-spine0 from leaf1", "leaf1-spine0 from spine0"];
    assert_eq!(told, both);
}

#[test]
fn optics_that_are_bad_or_dying_at_both_ends_are_one_finding() {
    let mut evidence = clean();
    for (node, peer) in [("leaf0", "spine1"), ("spine1", "leaf0")] {
        port_of(&mut evidence, node, peer).frame_error_share = Some(1e-4);
    }
    assert_eq!(alone(&evidence), named(Class::BadOptic, "leaf0-spine1"));
    let climbs = |at: &[&str]| {
        series("corrected_bit_share", at, |nth| {
            1e-7 * libm::exp(nth as f64 / 60.0)
        })
    };
    let evidence = Evidence {
        series: vec![climbs(&["leaf0", "spine1"]), climbs(&["spine1", "leaf0"])],
        ..clean()
    };
    assert_eq!(alone(&evidence), named(Class::DyingOptic, "leaf0-spine1"));
}
