//! How the same bursts fare as they were and otherwise.

use reweave_common::fabric::Fabric;
use serde::Serialize;

use super::{Known, Variant};
use crate::workload::history::Replayed;

/// As many links as people look at.
const FULLEST: usize = 8;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// How the same fabric does it, with the ways that were seen: what the model gets wrong.
    pub as_it_was: Outcome,
    /// How far the rates of that are from those that were measured, as parts of these.
    pub mean_error: f64,
    pub worst_error: f64,
    pub variant: Outcome,
    pub bursts: Vec<Fared>,
    /// Bursts whose receiver is not known, or no host of the fabric.
    pub left_out: usize,
    /// Bursts whose way is not known from end to end; as it was, they go all shortest ways evenly.
    pub ways_unknown: usize,
    pub events: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// When the last burst ended.
    pub end_ms: f64,
    /// All bursts together, how long they took.
    pub busy_ms: f64,
    pub slowest_mbps: f64,
    /// The links that carried most of what they could until then, one direction each.
    pub fullest: Vec<Fullest>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fullest {
    pub link: String,
    pub from: String,
    pub to: String,
    pub share: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fared {
    pub from: String,
    pub to: String,
    pub flow: String,
    pub at_ms: f64,
    pub bytes: u64,
    pub measured_mbps: f64,
    pub as_it_was_mbps: f64,
    pub variant_mbps: f64,
}

impl Compared {
    pub(super) fn new(
        known: &Known<'_>,
        fabrics: &Variant,
        [as_it_was, variant]: [&Replayed; 2],
    ) -> Self {
        let times = as_it_was.times.iter().zip(&variant.times);
        let bursts = known.0.iter().zip(times);
        let bursts: Vec<_> = bursts
            .map(|(it, (same, other))| {
                let mbps = |seconds: f64| it.burst.bytes as f64 * 8.0 / seconds.max(1e-9) / 1e6;
                Fared {
                    from: it.ends[0].to_owned(),
                    to: it.ends[1].to_owned(),
                    flow: it.burst.flow.to_string(),
                    at_ms: it.at.as_secs_f64() * 1e3,
                    bytes: it.burst.bytes,
                    measured_mbps: mbps(it.burst.sending.as_secs_f64()),
                    as_it_was_mbps: mbps(same.seconds()),
                    variant_mbps: mbps(other.seconds()),
                }
            })
            .collect();
        let error = |it: &Fared| (it.as_it_was_mbps / it.measured_mbps - 1.0).abs();
        let bytes: u64 = bursts.iter().map(|it| it.bytes).sum();
        let weighed = bursts.iter().map(|it| error(it) * it.bytes as f64);
        Self {
            as_it_was: Outcome::of(as_it_was, &fabrics.recorded, &bursts, |it| {
                it.as_it_was_mbps
            }),
            mean_error: weighed.sum::<f64>() / bytes as f64,
            worst_error: bursts.iter().map(error).fold(0.0, f64::max),
            variant: Outcome::of(variant, &fabrics.fabric, &bursts, |it| it.variant_mbps),
            bursts,
            left_out: 0,
            ways_unknown: 0,
            events: as_it_was.events + variant.events,
        }
    }
}

impl Outcome {
    fn of(
        replayed: &Replayed,
        fabric: &Fabric,
        bursts: &[Fared],
        mbps: impl Fn(&Fared) -> f64,
    ) -> Self {
        Self {
            end_ms: replayed.end.millis(),
            busy_ms: replayed.times.iter().map(|time| time.millis()).sum(),
            slowest_mbps: bursts.iter().map(mbps).fold(f64::INFINITY, f64::min),
            fullest: fullest(replayed, fabric),
        }
    }
}

/// What stands for the forwarding of hosts is no link of the fabric.
fn fullest(replayed: &Replayed, fabric: &Fabric) -> Vec<Fullest> {
    let seconds = replayed.end.seconds().max(1e-9);
    let directions = fabric
        .links()
        .flat_map(|(id, link)| [(id, [link.a, link.b]), (id, [link.b, link.a])]);
    let mut all: Vec<_> = directions
        .zip(&replayed.carried_bits)
        .filter(|(_, bits)| **bits > 0.0)
        .map(|((id, [from, to]), bits)| Fullest {
            link: fabric.link_name(id),
            from: fabric.name(from.node).to_owned(),
            to: fabric.name(to.node).to_owned(),
            share: bits / seconds / fabric.link(id).rate.bits_per_s() as f64,
        })
        .collect();
    all.sort_by(|a, b| b.share.total_cmp(&a.share));
    all.truncate(FULLEST);
    all
}
