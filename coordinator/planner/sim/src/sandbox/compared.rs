//! Comparison of the same bursts in the original and in the variant.

use reweave_common::fabric::Fabric;
use reweave_common::ids::LinkId;
use serde::Serialize;

use super::traffic::Sent;
use super::{Traffic, Variant};
use crate::engine::SimTime;
use crate::workload::history::Replayed;

/// Maximum number of links in a result.
pub(super) const MAX_FULLEST_LINKS: usize = 8;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// Outcome on the original fabric with the observed paths: its deviation is the error of the model.
    pub as_it_was: Outcome,
    /// Relative differences between simulated and measured rates; none without measurements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_error: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst_error: Option<f64>,
    pub variant: Outcome,
    pub bursts: Vec<Fared>,
    /// Bursts whose receiver is not known, or no host of the fabric.
    pub left_out: usize,
    /// Number of bursts with a partly unknown path; in the original they are spread over all shortest paths.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_mbps: Option<f64>,
    pub as_it_was_mbps: f64,
    pub variant_mbps: f64,
}

impl Compared {
    pub(super) fn new(
        traffic: &Traffic,
        fabrics: &Variant,
        [as_it_was, variant]: [&Replayed; 2],
    ) -> Self {
        let times = as_it_was.times.iter().zip(&variant.times);
        let bursts = traffic.sent.iter().zip(times);
        let bursts: Vec<_> = bursts
            .map(|(it, (same, other))| Fared::new(it, [*same, *other]))
            .collect();
        let [mean_error, worst_error] = errors(&bursts);
        Self {
            as_it_was: Outcome::of(as_it_was, &fabrics.recorded, &bursts, |it| {
                it.as_it_was_mbps
            }),
            mean_error,
            worst_error,
            variant: Outcome::of(variant, &fabrics.fabric, &bursts, |it| it.variant_mbps),
            bursts,
            left_out: traffic.left_out,
            ways_unknown: 0,
            events: as_it_was.events + variant.events,
        }
    }

    /// Returns the increase of the total time in percent; negative if the variant is faster.
    pub fn slower_percent(&self) -> f64 {
        slower_percent([&self.as_it_was, &self.variant].map(|it| it.busy_ms))
    }
}

pub(super) fn slower_percent([before, then]: [f64; 2]) -> f64 {
    // Zero to zero is no increase.
    if then <= 0.0 && before <= 0.0 {
        return 0.0;
    }
    (then / before - 1.0) * 100.0
}

impl Fared {
    fn new(it: &Sent, [same, other]: [SimTime; 2]) -> Self {
        let mbps = |time: SimTime| it.bytes * 8.0 / time.seconds().max(1e-9) / 1e6;
        Self {
            from: it.ends[0].clone(),
            to: it.ends[1].clone(),
            flow: it.flow.clone(),
            at_ms: it.at_ms(),
            bytes: it.bytes.round() as u64,
            measured_mbps: it.sending.map(mbps),
            as_it_was_mbps: mbps(same),
            variant_mbps: mbps(other),
        }
    }
}

/// Returns the mean error, weighted by bytes, and the largest.
fn errors(bursts: &[Fared]) -> [Option<f64>; 2] {
    let error = |it: &Fared| Some((it.as_it_was_mbps / it.measured_mbps? - 1.0).abs());
    let errors = || bursts.iter().filter_map(|it| Some((it, error(it)?)));
    let bytes: u64 = errors().map(|(it, _)| it.bytes).sum();
    let weighed = errors().map(|(it, error)| error * it.bytes as f64);
    let mean = (bytes > 0).then(|| weighed.sum::<f64>() / bytes as f64);
    [mean, errors().map(|it| it.1).reduce(f64::max)]
}

impl Outcome {
    fn of(
        replayed: &Replayed,
        fabric: &Fabric,
        bursts: &[Fared],
        mbps: impl Fn(&Fared) -> f64,
    ) -> Self {
        let sending = bursts.iter().filter(|it| it.bytes > 0);
        Self {
            end_ms: replayed.end.millis(),
            busy_ms: replayed.times.iter().map(|time| time.millis()).sum(),
            slowest_mbps: sending.map(mbps).fold(f64::INFINITY, f64::min),
            fullest: fullest(replayed, fabric),
        }
    }
}

/// Returns the fullest links; the links that represent the forwarding of hosts are left out.
fn fullest(replayed: &Replayed, fabric: &Fabric) -> Vec<Fullest> {
    let seconds = replayed.end.seconds().max(1e-9);
    let directions = fabric.links().flat_map(|(id, _)| [(id, false), (id, true)]);
    let all = directions.zip(&replayed.carried_bits);
    let share = |((id, backwards), bits): ((LinkId, bool), &f64)| {
        let share = bits / seconds / fabric.link(id).rate.bits_per_s() as f64;
        Fullest::new(fabric, id, backwards, share)
    };
    let mut all: Vec<_> = all.filter(|(_, bits)| **bits > 0.0).map(share).collect();
    all.sort_by(|a, b| b.share.total_cmp(&a.share));
    all.truncate(MAX_FULLEST_LINKS);
    all
}

impl Fullest {
    pub(super) fn new(fabric: &Fabric, id: LinkId, backwards: bool, share: f64) -> Self {
        let link = fabric.link(id);
        let mut ends = [link.a.node, link.b.node];
        if backwards {
            ends.reverse();
        }
        let [from, to] = ends.map(|node| fabric.name(node).to_owned());
        Self {
            link: fabric.link_name(id),
            from,
            to,
            share,
        }
    }
}
