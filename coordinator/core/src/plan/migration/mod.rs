//! The order in which a running network moves from one set of tables and circuits to another, so that packets arrive
//! at every moment.
//!
//! Circuits move in waves. Before each wave, packets are routed around the links that go dark, so the network works
//! without these links. Tables change in rounds, and no round creates a loop, whichever of its nodes have already
//! changed.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::circuit::{Circuit, CircuitSet};
use reweave_common::fabric::{Circuits, Crossing, Fabric};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::migration_plan::{MigrationPlan, Round, Tables, Wave};

pub(crate) use round_order::RoundWidth;

mod drain;
#[cfg(test)]
pub(crate) mod examples;
mod round_order;
mod rounds;
#[cfg(test)]
mod tests;

/// The state before a migration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MigrationStart<'a> {
    pub(crate) fabric: &'a Fabric,
    pub(crate) down: &'a BTreeSet<LinkId>,
    pub(crate) tables: &'a Tables,
    /// Nodes that may hold these tables instead.
    pub(crate) unsure: &'a Round,
    pub(crate) circuits: &'a Circuits,
    /// The share of its capacity that every node keeps while circuits move.
    pub(crate) floor: f64,
    /// Only these nodes may be instructed.
    pub(crate) instructed: &'a BTreeSet<NodeId>,
    pub(crate) pace: RoundWidth,
}

/// No safe order exists: every order would cut off a host, or leave too little capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoSafeOrder;

/// Links over which traffic is forwarded, by destination and node.
type NextLinksByNode = BTreeMap<NodeId, Vec<LinkId>>;

pub(crate) fn plan_migration(
    from: MigrationStart<'_>,
    tables: &Tables,
    circuits: &Circuits,
) -> Result<MigrationPlan, NoSafeOrder> {
    let mut at = Position {
        from,
        tables: from.tables.clone(),
        unsure: from.unsure.clone(),
        circuits: from.circuits.clone(),
        open: Vec::new(),
    };
    at.note_open();
    let mut waves = Vec::new();
    while at.circuits != *circuits {
        waves.push(at.next_wave(circuits)?);
    }
    let undrain = at.rounds_to(tables)?;
    match waves.last_mut() {
        Some(wave) => wave.undrain = undrain,
        None if undrain.is_empty() => {}
        None => waves.push(Wave {
            undrain,
            ..Wave::default()
        }),
    }
    Ok(MigrationPlan { waves })
}

/// A migration while it is planned.
struct Position<'a> {
    from: MigrationStart<'a>,
    tables: Tables,
    unsure: Round,
    circuits: Circuits,
    /// The usable links of each node, kept because every pair of fibres is a possible link.
    open: Vec<Vec<LinkId>>,
}

impl Position<'_> {
    fn next_wave(&mut self, wanted: &Circuits) -> Result<Wave, NoSafeOrder> {
        let (removed, added) = self.movable(wanted)?;
        let dark = self.links_of(&removed);
        let drained = drain::drained(self, &dark).ok_or(NoSafeOrder)?;
        let drain = self.rounds_to(&drained)?;
        let opticals: BTreeSet<_> = removed.iter().chain(&added).map(|it| it.optical).collect();
        let moved = opticals.into_iter().map(|optical| {
            let before = self
                .circuits
                .get(&optical)
                .into_iter()
                .flat_map(CircuitSet::iter);
            let of_this =
                |set: &BTreeSet<Crossing>, circuit| set.contains(&Crossing { optical, circuit });
            let kept = before.filter(|&circuit| !of_this(&removed, circuit));
            let new = added
                .iter()
                .filter(|it| it.optical == optical)
                .map(|it| it.circuit);
            (optical, kept.chain(new).collect())
        });
        let circuits: Circuits = moved.collect();
        self.circuits.extend(circuits.clone());
        self.note_open();
        Ok(Wave {
            drain,
            circuits,
            undrain: Vec::new(),
        })
    }

    /// Returns circuits that may go dark together now, and circuits that may replace them. Each new circuit is tried
    /// with the ones that block its ports; unneeded ones are removed last.
    fn movable(
        &self,
        wanted: &Circuits,
    ) -> Result<(BTreeSet<Crossing>, BTreeSet<Crossing>), NoSafeOrder> {
        let (before, after) = (crossings(&self.circuits), crossings(wanted));
        let gone: BTreeSet<_> = before.difference(&after).copied().collect();
        // Each check computes tables of all nodes. If all may go dark together, one check is enough.
        if self.may_go_dark(&gone) {
            return Ok((gone, after.difference(&before).copied().collect()));
        }
        let (mut removed, mut added) = (BTreeSet::new(), BTreeSet::new());
        for new in after.difference(&before) {
            let in_its_way = before.iter().filter(|old| meet(old, new)).copied();
            let tried: BTreeSet<_> = removed.iter().copied().chain(in_its_way).collect();
            if self.may_go_dark(&tried) {
                removed = tried;
                added.insert(*new);
            }
        }
        let is_last = after.difference(&before).all(|new| added.contains(new));
        for old in before.difference(&after).filter(|_| is_last) {
            let tried: BTreeSet<_> = removed.iter().copied().chain([*old]).collect();
            if self.may_go_dark(&tried) {
                removed = tried;
            }
        }
        let moves = !removed.is_empty() || !added.is_empty();
        moves.then_some((removed, added)).ok_or(NoSafeOrder)
    }

    fn may_go_dark(&self, removed: &BTreeSet<Crossing>) -> bool {
        let dark = self.links_of(removed);
        let nodes = self.from.fabric.nodes();
        let mut nodes = nodes.map(|(node, _)| node);
        nodes.all(|node| self.keeps_enough(node, &dark)) && drain::drained(self, &dark).is_some()
    }

    /// Whether a node keeps the required share of its full capacity, or of its present one if that is larger.
    fn keeps_enough(&self, node: NodeId, dark: &BTreeSet<LinkId>) -> bool {
        let fabric = self.from.fabric;
        let sum = |links: &[LinkId], is_there: &dyn Fn(LinkId) -> bool| -> u64 {
            let links = links.iter().copied().filter(|&link| is_there(link));
            links.map(|link| fabric.link(link).rate.bits_per_s()).sum()
        };
        let open = &self.open[node.index()];
        let now = sum(open, &|_| true);
        let left = sum(open, &|link| !dark.contains(&link));
        let (first, own) = (fabric.first_circuits(), fabric.links_of(node));
        if left == now {
            return true;
        }
        let whole = now.max(sum(own, &|link| is_lit(fabric, first, link)));
        left >= (whole as f64 * self.from.floor) as u64
    }

    fn links_of(&self, crossings: &BTreeSet<Crossing>) -> BTreeSet<LinkId> {
        let fabric = self.from.fabric;
        let links = fabric.links().map(|(link, _)| link);
        let of = links.filter(|&link| {
            let crossing = fabric.crossing(link);
            crossing.is_some_and(|crossing| crossings.contains(&crossing))
        });
        of.collect()
    }

    fn note_open(&mut self) {
        let fabric = self.from.fabric;
        self.open = vec![Vec::new(); fabric.nodes().len()];
        let lit = fabric.lit(&self.circuits).into_iter();
        for link in lit.filter(|link| !self.from.down.contains(link)) {
            for end in fabric.link(link).ports() {
                self.open[end.node.index()].push(link);
            }
        }
    }

    fn rounds_to(&mut self, tables: &Tables) -> Result<Vec<Round>, NoSafeOrder> {
        let rounds = rounds::rounds(self, tables).ok_or(NoSafeOrder)?;
        self.tables.clone_from(tables);
        self.unsure.clear();
        Ok(rounds)
    }
}

/// Whether the link exists. Cables always do.
fn is_lit(fabric: &Fabric, circuits: &Circuits, link: LinkId) -> bool {
    fabric.crossing(link).is_none_or(|crossing| {
        let set = circuits.get(&crossing.optical);
        set.is_some_and(|set| set.contains(crossing.circuit))
    })
}

/// The circuits of all optical switches.
pub(crate) fn crossings(circuits: &Circuits) -> BTreeSet<Crossing> {
    let all = circuits.iter();
    all.flat_map(|(&optical, set)| set.iter().map(move |circuit| Crossing { optical, circuit }))
        .collect()
}

/// Whether two circuits share a port.
pub(crate) fn meet(one: &Crossing, other: &Crossing) -> bool {
    let ports = other.circuit.ports();
    one.optical == other.optical
        && Circuit::ports(one.circuit)
            .iter()
            .any(|port| ports.contains(port))
}
