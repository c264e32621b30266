//! A host more or less in a wiring, with as little else changed as can be.

use crate::topology::{Design, Wiring, pair};

/// Returns a design with one more host, the last, with this number of ports: it is inserted between two neighbours on
/// each ring, and then into other links.
pub(super) fn insert(design: &Design, ports: usize) -> Design {
    let hosts = design.wiring.hosts();
    let mut splicing = Splicing {
        wiring: Wiring::of(hosts + 1, design.wiring.pairs()),
        rings: design.rings.clone(),
        new: hosts as u32,
    };
    let rings = splicing.rings.len().min(ports / 2);
    for ring in 0..rings {
        splicing.splice_ring(ring, hosts * ring / rings);
    }
    splicing.splice_links(ports);
    let before = Wiring::of(hosts + 1, design.wiring.pairs());
    let altered = design.altered.besides(&before, &splicing.wiring);
    let Splicing {
        wiring, mut rings, ..
    } = splicing;
    rings.retain(|ring| ring.len() == hosts + 1);
    Design {
        family: design.family.clone(),
        altered,
        wiring,
        rings,
        patches: Vec::new(),
    }
}

struct Splicing {
    wiring: Wiring,
    rings: Vec<Vec<u32>>,
    new: u32,
}

impl Splicing {
    fn is_open(&self, a: u32, b: u32) -> bool {
        !self.wiring.joins(a, self.new) && !self.wiring.joins(b, self.new)
    }

    fn between(&mut self, a: u32, b: u32) {
        self.wiring.part(a, b);
        self.wiring.join(a, self.new);
        self.wiring.join(b, self.new);
    }

    /// Inserts the host between the first two neighbours of a ring, from this place on, that are not next to it yet.
    fn splice_ring(&mut self, ring: usize, from: usize) {
        let members = &self.rings[ring];
        let ends = |place: usize| {
            let place = (from + place) % members.len();
            (place, members[place], members[(place + 1) % members.len()])
        };
        let open = |&(_, a, b): &(usize, u32, u32)| self.is_open(a, b);
        if let Some((place, a, b)) = (0..members.len()).map(ends).find(open) {
            self.rings[ring].insert(place + 1, self.new);
            self.between(a, b);
        }
    }

    /// Inserts the remaining ports into links that belong to no ring.
    fn splice_links(&mut self, ports: usize) {
        while self.wiring.degree(self.new) + 2 <= ports {
            let pairs = self.wiring.pairs().into_iter();
            let mut open = pairs.filter(|&[a, b]| {
                a != self.new && b != self.new && self.is_open(a, b) && !self.is_on_ring([a, b])
            });
            let Some([a, b]) = open.next() else { return };
            self.between(a, b);
        }
    }

    fn is_on_ring(&self, ends: [u32; 2]) -> bool {
        self.rings.iter().any(|ring| {
            let mut places = 0..ring.len();
            places.any(|nth| pair(ring[nth], ring[(nth + 1) % ring.len()]) == ends)
        })
    }
}

/// Returns the design without a host: its neighbours on each ring are joined, and its other neighbours are joined in
/// pairs. Later hosts are renumbered.
pub(super) fn remove(design: &Design, host: u32) -> Design {
    let mut wiring = design.wiring.clone();
    let mut alone: Vec<_> = wiring.neighbours(host).to_vec();
    for &other in &alone {
        wiring.part(host, other);
    }
    let mut rings = Vec::new();
    for ring in &design.rings {
        let place = ring.iter().position(|&it| it == host);
        let Some(place) = place else { continue };
        let around = [place + ring.len() - 1, place + 1].map(|it| ring[it % ring.len()]);
        alone.retain(|it| !around.contains(it));
        if wiring.join(around[0], around[1]) {
            rings.push(ring.iter().copied().filter(|&it| it != host).collect());
        }
    }
    while let Some(a) = alone.pop() {
        if let Some(place) = alone.iter().position(|&b| !wiring.joins(a, b)) {
            let b = alone.remove(place);
            wiring.join(a, b);
        }
    }
    without(&wiring, rings, design, host)
}

fn without(wiring: &Wiring, rings: Vec<Vec<u32>>, design: &Design, host: u32) -> Design {
    let counted = |it: u32| it - u32::from(it > host);
    let pairs = wiring.pairs().into_iter();
    let ring = |ring: Vec<u32>| ring.into_iter().map(counted).collect();
    Design {
        family: design.family.clone(),
        altered: design.altered.besides(&design.wiring, wiring),
        wiring: Wiring::of(wiring.hosts() - 1, pairs.map(|ends| ends.map(counted))),
        rings: rings.into_iter().map(ring).collect(),
        patches: Vec::new(),
    }
}
