//! Probes of which hardly any arrive, on paths without a complete trace.
//!
//! They may have been lost on any shortest path from where the trace ended, but not where other probes arrive. If
//! others arrive everywhere, only the two hosts are known.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::{Fabric, Role};
use reweave_common::ids::NodeId;
use reweave_common::snapshot::Hop;

use super::error::EvidenceError;
use super::evidence::{Evidence, Probed, UNKNOWN_NODE};
use super::localise::{Probe, Suspect, is_dead};
use super::passages::{goes_round, passages};
use super::votes::{Ground, Votes};
use super::{Cause, Class, Subject};
use crate::paths::{Atlas, HopIndex};

/// Minimum number of sent probes: of fewer, all may be lost by chance or at the start.
const MIN_SENT_PROBES: u64 = 10;
/// Minimum number of arrived probes that clears a hop.
const MIN_DELIVERED_PROBES: u64 = 10;
/// More pairs of hosts show the same fault.
const MAX_PAIRS: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Vanished {
    /// Probes with the hops on which they may have been lost.
    pub(super) placed: Vec<Probe>,
    unplaced: BTreeMap<[NodeId; 2], Votes>,
}

impl Vanished {
    /// Returns the vanished probes, given those with known paths.
    pub(super) fn of(
        atlas: &mut Atlas<'_>,
        evidence: &Evidence,
        traced: &[Probe],
    ) -> Result<Self, EvidenceError> {
        let (passable, mut vanished) = (passable(atlas, traced), Self::default());
        for probed in evidence.probes.iter().filter(|it| is_lost_from_sight(it)) {
            let mut probe = probe(atlas, probed)?;
            probe.hops.retain(|&hop| !passable[hop]);
            match (probe.hops.is_empty(), probe.hosts) {
                (false, _) => vanished.placed.push(probe),
                (true, [Some(from), Some(to)]) => {
                    let pair = [from.min(to), from.max(to)].map(NodeId::from_index);
                    vanished.unplaced.entry(pair).or_default().add(&probe);
                }
                (true, _) => {}
            }
        }
        Ok(vanished)
    }

    /// Describes why an element is suspected of losing probes that are not known to have crossed it.
    pub(super) fn said_of(&self, suspect: Suspect, ground: &Ground) -> Option<String> {
        let by_it = self.placed.iter().filter(|it| suspect.touches(it, ground));
        let ways = by_it.count();
        (ways > 0).then(|| {
            format!(
                "{ways} of the paths there could not be traced to their ends: they may have led \
                 there, and no probes pass"
            )
        })
    }

    pub(super) fn findings(&self, fabric: &Fabric) -> Vec<Cause> {
        let mut pairs: Vec<_> = self.unplaced.iter().collect();
        pairs.sort_by_key(|(_, votes)| std::cmp::Reverse(votes.lost));
        let finding = |(pair, votes): (&[NodeId; 2], &Votes)| {
            let [one, other] = pair.map(|node| fabric.name(node).to_owned());
            let said = format!(
                "{} of {} probes on some of the paths lost between {one} and {other}: no trace \
                 passes there, while other probes pass every link between them",
                votes.lost, votes.sent
            );
            Class::LossyLink.cause(Subject::Pair([one, other]), 0.5, said)
        };
        pairs.into_iter().take(MAX_PAIRS).map(finding).collect()
    }
}

/// Whether it is evidence although its path is unknown.
pub(super) fn is_lost_from_sight(probed: &Probed) -> bool {
    let is_dead = probed.sent >= MIN_SENT_PROBES && is_dead([probed.sent, probed.lost]);
    let mut known = probed.path.iter().filter(|name| *name != UNKNOWN_NODE);
    let mut unknown = probed.path.iter().filter(|name| *name == UNKNOWN_NODE);
    let is_in_part = known.nth(1).is_some() && unknown.next().is_some();
    is_dead && is_in_part && goes_round(&probed.path).is_none()
}

/// Hops over which probes come through.
fn passable(atlas: &Atlas<'_>, traced: &[Probe]) -> Vec<bool> {
    let mut votes = vec![Votes::default(); atlas.hops()];
    for probe in traced {
        probe.hops.iter().for_each(|&hop| votes[hop].add(probe));
    }
    let passes =
        |votes: Votes| votes.sent - votes.lost >= MIN_DELIVERED_PROBES && votes.share() < 0.5;
    votes.into_iter().map(passes).collect()
}

/// Over all hops that it is known to cross, or may cross where that is not known.
fn probe(atlas: &mut Atlas<'_>, probed: &Probed) -> Result<Probe, EvidenceError> {
    let fabric = atlas.fabric;
    let way = passages(fabric, &probed.path, &probed.links)?;
    let hops = way.iter().flat_map(|it| it.each(fabric));
    let mut crossed: BTreeSet<HopIndex> = hops.map(|hop| atlas.index(hop)).collect();
    for gap in probed.path.windows(3).filter(|it| it[1] == UNKNOWN_NODE) {
        if let [Some(from), Some(to)] = [&gap[0], &gap[2]].map(|name| fabric.find(name)) {
            crossed.extend(between(atlas, from, to));
        }
    }
    let named = probed.path.iter().filter_map(|name| fabric.find(name));
    let mut hosts = named.filter(|&node| fabric.node(node).role != Role::Switch);
    let first = hosts.next();
    let other = hosts.find(|&host| Some(host) != first);
    Ok(Probe {
        hops: crossed.into_iter().collect(),
        hosts: [first, other].map(|host| host.map(NodeId::index)),
        sent: probed.sent,
        lost: probed.lost,
    })
}

/// Returns all hops of all shortest paths.
fn between(atlas: &mut Atlas<'_>, from: NodeId, to: NodeId) -> BTreeSet<HopIndex> {
    let (mut open, mut found) = (vec![from], BTreeSet::new());
    while let Some(at) = open.pop() {
        for link in atlas.choices(at, to) {
            let hop = Hop { from: at, link };
            if found.insert(atlas.index(hop)) {
                open.push(atlas.far(hop));
            }
        }
    }
    found
}
