//! What takes over before anybody has planned anything, and what failures cost then.

use super::candidates::Design;
use super::demand::Demand;
use super::error::TopologyError;
use super::plan::{Job, Request};
use super::repair::{Failed, repair};
use super::wiring::{Pair, Wiring};
use crate::crew::{self, Crew};
use crate::routing::Routes;

/// For each cable, the shortest way around it: what its two hosts do by themselves, before anybody
/// has planned anything. A cable without one is a bridge.
pub fn backups(wiring: &Wiring) -> Vec<(Pair, Option<Vec<u32>>)> {
    let around = |[a, b]: Pair| {
        let mut came_from = vec![u32::MAX; wiring.hosts()];
        came_from[a as usize] = a;
        let mut line = vec![a];
        let mut at = 0;
        while let Some(&host) = line.get(at) {
            at += 1;
            for &next in wiring.neighbours(host) {
                let is_it = host == a && next == b;
                if came_from[next as usize] == u32::MAX && !is_it {
                    came_from[next as usize] = host;
                    line.push(next);
                }
            }
        }
        way_back(&came_from, a, b)
    };
    wiring
        .pairs()
        .into_iter()
        .map(|pair| (pair, around(pair)))
        .collect()
}

fn way_back(came_from: &[u32], a: u32, b: u32) -> Option<Vec<u32>> {
    let mut way = vec![b];
    let mut at = b;
    while at != a {
        at = came_from[at as usize];
        if at == u32::MAX {
            return None;
        }
        way.push(at);
    }
    way.reverse();
    Some(way)
}

/// What an iteration takes when something fails, with other routes over the same circuits.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    pub failed: Failed,
    /// Nothing where some cannot reach each other any more.
    pub iteration_ms: Option<f64>,
}

/// Where there are more cables than these, only the fullest is thought away.
const MOST_CABLES: usize = 64;

/// The worst that single failures do.
#[derive(Debug, Clone, PartialEq)]
pub struct Outlook {
    /// Cables without which some would be cut off.
    pub bridges: Vec<Pair>,
    /// Each cable, or the one that carries most where there are many; the host that forwards most, and
    /// each panel.
    pub cases: Vec<Case>,
}

/// What would happen to a design.
pub fn outlook(
    design: &Design,
    routes: &Routes,
    job: &Job<'_>,
    request: &Request,
    crew: &dyn Crew,
) -> Outlook {
    let panels = (0..request.limits.panels.len()).map(Failed::Panel);
    let cables = design.wiring.pairs();
    let [cable, host] = fullest(design, routes, job);
    let cables: Vec<_> = match cables.len() {
        ..=MOST_CABLES => cables.into_iter().map(Failed::Cable).collect(),
        _ => cable.into_iter().collect(),
    };
    let failures = cables.into_iter().chain(host).chain(panels);
    let after = |failed| -> Result<f64, TopologyError> {
        repair(design, None, job, &[failed])?.iteration_ms(job, request.rate, request.work)
    };
    let case = |failed| Case {
        failed,
        iteration_ms: after(failed).ok(),
    };
    Outlook {
        bridges: backups(&design.wiring)
            .into_iter()
            .filter_map(|(cable, way)| way.is_none().then_some(cable))
            .collect(),
        cases: crew::each(crew, failures.collect(), case),
    }
}

/// The cable that carries most, and the host.
fn fullest(design: &Design, routes: &Routes, job: &Job<'_>) -> [Option<Failed>; 2] {
    let demand = Demand::of(job.iteration, job.place, design.wiring.hosts());
    let (loads, lanes) = (routes.loads(demand.pairs.iter()), routes.lanes());
    let load = |a, b| lanes.between(a, b).map_or(0.0, |lane| loads[lane]);
    let both_ways = |&[a, b]: &Pair| load(a, b) + load(b, a);
    let through = |&host: &u32| lanes.from(host).map(|lane| loads[lane]).sum::<f64>();
    let cables = design.wiring.pairs().into_iter();
    let cable = cables.max_by(|a, b| both_ways(a).total_cmp(&both_ways(b)));
    let hosts = 0..design.wiring.hosts() as u32;
    let host = hosts.max_by(|a, b| through(a).total_cmp(&through(b)));
    [cable.map(Failed::Cable), host.map(Failed::Host)]
}
