//! What is published of wirings, and what is proposed for small jobs.

use super::*;
use crate::dice::Dice;

mod golden;
