//! Several faults at once, with only round-trip results of probes.

use super::*;

/// Four leaves with two hosts each, of which the first has these cables that let nothing through.
fn with_dead_cables(spines: usize, dead: usize) -> (Fabric, Evidence) {
    let fabric = FABRIC.replace("leaves = 2", "leaves = 4");
    let fabric = fabric.replace("hosts_per_leaf = 4", "hosts_per_leaf = 2");
    let fabric = fabric.replace("spines = 4", &format!("spines = {spines}"));
    let is_dead = |hop: &str| {
        let mut spines = (0..dead).map(|spine| format!("spine{spine}"));
        spines.any(|it| [format!("leaf0>{it}"), format!("{it}>leaf0")].contains(&hop.to_owned()))
    };
    let mut probes = probes_on([4, spines, 2], |hop| f64::from(is_dead(hop)), 100);
    probes.extend([[0, 1], [1, 0]].map(|[from, to]| Probed {
        path: names(&format!("h{from}>leaf0>h{to}>leaf0>h{from}")),
        sent: 100,
        ..Probed::default()
    }));
    let evidence = Evidence {
        probes,
        ..Evidence::default()
    };
    (Fabric::parse("fabric.toml", &fabric).unwrap(), evidence)
}

fn classes_of(evidence: &Evidence, fabric: &Fabric) -> Vec<(Class, String)> {
    let found = diagnose(evidence, fabric).unwrap();
    let reports = found.iter().map(|it| (it.class, it.subject.to_string()));
    let mut reports: Vec<_> = reports.collect();
    reports.sort();
    reports
}

/// Together they take more from either host of the leaf than each of them takes.
#[test]
fn dead_leaf_cables_spare_hosts() {
    for (spines, dead) in [(2, 1), (2, 2), (4, 1), (4, 2), (4, 3), (4, 4), (8, 5)] {
        let (fabric, mut evidence) = with_dead_cables(spines, dead);
        let cables = |class| {
            let cables = (0..dead).map(move |spine| named(class, &format!("leaf0-spine{spine}")));
            cables.collect::<Vec<_>>()
        };
        let lossy = classes_of(&evidence, &fabric);
        assert_eq!(lossy, cables(Class::LossyLink), "{dead} of {spines}");
        for probed in &mut evidence.probes {
            (probed.large_sent, probed.large_lost) = (probed.sent, probed.lost);
            probed.lost = 0;
        }
        let narrow = classes_of(&evidence, &fabric);
        assert_eq!(narrow, cables(Class::MtuMismatch), "{dead} of {spines}");
    }
}

/// No path leads out of the leaf, and whether any leads in cannot be known.
#[test]
fn dead_cable_has_no_named_direction() {
    let (fabric, evidence) = with_dead_cables(2, 2);
    let found = diagnose(&evidence, &fabric).unwrap();
    assert!(
        found
            .iter()
            .all(|it| matches!(it.subject, Subject::Link { .. })),
        "{found:#?}"
    );
}

/// Traces end at the spines, and at the leaf: by which of its cables a packet would have gone was never seen.
#[test]
fn isolated_leaf_found_by_partial_traces() {
    let (fabric, mut evidence) = with_dead_cables(2, 2);
    let is_lost = |it: &&mut Probed| it.lost > 0;
    for probed in evidence.probes.iter_mut().filter(is_lost) {
        let (from, to) = (probed.path[0].clone(), probed.path[4].clone());
        let seen = |way: &[String], to: &String| match &way[1][..] {
            "leaf0" => vec![
                way[0].clone(),
                "leaf0".to_owned(),
                "*".to_owned(),
                to.clone(),
            ],
            _ => [&way[..3], &["*".to_owned(), to.clone()]].concat(),
        };
        let (there, back) = (seen(&probed.path[..5], &to), seen(&probed.path[4..], &from));
        probed.path = [&there[..], &back[1..]].concat();
    }
    let cables = ["leaf0-spine0", "leaf0-spine1"].map(|it| named(Class::LossyLink, it));
    assert_eq!(classes_of(&evidence, &fabric), cables);
}
