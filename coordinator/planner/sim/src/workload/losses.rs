//! Derives the losses of links from probes and the counters of ports.

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;
use reweave_common::ids::{LinkId, NodeId};
use reweave_repair::causes::{Culprit, Ground, Probe, Suspect, localise};
use reweave_repair::paths::Atlas;
use serde::Serialize;

/// Frames received at one end of a cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    pub cable: LinkId,
    pub bytes: u64,
    /// Frames that came in broken, which are not among the bytes.
    pub broken: u64,
}

/// Loss of a cable, with its evidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Loss {
    /// Share of packets.
    pub part: f64,
    #[serde(flatten)]
    pub by: Known,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "by", rename_all = "lowercase")]
pub enum Known {
    /// Number of probes that crossed it and lost more than others. Any of this number of cables may be the cause.
    Probes {
        lost: u64,
        sent: u64,
        suspects: usize,
    },
    /// At least this number of broken frames, out of at least this number.
    Port { broken: u64, frames: u64 },
}

/// No frame is longer, so that there were no fewer of them.
const MAX_FRAME_BYTES: u64 = 9018;

/// Returns the cables with loss. Probes that cannot distinguish several cables count for each; of probes and ports, the
/// worse counts.
pub fn losses(fabric: &Fabric, probes: &[Probe], received: &[Received]) -> BTreeMap<LinkId, Loss> {
    let culprits = localise(&Ground::of(&Atlas::new(fabric)), probes);
    let by_probes = culprits
        .iter()
        .flat_map(|culprit| of_culprit(fabric, culprit));
    let by_ports = received.iter().filter_map(of_port);
    let mut worst: BTreeMap<LinkId, Loss> = BTreeMap::new();
    for (cable, loss) in by_probes.chain(by_ports) {
        let known = worst.entry(cable).or_insert(loss);
        if loss.part > known.part {
            *known = loss;
        }
    }
    worst
}

fn of_culprit(fabric: &Fabric, culprit: &Culprit) -> Vec<(LinkId, Loss)> {
    let cables = culprit.suspects.iter().flat_map(|suspect| match *suspect {
        Suspect::Hop(hop) | Suspect::Link(hop) => vec![LinkId::from_index(hop / 2)],
        Suspect::Host(node) | Suspect::Switch(node) => {
            fabric.links_of(NodeId::from_index(node)).to_vec()
        }
    });
    let mut cables: Vec<_> = cables.collect();
    cables.sort_unstable();
    cables.dedup();
    let Culprit { sent, lost, .. } = *culprit;
    let part = lost as f64 / sent.max(1) as f64 - culprit.elsewhere;
    let suspects = cables.len();
    let by = Known::Probes {
        lost,
        sent,
        suspects,
    };
    let loss = Loss {
        part: part.clamp(0.0, MAX_LOST_SHARE),
        by,
    };
    cables.into_iter().map(|cable| (cable, loss)).collect()
}

/// A cable that loses all is none.
const MAX_LOST_SHARE: f64 = 0.999;

fn of_port(received: &Received) -> Option<(LinkId, Loss)> {
    let Received {
        cable,
        bytes,
        broken,
    } = *received;
    let frames = broken + bytes.div_ceil(MAX_FRAME_BYTES);
    let loss = Loss {
        part: (broken as f64 / frames.max(1) as f64).min(MAX_LOST_SHARE),
        by: Known::Port { broken, frames },
    };
    (broken > 0).then_some((cable, loss))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reweave_common::snapshot::Hop;

    const LEAF_SPINE: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\n\
                          host_gbps = 8\nuplink_gbps = 8";

    fn fabric() -> Fabric {
        Fabric::parse("fabric.toml", LEAF_SPINE).unwrap()
    }

    fn cable(fabric: &Fabric, name: &str) -> LinkId {
        let found = fabric.find_link(name);
        found.unwrap_or_else(|| panic!("{name} is no link"))
    }

    /// Probes over these nodes, of which each crossing of a lossy link loses one in ten.
    fn probe(fabric: &Fabric, nodes: [&str; 5], lost: u64) -> Probe {
        let atlas = Atlas::new(fabric);
        let ids = nodes.map(|name| fabric.find(name).unwrap());
        let hop = |pair: &[NodeId]| {
            let link = fabric.links_between(pair[0], pair[1]).next().unwrap();
            atlas.index(Hop {
                from: pair[0],
                link,
            })
        };
        Probe {
            hops: ids.windows(2).map(hop).collect(),
            hosts: [ids[0], ids[4]].map(|id| Some(id.index())),
            sent: 1000,
            lost,
        }
    }

    #[test]
    fn loss_is_attributed_to_common_cable() {
        let fabric = fabric();
        let mut probes = Vec::new();
        for from in ["h0", "h1"] {
            for to in ["h2", "h3"] {
                for (spine, lost) in [("spine0", 100), ("spine1", 0)] {
                    probes.push(probe(&fabric, [from, "leaf0", spine, "leaf1", to], lost));
                    let spine_alone = [to, "leaf1", spine, "leaf0", from];
                    probes.push(probe(&fabric, spine_alone, 0));
                }
            }
        }
        let losses = losses(&fabric, &probes, &[]);
        let names: Vec<_> = losses.keys().map(|&id| fabric.link_name(id)).collect();
        assert_eq!(names, ["leaf0-spine0", "leaf1-spine0"]);
        for loss in losses.values() {
            assert!((loss.part - 0.1).abs() < 1e-9, "{loss:?}");
            let by = Known::Probes {
                lost: 400,
                sent: 4000,
                suspects: 2,
            };
            assert_eq!(loss.by, by);
        }
    }

    #[test]
    fn broken_frames_share_all_received() {
        let fabric = fabric();
        let at = |name, broken| Received {
            cable: cable(&fabric, name),
            bytes: 9018 * 99,
            broken,
        };
        let losses = losses(&fabric, &[], &[at("h0-leaf0", 1), at("h1-leaf0", 0)]);
        let loss = losses[&cable(&fabric, "h0-leaf0")];
        assert_eq!(loss.part, 0.01);
        assert_eq!(losses.len(), 1);
    }

    #[test]
    fn lossless_links_are_not_listed() {
        let fabric = fabric();
        let probe = probe(&fabric, ["h0", "leaf0", "spine0", "leaf1", "h2"], 0);
        assert!(losses(&fabric, &[probe], &[]).is_empty());
    }
}
