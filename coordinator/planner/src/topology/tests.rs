//! What is published of wirings, and what is proposed for small jobs.

use super::*;

mod golden;
mod limited;
mod reduced;
mod repaired;
