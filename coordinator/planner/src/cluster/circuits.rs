//! Circuits: which port of one host lies opposite which of another, and on which switch.
//!
//! Links between hosts are laid on ports so that of the circuits there are already, as few as can be
//! are touched. A link that finds no switch with a free port of both its hosts moves others aside
//! along a chain; where a chain must not touch what lies already, or there is none, all ways to lay
//! few links are gone through, as far as the work allows.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::topology::{Pair, pair};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Port {
    pub host: u32,
    pub number: u32,
}

/// Two ports that a switch joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Circuit {
    /// Of the block that both hosts belong to.
    pub switch: u32,
    /// The smaller host first.
    pub ends: [Port; 2],
}

impl Circuit {
    pub fn hosts(&self) -> Pair {
        let [a, b] = self.ends;
        pair(a.host, b.host)
    }
}

/// How links were laid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Laid {
    pub circuits: Vec<Circuit>,
    /// Links that found no ports on one switch.
    pub unlaid: Vec<Pair>,
}

/// What a change does to circuits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Touched {
    pub torn: usize,
    pub set: usize,
    pub kept: usize,
}

impl Touched {
    pub fn between(old: &[Circuit], new: &[Circuit]) -> Self {
        let [old, new] = [old, new].map(|list| list.iter().collect::<BTreeSet<_>>());
        let kept = old.intersection(&new).count();
        Self {
            torn: old.len() - kept,
            set: new.len() - kept,
            kept,
        }
    }

    /// A switch sets up what is new; what it tears down goes with that.
    pub fn moved(self) -> usize {
        self.set.max(self.torn)
    }

    pub fn all(self) -> usize {
        self.torn + self.set
    }
}

/// By host, its ports with the switch that each lies on.
pub type Ports = BTreeMap<u32, Vec<(u32, u32)>>;

/// Lays links on ports, with as many of the old circuits as can stay.
pub fn lay(ports: &Ports, pairs: &[Pair], old: &[Circuit]) -> Laid {
    let mut laying = Laying::new(ports, pairs, old);
    for link in 0..pairs.len() {
        if laying.switches[link].is_none() && !laying.place(link, true) {
            laying.place(link, false);
        }
    }
    laying.search();
    laying.circuits(ports)
}

/// So many places of links are tried when chains do not get by without moving what lies already.
const WORK: usize = 100_000;

struct Laying<'l> {
    pairs: &'l [Pair],
    /// By link, the circuit that lies there already.
    old: Vec<Option<Circuit>>,
    /// By host and switch, how many ports are free.
    room: BTreeMap<(u32, u32), usize>,
    count: u32,
    switches: Vec<Option<u32>>,
    /// By host, its links.
    links: BTreeMap<u32, Vec<usize>>,
}

impl<'l> Laying<'l> {
    fn new(ports: &Ports, pairs: &'l [Pair], old: &[Circuit]) -> Self {
        let mut room = BTreeMap::<_, usize>::new();
        for (&host, list) in ports {
            for &(_, switch) in list {
                *room.entry((host, switch)).or_default() += 1;
            }
        }
        let mut links = BTreeMap::<_, Vec<usize>>::new();
        for (link, ends) in pairs.iter().enumerate() {
            for &end in ends {
                links.entry(end).or_default().push(link);
            }
        }
        let mut laying = Self {
            pairs,
            old: vec![None; pairs.len()],
            count: room.keys().map(|(_, switch)| switch + 1).max().unwrap_or(0),
            room,
            switches: vec![None; pairs.len()],
            links,
        };
        for circuit in old.iter().filter(|circuit| stands(ports, circuit)) {
            let is_its =
                |&link: &usize| pairs[link] == circuit.hosts() && laying.old[link].is_none();
            if let Some(link) = (0..pairs.len()).find(is_its) {
                laying.old[link] = Some(*circuit);
                laying.set(link, Some(circuit.switch));
            }
        }
        laying
    }

    fn room(&self, host: u32, switch: u32) -> bool {
        self.room.get(&(host, switch)).is_some_and(|&free| free > 0)
    }

    /// The switches on which a host has a free port.
    fn free(&self, host: u32) -> Vec<u32> {
        (0..self.count).filter(|&it| self.room(host, it)).collect()
    }

    fn set(&mut self, link: usize, switch: Option<u32>) {
        let before = std::mem::replace(&mut self.switches[link], switch);
        for end in self.pairs[link] {
            if let Some(free) = before.and_then(|it| self.room.get_mut(&(end, it))) {
                *free += 1;
            }
            if let Some(free) = switch.and_then(|it| self.room.get_mut(&(end, it))) {
                *free -= 1;
            }
        }
    }

    fn fits(&self, link: usize, switch: u32) -> bool {
        self.pairs[link].iter().all(|&end| self.room(end, switch))
    }

    /// Finds a switch for a link, moving others if it must; those that lie already only when they
    /// are not spared.
    fn place(&mut self, link: usize, spare: bool) -> bool {
        if let Some(switch) = (0..self.count).find(|&it| self.fits(link, it)) {
            self.set(link, Some(switch));
            return true;
        }
        let [a, b] = self.pairs[link];
        for [from, far] in [[a, b], [b, a]] {
            let [near, there] = [from, far].map(|host| self.free(host));
            let choices = near
                .iter()
                .flat_map(|&here| there.iter().map(move |&it| [here, it]));
            for choice in choices {
                if self.shift(link, far, choice, spare) {
                    return true;
                }
            }
        }
        false
    }

    /// Takes the first switch for the link, which is full at its far host, and moves another link of
    /// that host to the second, and so on until all have room; else nothing is changed.
    fn shift(&mut self, link: usize, far: u32, [first, second]: [u32; 2], spare: bool) -> bool {
        let mut changed = vec![(link, None)];
        let (mut at, mut full, mut free) = (far, first, second);
        let mut moving = vec![(link, first)];
        loop {
            let crowd = self.links.get(&at).into_iter().flatten().copied();
            let movable = |it: &usize| {
                self.switches[*it] == Some(full)
                    && !changed.iter().any(|(known, _)| known == it)
                    && (!spare || self.old[*it].is_none())
            };
            let Some(next) = crowd.into_iter().find(movable) else {
                return false;
            };
            changed.push((next, Some(full)));
            moving.push((next, free));
            let [a, b] = self.pairs[next];
            at = if at == a { b } else { a };
            if self.room(at, free) {
                break;
            }
            (full, free) = (free, full);
        }
        self.commit(&changed, &moving)
    }

    /// A chain may have come back to where it began: it holds only if all have room.
    fn commit(&mut self, before: &[(usize, Option<u32>)], after: &[(usize, u32)]) -> bool {
        for &(link, _) in before {
            self.set(link, None);
        }
        let fits = after.iter().all(|&(link, switch)| {
            let fits = self.fits(link, switch);
            if fits {
                self.set(link, Some(switch));
            }
            fits
        });
        if !fits {
            for &(link, _) in before {
                self.set(link, None);
            }
            for &(link, switch) in before {
                self.set(link, switch);
            }
        }
        fits
    }

    /// How many links lie nowhere, and how many lie elsewhere than before.
    fn cost(&self) -> [usize; 2] {
        let links = 0..self.pairs.len();
        let unlaid = links.clone().filter(|&it| self.switches[it].is_none());
        let moved = links.filter(|&it| self.has_moved(it));
        [unlaid.count(), moved.count()]
    }

    fn has_moved(&self, link: usize) -> bool {
        self.old[link].is_some_and(|old| self.switches[link] != Some(old.switch))
    }

    /// Goes through all ways to lay the links, unless nothing can be better than what there is.
    fn search(&mut self) {
        let found = self.cost();
        if found == [0, 0] {
            return;
        }
        let mut best = (found, self.switches.clone());
        (0..self.pairs.len()).for_each(|link| self.set(link, None));
        let mut work = WORK;
        self.deeper(0, [0, 0], &mut best, &mut work);
        for (link, switch) in best.1.into_iter().enumerate() {
            self.set(link, switch);
        }
    }

    fn deeper(
        &mut self,
        link: usize,
        cost: [usize; 2],
        best: &mut ([usize; 2], Vec<Option<u32>>),
        work: &mut usize,
    ) {
        if cost >= best.0 || *work == 0 {
            return;
        }
        *work -= 1;
        if link == self.pairs.len() {
            *best = (cost, self.switches.clone());
            return;
        }
        let own = self.old[link].map(|old| old.switch);
        let others = (0..self.count).filter(|&it| own != Some(it));
        for switch in own.into_iter().chain(others).collect::<Vec<_>>() {
            if self.fits(link, switch) {
                self.set(link, Some(switch));
                let moved = usize::from(self.has_moved(link));
                self.deeper(link + 1, [cost[0], cost[1] + moved], best, work);
                self.set(link, None);
            }
        }
        let moved = usize::from(own.is_some());
        self.deeper(link + 1, [cost[0] + 1, cost[1] + moved], best, work);
    }

    /// Those that stay keep their ports, and the others take the first that are free.
    fn circuits(&self, ports: &Ports) -> Laid {
        let mut laid = Laid::default();
        let mut used = BTreeSet::new();
        for link in 0..self.pairs.len() {
            if let Some(old) = self.old[link].filter(|_| !self.has_moved(link)) {
                used.extend(old.ends);
                laid.circuits.push(old);
            }
        }
        for (link, &ends) in self.pairs.iter().enumerate() {
            match self.switches[link] {
                None => laid.unlaid.push(ends),
                Some(_) if self.old[link].is_some() && !self.has_moved(link) => {}
                Some(switch) => {
                    let ends = ends.map(|host| take(ports, host, switch, &mut used));
                    laid.circuits.push(Circuit { switch, ends });
                }
            }
        }
        laid.circuits.sort_unstable();
        laid
    }
}

/// Whether both ports are still there to be used, and lie where they did.
fn stands(ports: &Ports, circuit: &Circuit) -> bool {
    circuit.ends.iter().all(|end| {
        let own = ports.get(&end.host);
        own.is_some_and(|own| own.contains(&(end.number, circuit.switch)))
    })
}

fn take(ports: &Ports, host: u32, switch: u32, used: &mut BTreeSet<Port>) -> Port {
    let free = ports[&host].iter().filter(|(_, on)| *on == switch);
    let mut free = free.map(|&(number, _)| Port { host, number });
    let port = free.find(|port| !used.contains(port));
    let port = port.expect("a link is only laid where a port is free");
    used.insert(port);
    port
}
