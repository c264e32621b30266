//! What is under maintenance, as the log has it.

use std::collections::BTreeSet;

use reweave_common::fabric::Fabric;
use reweave_common::ids::LinkId;
use reweave_common::moment::Moment;
use reweave_common::operator::MaintenanceStage;
use serde::{Deserialize, Serialize};

use crate::log::command::Author;
use crate::log::device::Device;
use crate::log::state::State;

/// A device under maintenance, as the log has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maintenance {
    pub place: Device,
    pub stage: MaintenanceStage,
    /// Who changed to this stage, and when.
    pub by: Author,
    pub since: Moment,
    /// Links of the device that were drained before and stay drained afterwards.
    pub kept: BTreeSet<LinkId>,
}

impl Maintenance {
    /// Whether its links are to carry nothing.
    pub(crate) fn is_closed(&self) -> bool {
        self.stage != MaintenanceStage::Returning
    }
}

/// All links that are to carry nothing because of maintenance.
pub(crate) fn closed(fabric: &Fabric, state: &State) -> BTreeSet<LinkId> {
    let closed = state.maintenance().iter().filter(|it| it.is_closed());
    closed.flat_map(|it| it.place.links(fabric)).collect()
}
