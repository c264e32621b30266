//! What to change, and whether it is sound: proposals, drains, circuits, order of steps, probes to send.
//! Uses `model` and what is below it.

pub(crate) mod blast_radius;
pub(crate) mod capacity_weights;
pub(crate) mod change_freeze;
pub(crate) mod dark_routes;
pub(crate) mod drain_routes;
pub(crate) mod failing_links;
pub(crate) mod full_links;
pub(crate) mod migration;
pub(crate) mod plan_check;
pub(crate) mod prediction;
pub(crate) mod probe_schedule;
pub(crate) mod proposals;
pub(crate) mod rewire;
pub(crate) mod rollback_plan;
pub(crate) mod severed_routes;
pub(crate) mod stale_pins;
pub(crate) mod trace_targets;
