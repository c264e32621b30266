//! The state of nodes and optical switches during a migration, step by step.

use std::collections::BTreeMap;

use reweave_common::fabric::Circuits;
use reweave_common::forwarding::ForwardingTable;
use reweave_common::ids::NodeId;
use reweave_common::migration_plan::{MigrationPlan, MigrationStep, Round, Tables, Wave};

#[derive(Debug)]
pub(crate) struct Held {
    tables: Tables,
    circuits: Circuits,
}

impl Held {
    /// The state at the start of the migration.
    pub(crate) fn first(tables: &Tables, circuits: &Circuits) -> Self {
        Self {
            tables: tables.clone(),
            circuits: circuits.clone(),
        }
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    pub(crate) fn tables_of(&self, nodes: impl Iterator<Item = NodeId>) -> Round {
        tables_of(&self.tables, nodes)
    }

    /// The present circuits of these optical switches.
    pub(crate) fn circuits_of(&self, moved: &Circuits) -> Circuits {
        let held = moved.keys().map(|optical| {
            let circuits = self.circuits.get(optical).cloned();
            (*optical, circuits.unwrap_or_default())
        });
        held.collect()
    }

    /// Applies a step on all its nodes.
    pub(crate) fn pass(&mut self, step: MigrationStep<'_>) {
        match step {
            MigrationStep::Round(round) => self.tables.extend(round.clone()),
            MigrationStep::Switch(moved) => self.circuits.extend(moved.clone()),
        }
    }
}

/// The present tables of these nodes. A node without a table follows the network's own routes.
pub(crate) fn tables_of(tables: &Tables, nodes: impl Iterator<Item = NodeId>) -> Round {
    let held = nodes.map(|at| {
        let table = tables.get(&at).cloned();
        (at, table.unwrap_or_else(|| own_table(at)))
    });
    held.collect()
}

/// A migration of this round, or of no step if the round has no node.
pub(crate) fn one_round(round: Round) -> MigrationPlan {
    let waves = if round.is_empty() {
        Vec::new()
    } else {
        vec![Wave {
            undrain: vec![round],
            ..Wave::default()
        }]
    };
    MigrationPlan { waves }
}

/// The empty table: with it, a node follows the network's own routes.
pub(crate) fn own_table(at: NodeId) -> ForwardingTable {
    ForwardingTable {
        at,
        towards: BTreeMap::new(),
        raises: Vec::new(),
    }
}
