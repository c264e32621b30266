//! What is measured of the network as a whole.

use reweave_common::operator::{FlowImbalance, Measured, RoundTrip, RoundTrips, hops};
use reweave_common::snapshot::Hop;
use reweave_planner::fim::imbalances;

use crate::model::{Known, Picture};
use crate::state::InForce;

/// More of the slowest pairs tell nobody more.
const MOST_SLOWEST: usize = 5;

pub(super) fn measured(known: Known<'_>, picture: &Picture<'_>, in_force: &InForce) -> Measured {
    Measured {
        round_trips: round_trips(known, picture),
        flow_imbalance: flow_imbalance(known, picture, in_force),
    }
}

fn round_trips(known: Known<'_>, picture: &Picture<'_>) -> Option<RoundTrips> {
    let nodes = known.ingest.observations().nodes();
    let fresh = nodes.filter(|(node, _)| known.is_fresh(*node));
    let all = fresh.flat_map(|(node, observed)| {
        let trips = observed.round_trips.iter();
        trips.filter_map(move |(&peer, rtt)| {
            Some(RoundTrip {
                from: known.fabric.name(node).to_owned(),
                to: known.fabric.name(picture.wiring.node(peer)?).to_owned(),
                rtt_us: u64::try_from(rtt.value.as_micros()).ok()?,
            })
        })
    });
    let mut slowest: Vec<_> = all.collect();
    slowest.sort_by_key(|trip| std::cmp::Reverse(trip.rtt_us));
    let pairs = slowest.len();
    let median_us = slowest.get(pairs / 2)?.rtt_us;
    slowest.truncate(MOST_SLOWEST);
    Some(RoundTrips {
        pairs,
        median_us,
        slowest,
    })
}

fn flow_imbalance(
    known: Known<'_>,
    picture: &Picture<'_>,
    in_force: &InForce,
) -> Option<FlowImbalance> {
    let found = imbalances(&picture.snapshot(in_force), &known.policy.planner);
    let (group, worst) = found.worst()?;
    let links = group.links.iter();
    let over: Vec<_> = links
        .map(|&link| Hop {
            from: group.at,
            link,
        })
        .collect();
    Some(FlowImbalance {
        mean_fim_percent: found.mean_fim_percent()?,
        worst_over: hops(&over, known.fabric),
        worst: *worst,
    })
}
