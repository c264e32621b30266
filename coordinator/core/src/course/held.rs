//! What nodes and optical switches hold on a course, leg by leg.

use reweave_common::course::{Leg, Round, Tables};
use reweave_common::fabric::Circuits;
use reweave_common::ids::NodeId;

use super::rounds::own_table;

#[derive(Debug)]
pub(super) struct Held {
    tables: Tables,
    circuits: Circuits,
}

impl Held {
    /// Where the course begins.
    pub(super) fn first(tables: &Tables, circuits: &Circuits) -> Self {
        Self {
            tables: tables.clone(),
            circuits: circuits.clone(),
        }
    }

    pub(super) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// A node that holds no table follows the network's own routes.
    pub(super) fn tables_of(&self, nodes: impl Iterator<Item = NodeId>) -> Round {
        let held = nodes.map(|at| {
            let table = self.tables.get(&at).cloned();
            (at, table.unwrap_or_else(|| own_table(at)))
        });
        held.collect()
    }

    /// Of these optical switches.
    pub(super) fn circuits_of(&self, moved: &Circuits) -> Circuits {
        let held = moved.keys().map(|optical| {
            let circuits = self.circuits.get(optical).cloned();
            (*optical, circuits.unwrap_or_default())
        });
        held.collect()
    }

    /// All have followed it.
    pub(super) fn pass(&mut self, leg: Leg<'_>) {
        match leg {
            Leg::Round(round) => self.tables.extend(round.clone()),
            Leg::Switch(moved) => self.circuits.extend(moved.clone()),
        }
    }
}
