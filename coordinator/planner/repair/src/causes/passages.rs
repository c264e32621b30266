//! Links from node to node on a path. If several links join two nodes, the names of the nodes do not determine the
//! link: unless it is named, it may be any of them.

use reweave_common::fabric::Fabric;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::snapshot::Hop;

use super::Subject;
use super::error::EvidenceError;
use super::evidence::{UNKNOWN_NODE, node};

/// The nodes of a path, and the links between them: `*` for an unknown link, and none if no links are given.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EvidencePath {
    pub nodes: Vec<String>,
    pub links: Vec<String>,
}

/// A step from one node to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Passage {
    /// The first link that it may use.
    pub(super) hop: Hop,
    /// Whether it is the only such link.
    pub(super) is_sure: bool,
}

/// Returns the steps between known neighbours, with these links as far as they are named.
pub(super) fn passages(
    fabric: &Fabric,
    path: &[String],
    links: &[String],
) -> Result<Vec<Passage>, EvidenceError> {
    let hops = path.len().saturating_sub(1);
    if !links.is_empty() && links.len() != hops {
        let (path, links) = (path.join(">"), links.len());
        return Err(EvidenceError::OtherHops { path, hops, links });
    }
    let nodes = path
        .iter()
        .map(|name| {
            (name != UNKNOWN_NODE)
                .then(|| node(fabric, name))
                .transpose()
        })
        .collect::<Result<Vec<_>, _>>()?;
    let pairs = nodes.windows(2).enumerate();
    let known = pairs.filter_map(|(place, pair)| Some((place, [pair[0]?, pair[1]?])));
    let passage = |(place, pair): (usize, [NodeId; 2])| {
        let link = links.get(place).filter(|link| *link != UNKNOWN_NODE);
        between(fabric, pair, link.map(String::as_str))
    };
    known.map(passage).collect()
}

pub(super) fn passage(
    fabric: &Fabric,
    names: [&str; 2],
    link: Option<&str>,
) -> Result<Passage, EvidenceError> {
    let [from, to] = [node(fabric, names[0])?, node(fabric, names[1])?];
    between(fabric, [from, to], link)
}

fn between(
    fabric: &Fabric,
    [from, to]: [NodeId; 2],
    link: Option<&str>,
) -> Result<Passage, EvidenceError> {
    let names = || [from, to].map(|node| fabric.name(node).to_owned());
    let Some(first) = fabric.links_between(from, to).next() else {
        let [a, b] = names();
        return Err(EvidenceError::NotLinked { a, b });
    };
    let Some(name) = link else {
        let is_sure = !fabric.is_parallel(first);
        let hop = Hop { from, link: first };
        return Ok(Passage { hop, is_sure });
    };
    match named(fabric, [from, to], name) {
        Some(link) => Ok(Passage {
            hop: Hop { from, link },
            is_sure: true,
        }),
        None => {
            let ([a, b], link) = (names(), name.to_owned());
            Err(EvidenceError::NoSuchLink { link, a, b })
        }
    }
}

fn named(fabric: &Fabric, [from, to]: [NodeId; 2], name: &str) -> Option<LinkId> {
    let mut between = fabric.links_between(from, to);
    between.find(|&link| fabric.is_link_called(link, name))
}

impl Passage {
    /// All that it may be.
    pub(super) fn each(self, fabric: &Fabric) -> impl Iterator<Item = Hop> {
        let Hop { from, link } = self.hop;
        let others = || fabric.links_between(from, fabric.link(link).far(from).node);
        let others = (!self.is_sure).then(others).into_iter().flatten();
        let others = others.filter(move |&other| other != link);
        let hops = others.map(move |link| Hop { from, link });
        std::iter::once(self.hop).chain(hops)
    }

    pub(super) fn may_be_by(self, fabric: &Fabric, link: &str) -> bool {
        self.each(fabric)
            .any(|hop| fabric.link_name(hop.link) == link)
    }

    /// Returns the subject: the link, or one of the parallel links.
    pub(super) fn subject(self, fabric: &Fabric, of: impl Fn(&Fabric, Hop) -> Subject) -> Subject {
        if self.is_sure {
            of(fabric, self.hop)
        } else {
            Subject::either(self.each(fabric).map(|hop| of(fabric, hop)))
        }
    }
}

impl EvidencePath {
    pub(super) fn passages(&self, fabric: &Fabric) -> Result<Vec<Passage>, EvidenceError> {
        passages(fabric, &self.nodes, &self.links)
    }

    /// Appends a path that begins where this one ends.
    pub fn and_on(mut self, further: Self) -> Self {
        if !self.links.is_empty() || !further.links.is_empty() {
            self.links = [self.padded(), further.padded()].concat();
        }
        self.nodes.extend(further.nodes.into_iter().skip(1));
        self
    }

    fn padded(&self) -> Vec<String> {
        if self.links.is_empty() {
            vec![UNKNOWN_NODE.to_owned(); self.nodes.len().saturating_sub(1)]
        } else {
            self.links.clone()
        }
    }

    /// Whether any of it is given, and all of it.
    pub(super) fn is_known(&self) -> bool {
        !self.nodes.is_empty() && self.nodes.iter().all(|name| name != UNKNOWN_NODE)
    }
}

/// Returns the first node that appears twice on a path: packets in a loop never arrive.
pub(super) fn comes_twice(path: &[String]) -> Option<&String> {
    second_visit(path).map(|place| &path[place])
}

/// The same of a path that may lead back to where it began, by whichever nodes it came; it turns no later than
/// where it is somewhere again.
pub(super) fn goes_round(path: &[String]) -> Option<&String> {
    let leads_back = path.len() > 2 && path.first() == path.last();
    match second_visit(path).filter(|_| leads_back) {
        Some(again) => comes_twice(&path[again - 1..]),
        None => comes_twice(path),
    }
}

fn second_visit(path: &[String]) -> Option<usize> {
    let mut known = path
        .iter()
        .enumerate()
        .filter(|(_, name)| *name != UNKNOWN_NODE);
    let again = known.find(|(place, name)| path[..*place].contains(name));
    again.map(|(place, _)| place)
}

/// Returns the confidence in each of several suspects.
pub(super) fn shared(confidence: f64, subject: &Subject) -> f64 {
    confidence / subject.each().len() as f64
}
