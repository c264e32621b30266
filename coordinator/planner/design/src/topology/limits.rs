//! Limits of a wiring: ports, cable lengths, and failures.

use std::collections::{BTreeMap, BTreeSet};

use super::panels::Patch;
use super::wiring::{Pair, Wiring, pair};

/// A patch panel or optical switch: it joins ports of its own only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panel {
    pub name: String,
    /// Working ports on this panel, by host.
    pub ports: Vec<Vec<usize>>,
}

impl Panel {
    /// Returns a panel with this number of ports for each host, numbered host by host.
    pub fn numbered(name: String, counts: &[usize]) -> Self {
        let mut next = 0..;
        let of_host = |&count: &usize| next.by_ref().take(count).collect();
        Self {
            name,
            ports: counts.iter().map(of_host).collect(),
        }
    }

    fn of(&self, hosts: &[u32]) -> Self {
        let of_host = |&host: &u32| self.ports[host as usize].clone();
        Self {
            name: self.name.clone(),
            ports: hosts.iter().map(of_host).collect(),
        }
    }

    pub(super) fn holds(&self, host: u32) -> bool {
        !self.ports[host as usize].is_empty()
    }
}

/// Allowed pairs of hosts, and the number of cables between them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Limits {
    /// Working ports of each host.
    pub ports: Vec<usize>,
    /// Pairs whose fibre has failed.
    pub cut: BTreeSet<Pair>,
    /// Position of each host in a row of racks, and the maximum length of a cable.
    pub reach: Option<Reach>,
    /// When there are some, all cables go through them.
    pub panels: Vec<Panel>,
    /// Existing cables: unchanged ones keep their ports.
    pub laid: Vec<Patch>,
    /// None if all hosts are in one block.
    pub blocks: Option<Blocks>,
}

/// Hosts in blocks between which there are only this many fibres.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blocks {
    /// Block of each host.
    pub of: Vec<usize>,
    /// Maximum number of cables between two blocks, smaller number first; unlimited if absent.
    pub between: BTreeMap<[usize; 2], usize>,
}

impl Blocks {
    /// The blocks that a cable would join, unless they are one.
    fn crossed(&self, a: u32, b: u32) -> Option<[usize; 2]> {
        let [a, b] = [a, b].map(|host| self.of[host as usize]);
        (a != b).then_some([a.min(b), a.max(b)])
    }

    fn fibres(&self, crossed: [usize; 2]) -> usize {
        self.between.get(&crossed).copied().unwrap_or(0)
    }

    fn has_fibre(&self, wiring: &Wiring, a: u32, b: u32) -> bool {
        self.crossed(a, b).is_none_or(|crossed| {
            let pairs = wiring.pairs().into_iter();
            let used = pairs.filter(|&[a, b]| self.crossed(a, b) == Some(crossed));
            used.count() < self.fibres(crossed)
        })
    }

    /// Returns the cables of a wiring without a fibre, when fibres are assigned to hosts in turn.
    pub(super) fn surplus(&self, wiring: &Wiring) -> Vec<Pair> {
        let mut across = BTreeMap::<_, Vec<Pair>>::new();
        for [a, b] in wiring.pairs() {
            if let Some(crossed) = self.crossed(a, b) {
                across.entry(crossed).or_default().push([a, b]);
            }
        }
        for (&crossed, pairs) in &mut across {
            let mut used = vec![0; wiring.hosts()];
            for _ in 0..self.fibres(crossed).min(pairs.len()) {
                let crowd = |nth: &usize| pairs[*nth].iter().map(|&it| used[it as usize]).max();
                let next = (0..pairs.len()).min_by_key(crowd).unwrap_or(0);
                let ends = pairs.remove(next);
                ends.iter().for_each(|&end| used[end as usize] += 1);
            }
        }
        across.into_values().flatten().collect()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Reach {
    pub places_m: Vec<f64>,
    pub most_m: f64,
}

impl Limits {
    /// Returns this number of hosts and ports, without other limits.
    pub fn plain(hosts: usize, degree: usize) -> Self {
        Self {
            ports: vec![degree; hosts],
            ..Self::default()
        }
    }

    pub fn hosts(&self) -> usize {
        self.ports.len()
    }

    /// Those of some hosts, which are renumbered in this order.
    pub(super) fn of(&self, hosts: &[u32]) -> Self {
        let number = |host: u32| hosts.iter().position(|&it| it == host).map(|it| it as u32);
        let some = |of_all: &[usize]| hosts.iter().map(|&it| of_all[it as usize]).collect();
        let both = |[a, b]: Pair| Some([number(a)?, number(b)?]);
        Self {
            ports: some(&self.ports),
            cut: self.cut.iter().filter_map(|&cable| both(cable)).collect(),
            reach: self.reach.as_ref().map(|reach| Reach {
                places_m: hosts
                    .iter()
                    .map(|&it| reach.places_m[it as usize])
                    .collect(),
                most_m: reach.most_m,
            }),
            panels: self.panels.iter().map(|it| it.of(hosts)).collect(),
            laid: Patch::of_hosts(&self.laid, both),
            blocks: self.blocks.as_ref().map(|blocks| Blocks {
                of: some(&blocks.of),
                between: blocks.between.clone(),
            }),
        }
    }

    /// Whether two hosts may be joined at all.
    pub fn allow(&self, a: u32, b: u32) -> bool {
        let crosses = |blocks: &Blocks| blocks.crossed(a, b);
        let crossed = self.blocks.as_ref().and_then(|it| Some((it, crosses(it)?)));
        a != b
            && !self.cut.contains(&pair(a, b))
            && self.in_reach(a, b)
            && self.share_panel(a, b)
            && crossed.is_none_or(|(blocks, crossed)| blocks.fibres(crossed) > 0)
    }

    /// Whether two hosts can be joined in addition to the existing cables, if they have ports.
    pub(super) fn have_room(&self, wiring: &Wiring, a: u32, b: u32) -> bool {
        let blocks = self.blocks.as_ref();
        self.allow(a, b)
            && !wiring.joins(a, b)
            && blocks.is_none_or(|blocks| blocks.has_fibre(wiring, a, b))
    }

    fn in_reach(&self, a: u32, b: u32) -> bool {
        let Some(reach) = &self.reach else {
            return true;
        };
        let [a, b] = [a, b].map(|host| reach.places_m[host as usize]);
        (a - b).abs() <= reach.most_m
    }

    fn share_panel(&self, a: u32, b: u32) -> bool {
        let on = |panel: &Panel| panel.holds(a) && panel.holds(b);
        self.panels.is_empty() || self.panels.iter().any(on)
    }

    /// Whether any two hosts may be joined.
    pub fn are_plain(&self) -> bool {
        self.cut.is_empty()
            && self.reach.is_none()
            && self.panels.is_empty()
            && self.blocks.is_none()
    }

    /// Returns the number of ports of the host with the most.
    pub fn most_ports(&self) -> usize {
        self.ports.iter().copied().max().unwrap_or(0)
    }

    /// Whether a wiring keeps to them, panels aside.
    pub fn hold(&self, wiring: &Wiring) -> bool {
        let mut ports = (0..).zip(&self.ports);
        let enough = |(host, ports): (u32, &usize)| wiring.degree(host) <= *ports;
        let blocks = self.blocks.as_ref();
        ports.all(enough)
            && wiring.pairs().iter().all(|&[a, b]| self.allow(a, b))
            && blocks.is_none_or(|blocks| blocks.surplus(wiring).is_empty())
    }
}
