//! What is published of wirings, and what is proposed for small jobs.

use super::*;

mod all_wirings;
mod chosen;
mod golden;
mod limited;
mod patched;
mod reduced;
mod repaired;
mod rewired;
