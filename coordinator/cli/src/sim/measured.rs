//! Loss of links in a past period, from probes and port counters of the history.

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;
use reweave_common::flow::FlowKey;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::snapshot::Hop;
use reweave_history::{Figures, HealthSeen, Kind, LinkSeen, ProbesSeen, Seen, Window};
use reweave_repair::causes::Probe;
use reweave_repair::paths::Atlas;
use reweave_sim::workload::losses::{Loss, Received, losses};
use serde::Serialize;

/// Kinds of measurements that show loss.
pub(super) const LOSS_KINDS: [Kind; 4] = [Kind::Probes, Kind::Paths, Kind::Links, Kind::Health];
/// Name in the history of the counter of broken frames.
const FRAME_ERRORS_SIGNAL: &str = "frame errors";

/// Loss of one link.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Lossy {
    pub(super) link: String,
    #[serde(flatten)]
    pub(super) loss: Loss,
}

pub(super) fn lossy(window: &Window, fabric: &Fabric) -> BTreeMap<LinkId, Loss> {
    let past = Looking::at(window, fabric);
    losses(fabric, &past.probes(), &past.received())
}

pub(super) fn listed(losses: &BTreeMap<LinkId, Loss>, fabric: &Fabric) -> Vec<Lossy> {
    let named = losses.iter().map(|(&cable, &loss)| Lossy {
        link: fabric.link_name(cable),
        loss,
    });
    let mut named: Vec<_> = named.collect();
    named.sort_by(|a, b| b.loss.part.total_cmp(&a.loss.part));
    named
}

/// A period, and the fabric that it refers to. Nodes match by name, because links may be numbered differently.
struct Looking<'l> {
    window: &'l Window,
    fabric: &'l Fabric,
    /// Hops of each flow in its last trace, by sender and flow.
    traced: BTreeMap<(&'l str, FlowKey), &'l str>,
}

impl<'l> Looking<'l> {
    fn at(window: &'l Window, fabric: &'l Fabric) -> Self {
        let paths = window.paths.iter().map(|seen| &seen.what);
        let traced = paths.filter_map(|it| Some(((&*it.node, it.flow), it.hops.as_deref()?)));
        Self {
            window,
            fabric,
            traced: traced.collect(),
        }
    }

    /// Returns the probes. One with an unknown path is left out, because the place of its loss is unknown.
    fn probes(&self) -> Vec<Probe> {
        let mut atlas = Atlas::new(self.fabric);
        let seen = self.window.probes.iter();
        seen.filter_map(|seen| self.probe(seen, &mut atlas))
            .collect()
    }

    fn probe(&self, seen: &Seen<ProbesSeen>, atlas: &mut Atlas<'_>) -> Option<Probe> {
        let ProbesSeen {
            node,
            to_node,
            flow,
            sent,
            lost,
            ..
        } = &seen.what;
        let to_node = to_node.as_deref()?;
        let ends = [self.fabric.find(node)?, self.fabric.find(to_node)?];
        let mut hops = self.way(node, *flow, ends, atlas)?;
        let [from, to] = ends;
        let back = self.way(to_node, flow.reversed(), [to, from], atlas);
        hops.extend(back.into_iter().flatten());
        let mut hops: Vec<_> = hops.into_iter().map(|hop| atlas.index(hop)).collect();
        hops.sort_unstable();
        hops.dedup();
        Some(Probe {
            hops,
            hosts: ends.map(|end| Some(end.index())),
            sent: all(seen.readings, sent.as_ref()),
            lost: all(seen.readings, lost.as_ref()),
        })
    }

    /// Returns the traced path, or the only possible one.
    fn way(
        &self,
        node: &str,
        flow: FlowKey,
        [from, to]: [NodeId; 2],
        atlas: &mut Atlas<'_>,
    ) -> Option<Vec<Hop>> {
        match self.traced.get(&(node, flow)) {
            Some(hops) => self.along(hops, to),
            None => self.only(from, to, atlas),
        }
    }

    /// Parses hops such as `h0/3 leaf0/8`: the sending nodes, each with the number of its link.
    fn along(&self, hops: &str, to: NodeId) -> Option<Vec<Hop>> {
        let steps: Option<Vec<_>> = hops
            .split(' ')
            .map(|hop| {
                let (name, link) = hop.rsplit_once('/')?;
                Some((self.fabric.find(name)?, link.parse::<usize>().ok()?))
            })
            .collect();
        let steps = steps?;
        let nexts = steps.iter().skip(1).map(|step| step.0).chain([to]);
        let hop = |(&(from, number), next): (&(NodeId, usize), NodeId)| {
            let link = self.cable([from, next], Some(number))?;
            Some(Hop { from, link })
        };
        steps.iter().zip(nexts).map(hop).collect()
    }

    fn only(&self, from: NodeId, to: NodeId, atlas: &mut Atlas<'_>) -> Option<Vec<Hop>> {
        let (mut at, mut hops) = (from, Vec::new());
        while at != to {
            let [link] = atlas.choices(at, to)[..] else {
                return None;
            };
            let hop = Hop { from: at, link };
            at = atlas.far(hop);
            hops.push(hop);
        }
        Some(hops)
    }

    /// Returns the cable between two nodes. The number selects one of several.
    fn cable(&self, [a, b]: [NodeId; 2], number: Option<usize>) -> Option<LinkId> {
        let between = || self.fabric.links_between(a, b);
        let same = between().find(|link| Some(link.index()) == number);
        same.or_else(|| between().next())
    }

    /// Returns the numbers of intact and broken frames per port.
    fn received(&self) -> Vec<Received> {
        let mut broken: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for seen in &self.window.health {
            let HealthSeen {
                node,
                place,
                signal,
                grown,
                ..
            } = &seen.what;
            if signal == FRAME_ERRORS_SIGNAL {
                *broken.entry((node, place)).or_default() += all(seen.readings, grown.as_ref());
            }
        }
        let of_port = |(&(node, interface), &broken): (&(&str, &str), &u64)| {
            let is_port = |it: &&LinkSeen| it.node == node && it.interface == interface;
            let links = self.window.links.iter().map(|seen| &seen.what);
            let rows: Vec<_> = links.filter(is_port).collect();
            let [first, last] = [*rows.first()?, *rows.last()?];
            let ends = [
                self.fabric.find(node)?,
                self.fabric.find(last.to_node.as_deref()?)?,
            ];
            Some(Received {
                cable: self.cable(ends, last.link.map(|link| link as usize))?,
                bytes: last.received_bytes.saturating_sub(first.received_bytes),
                broken,
            })
        };
        broken.iter().filter_map(of_port).collect()
    }
}

/// Returns the sum of a figure over this number of readings.
fn all(readings: u64, figures: Option<&Figures>) -> u64 {
    let sum = figures.map_or(0.0, |figures| figures.mean * readings as f64);
    sum.round() as u64
}
