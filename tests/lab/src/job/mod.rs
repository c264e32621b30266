//! Jobs: from a scenario's description to programs that run on the cluster's hosts.

mod launch;
pub(crate) mod ports;
mod running;
mod tally;
pub(crate) mod walk;

pub(crate) use launch::plan_all;
pub(crate) use running::RunningJob;
pub(crate) use tally::Tally;
