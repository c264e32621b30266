//! Overlays spanning trees until every cable carries its share of an all-reduce.
//!
//! An all-reduce up and down a spanning tree sends all its bytes once per direction over each cable of the tree. So it
//! is faster the more evenly trees use the cables. The limit is the partition of the hosts that has the fewest cables
//! between its parts, per part beyond the first (Tutte and Nash-Williams). Repeatedly adding a tree of the least used
//! cables approaches that limit.

use reweave_repair::Together;

use super::wiring::{Pair, Wiring};

/// Share of an all-reduce on each cable, in each direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Shares {
    pub cables: Vec<(Pair, f64)>,
    /// Maximum depth in cables.
    pub depth: u32,
}

/// Ratio of the fullest to the mean cable at which the search stops.
const MAX_EVEN_RATIO: f64 = 1.004;
const MAX_TREES: u32 = 3000;

impl Shares {
    /// Returns the share of the fullest cable.
    pub fn most(&self) -> f64 {
        self.cables
            .iter()
            .map(|(_, share)| *share)
            .fold(0.0, f64::max)
    }
}

/// Returns trees through these hosts over cables between them. None if they are not connected. `work` is the maximum
/// number of visited cables.
pub fn pack(wiring: &Wiring, members: &[u32], work: usize) -> Option<Shares> {
    let mut packing = Packing::new(wiring, members)?;
    let trees = (work / packing.cables.len().max(1)).clamp(1, MAX_TREES as usize);
    let mut best: Option<(f64, Vec<u32>, u32)> = None;
    for nth in 1..=trees as u32 {
        if !packing.grow() {
            return None;
        }
        let most = packing.fullest();
        let part = f64::from(most) / f64::from(nth);
        if best.as_ref().is_none_or(|(known, ..)| part < *known) {
            best = Some((part, packing.uses(), nth));
        }
        if part <= packing.even() * MAX_EVEN_RATIO {
            break;
        }
    }
    let (_, uses, trees) = best?;
    Some(packing.shares(&uses, trees))
}

struct Packing {
    members: usize,
    /// Ends by place among the members.
    cables: Vec<Pair>,
    names: Vec<u32>,
    uses: Vec<u32>,
    /// The cables, the least used first.
    order: Vec<u32>,
    together: Together,
    tree: Vec<u32>,
}

impl Packing {
    fn new(wiring: &Wiring, members: &[u32]) -> Option<Self> {
        let mut place = vec![u32::MAX; wiring.hosts()];
        for (nth, &member) in (0..).zip(members) {
            place[member as usize] = nth;
        }
        let inside = members.iter().flat_map(|&a| {
            let later = wiring.neighbours(a).iter().filter(move |&&b| a < b);
            later.map(move |&b| [a, b])
        });
        let inside = inside.map(|ends| ends.map(|end| place[end as usize]));
        let cables: Vec<_> = inside.filter(|ends| ends[1] != u32::MAX).collect();
        (members.len() > 1 && cables.len() + 1 >= members.len()).then(|| Self {
            members: members.len(),
            names: members.to_vec(),
            uses: vec![0; cables.len()],
            order: (0..cables.len() as u32).collect(),
            together: Together::new(members.len()),
            tree: Vec::new(),
            cables,
        })
    }

    /// One more tree; false where the members are not connected.
    fn grow(&mut self) -> bool {
        self.together.part();
        self.tree.clear();
        // Stable, so that cables take turns: those of the last tree come after their equals.
        self.order.sort_by_key(|&cable| self.uses[cable as usize]);
        for &cable in &self.order {
            let [a, b] = self.cables[cable as usize];
            if self.together.join(a as usize, b as usize) {
                self.tree.push(cable);
            }
        }
        for &cable in &self.tree {
            self.uses[cable as usize] += 1;
        }
        self.tree.len() + 1 == self.members
    }

    fn fullest(&self) -> u32 {
        self.uses.iter().copied().max().unwrap_or(0)
    }

    /// Returns the share of a cable if all are used equally.
    fn even(&self) -> f64 {
        (self.members - 1) as f64 / self.cables.len() as f64
    }

    fn uses(&self) -> Vec<u32> {
        self.uses.clone()
    }

    fn shares(&self, uses: &[u32], trees: u32) -> Shares {
        let named = |ends: Pair| ends.map(|end| self.names[end as usize]);
        let used = self.cables.iter().zip(uses).filter(|(_, uses)| **uses > 0);
        let share =
            |(&ends, &uses): (&Pair, &u32)| (named(ends), f64::from(uses) / f64::from(trees));
        Shares {
            cables: used.map(share).collect(),
            depth: self.depth(),
        }
    }

    /// Returns the depth of the last tree from its first host.
    fn depth(&self) -> u32 {
        let mut tree = Wiring::new(self.members);
        for &cable in &self.tree {
            let [a, b] = self.cables[cable as usize];
            tree.join(a, b);
        }
        let mut hops = vec![0; self.members];
        super::distances::fill(&tree, 0, &mut hops, &mut Vec::new());
        u32::from(hops.into_iter().max().unwrap_or(0))
    }
}
