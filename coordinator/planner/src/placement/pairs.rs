//! The table of measured pairs.
//!
//! ```text
//! from,to,gbps
//! h0,h5,92.5
//! ```

use reweave_common::fabric::Fabric;
use reweave_common::input::InputError;

use super::Pairs;
use crate::sim::columns::{Columns, Row};

const COLUMNS: [&str; 3] = ["from", "to", "gbps"];

/// Reads measured pairs; `file` is the name that errors call it by.
pub fn read_pairs(file: &str, text: &str, fabric: &Fabric) -> Result<Pairs, InputError> {
    let columns = Columns::parse(file, text, &COLUMNS, &COLUMNS)?;
    let pair = |row: Row<'_>| {
        let node = |key: &str| {
            let name = row.text(key)?;
            let problem = || row.error(key, format!("the fabric has no node named {name:?}"));
            fabric.find(name).ok_or_else(problem)
        };
        let gbps: f64 = row.require("gbps")?;
        match gbps > 0.0 && gbps.is_finite() {
            true => Ok(((node("from")?, node("to")?), gbps * 1e9)),
            false => Err(row.error("gbps", format!("{gbps:?} is no rate"))),
        }
    };
    columns.rows(text).map(|row| pair(row?)).collect()
}
