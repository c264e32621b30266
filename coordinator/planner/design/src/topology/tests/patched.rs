//! Panels: every cable runs through one that has a port for each of its ends.

use std::collections::BTreeMap;

use super::*;

fn panels(hosts: usize, count: usize, ports: usize) -> Limits {
    let mut limits = Limits::plain(hosts, count * ports);
    let panel = |nth| Panel::numbered(format!("panel{nth}"), &vec![ports; hosts]);
    limits.panels = (0..count).map(panel).collect();
    limits
}

/// Each host sends to all, the first most.
fn demand(hosts: usize) -> Demand {
    let pairs = (0..hosts as u32).flat_map(|a| (0..hosts as u32).map(move |b| (a, b)));
    let pairs = pairs.filter(|(a, b)| a != b);
    Demand {
        hosts,
        groups: Vec::new(),
        pairs: pairs
            .map(|(a, b)| ((a, b), if a == 0 { 9e6 } else { 1e6 }))
            .collect(),
    }
}

#[track_caller]
fn all_are_patched(limits: &Limits) {
    for design in families::all(&demand(limits.hosts()), limits, 3) {
        let what = design.family.to_string();
        let cables: Vec<_> = design.patches.iter().map(|patch| patch.cable).collect();
        let mut sorted = cables.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, design.wiring.pairs(), "{what}");
        let mut used = BTreeMap::<_, u32>::new();
        for patch in &design.patches {
            let panel = &limits.panels[patch.panel];
            for (end, port) in patch.cable.into_iter().zip(patch.ports) {
                let own = &panel.ports[end as usize];
                assert!(own.contains(&port), "{what}: h{end} has no port {port}");
                *used.entry((patch.panel, port)).or_default() += 1;
            }
        }
        assert!(used.values().all(|&times| times == 1), "{what}");
    }
}

#[test]
fn each_cable_has_own_panel_ports() {
    all_are_patched(&panels(16, 4, 1));
    all_are_patched(&panels(13, 4, 1));
    all_are_patched(&panels(12, 2, 2));
    let mut uneven = panels(16, 3, 2);
    uneven.panels[1].ports[..8].fill(Vec::new());
    uneven.panels[2].ports[8..].fill(Vec::new());
    all_are_patched(&uneven);
}

#[test]
fn even_host_count_uses_every_port() {
    let limits = panels(16, 4, 1);
    let designs = families::all(&demand(16), &limits, 3);
    let full = designs.iter().filter(|it| it.wiring.cables() == 32).count();
    assert!(full > designs.len() / 2, "{full} of {}", designs.len());
    let totient = &designs[0];
    assert_eq!(totient.family.word(), "totient");
    assert_eq!(totient.wiring.cables(), 32);
    let on_first = totient.patches.iter().filter(|patch| patch.panel == 0);
    assert_eq!(on_first.count(), 8);
}
