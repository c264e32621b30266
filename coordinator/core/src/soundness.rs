//! Asking the judge of plans, who shares nothing with the planner.

use reweave_common::fabric::Fabric;
use reweave_common::plan::{Pin, Plan};

use crate::reason::Reason;

pub(crate) fn objection(_plan: &Plan, _fabric: &Fabric, _parent: &[Pin]) -> Option<Reason> {
    None
}
