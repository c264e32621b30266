//! Locates the loss of probes by votes of traced paths.
//!
//! Two models are compared for each direction of a link, each host and each switch. In the first, probes that cross the
//! element are lost with one probability and all other probes with another. In the second, all probes are lost with the
//! same probability. The evidence is the logarithm of the ratio of their likelihoods, each at the observed shares, in
//! nats. The element with the most evidence is removed together with all probes that cross it, and the rest is judged
//! again. Elements with nearly equal evidence cannot be distinguished.

use super::ports::{by_cable, by_links, by_ports};
use super::together::{explain_more, with_all_of_cut_off, without_direction};
use super::votes::{Cast, Ground, Votes};
use crate::paths::HopIndex;

/// Probes of one flow and the hops they crossed, there and back.
#[derive(Debug, Clone, Default)]
pub struct Probe {
    pub hops: Vec<HopIndex>,
    /// Hosts at the ends; none for a switch that sends or answers.
    pub hosts: [Option<usize>; 2],
    pub sent: u64,
    pub lost: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suspect {
    Host(usize),
    Switch(usize),
    Hop(HopIndex),
    /// Both directions of the link that this is the first of.
    Link(HopIndex),
}

/// An element that loses probes, or several of which one does; likeliest first, but hosts and switches before links.
#[derive(Debug, Clone, PartialEq)]
pub struct Culprit {
    pub suspects: Vec<Suspect>,
    /// One direction of a link is likelier than the host at its end, and not by enough to clear the host.
    pub may_be_host: bool,
    pub sent: u64,
    pub lost: u64,
    /// The loss share of the probes that do not cross it.
    pub elsewhere: f64,
    /// The log-likelihood ratio in nats of two loss shares, of the probes that cross it and of all others, against one share.
    pub evidence: f64,
}

/// Least log-likelihood ratio of a named suspect, in nats. Twice the ratio is about chi-squared with one degree of freedom if
/// the suspect loses no more than the rest (Wilks). Chance reaches 16 nats in fewer than one of e^16 (9 million) tests.
const MIN_EVIDENCE: f64 = 16.0;
/// Suspects are ambiguous if their log-likelihood ratios differ by less than this, in nats: the losses are at most e^3 = 20
/// times likelier with one of them than with the other.
pub(super) const MAX_AMBIGUOUS_EVIDENCE: f64 = 3.0;
/// A host is cleared if a link explains the losses better by this log-likelihood ratio, in nats. A host that loses in both
/// directions may have lost in one alone by chance: 12 coins that show the same side are 12 ln 2 = 8.3 nats.
const MIN_EVIDENCE_AGAINST_HOST: f64 = 8.0;
/// A switch is cleared if some of its ports explain the losses better by this log-likelihood ratio, in nats. Ports of a switch
/// that loses as a whole differ by less by chance.
const MIN_EVIDENCE_AGAINST_SWITCH: f64 = 8.0;
/// Least ratio of the loss shares of two directions of one cable that have a fault each.
const MIN_DIRECTION_RATIO: f64 = 4.0;
const MAX_CULPRITS: usize = 16;

pub fn localise(ground: &Ground, probes: &[Probe]) -> Vec<Culprit> {
    let sent: Vec<&Probe> = probes.iter().filter(|probe| probe.sent > 0).collect();
    let mut culprits = one_by_one(ground, &sent, Order::Likeliest);
    // If some probes arrive on every path, no element is dead.
    if sent.iter().any(|it| is_dead([it.sent, it.lost])) {
        let dead_first = one_by_one(ground, &sent, Order::DeadFirst);
        if explain_more(&dead_first, &culprits, &sent, ground) {
            culprits = dead_first;
        }
    }
    let culprits = without_direction(culprits, &sent, ground);
    with_all_of_cut_off(culprits, &sent, ground)
}

/// Order in which culprits are named.
#[derive(Debug, Clone, Copy)]
enum Order {
    Likeliest,
    /// Elements that drop everything come first: several of them may take more from one host than each of them does.
    DeadFirst,
}

fn one_by_one(ground: &Ground, probes: &[&Probe], order: Order) -> Vec<Culprit> {
    let mut left = probes.to_vec();
    let mut culprits = Vec::new();
    while let Some(culprit) = likeliest(ground, &left, order) {
        let first = culprit.suspects[0];
        left.retain(|probe| !first.touches(probe, ground));
        culprits.push(culprit);
        if culprits.len() == MAX_CULPRITS {
            break;
        }
    }
    culprits
}

fn likeliest(ground: &Ground, probes: &[&Probe], order: Order) -> Option<Culprit> {
    let cast = ground.cast(probes);
    let mut weighed = weighed(&cast, probes, ground);
    if let Order::DeadFirst = order {
        dead_alone(&mut weighed, &cast);
    }
    let weighed = &weighed[weighed.iter().position(|it| is_convincing(it, &cast))?..];
    let host = host_behind(weighed, probes, ground);
    let (weighed, open) = match host {
        Some((place, true)) => (&weighed[place..], None),
        open => (weighed, open.map(|(place, _)| weighed[place].1)),
    };
    let &(evidence, first, votes) = weighed.first()?;
    let is_near = |it: &&Weighed| it.0 > evidence - first.margin(it.1, ground);
    let near = weighed.iter().filter(is_near);
    let near = near.filter(|it| it.1 == first || !is_apart(it.1, first, probes, ground));
    let near: Vec<_> = near.map(|it| it.1).collect();
    let is_distinct = |it: &Suspect| !is_behind_host(*it, &near, probes, ground);
    let mut suspects: Vec<_> = near.iter().copied().filter(is_distinct).collect();
    suspects.extend(parts_behind(weighed, &cast, probes, ground));
    let may_be_host = open.is_some_and(|host| !suspects.contains(&host));
    suspects.extend(open.filter(|_| may_be_host));
    suspects.extend(cables_between(&suspects, ground));
    // A switch that is only not cleared yet stays behind.
    let goes_first = |it: &Suspect| match it {
        Suspect::Host(_) => true,
        Suspect::Switch(_) => weighed.iter().any(|(weight, suspect, _)| {
            suspect == it && *weight > evidence - MAX_AMBIGUOUS_EVIDENCE
        }),
        _ => false,
    };
    if let Some(node) = suspects.iter().position(goes_first) {
        suspects[..=node].rotate_right(1);
    }
    let mut culprit = Culprit {
        suspects,
        may_be_host,
        sent: votes.sent,
        lost: votes.lost,
        elsewhere: cast.all.without(votes).share(),
        evidence,
    };
    if let Suspect::Host(host) = first
        && let Some((cables, ahead)) = by_cable(host, &cast, probes, ground)
    {
        culprit.weigh_cables(cables, ahead, probes, ground);
    }
    Some(culprit)
}

/// If some elements certainly drop nearly everything, keeps the elements whose loss shares cannot be distinguished from the
/// highest share of these.
fn dead_alone(weighed: &mut Vec<Weighed>, cast: &Cast) {
    let is_dead = |it: &&Weighed| is_dead([it.2.sent, it.2.lost]) && is_convincing(it, cast);
    let by_share = |a: &&Weighed, b: &&Weighed| a.2.share().total_cmp(&b.2.share());
    if let Some(&(_, _, least)) = weighed.iter().filter(is_dead).max_by(by_share) {
        weighed.retain(|(_, _, votes)| votes.evidence(least) < MAX_AMBIGUOUS_EVIDENCE);
    }
}

/// Whether at least nine of ten are lost.
pub(super) fn is_dead([sent, lost]: [u64; 2]) -> bool {
    lost * 10 >= sent * 9
}

/// Whether chance does not explain these losses, neither if each probe is lost with the same probability nor if each hop of a
/// probe loses with the same probability.
fn is_convincing(&(evidence, _, votes): &Weighed, cast: &Cast) -> bool {
    let rest = cast.all.without(votes);
    evidence.min(votes.evidence_by_crossings(rest)) >= MIN_EVIDENCE
}

/// Whether the suspect also loses probes that do not cross the other one. Then there are two faults, and not one ambiguous
/// fault.
fn is_apart(suspect: Suspect, other: Suspect, probes: &[&Probe], ground: &Ground) -> bool {
    let elsewhere = probes.iter().filter(|it| !other.touches(it, ground));
    let elsewhere: Vec<_> = elsewhere.copied().collect();
    suspect.outweighs(&elsewhere, MIN_EVIDENCE, ground)
}

/// Whether one host sends or answers all probes that cross this direction, and also loses other probes: then the fault
/// is not limited to this direction. If no other probes cross it, because only the round trip is known, the two cannot
/// be distinguished.
fn is_behind_host(suspect: Suspect, near: &[Suspect], probes: &[&Probe], ground: &Ground) -> bool {
    let (over, others): (Vec<&Probe>, Vec<&Probe>) = probes
        .iter()
        .copied()
        .partition(|it| suspect.touches(it, ground));
    let is_it = |host: &Suspect| {
        let is_end = over.iter().all(|it| host.touches(it, ground));
        is_end && host.outweighs(&others, MAX_AMBIGUOUS_EVIDENCE, ground)
    };
    let is_hop = matches!(suspect, Suspect::Hop(_));
    let mut hosts = near.iter().filter(|it| matches!(it, Suspect::Host(_)));
    is_hop && hosts.any(is_it)
}

/// The log-likelihood ratio of a suspect in nats, and the probes that cross it.
type Weighed = (f64, Suspect, Votes);

/// Returns the suspects that lose more than the rest, in order of evidence. With equal evidence, hosts come before switches, and
/// switches before links.
fn weighed(cast: &Cast, probes: &[&Probe], ground: &Ground) -> Vec<Weighed> {
    let hosts = (0..).map(Suspect::Host).zip(&cast.hosts);
    let switches = (0..).map(Suspect::Switch).zip(&cast.switches);
    let hops = (0..).map(Suspect::Hop).zip(&cast.hops);
    let suspects = hosts.chain(switches).chain(hops);
    let weighed =
        suspects.filter_map(|(suspect, &votes)| Some((votes.against(cast.all)?, suspect, votes)));
    let may_be = |(weight, suspect, _): &Weighed| match *suspect {
        // A weaker suspect is never named: it is within no margin of a convincing one.
        Suspect::Switch(switch) if *weight > MIN_EVIDENCE - MIN_EVIDENCE_AGAINST_SWITCH => {
            by_ports(switch, cast, probes, ground) < MIN_EVIDENCE_AGAINST_SWITCH
        }
        Suspect::Host(host) if *weight > MIN_EVIDENCE - MIN_EVIDENCE_AGAINST_HOST => {
            by_links(host, cast, probes, ground) - *weight < MIN_EVIDENCE_AGAINST_HOST
        }
        _ => true,
    };
    let mut weighed: Vec<_> = weighed.filter(may_be).collect();
    weighed.sort_by(|a, b| b.0.total_cmp(&a.0));
    weighed
}

/// Returns the parts of a switch that may be the culprit, if the switch as a whole is likeliest.
fn parts_behind(
    weighed: &[Weighed],
    cast: &Cast,
    probes: &[&Probe],
    ground: &Ground,
) -> Vec<Suspect> {
    let (evidence, Suspect::Switch(switch), _) = weighed[0] else {
        return Vec::new();
    };
    let links = links_behind(switch, evidence, cast, ground);
    if links.is_empty() && by_ports(switch, cast, probes, ground) > -MAX_AMBIGUOUS_EVIDENCE {
        port_behind(switch, weighed, ground).into_iter().collect()
    } else {
        links
    }
}

/// Returns the links of a switch that lose as much in both directions as the switch: a spine between two leaves may be
/// either of its two cables.
fn links_behind(switch: usize, evidence: f64, cast: &Cast, ground: &Ground) -> Vec<Suspect> {
    let is_near = |link: &HopIndex| {
        let weight = cast.links[link / 2].against(cast.all);
        weight.is_some_and(|weight| weight > evidence - MIN_EVIDENCE_AGAINST_HOST)
    };
    let links = ground.links_of(switch).into_iter();
    links.filter(is_near).map(Suspect::Link).collect()
}

/// Returns the cables between a host and its switch, if host and switch cannot be distinguished: a leaf with one host.
fn cables_between(suspects: &[Suspect], ground: &Ground) -> Vec<Suspect> {
    let cables = suspects
        .iter()
        .filter_map(|it| match *it {
            Suspect::Host(host) => ground.cables.get(host),
            _ => None,
        })
        .flatten();
    let to_suspect = cables.filter(|&&cable| {
        let mut ends = ground.switches[cable].into_iter().flatten();
        ends.any(|switch| suspects.contains(&Suspect::Switch(switch)))
    });
    let links = to_suspect.map(|&cable| Suspect::Link(cable));
    links
        .filter(|it| !suspects.iter().any(|other| other.is_way_of(*it)))
        .collect()
}

/// The likeliest hop at a switch.
fn port_behind(switch: usize, weighed: &[Weighed], ground: &Ground) -> Option<Suspect> {
    let mut others = weighed.iter().map(|it| it.1);
    others.find(|it| matches!(*it, Suspect::Hop(hop) if ground.is_at(hop, switch)))
}

/// Returns the host at which all probes over the likeliest hop begin or end, and whether the host is the culprit for
/// sure: it also loses other probes, so the fault is not limited to this direction, even if that lost most so far. None
/// if the host is cleared.
fn host_behind(weighed: &[Weighed], probes: &[&Probe], ground: &Ground) -> Option<(usize, bool)> {
    let &(most, hop @ Suspect::Hop(_), _) = weighed.first()? else {
        return None;
    };
    let (over, others): (Vec<&Probe>, Vec<&Probe>) = probes
        .iter()
        .copied()
        .partition(|it| hop.touches(it, ground));
    let ends = over.first()?.hosts.into_iter().flatten();
    let ends = ends.map(Suspect::Host);
    let is_end = |host: &Suspect| over.iter().all(|probe| host.touches(probe, ground));
    let place = |host| weighed.iter().position(|it| it.1 == host);
    let places = ends.filter(is_end).filter_map(place);
    let judged = places.map(|place| {
        let (evidence, host, _) = weighed[place];
        let is_sure =
            evidence >= MIN_EVIDENCE && host.outweighs(&others, MAX_AMBIGUOUS_EVIDENCE, ground);
        (place, is_sure, evidence > most - MIN_EVIDENCE_AGAINST_HOST)
    });
    let open = judged.filter(|(_, is_sure, is_open)| *is_sure || *is_open);
    let (place, is_sure, _) = open.max_by_key(|(_, is_sure, _)| *is_sure)?;
    Some((place, is_sure))
}

impl Culprit {
    /// Names a host's cables instead of the host if one of them explains the losses far better, and in addition to it
    /// if one explains them nearly as well.
    fn weigh_cables(
        &mut self,
        mut cables: Vec<Suspect>,
        ahead: f64,
        probes: &[&Probe],
        ground: &Ground,
    ) {
        if ahead >= MIN_EVIDENCE_AGAINST_HOST {
            let votes = cables[0].votes(probes, ground);
            (self.sent, self.lost) = (votes.sent, votes.lost);
            self.suspects = cables;
        } else if ahead > -MAX_AMBIGUOUS_EVIDENCE {
            cables.retain(|cable| !self.suspects.iter().any(|it| it.is_way_of(*cable)));
            self.suspects.extend(cables);
        }
    }

    /// Whether the loss shares differ by more than chance, and by a large factor. Then there are two faults.
    pub(super) fn differs_from(&self, other: &Self) -> bool {
        let [one, other] = [self, other].map(|it| Votes {
            sent: it.sent,
            lost: it.lost,
            crossings: 0,
        });
        let [less, more] = [
            one.share().min(other.share()),
            one.share().max(other.share()),
        ];
        one.evidence(other) >= MIN_EVIDENCE_AGAINST_HOST && more > MIN_DIRECTION_RATIO * less
    }
}

impl Suspect {
    /// Whether it loses a higher share of these probes than the rest, with at least this evidence in nats.
    fn outweighs(self, probes: &[&Probe], least: f64, ground: &Ground) -> bool {
        let all = Votes::of(probes.iter().copied());
        let votes = self.votes(probes, ground);
        let rest = all.without(votes);
        votes.share() > rest.share() && votes.evidence(rest) >= least
    }

    pub(super) fn votes(self, probes: &[&Probe], ground: &Ground) -> Votes {
        let touched = probes.iter().filter(|it| self.touches(it, ground));
        Votes::of(touched.copied())
    }

    pub(super) fn touches(self, probe: &Probe, ground: &Ground) -> bool {
        match self {
            Self::Host(host) => ground.has_to_do_with(probe, host),
            Self::Switch(switch) => ground.passes(probe, switch),
            Self::Hop(hop) => probe.hops.contains(&hop),
            Self::Link(hop) => probe.hops.iter().any(|it| it / 2 == hop / 2),
        }
    }

    /// Whether it is one direction of that link.
    fn is_way_of(self, link: Self) -> bool {
        matches!((self, link), (Self::Hop(hop), Self::Link(link)) if hop / 2 == link / 2)
    }

    /// Returns by how many nats the evidence of another suspect may be lower for it to be considered. A switch is cleared of the
    /// losses of one port with the same care as a host.
    fn margin(self, other: Self, ground: &Ground) -> f64 {
        match (self, other) {
            (Self::Hop(hop), Self::Switch(switch)) if ground.is_at(hop, switch) => {
                MIN_EVIDENCE_AGAINST_HOST
            }
            _ => MAX_AMBIGUOUS_EVIDENCE,
        }
    }
}
