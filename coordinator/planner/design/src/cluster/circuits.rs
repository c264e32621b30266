//! Lays links on circuits: chooses a port of each host and a switch, and changes as few existing circuits as possible.
//!
//! If no switch has a free port of both hosts, a chain of other links is moved aside. If a chain would have to move an
//! existing circuit, or there is none, all placements of the few links are searched, within a work limit.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::topology::{Pair, pair};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Port {
    pub host: u32,
    pub number: u32,
}

/// Two ports that a switch joins, or two of the same number whose blocks are joined by fibres.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Circuit {
    /// Switch of the block that a host belongs to.
    pub switch: u32,
    /// The smaller host first.
    pub ends: [Port; 2],
    /// Number of the fibre between two switches, if the hosts are in two blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fibre: Option<u32>,
}

impl Circuit {
    pub fn hosts(&self) -> Pair {
        let [a, b] = self.ends;
        pair(a.host, b.host)
    }
}

/// Existing circuits of a cluster.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lying<'l> {
    /// Circuits of the job in question.
    pub own: &'l [Circuit],
    /// Circuits of all other jobs. Fibres between blocks belong to none of them.
    pub others: &'l [Circuit],
}

/// Placement of links on circuits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Laid {
    pub circuits: Vec<Circuit>,
    /// Links that found no ports on one switch.
    pub unlaid: Vec<Pair>,
}

/// Changes to circuits.
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

    /// Returns the number of circuits that must be set. Removals happen at the same time.
    pub fn moved(self) -> usize {
        self.set.max(self.torn)
    }

    pub fn all(self) -> usize {
        self.torn + self.set
    }
}

/// Ports with their switches, by host.
pub type Ports = BTreeMap<u32, Vec<(u32, u32)>>;

/// Free ports and fibres for links.
#[derive(Debug, Clone, Default)]
pub struct Room {
    pub ports: Ports,
    /// Block of each host; the first block for hosts that are not listed.
    pub block: BTreeMap<u32, usize>,
    /// Between two blocks, the smaller first: the fibres that are free, and which switches they join.
    pub fibres: BTreeMap<[usize; 2], Vec<(u32, u32)>>,
}

impl Room {
    fn crossed(&self, hosts: Pair) -> Option<[usize; 2]> {
        let [a, b] = hosts.map(|host| self.block.get(&host).copied().unwrap_or(0));
        (a != b).then_some([a.min(b), a.max(b)])
    }

    /// Whether both ports and the fibre of a circuit are still available on the same switch.
    fn has(&self, circuit: &Circuit) -> bool {
        let port = |end: &Port| {
            let own = self.ports.get(&end.host);
            own.is_some_and(|own| own.contains(&(end.number, circuit.switch)))
        };
        let fibre = match (self.crossed(circuit.hosts()), circuit.fibre) {
            (Some(crossed), Some(fibre)) => {
                let free = self.fibres.get(&crossed);
                free.is_some_and(|free| free.contains(&(fibre, circuit.switch)))
            }
            (crossed, fibre) => crossed.is_none() && fibre.is_none(),
        };
        fibre && circuit.ends.iter().all(port)
    }
}

/// Lays links on ports, with as many of the old circuits as can stay.
pub fn lay(room: &Room, pairs: &[Pair], old: &[Circuit]) -> Laid {
    let mut laying = Laying::new(room, pairs, old);
    for link in 0..pairs.len() {
        if laying.switches[link].is_none() && !laying.place(link, true) {
            laying.place(link, false);
        }
    }
    laying.search();
    laying.circuits()
}

/// Maximum number of placements that are tried after chains have failed to spare existing circuits.
const MAX_LINK_TRIES: usize = 100_000;

/// A resource that is limited on each switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Host(u32),
    Between([usize; 2]),
}

struct Laying<'l> {
    on: &'l Room,
    pairs: &'l [Pair],
    /// Existing circuit of each link.
    old: Vec<Option<Circuit>>,
    /// Number of free ports or fibres, by place and switch.
    room: BTreeMap<(Place, u32), usize>,
    count: u32,
    switches: Vec<Option<u32>>,
    /// Links of each host.
    links: BTreeMap<u32, Vec<usize>>,
}

impl<'l> Laying<'l> {
    fn new(on: &'l Room, pairs: &'l [Pair], old: &[Circuit]) -> Self {
        let hosts = on.ports.iter();
        let hosts = hosts.map(|(&host, list)| (Place::Host(host), list));
        let blocks = on.fibres.iter();
        let blocks = blocks.map(|(&between, list)| (Place::Between(between), list));
        let mut room = BTreeMap::<_, usize>::new();
        for (place, list) in hosts.chain(blocks) {
            for &(_, switch) in list {
                *room.entry((place, switch)).or_default() += 1;
            }
        }
        let mut links = BTreeMap::<_, Vec<usize>>::new();
        for (link, ends) in pairs.iter().enumerate() {
            for &end in ends {
                links.entry(end).or_default().push(link);
            }
        }
        let mut laying = Self {
            on,
            pairs,
            old: vec![None; pairs.len()],
            count: room.keys().map(|(_, switch)| switch + 1).max().unwrap_or(0),
            room,
            switches: vec![None; pairs.len()],
            links,
        };
        for circuit in old.iter().filter(|circuit| on.has(circuit)) {
            let is_its =
                |&link: &usize| pairs[link] == circuit.hosts() && laying.old[link].is_none();
            if let Some(link) = (0..pairs.len()).find(is_its) {
                laying.old[link] = Some(*circuit);
                laying.set(link, Some(circuit.switch));
            }
        }
        laying
    }

    fn room(&self, place: Place, switch: u32) -> bool {
        let free = self.room.get(&(place, switch));
        free.is_some_and(|&free| free > 0)
    }

    /// Returns the places on which a link needs a port or a fibre.
    fn places(&self, link: usize) -> impl Iterator<Item = Place> + use<> {
        let ends = self.pairs[link];
        let crossed = self.on.crossed(ends).map(Place::Between);
        ends.map(Place::Host).into_iter().chain(crossed)
    }

    /// The switches on which a host has a free port.
    fn free(&self, host: u32) -> Vec<u32> {
        let free = |&it: &u32| self.room(Place::Host(host), it);
        (0..self.count).filter(free).collect()
    }

    fn set(&mut self, link: usize, switch: Option<u32>) {
        let before = std::mem::replace(&mut self.switches[link], switch);
        for place in self.places(link) {
            if let Some(free) = before.and_then(|it| self.room.get_mut(&(place, it))) {
                *free += 1;
            }
            if let Some(free) = switch.and_then(|it| self.room.get_mut(&(place, it))) {
                *free -= 1;
            }
        }
    }

    fn fits(&self, link: usize, switch: u32) -> bool {
        self.places(link).all(|place| self.room(place, switch))
    }

    /// Finds a switch for a link, and moves other links if needed; with `spare`, no existing circuits.
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
            if self.room(Place::Host(at), free) {
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

    /// Returns the number of links without a circuit, and of moved links.
    fn cost(&self) -> [usize; 2] {
        let links = 0..self.pairs.len();
        let unlaid = links.clone().filter(|&it| self.switches[it].is_none());
        let moved = links.filter(|&it| self.has_moved(it));
        [unlaid.count(), moved.count()]
    }

    fn has_moved(&self, link: usize) -> bool {
        self.old[link].is_some_and(|old| self.switches[link] != Some(old.switch))
    }

    /// Searches all placements of the links, unless none can be better than the present one.
    fn search(&mut self) {
        let found = self.cost();
        if found == [0, 0] {
            return;
        }
        let mut best = (found, self.switches.clone());
        (0..self.pairs.len()).for_each(|link| self.set(link, None));
        let mut work = MAX_LINK_TRIES;
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

    /// Circuits that stay keep their ports. The others take the first free ports.
    fn circuits(&self) -> Laid {
        let mut laid = Laid::default();
        let mut taken = Taken::default();
        for link in 0..self.pairs.len() {
            if let Some(old) = self.old[link].filter(|_| !self.has_moved(link)) {
                taken.ports.extend(old.ends);
                let crossed = self.on.crossed(old.hosts()).zip(old.fibre);
                taken.fibres.extend(crossed.map(|it| (it, old.switch)));
                laid.circuits.push(old);
            }
        }
        for (link, &ends) in self.pairs.iter().enumerate() {
            match self.switches[link] {
                None => laid.unlaid.push(ends),
                Some(_) if self.old[link].is_some() && !self.has_moved(link) => {}
                Some(switch) => laid.circuits.push(taken.circuit(self.on, ends, switch)),
            }
        }
        laid.circuits.sort_unstable();
        laid
    }
}

/// Ports and fibres in use.
#[derive(Default)]
struct Taken {
    ports: BTreeSet<Port>,
    /// Blocks and the fibre between them, and the switches that it joins.
    fibres: BTreeSet<(([usize; 2], u32), u32)>,
}

impl Taken {
    fn circuit(&mut self, room: &Room, hosts: Pair, switch: u32) -> Circuit {
        Circuit {
            switch,
            ends: hosts.map(|host| self.port(room, host, switch)),
            fibre: room
                .crossed(hosts)
                .map(|crossed| self.fibre(room, crossed, switch)),
        }
    }

    fn port(&mut self, room: &Room, host: u32, switch: u32) -> Port {
        let free = room.ports[&host].iter().filter(|(_, on)| *on == switch);
        let mut free = free.map(|&(number, _)| Port { host, number });
        let port = free.find(|port| !self.ports.contains(port));
        let port = port.expect("a link is only laid where a port is free");
        self.ports.insert(port);
        port
    }

    fn fibre(&mut self, room: &Room, crossed: [usize; 2], switch: u32) -> u32 {
        let free = room.fibres[&crossed].iter().filter(|(_, on)| *on == switch);
        let is_free = |fibre: &u32| !self.fibres.contains(&((crossed, *fibre), switch));
        let fibre = free.map(|&(number, _)| number).find(is_free);
        let fibre = fibre.expect("a link is only laid where a fibre is free");
        self.fibres.insert(((crossed, fibre), switch));
        fibre
    }
}
