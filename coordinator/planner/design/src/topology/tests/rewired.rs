//! Circuits that are moved after a failure: few, and only where that is surely worth it.

use super::repaired::{HOSTS, request, training};
use super::*;
use crate::crew::Alone;
use crate::topology::rewire::without;

/// Returns the rewiring after a failure, with this number of remaining iterations and this time per circuit.
fn after(
    request: &Request,
    failed: Failed,
    iterations: Option<f64>,
    each_ms: f64,
) -> (Proposal, Rewiring) {
    let training = training();
    let job = training.job();
    let planned = plan(&job, request).unwrap();
    let request = Request {
        interval: true,
        ..request.clone()
    };
    let failed = [failed];
    let repaired = repair(&planned.design, None, &job, &request, &failed).unwrap();
    let repaired = repaired.proposal(&job, &request).unwrap();
    let cost_ms = |moved: usize| moved as f64 * each_ms;
    let worth = Worth {
        iterations,
        cost_ms: &cost_ms,
    };
    let before = &planned.design;
    let rewiring = rewire(before, &repaired, &job, &request, &failed, worth, &Alone).unwrap();
    (repaired, rewiring)
}

fn choice(rewiring: &Rewiring, way: RewiringMethod) -> &Choice {
    rewiring.choices.iter().find(|it| it.way == way).unwrap()
}

#[test]
fn neighbours_of_failed_host_are_joined() {
    let (repaired, rewiring) = after(&request(), Failed::Host(5), None, 0.0);
    assert_eq!(
        rewiring.names,
        [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
    );
    let mended = choice(&rewiring, RewiringMethod::Repaired);
    let cables = repaired.design.wiring.cables();
    assert_eq!((mended.moved.kept, mended.moved.torn), (cables, 0));
    assert_eq!(mended.moved.set, 2);
    assert_eq!(mended.proposal.design.wiring.degrees(), [4, 4]);
    assert!(repaired.design.wiring.pairs().iter().all(|&ends| {
        let wiring = &mended.proposal.design.wiring;
        wiring
            .pairs()
            .iter()
            .any(|&new| rewiring.named(new) == ends)
    }));
    let redesigned = choice(&rewiring, RewiringMethod::Redesigned);
    assert!(redesigned.moved.set >= 2 && redesigned.proposal.design.wiring.hosts() == HOSTS - 1);
}

/// Each of the choices is no slower than what it takes the place of, however the uncertainty falls.
#[test]
fn circuits_move_only_for_sure_gain() {
    for failed in [Failed::Host(5), Failed::Cable([0, 1])] {
        let lies = plan(&training().job(), &request()).unwrap().design;
        let failed = match failed {
            Failed::Cable(_) => Failed::Cable(lies.wiring.pairs()[0]),
            other => other,
        };
        let (repaired, rewiring) = after(&request(), failed, None, 0.0);
        let mut last = repaired.estimate();
        for (nth, choice) in rewiring.choices.iter().enumerate() {
            let estimate = choice.proposal.estimate();
            let is_taken = choice.gain.pays();
            assert_eq!(
                is_taken,
                estimate.high_ms < last.low_ms,
                "{:?}",
                choice.gain
            );
            if is_taken {
                last = estimate;
                assert!(rewiring.best >= Some(nth));
            }
        }
    }
}

/// The gain in the remaining iterations is less than the cost of moving one circuit.
#[test]
fn nearly_finished_job_moves_nothing() {
    let (_, rewiring) = after(&request(), Failed::Host(5), Some(1.0), 1e9);
    assert!(!rewiring.choices.is_empty());
    assert_eq!(rewiring.best, None);
}

#[test]
fn peer_of_failed_port_is_reusable() {
    let design = plan(&training().job(), &request()).unwrap().design;
    let [a, b] = design.wiring.pairs()[0];
    let degrees = |failed| {
        let (_, rewiring) = after(&request(), failed, None, 0.0);
        let wiring = &choice(&rewiring, RewiringMethod::Redesigned)
            .proposal
            .design
            .wiring;
        ([a, b].map(|end| wiring.degree(end)), wiring.joins(a, b))
    };
    let port = degrees(Failed::Port { of: a, towards: b });
    assert_eq!(port.0[0], 3);
    let (cable, joined) = degrees(Failed::Cable([a, b]));
    assert!(cable.iter().all(|&ports| ports <= 3) && !joined);
}

/// A port that is named for itself, with its cable and with its panel is one port.
#[test]
fn failure_named_twice_counts_once() {
    let request = with_panels();
    let design = plan(&training().job(), &request).unwrap().design;
    let Patch { cable, panel, .. } = design.patches[0];
    let [of, towards] = cable;
    let (port, cable) = (Failed::Port { of, towards }, Failed::Cable(cable));
    let left = |failed: &[Failed]| without(&request.limits, &design, failed);
    assert_eq!(left(&[port, cable, cable]), left(&[cable]));
    assert_eq!(left(&[cable]).ports[of as usize], 3);
    let panel = Failed::Panel(panel);
    assert_eq!(left(&[panel, cable, panel]).ports, left(&[panel]).ports);
    assert_eq!(left(&[panel]).ports, [3; HOSTS]);
}

fn with_panels() -> Request {
    let mut request = request();
    let panel = |nth| Panel::numbered(format!("panel{nth}"), &[1; HOSTS]);
    request.limits.panels = (0..4).map(panel).collect();
    request
}

#[test]
fn failed_panel_holds_no_circuits() {
    let (_, rewiring) = after(&with_panels(), Failed::Panel(2), None, 0.0);
    let design = &choice(&rewiring, RewiringMethod::Redesigned)
        .proposal
        .design;
    assert!(design.patches.iter().all(|patch| patch.panel != 2));
    assert_eq!(design.wiring.degrees()[1], 3);
}

/// New cables on panels take the ports of the failed host's circuits.
#[test]
fn joined_hosts_get_panel_ports() {
    let (repaired, rewiring) = after(&with_panels(), Failed::Host(5), None, 0.0);
    let Some(mended) = rewiring
        .choices
        .iter()
        .find(|it| it.way == RewiringMethod::Repaired)
    else {
        // The neighbours may have no common panel.
        return;
    };
    let design = &mended.proposal.design;
    assert_eq!(design.patches.len(), design.wiring.cables());
    assert_eq!(mended.moved.kept, repaired.design.patches.len());
    let ports = design.patches.iter();
    let ports: Vec<_> = ports
        .flat_map(|it| it.ports.map(|port| (it.panel, port)))
        .collect();
    let each: std::collections::BTreeSet<_> = ports.iter().collect();
    assert_eq!(each.len(), ports.len());
}

/// Two panels with two ports of each host: kept circuits keep their ports, and new ones take working free ports.
#[test]
fn kept_circuits_keep_their_ports() {
    let mut request = request();
    let panel = |nth| Panel::numbered(format!("panel{nth}"), &[2; HOSTS]);
    request.limits.panels = (0..2).map(panel).collect();
    let planned = plan(&training().job(), &request).unwrap().design;
    let dark = planned.patches[0];
    for failed in [Failed::Cable(dark.cable), Failed::Host(dark.cable[0])] {
        let (repaired, rewiring) = after(&request, failed, None, 0.0);
        for choice in &rewiring.choices {
            let names = choice.proposal.design.patches.iter();
            let now: Vec<_> = names
                .map(|it| Patch {
                    cable: rewiring.named(it.cable),
                    ..*it
                })
                .collect();
            stay_where_they_lay(&repaired.design.patches, &now);
            are_real(&request.limits.panels, &now);
            let uses =
                |patch: &Patch| patch.panel == dark.panel && patch.ports.contains(&dark.ports[0]);
            assert!(!now.iter().any(uses), "{failed:?}: {:?}", choice.way);
        }
    }
}

#[track_caller]
fn stay_where_they_lay(before: &[Patch], now: &[Patch]) {
    let same = |old: &Patch, new: &Patch| (old.cable, old.panel) == (new.cable, new.panel);
    let kept = now
        .iter()
        .filter_map(|new| Some((new, before.iter().find(|old| same(old, new))?)));
    let kept: Vec<_> = kept.collect();
    assert!(kept.len() > 2, "{kept:?}");
    assert!(kept.iter().all(|(new, old)| new == old), "{kept:?}");
}

#[track_caller]
fn are_real(panels: &[Panel], patches: &[Patch]) {
    let mut used = std::collections::BTreeSet::new();
    for patch in patches {
        for (end, port) in patch.cable.into_iter().zip(patch.ports) {
            assert!(
                panels[patch.panel].ports[end as usize].contains(&port),
                "{patch:?}"
            );
            assert!(used.insert((patch.panel, port)), "{patch:?}");
        }
    }
}
