//! What hosts may be wired to: ports, reach, and what has failed.

use std::collections::BTreeSet;

use super::wiring::{Pair, Wiring, pair};

/// A patch panel or optical switch: it joins ports of its own only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panel {
    pub name: String,
    /// How many ports of each host lie on it.
    pub ports: Vec<usize>,
}

/// Who may be wired to whom, and how often.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Limits {
    /// By host, the ports that work.
    pub ports: Vec<usize>,
    /// Pairs whose fibre has failed.
    pub cut: BTreeSet<Pair>,
    /// Where each host stands in a row of racks, and how far a cable reaches.
    pub reach: Option<Reach>,
    /// When there are some, all cables go through them.
    pub panels: Vec<Panel>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Reach {
    pub places_m: Vec<f64>,
    pub most_m: f64,
}

impl Limits {
    /// So many hosts with so many ports each, and nothing that forbids anything.
    pub fn plain(hosts: usize, degree: usize) -> Self {
        Self {
            ports: vec![degree; hosts],
            ..Self::default()
        }
    }

    pub fn hosts(&self) -> usize {
        self.ports.len()
    }

    /// Those of some hosts, which are numbered anew in this order.
    pub(super) fn of(&self, hosts: &[u32]) -> Self {
        let number = |host: u32| hosts.iter().position(|&it| it == host).map(|it| it as u32);
        let some = |of_all: &[usize]| hosts.iter().map(|&it| of_all[it as usize]).collect();
        let cut = self.cut.iter();
        Self {
            ports: some(&self.ports),
            cut: cut
                .filter_map(|&[a, b]| Some([number(a)?, number(b)?]))
                .collect(),
            reach: self.reach.as_ref().map(|reach| Reach {
                places_m: hosts
                    .iter()
                    .map(|&it| reach.places_m[it as usize])
                    .collect(),
                most_m: reach.most_m,
            }),
            panels: self
                .panels
                .iter()
                .map(|panel| Panel {
                    name: panel.name.clone(),
                    ports: some(&panel.ports),
                })
                .collect(),
        }
    }

    /// Whether two hosts may be joined at all.
    pub fn allow(&self, a: u32, b: u32) -> bool {
        a != b && !self.cut.contains(&pair(a, b)) && self.in_reach(a, b) && self.share_panel(a, b)
    }

    fn in_reach(&self, a: u32, b: u32) -> bool {
        let Some(reach) = &self.reach else {
            return true;
        };
        let [a, b] = [a, b].map(|host| reach.places_m[host as usize]);
        (a - b).abs() <= reach.most_m
    }

    fn share_panel(&self, a: u32, b: u32) -> bool {
        let on = |panel: &Panel| panel.ports[a as usize] > 0 && panel.ports[b as usize] > 0;
        self.panels.is_empty() || self.panels.iter().any(on)
    }

    /// Whether any two hosts may be joined.
    pub fn are_plain(&self) -> bool {
        self.cut.is_empty() && self.reach.is_none() && self.panels.is_empty()
    }

    /// Of the host that has most.
    pub fn most_ports(&self) -> usize {
        self.ports.iter().copied().max().unwrap_or(0)
    }

    /// Whether a wiring keeps to them, panels aside.
    pub fn hold(&self, wiring: &Wiring) -> bool {
        let mut ports = (0..).zip(&self.ports);
        let enough = |(host, ports): (u32, &usize)| wiring.degree(host) <= *ports;
        ports.all(enough) && wiring.pairs().iter().all(|&[a, b]| self.allow(a, b))
    }
}
