//! The table of measured pairs.
//!
//! ```text
//! from,to,gbps
//! h0,h5,92.5
//! ```
//!
//! With a column `rail` each rail of a pair has a line.

use std::collections::BTreeMap;

use reweave_common::fabric::{Fabric, Role};
use reweave_common::ids::NodeId;
use reweave_common::input::{InputError, Number};
use reweave_common::units::Rate;
use reweave_repair::columns::{CsvColumns, CsvRow};

use super::Pairs;

const KNOWN_COLUMNS: [&str; 4] = ["from", "to", "gbps", RAIL_COLUMN];
const REQUIRED_COLUMNS: [&str; 3] = ["from", "to", "gbps"];
const RAIL_COLUMN: &str = "rail";

/// Reads measured pairs; `file` is the name that errors call it by.
pub fn read_pairs(file: &str, text: &str, fabric: &Fabric) -> Result<Pairs, InputError> {
    let columns = CsvColumns::parse(file, text, &KNOWN_COLUMNS, &REQUIRED_COLUMNS)?;
    let mut pairs: BTreeMap<_, BTreeMap<u32, f64>> = BTreeMap::new();
    for row in columns.rows(text) {
        let row = row?;
        let (from, to) = (host(&row, "from", fabric)?, host(&row, "to", fabric)?);
        if from == to {
            return Err(row.error("to", "it is from: a host measures others"));
        }
        let gbps: f64 = row.require("gbps")?;
        let rate = Rate::from_gbps(gbps).ok_or_else(|| {
            let problem = format!("{} Gb/s is not a rate a link can have", Number(gbps));
            row.error("gbps", problem)
        })?;
        if let Some(most) = beyond(rate, from, to, fabric) {
            let most = Number(most.gbps());
            let message = format!("all links of one of the two carry {most} Gb/s");
            return Err(row.error("gbps", message));
        }
        let rail = row.parsed(RAIL_COLUMN)?.unwrap_or(0);
        let rails = pairs.entry((from, to)).or_default();
        if rails.insert(rail, rate.bits_per_s() as f64).is_some() {
            return Err(row.error("to", "this pair was listed before"));
        }
    }
    let together = |(ends, rails)| Some((ends, over_all(&rails)?));
    Ok(pairs.into_iter().filter_map(together).collect())
}

/// Returns the upper bound of the rate between two hosts if the measured rate exceeds it.
fn beyond(rate: Rate, from: NodeId, to: NodeId, fabric: &Fabric) -> Option<Rate> {
    let most = fabric.most_between(from, to)?;
    most.is_exceeded_by(rate.gbps()).then_some(most)
}

/// Each carries as much, and so the slowest is what all wait for.
fn over_all(rails: &BTreeMap<u32, f64>) -> Option<f64> {
    let slowest = rails.values().copied().reduce(f64::min)?;
    Some(slowest * rails.len() as f64)
}

fn host(row: &CsvRow<'_>, key: &str, fabric: &Fabric) -> Result<NodeId, InputError> {
    let name = row.text(key)?;
    let host = fabric.find(name);
    let host = host.filter(|&node| fabric.node(node).role != Role::Switch);
    host.ok_or_else(|| row.error(key, format!("the fabric has no host named {name:?}")))
}
