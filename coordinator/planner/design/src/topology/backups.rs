//! Table entries for failures before new routes are computed, and iteration times after failures.

use super::demand::Demand;
use super::error::TopologyError;
use super::families::Design;
use super::plan::{Job, Request};
use super::repair::{Failed, repair};
use super::wiring::Pair;
use crate::crew::{self, Crew, InTime};
use crate::routing::{Entry, Routes, detours};

/// Iteration time after a failure, with other routes over the same circuits.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    pub failed: Failed,
    /// None if some hosts cannot reach each other.
    pub iteration_ms: Option<f64>,
}

/// Above this number of cables, only the failure of the fullest one is computed.
const MAX_CABLES: usize = 64;

/// Effects of single failures, and the prepared table entries.
#[derive(Debug, Clone, PartialEq)]
pub struct Outlook {
    /// By cable: table entries that change when it fails, before new routes are computed. None if the failure
    /// disconnects hosts.
    pub backups: Vec<(Pair, Option<Vec<Entry>>)>,
    /// Each cable, or the one that carries most where there are many; the host that forwards most, and
    /// each panel.
    pub cases: Vec<Case>,
}

/// Returns the effects of failures on a design. When the time is up, the rest is left out.
pub fn outlook(
    design: &Design,
    routes: &Routes,
    job: &Job<'_>,
    request: &Request,
    crew: &dyn Crew,
    in_time: InTime<'_>,
) -> Outlook {
    let panels = (0..request.limits.panels.len()).map(Failed::Panel);
    let cables = design.wiring.pairs();
    let [cable, host] = fullest(design, routes, job);
    let cables: Vec<_> = match cables.len() {
        ..=MAX_CABLES => cables.into_iter().map(Failed::Cable).collect(),
        _ => cable.into_iter().collect(),
    };
    let failures = cables.into_iter().chain(host).chain(panels);
    let after = |failed| -> Result<f64, TopologyError> {
        repair(design, None, job, request, &[failed])?.iteration_ms_until(job, request, in_time)
    };
    let backup = |cable| (cable, detours(routes, cable));
    let case = |failed| {
        let after = in_time().then(|| TopologyError::unless_stopped(after(failed)))?;
        let iteration_ms = after.transpose()?.ok();
        Some(Case {
            failed,
            iteration_ms,
        })
    };
    Outlook {
        backups: crew::each(crew, design.wiring.pairs(), backup),
        cases: crew::each(crew, failures.collect(), case)
            .into_iter()
            .flatten()
            .collect(),
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
