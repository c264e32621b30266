//! Flow imbalance of links and groups.

use reweave_common::finding::Imbalance;
use reweave_common::operator::{
    FlowImbalance, GroupImbalance, Hop, Imbalances, JobImbalance, LayerImbalance, hops,
};
use reweave_common::snapshot;
use reweave_repair::fim::{GroupSpread, LayerSpread, Spread};

use crate::log::state::InForce;
use crate::model::jobs::{Job, jobs};
use crate::model::world::{Measurements, World};

/// An answer has to fit into one message, however large the cluster is.
const MAX_GROUPS: usize = 1024;
const MAX_JOBS: usize = 256;

pub(crate) fn flow_imbalance(
    known: Measurements<'_>,
    world: &World<'_>,
    in_force: &InForce,
) -> Option<FlowImbalance> {
    headline(known, &spread(known, world, in_force))
}

/// The imbalance now, without its history.
pub(crate) fn imbalances(
    known: Measurements<'_>,
    world: &World<'_>,
    in_force: &InForce,
) -> Imbalances {
    let jobs = jobs(world);
    let flows = jobs.iter().map(|job| job.flows.iter().map(|it| it.flow));
    let flows: Vec<Vec<_>> = flows.map(Iterator::collect).collect();
    let snapshot = world.snapshot(in_force);
    let (mut found, alone) = reweave_repair::spreads(&snapshot, &known.policy.planner, &flows);
    let layers = found.layers();
    let all = headline(known, &found);
    let above = |it: &GroupSpread| above_floor(&it.imbalance);
    found
        .groups
        .sort_by(|one, other| above(other).total_cmp(&above(one)));
    found.groups.truncate(MAX_GROUPS);
    Imbalances {
        all,
        layers: layers.iter().map(layer).collect(),
        groups: found.groups.iter().map(|it| group(known, it)).collect(),
        unknown_flows: world.not_seen().ways_of.len(),
        jobs: by_job(known, &jobs, &alone),
        history: Vec::new(),
    }
}

fn by_job(known: Measurements<'_>, jobs: &[Job], alone: &[Spread]) -> Vec<JobImbalance> {
    let reports = jobs.iter().zip(alone).filter_map(|(job, spread)| {
        Some(JobImbalance {
            job: job.name(known),
            flows: job.flows.len(),
            all: headline(known, spread)?,
        })
    });
    let mut reports: Vec<_> = reports.collect();
    let above = |it: &JobImbalance| above_floor(&it.all.worst);
    reports.sort_by(|one, other| above(other).total_cmp(&above(one)));
    reports.truncate(MAX_JOBS);
    reports
}

fn above_floor(imbalance: &Imbalance) -> f64 {
    imbalance.fim_percent - imbalance.floor_percent
}

fn spread(known: Measurements<'_>, world: &World<'_>, in_force: &InForce) -> Spread {
    reweave_repair::spread(&world.snapshot(in_force), &known.policy.planner)
}

fn headline(known: Measurements<'_>, found: &Spread) -> Option<FlowImbalance> {
    let worst = found.worst()?;
    Some(FlowImbalance {
        mean_fim_percent: found.headline()?.mean_fim_percent,
        worst_over: over(known, worst),
        worst: worst.imbalance,
    })
}

fn layer(found: &LayerSpread) -> LayerImbalance {
    LayerImbalance {
        from_tier: found.layer.from,
        to_tier: found.layer.to,
        is_chosen: found.chosen,
        groups: found.groups,
        mean_fim_percent: found.mean_fim_percent,
        worst: found.worst,
        max_over_mean: found.max_over_mean,
    }
}

fn group(known: Measurements<'_>, found: &GroupSpread) -> GroupImbalance {
    GroupImbalance {
        from_tier: found.layer.from,
        to_tier: found.layer.to,
        is_chosen: found.chosen,
        over: over(known, found),
        imbalance: found.imbalance,
    }
}

/// The links in the direction of the flows: away from the choosing switch, or towards it.
fn over(known: Measurements<'_>, found: &GroupSpread) -> Vec<Hop> {
    let at = found.group.at;
    let over: Vec<_> = found
        .group
        .links
        .iter()
        .map(|&link| {
            let from = if found.chosen {
                at
            } else {
                known.fabric.link(link).far(at).node
            };
            snapshot::Hop { from, link }
        })
        .collect();
    hops(&over, known.fabric)
}
