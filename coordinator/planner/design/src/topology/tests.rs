//! Tests of published properties of wirings, and of proposals for small jobs.

use super::*;

mod all_wirings;
mod chosen;
mod golden;
mod limited;
mod patched;
mod reduced;
mod repaired;
mod rewired;
