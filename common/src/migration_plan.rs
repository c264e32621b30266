//! The order in which a running network is changed: waves, each of which has rounds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fabric::Circuits;
use crate::forwarding::ForwardingTable;
use crate::ids::NodeId;

/// Tables of nodes. Without an entry for a destination, a node uses the network's own routes; a node without a table
/// uses only those.
pub type Tables = BTreeMap<NodeId, ForwardingTable>;

/// Tables that nodes can adopt in any order and at any time.
pub type Round = Tables;

/// A wave: circuits move while no packet uses them. Packets are rerouted before, and return after it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wave {
    pub drain: Vec<Round>,
    /// All desired circuits of the optical switches that change.
    pub circuits: Circuits,
    pub undrain: Vec<Round>,
}

/// The last wave reaches the desired state; the network also works after each earlier wave.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationPlan {
    pub waves: Vec<Wave>,
}

/// A step of a migration; steps run in sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrationStep<'c> {
    Round(&'c Round),
    Switch(&'c Circuits),
}

/// The position of a step in a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StepPosition {
    pub wave: usize,
    pub stage: MigrationStage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MigrationStage {
    Draining { round: usize },
    Switching,
    Undraining { round: usize },
}

impl Wave {
    fn steps(&self) -> impl Iterator<Item = (MigrationStage, MigrationStep<'_>)> {
        let drain = self.drain.iter().enumerate();
        let drain =
            drain.map(|(round, it)| (MigrationStage::Draining { round }, MigrationStep::Round(it)));
        let switch = (
            MigrationStage::Switching,
            MigrationStep::Switch(&self.circuits),
        );
        let switch = (!self.circuits.is_empty()).then_some(switch);
        let undrain = self.undrain.iter().enumerate();
        let undrain = undrain.map(|(round, it)| {
            (
                MigrationStage::Undraining { round },
                MigrationStep::Round(it),
            )
        });
        drain.chain(switch).chain(undrain)
    }
}

impl MigrationPlan {
    pub fn steps(&self) -> impl Iterator<Item = (StepPosition, MigrationStep<'_>)> {
        let waves = self.waves.iter().enumerate();
        waves.flat_map(|(wave, it)| {
            let steps = it.steps();
            steps.map(move |(stage, step)| (StepPosition { wave, stage }, step))
        })
    }

    pub fn rounds(&self) -> usize {
        let is_round =
            |(_, step): &(StepPosition, MigrationStep<'_>)| matches!(step, MigrationStep::Round(_));
        self.steps().filter(is_round).count()
    }

    pub fn is_empty(&self) -> bool {
        self.steps().next().is_none()
    }
}
