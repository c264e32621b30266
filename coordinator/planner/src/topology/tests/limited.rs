//! Ports, reach and what has failed.

use super::*;

fn demand(hosts: usize) -> Demand {
    let pairs = (0..hosts as u32).map(|a| ((a, (a + 3) % hosts as u32), 1e6));
    Demand {
        hosts,
        groups: Vec::new(),
        pairs: pairs.collect(),
    }
}

#[track_caller]
fn all_hold(limits: &Limits) {
    let designs = candidates::all(&demand(limits.hosts()), limits, 5);
    assert!(designs.len() >= 5);
    for design in designs {
        assert!(limits.hold(&design.wiring), "{}", design.family);
        assert!(design.wiring.is_connected(), "{}", design.family);
        for ring in &design.rings {
            assert_eq!(ring.len(), limits.hosts());
        }
    }
}

#[test]
fn failed_ports_and_fibres_stay_dark() {
    let mut limits = Limits::plain(16, 4);
    limits.ports[3] = 3;
    limits.ports[7] = 2;
    limits.cut = [[0, 1], [2, 9]].into();
    all_hold(&limits);
}

#[test]
fn cables_reach_no_farther_than_they_do() {
    let mut limits = Limits::plain(16, 4);
    limits.reach = Some(Reach {
        places_m: (0..16).map(|host| f64::from(host) * 2.0).collect(),
        most_m: 9.0,
    });
    let near = limits.clone();
    assert!(near.allow(0, 4) && !near.allow(0, 5));
    let designs = candidates::all(&demand(16), &limits, 5);
    let designs: Vec<_> = designs
        .iter()
        .filter(|it| it.wiring.is_connected())
        .collect();
    assert!(!designs.is_empty());
    assert!(designs.iter().all(|it| limits.hold(&it.wiring)));
}

#[test]
fn hosts_on_different_panels_are_not_joined() {
    let mut limits = Limits::plain(12, 4);
    let panel = |name: &str, hosts: std::ops::Range<usize>| Panel {
        name: name.to_owned(),
        ports: (0..12)
            .map(|host| if hosts.contains(&host) { 4 } else { 0 })
            .collect(),
    };
    limits.panels = vec![panel("left", 0..8), panel("right", 4..12)];
    assert!(limits.allow(0, 7) && !limits.allow(0, 8) && limits.allow(4, 11));
    let designs = candidates::all(&demand(12), &limits, 5);
    assert!(designs.iter().any(|it| it.wiring.is_connected()));
    assert!(designs.iter().all(|it| limits.hold(&it.wiring)));
}

#[test]
fn all_ports_are_used_but_the_one_that_has_no_partner() {
    for (hosts, degree) in [(13, 3), (15, 5), (9, 7), (16, 5), (2, 1), (3, 2)] {
        for design in candidates::all(&demand(hosts), &Limits::plain(hosts, degree), 1) {
            let idle = hosts * degree - 2 * design.wiring.cables();
            assert!(
                idle <= hosts * degree % 2 + 2,
                "{hosts} {degree}: {} {idle}",
                design.family
            );
        }
    }
}
