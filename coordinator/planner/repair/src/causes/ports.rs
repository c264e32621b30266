//! Distinguishes a lossy switch from some lossy ports, and a lossy host from a lossy link on its probes' paths.
//!
//! Single ports are no measure: packets that cross twice are lost twice as often, and other faults affect only some
//! ports. So the switch is compared with the worst set of its ports: if all of them lose, any subset leaves losses
//! unexplained.

use std::collections::BTreeMap;

use super::localise::{MAX_AMBIGUOUS_EVIDENCE, Probe, Suspect};
use super::votes::{Cast, Ground, MIN_LOST_PROBES, Votes};
use crate::paths::HopIndex;

/// Each further fault at the same time costs this log-likelihood in nats: it is e^5 = 150 times less likely beforehand.
pub(super) const EXTRA_FAULT_PENALTY: f64 = 5.0;
/// More faults of ports at one switch are less likely than one fault of the switch, for any losses.
const MAX_FAULTS_PER_SWITCH: usize = 4;
/// Maximum cost of a crossing: the negative natural logarithm of the share that passes. About one packet in 10^18 does.
const MAX_COST: f64 = 41.0;
/// Each step halves the interval in which the cost lies.
const BISECTION_STEPS: usize = 60;

/// Parts of a switch that may lose packets: ports of entry, ports of exit, whole links, or any of these.
#[derive(Debug, Clone, Copy)]
enum Parts {
    Entries,
    Exits,
    Links,
    Any,
}

/// Returns the log-likelihood ratio, in nats, of some lossy ports or bidirectional links of the switch against the switch as a
/// whole. Above zero, the ports or links explain the losses better.
pub(super) fn by_ports(switch: usize, cast: &Cast, probes: &[&Probe], ground: &Ground) -> f64 {
    let is_at = |probe: &&Probe| probe.hops.iter().any(|&hop| ground.is_at(hop, switch));
    let own: Vec<_> = probes.iter().copied().filter(is_at).collect();
    let mut counts = vec![Votes::default(); ground.switches.len() * 3 / 2];
    // By chance, the likeliest of all may be a link without losses.
    let kinds = [Parts::Entries, Parts::Exits, Parts::Links, Parts::Any];
    let mut likeliest = f64::NEG_INFINITY;
    for parts in kinds {
        let of_these = parts.likeliest(switch, own.clone(), cast.all, ground, &mut counts);
        likeliest = likeliest.max(of_these);
    }
    likeliest - as_a_whole(switch, &own, cast.all, ground)
}

/// Returns the evidence against the likeliest bidirectional link among all that a host's probes cross: a lossy host
/// loses on any path.
pub(super) fn by_links(host: usize, cast: &Cast, probes: &[&Probe], ground: &Ground) -> f64 {
    let mut crossed = vec![false; cast.links.len()];
    let is_lost = |it: &&&Probe| it.lost > 0 && ground.has_to_do_with(it, host);
    for probe in probes.iter().filter(is_lost) {
        probe.hops.iter().for_each(|hop| crossed[hop / 2] = true);
    }
    let crossed = cast
        .links
        .iter()
        .zip(crossed)
        .filter(|(_, crossed)| *crossed);
    let evidence = crossed.filter_map(|(votes, _)| votes.against(cast.all));
    evidence.fold(f64::NEG_INFINITY, f64::max)
}

/// For a host with several cables: returns the likeliest cable to lose packets in both directions, the nearly as likely
/// ones, and the log-likelihood ratio of the first to the host, in nats. A probe that crosses a cable or the host twice
/// loses more.
pub(super) fn by_cable(
    host: usize,
    cast: &Cast,
    probes: &[&Probe],
    ground: &Ground,
) -> Option<(Vec<Suspect>, f64)> {
    let cables = ground.cables.get(host).filter(|it| it.len() > 1)?;
    let is_own = |it: &&&Probe| ground.has_to_do_with(it, host);
    let own: Vec<&Probe> = probes.iter().filter(is_own).copied().collect();
    let others = cast.all.without(cast.hosts[host]);
    let as_a_whole = by_crossings(&own, cables, others);
    let alone = |cable: &HopIndex| by_crossings(&own, &[*cable], others) - as_a_whole;
    let each: Vec<_> = cables.iter().map(|cable| (alone(cable), *cable)).collect();
    let ahead = each.iter().map(|it| it.0).fold(f64::NEG_INFINITY, f64::max);
    let near = each
        .iter()
        .filter(|it| it.0 > ahead - MAX_AMBIGUOUS_EVIDENCE);
    Some((near.map(|it| Suspect::Link(it.1)).collect(), ahead))
}

/// Returns the log-likelihood of the losses, in nats, if each crossing of one of these links loses the same share. Probes that
/// cross none lose the share of all other probes.
fn by_crossings(probes: &[&Probe], links: &[HopIndex], mut others: Votes) -> f64 {
    let mut by_crossings: BTreeMap<usize, Votes> = BTreeMap::new();
    for probe in probes {
        let hops = probe.hops.iter();
        let crossings = hops.filter(|&&hop| links.contains(&(hop & !1))).count();
        by_crossings.entry(crossings).or_default().add(probe);
    }
    let none = by_crossings.remove(&0).unwrap_or_default();
    others.take(none);
    let one_passes = share_that_passes(&by_crossings);
    let crossing = by_crossings.iter().map(|(&crossings, votes)| {
        let all_pass = libm::pow(one_passes, crossings as f64);
        votes.likelihood_at(1.0 - all_pass)
    });
    crossing.sum::<f64>() + none.likelihood_at(others.share())
}

/// Returns the share that passes one crossing, at the highest likelihood. Bisects its cost, as the log-likelihood is concave in it.
fn share_that_passes(by_crossings: &BTreeMap<usize, Votes>) -> f64 {
    let (mut less, mut more) = (0.0, MAX_COST);
    for _ in 0..BISECTION_STEPS {
        let half = (less + more) / 2.0;
        if likelihood_slope(by_crossings, half) > 0.0 {
            less = half;
        } else {
            more = half;
        }
    }
    libm::exp(-more)
}

/// Returns the derivative of the log-likelihood by the cost of a crossing. Above zero, a higher cost is likelier.
fn likelihood_slope(by_crossings: &BTreeMap<usize, Votes>, cost: f64) -> f64 {
    let each = by_crossings.iter().map(|(&crossings, votes)| {
        let times = crossings as f64;
        let lost = votes.lost as f64 / libm::expm1(times * cost);
        times * (lost - (votes.sent - votes.lost) as f64)
    });
    each.sum::<f64>()
}

/// Returns the log-likelihood ratio of a switch that loses as a whole, in nats. Probes that enter it once and probes that enter
/// it more often have a loss share each.
fn as_a_whole(switch: usize, own: &[&Probe], all: Votes, ground: &Ground) -> f64 {
    let (mut once, mut more) = (Votes::default(), Votes::default());
    for probe in own.iter().filter(|it| ground.passes(it, switch)) {
        match ground.entries(probe, switch) {
            1 => once.add(probe),
            _ => more.add(probe),
        }
    }
    let rest = all.without(once).without(more);
    let apart = once.likelihood() + more.likelihood() + rest.likelihood();
    apart - all.likelihood()
}

impl Parts {
    /// Returns the highest log-likelihood ratio, in nats, of a set of these parts, less the penalty of each part beyond the first.
    /// The set grows by the worst part for the losses that are left.
    fn likeliest(
        self,
        switch: usize,
        mut left: Vec<&Probe>,
        all: Votes,
        ground: &Ground,
        counts: &mut [Votes],
    ) -> f64 {
        let (mut together, mut likeliest) = (Votes::default(), f64::NEG_INFINITY);
        for others in 0..MAX_FAULTS_PER_SWITCH {
            if left.iter().map(|it| it.lost).sum::<u64>() < MIN_LOST_PROBES {
                break;
            }
            let unexplained = all.without(together);
            counts.fill(Votes::default());
            self.count(switch, &left, ground, counts);
            let Some((worst, votes)) = worst(counts, unexplained, ground) else {
                break;
            };
            together.take(votes);
            let evidence = together.against(all).unwrap_or(f64::NEG_INFINITY);
            likeliest = likeliest.max(evidence - EXTRA_FAULT_PENALTY * others as f64);
            left.retain(|probe| !worst.touches(probe, ground));
        }
        likeliest
    }

    /// Directions by their index, and links after all of these.
    fn count(self, switch: usize, probes: &[&Probe], ground: &Ground, counts: &mut [Votes]) {
        let links = ground.switches.len();
        let [entries, exits, both_ways] = match self {
            Self::Entries => [true, false, false],
            Self::Exits => [false, true, false],
            Self::Links => [false, false, true],
            Self::Any => [true, true, true],
        };
        for probe in probes {
            for (place, &hop) in probe.hops.iter().enumerate() {
                if !ground.is_at(hop, switch) {
                    continue;
                }
                let is_entry = ground.enters(hop, switch);
                if entries && is_entry || exits && !is_entry {
                    counts[hop].add(probe);
                }
                if both_ways && !probe.hops[..place].contains(&(hop ^ 1)) {
                    counts[links + hop / 2].add(probe);
                }
            }
        }
    }
}

/// Returns the part with the most evidence against all probes that are left.
fn worst(counts: &[Votes], all: Votes, ground: &Ground) -> Option<(Suspect, Votes)> {
    let judged = counts.iter().enumerate().filter_map(|(place, votes)| {
        let evidence = votes.against(all).filter(|&evidence| evidence > 0.0)?;
        Some((evidence, place, *votes))
    });
    let worst = judged.max_by(|a, b| a.0.total_cmp(&b.0));
    worst.map(|(_, place, votes)| {
        let suspect = match place.checked_sub(ground.switches.len()) {
            None => Suspect::Hop(place),
            Some(link) => Suspect::Link(2 * link),
        };
        (suspect, votes)
    })
}
