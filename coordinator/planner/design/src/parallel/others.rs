//! Jobs on rival fabrics, each with its best distribution there.

use reweave_sim::workload::Settings;

use super::ground::{Ground, Help};
use super::together::{Dealing, Wanted};
use crate::topology::{Request, Rival, TopologyError};

/// Iteration time on another fabric.
#[derive(Debug, Clone, PartialEq)]
pub struct Other<D> {
    pub rival: Rival,
    /// Best known distribution of the model there, with its time in ms; none if the fabric does not exist, or the time
    /// is up.
    pub best: Option<(D, f64)>,
}

/// Improves the distribution for each rival fabric, starting from this one. A non-blocking fat tree costs `fat_tree`
/// times as much as patch panels.
pub fn at_their_best<M: Dealing>(
    model: &M,
    deal: &M::Deal,
    settings: &Settings,
    request: &Request,
    fat_tree: f64,
    help: Help<'_>,
) -> Result<Vec<Other<M::Deal>>, TopologyError> {
    let of = |rival: Rival| {
        let fabric = (help.in_time)().then(|| rival.fabric(request, fat_tree));
        let Some(fabric) = fabric.transpose()?.flatten() else {
            return Ok(Other { rival, best: None });
        };
        let ground = Ground::bare(fabric, model.place(), settings, request, help);
        let best = TopologyError::unless_stopped(best_on(model, deal, &ground))?;
        Ok(Other { rival, best })
    };
    Rival::ALL.into_iter().map(of).collect()
}

fn best_on<M: Dealing>(
    model: &M,
    deal: &M::Deal,
    ground: &Ground<'_>,
) -> Result<(M::Deal, f64), TopologyError> {
    let ms = |deal: &M::Deal| ground.time(&model.iteration(deal)?);
    let best = (deal.clone(), ms(deal)?);
    let wanted = Wanted {
        best: 1,
        most_ms: best.1,
    };
    let better = model.better(deal, ground, wanted)?;
    let fastest = better.deals.into_iter().next();
    Ok(fastest.filter(|(_, other)| *other < best.1).unwrap_or(best))
}
