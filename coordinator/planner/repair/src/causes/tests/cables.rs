//! A fault in both directions of a cable is one finding.

use super::*;

const FOUR_LEAVES: &str = "kind = \"leaf-spine\"\nleaves = 4\nspines = 2\nhosts_per_leaf = 2\n\
                    host_gbps = 100\nuplink_gbps = 100";

fn lossy(there: f64, back: f64) -> Vec<Cause> {
    let loss = |hop: &str| match hop {
        "leaf1>spine0" => there,
        "spine0>leaf1" => back,
        _ => 0.0,
    };
    let fabric = Fabric::parse("fabric.toml", FOUR_LEAVES).unwrap();
    let evidence = Evidence {
        probes: one_way([4, 2, 2], loss, 400),
        ..Evidence::default()
    };
    diagnose(&evidence, &fabric).unwrap()
}

#[test]
fn equally_lossy_cable_is_one_finding() {
    for (there, back) in [(0.02, 0.02), (0.03, 0.01), (1.0, 1.0)] {
        let found = lossy(there, back);
        let [only] = &found[..] else {
            panic!("one finding: {found:#?}")
        };
        let said = (only.class, only.subject.to_string());
        assert_eq!(said, named(Class::LossyLink, "leaf1-spine0"));
        assert!(matches!(only.subject, Subject::Link { .. }));
        let mut report = only.evidence.clone();
        report.sort();
        assert!(report[0].starts_with("leaf1 to spine0: "), "{report:?}");
        assert!(report[1].starts_with("spine0 to leaf1: "), "{report:?}");
    }
}

/// Large probes are few: one of each flow is enough where none gets through.
#[test]
fn mtu_of_cable_needs_few_probes() {
    let mut evidence = Evidence {
        probes: one_way([4, 2, 2], |_| 0.0, 400),
        ..Evidence::default()
    };
    let narrow = [["leaf1", "spine0"], ["spine0", "leaf1"]];
    for probed in &mut evidence.probes {
        let mut hops = probed.path.windows(2);
        probed.large_sent = 1;
        probed.large_lost = u64::from(hops.any(|hop| narrow.iter().any(|it| it[..] == *hop)));
    }
    let fabric = Fabric::parse("fabric.toml", FOUR_LEAVES).unwrap();
    let found = diagnose(&evidence, &fabric).unwrap();
    let reports: Vec<_> = found.iter().map(ToString::to_string).collect();
    let [only] = &found[..] else {
        panic!("one finding: {reports:#?}")
    };
    assert_eq!(only.class, Class::MtuMismatch, "{reports:#?}");
    assert_eq!(only.subject.to_string(), "leaf1-spine0");
}

/// Only one host's probes take it, and most of what is lost is lost by that host; but by other links all of its
/// probes come through.
#[test]
fn cable_of_single_host_is_named() {
    let fabric = FOUR_LEAVES.replace("hosts_per_leaf = 2", "hosts_per_leaf = 1");
    let fabric = Fabric::parse("fabric.toml", &fabric).unwrap();
    let diagnosis = |evidence: Evidence| {
        let found = diagnose(&evidence, &fabric).unwrap();
        let diagnosis = found.iter().map(|it| (it.class, it.subject.to_string()));
        diagnosis.collect::<Vec<_>>()
    };
    for part in [0.01, 0.3, 1.0] {
        let cable = ["leaf0>spine0", "spine0>leaf0"];
        let loss = |hop: &str| if cable.contains(&hop) { part } else { 0.0 };
        let mut evidence = Evidence {
            probes: one_way([4, 2, 1], loss, 1000),
            ..Evidence::default()
        };
        let lossy = named(Class::LossyLink, "leaf0-spine0");
        assert_eq!(diagnosis(evidence.clone()), [lossy], "{part}");
        for probed in &mut evidence.probes {
            [probed.large_sent, probed.large_lost] = [100, probed.lost / 10];
            probed.lost = 0;
        }
        let narrow = named(Class::MtuMismatch, "leaf0-spine0");
        let expected = Vec::from_iter((part == 1.0).then_some(narrow));
        assert_eq!(diagnosis(evidence), expected, "{part}");
    }
}

#[test]
fn differing_directions_are_two_findings() {
    let found = lossy(0.3, 0.02);
    let mut reports: Vec<_> = found.iter().map(|it| it.subject.to_string()).collect();
    reports.sort();
    let both = ["leaf1-spine0 from leaf1", "leaf1-spine0 from spine0"];
    assert_eq!(reports, both);
}

#[test]
fn bad_optics_at_both_ends_merge() {
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

/// Two leaves with two hosts each, two spines, and two cables from each leaf to each spine.
pub(super) fn doubled() -> Fabric {
    let hosts = (0..4).map(|host| (format!("h{host}"), format!("leaf{}", host / 2), 1));
    let uplinks = (0..4).map(|it| (format!("leaf{}", it / 2), format!("spine{}", it % 2), 2));
    let links = hosts.chain(uplinks).map(|(a, b, count)| {
        format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\ngbps = 100\ncount = {count}\n")
    });
    let node =
        |name: String, role: &str| format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n");
    let hosts = (0..4).map(|it| node(format!("h{it}"), "host"));
    let switches = ["leaf0", "leaf1", "spine0", "spine1"];
    let switches = switches.map(|it| node(it.to_owned(), "switch"));
    let text: String = hosts.chain(switches).chain(links).collect();
    Fabric::parse("fabric.toml", &format!("kind = \"graph\"\n{text}")).unwrap()
}

/// Both ends of both cables between the first leaf and the first spine; of the second the first end says this.
fn ends_of_two(named: bool, change: impl Fn(&mut PortFacts)) -> Evidence {
    let mut evidence = Evidence::default();
    for link in ["leaf0-spine0", "leaf0-spine0.1"] {
        for (node, peer) in [("leaf0", "spine0"), ("spine0", "leaf0")] {
            evidence.ports.push(PortFacts {
                link: named.then(|| link.to_owned()),
                ..port(node, peer)
            });
        }
    }
    change(&mut evidence.ports[2]);
    evidence
}

const SECOND_CABLE: &str = "leaf0-spine0.1 from spine0";
const EITHER_CABLE: &str = "ambiguous: leaf0-spine0 from spine0 or leaf0-spine0.1 from spine0";

fn only(evidence: &Evidence) -> (Class, String, f64) {
    let found = diagnose(evidence, &doubled()).unwrap();
    let [only] = &found[..] else {
        panic!("one finding: {found:#?}")
    };
    (only.class, only.subject.to_string(), only.confidence)
}

#[test]
fn counters_pick_parallel_cable() {
    type Case = (fn(&mut PortFacts), Class, [&'static str; 2]);
    let whole = [
        "leaf0-spine0.1",
        "ambiguous: leaf0-spine0 or leaf0-spine0.1",
    ];
    let cases: [Case; 4] = [
        (
            |it| it.frame_error_share = Some(1e-4),
            Class::BadOptic,
            [SECOND_CABLE, EITHER_CABLE],
        ),
        (
            |it| it.corrected_bit_share = Some(1e-4),
            Class::BadOptic,
            [SECOND_CABLE, EITHER_CABLE],
        ),
        (|it| it.link_downs = 2, Class::NicFlap, whole),
        (|it| it.oversized = 5, Class::MtuMismatch, whole),
    ];
    for (change, class, [second, either]) in cases {
        let (report, subject, sure) = only(&ends_of_two(true, change));
        assert_eq!((report, &subject[..]), (class, second));
        let (report, subject, unsure) = only(&ends_of_two(false, change));
        assert_eq!((report, &subject[..]), (class, either));
        assert!(sure >= 0.9 && unsure < 0.5, "{sure} {unsure}");
    }
}

#[test]
fn change_picks_parallel_cable() {
    let rises = |nth: usize| if nth < 60 { 0.0 } else { 9.0 };
    let climbs = |nth: usize| 1e-7 * libm::exp(nth as f64 / 60.0);
    let at = &["leaf0", "spine0"];
    for (series, class) in [
        (series("latency_us", at, rises), Class::Latency),
        (series("errors", at, rises), Class::BadOptic),
        (series("corrected_bit_share", at, climbs), Class::DyingOptic),
    ] {
        let of = |link: Option<&str>| Evidence {
            series: vec![Series {
                link: link.map(str::to_owned),
                ..series.clone()
            }],
            ..Evidence::default()
        };
        let (report, subject, _) = only(&of(Some("leaf0-spine0.1")));
        assert_eq!((report, &subject[..]), (class, SECOND_CABLE));
        let (report, subject, _) = only(&of(None));
        assert_eq!((report, &subject[..]), (class, EITHER_CABLE));
    }
}

/// Between hosts of both leaves by every two cables, one in a hundred lost on the second up to the first spine.
fn probes_by_cables(named: bool) -> Evidence {
    let (mut evidence, mut rng) = (Evidence::default(), SplitMix64::new(1));
    for nth in 0..64 {
        let [from, to, spine, up, down] = [
            nth % 2,
            2 + nth / 2 % 2,
            nth / 4 % 2,
            nth / 8 % 2,
            nth / 16 % 2,
        ];
        let cable = |leaf: usize, nth: usize| match nth {
            0 => format!("leaf{leaf}-spine{spine}"),
            _ => format!("leaf{leaf}-spine{spine}.{nth}"),
        };
        let links = [
            format!("h{from}-leaf0"),
            cable(0, up),
            cable(1, down),
            format!("h{to}-leaf1"),
        ];
        let loses = links[1] == "leaf0-spine0.1";
        evidence.probes.push(Probed {
            path: names(&format!("h{from}>leaf0>spine{spine}>leaf1>h{to}")),
            links: if named { links.to_vec() } else { vec![] },
            sent: 400,
            lost: (0..400)
                .filter(|_| loses && rng.nonzero_fraction() < 0.01)
                .count() as u64,
            ..Probed::default()
        });
    }
    evidence
}

#[test]
fn loss_picks_second_parallel_cable() {
    let (class, subject, _) = only(&probes_by_cables(true));
    let second = "leaf0-spine0.1 from leaf0";
    assert_eq!((class, &subject[..]), (Class::LossyLink, second));
    let losses = |evidence: Evidence| {
        let fabric = doubled();
        let losses = losses(&evidence.sifted(&fabric).0, &fabric).unwrap();
        let links = losses.keys().map(|&link| fabric.link_name(link));
        links.collect::<Vec<_>>()
    };
    assert_eq!(losses(probes_by_cables(true)), ["leaf0-spine0.1"]);
    // Probes that do not name their cable accuse neither cable.
    let (_, subject, _) = only(&probes_by_cables(false));
    assert!(subject.starts_with("ambiguous: "), "{subject}");
    let both = ["leaf0-spine0", "leaf0-spine0.1"];
    let may_be_it = losses(probes_by_cables(false));
    assert!(
        both.iter()
            .all(|it| may_be_it.iter().any(|link| link == it))
    );
}

#[test]
fn collision_needs_same_parallel_cable() {
    let flow = |[from, to]: [&str; 2], cable: &str| FlowFacts {
        path: names(&format!("{from}>leaf0>spine0>leaf1>{to}")),
        links: vec![
            format!("{from}-leaf0"),
            cable.to_owned(),
            "leaf1-spine0".to_owned(),
            "*".to_owned(),
        ],
        gbps: 47.0,
        ..FlowFacts::default()
    };
    let [one, two] = [["h0", "h2"], ["h1", "h3"]];
    let on = |first: &str, second: &str| Evidence {
        flows: vec![flow(one, first), flow(two, second)],
        ..Evidence::default()
    };
    let collided = on("leaf0-spine0.1", "leaf0-spine0.1");
    let found = diagnose(&collided, &doubled()).unwrap();
    let subjects: Vec<_> = found.iter().map(|it| it.subject.to_string()).collect();
    assert!(
        subjects.contains(&"leaf0-spine0.1 from leaf0".to_owned()),
        "{subjects:?}"
    );
    assert_eq!(collided.doubts(&doubled()), [""; 0]);
    let unsure = on("*", "leaf0-spine0.1");
    let found = diagnose(&unsure, &doubled()).unwrap();
    assert_eq!(found, []);
    let (sifted, _) = unsure.sifted(&doubled());
    let doubts = sifted.doubts(&doubled());
    assert!(
        doubts.len() == 1 && doubts[0].ends_with("and none is named"),
        "{doubts:?}"
    );
}

#[test]
fn contradictory_cable_names_are_refused() {
    let refused = |evidence: Evidence| diagnose(&evidence, &doubled()).unwrap_err().to_string();
    let other = |it: &mut PortFacts| it.link = Some("leaf0-spine1".to_owned());
    let said = "ports[2]: no link leaf0-spine1 joins spine0 and leaf0";
    assert_eq!(refused(ends_of_two(true, other)), said);
    let mut evidence = probes_by_cables(true);
    evidence.probes[0].links.pop();
    let said = "probes[0]: h0>leaf0>spine0>leaf1>h2 has 4 hops, and 3 links are named";
    assert_eq!(refused(evidence), said);
    let same = |it: &mut PortFacts| {
        it.link = Some("leaf0-spine0".to_owned());
        it.mtu_bytes = Some(1500);
    };
    let said = "ports[2]: the port of leaf0 towards spine0 by leaf0-spine0 is given twice, and not the same";
    assert_eq!(refused(ends_of_two(true, same)), said);
}
