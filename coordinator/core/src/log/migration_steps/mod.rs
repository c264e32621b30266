//! The steps of a migration that the log itself computes: the rollback over completed steps, and a first step for
//! nodes that may hold either of two tables.

pub(crate) use held_state::{one_round, own_table, tables_of};
pub(crate) use reverse::retraced;
pub(crate) use settle::{leads_alike, settled};

mod held_state;
mod reverse;
mod settle;
