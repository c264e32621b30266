//! Jobs under a change freeze, as the log has them.

use std::collections::BTreeSet;

use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use serde::{Deserialize, Serialize};

use crate::log::command::Author;

/// A frozen job, as the log has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frozen {
    pub hosts: BTreeSet<NodeId>,
    pub by: Author,
    pub since: Moment,
}
