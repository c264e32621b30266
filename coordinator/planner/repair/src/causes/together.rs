//! Several faults at once. The element with the most losses may only share the losses of several others. With
//! round-trip results alone, each of several may lose in either direction.

use std::collections::BTreeSet;

use super::localise::{Culprit, MAX_AMBIGUOUS_EVIDENCE, Probe, Suspect, is_dead};
use super::ports::EXTRA_FAULT_PENALTY;
use super::votes::{Ground, Votes};
use crate::paths::HopIndex;

/// Whether all losses are more than e^3 = 20 times likelier with these culprits than with the others.
pub(super) fn explain_more(
    these: &[Culprit],
    others: &[Culprit],
    probes: &[&Probe],
    ground: &Ground,
) -> bool {
    let likelihood = |all| likelihood(all, probes, ground);
    likelihood(these) > likelihood(others) + MAX_AMBIGUOUS_EVIDENCE
}

/// Returns the log-likelihood of all losses in nats, less a penalty for each culprit. Each culprit has a loss share for the
/// probes that the previous ones leave.
fn likelihood(culprits: &[Culprit], probes: &[&Probe], ground: &Ground) -> f64 {
    let mut left = probes.to_vec();
    let mut likelihood = 0.0;
    for culprit in culprits {
        let is_its = |it: &&Probe| culprit.suspects[0].touches(it, ground);
        let (its, others): (Vec<&Probe>, Vec<&Probe>) = left.into_iter().partition(is_its);
        likelihood += Votes::of(its).likelihood() - EXTRA_FAULT_PENALTY;
        left = others;
    }
    likelihood + Votes::of(left).likelihood()
}

/// If several links of one switch lose in one direction, and losses in the other direction would explain as much, names
/// the links without a direction: such as a leaf that nothing leaves, or nothing enters.
pub(super) fn without_direction(
    mut culprits: Vec<Culprit>,
    probes: &[&Probe],
    ground: &Ground,
) -> Vec<Culprit> {
    for group in groups(&culprits, ground) {
        let turned: Vec<_> = culprits.iter().map(|it| it.turned(&group)).collect();
        if !explain_more(&culprits, &turned, probes, ground) {
            culprits.iter_mut().for_each(|it| it.widen(&group));
        }
    }
    culprits
}

/// If nothing arrives through a switch that other traffic crosses, names all its indistinguishable links as dead:
/// probes lost on untraced paths may have used any of them.
pub(super) fn with_all_of_cut_off(
    culprits: Vec<Culprit>,
    probes: &[&Probe],
    ground: &Ground,
) -> Vec<Culprit> {
    let is_cut_off = |links: &[HopIndex]| {
        let mut switches = ends(links, ground).into_iter();
        links.len() > 1 && switches.any(|switch| is_cut_off(switch, links, probes, ground))
    };
    let each = culprits.into_iter().flat_map(|culprit| {
        let links = culprit.links();
        if is_cut_off(&links) {
            culprit.laid_to(&links, probes, ground)
        } else {
            vec![culprit]
        }
    });
    each.collect()
}

/// Whether these are links of a switch, and probes are known to be sent over each link that it has to other switches,
/// of which hardly any come through, while others come through the switch.
fn is_cut_off(switch: usize, these: &[HopIndex], probes: &[&Probe], ground: &Ground) -> bool {
    let links = ground.links_of(switch).into_iter();
    let links: Vec<_> = links.filter(|&hop| ground.is_inner(hop)).collect();
    let by = |probe: &Probe, link: HopIndex| Suspect::Link(link).touches(probe, ground);
    let is_dead = |&link: &HopIndex| {
        let votes = Suspect::Link(link).votes(probes, ground);
        votes.sent > 0 && is_dead([votes.sent, votes.lost])
    };
    let comes_through = |it: &&Probe| {
        it.lost < it.sent && ground.passes(it, switch) && !links.iter().any(|&link| by(it, link))
    };
    let are_its = these.iter().all(|link| links.contains(link));
    are_its && links.iter().all(is_dead) && probes.iter().any(comes_through)
}

/// Links of which one direction alone is named, by the switch that they are at.
fn groups(culprits: &[Culprit], ground: &Ground) -> Vec<Vec<HopIndex>> {
    let named: Vec<_> = culprits.iter().filter_map(Culprit::only_hop).collect();
    let is_alone = |hop: &&HopIndex| !named.contains(&(**hop ^ 1));
    let hops: Vec<_> = named.iter().filter(is_alone).copied().collect();
    let groups = ends(&hops, ground).into_iter().map(|switch| {
        let at = hops.iter().filter(|&&hop| ground.is_at(hop, switch));
        at.copied().collect::<Vec<_>>()
    });
    groups.filter(|group| group.len() > 1).collect()
}

/// All switches at one of them.
fn ends(hops: &[HopIndex], ground: &Ground) -> BTreeSet<usize> {
    let ends = hops.iter().flat_map(|&hop| ground.switches[hop]);
    ends.flatten().collect()
}

impl Culprit {
    /// The suspected links, if nothing else is suspected.
    fn links(&self) -> Vec<HopIndex> {
        let links: Option<BTreeSet<_>> = self
            .suspects
            .iter()
            .map(|it| match *it {
                Suspect::Hop(hop) | Suspect::Link(hop) => Some(hop & !1),
                _ => None,
            })
            .collect();
        links.unwrap_or_default().into_iter().collect()
    }

    /// The same of each of these.
    fn laid_to(&self, links: &[HopIndex], probes: &[&Probe], ground: &Ground) -> Vec<Self> {
        let laid = links.iter().map(|&link| {
            let link = Suspect::Link(link);
            let Votes { sent, lost, .. } = link.votes(probes, ground);
            Self {
                suspects: vec![link],
                sent,
                lost,
                ..self.clone()
            }
        });
        laid.collect()
    }

    fn only_hop(&self) -> Option<HopIndex> {
        match self.suspects[..] {
            [Suspect::Hop(hop)] => Some(hop),
            _ => None,
        }
    }

    /// Returns the opposite direction, if it is one of these.
    fn turned(&self, group: &[HopIndex]) -> Self {
        let mut turned = self.clone();
        if let Some(hop) = self.only_hop().filter(|hop| group.contains(hop)) {
            turned.suspects = vec![Suspect::Hop(hop ^ 1)];
        }
        turned
    }

    /// Extends it to both directions, if it is one of these.
    fn widen(&mut self, group: &[HopIndex]) {
        if let Some(hop) = self.only_hop().filter(|hop| group.contains(hop)) {
            self.suspects = vec![Suspect::Link(hop & !1)];
        }
    }
}
