//! The table of measured pairs.
//!
//! ```text
//! from,to,gbps
//! h0,h5,92.5
//! ```
//!
//! With a column `rail` each rail of a pair has a line. A pair is as fast as its slowest line on all of its rails.
//! Without that column, a line is for all rails together.

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
    let mut is_by_rail = false;
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
        let rail: Option<u32> = row.parsed(RAIL_COLUMN)?;
        is_by_rail |= rail.is_some();
        let rails = pairs.entry((from, to)).or_default();
        if rails
            .insert(rail.unwrap_or(0), rate.bits_per_s() as f64)
            .is_some()
        {
            return Err(row.error("to", "this pair was listed before"));
        }
    }
    let together = |(ends, rails): (_, BTreeMap<u32, f64>)| {
        let rate = if is_by_rail {
            over_all(fabric, ends, &rails)
        } else {
            rails.into_values().next()
        };
        Some((ends, rate?))
    };
    Ok(pairs.into_iter().filter_map(together).collect())
}

/// Returns the upper bound of the rate between two hosts if the measured rate exceeds it.
fn beyond(rate: Rate, from: NodeId, to: NodeId, fabric: &Fabric) -> Option<Rate> {
    let most = fabric.most_between(from, to)?;
    most.is_exceeded_by(rate.gbps()).then_some(most)
}

/// Returns the rate of a pair of hosts over all their rails, in bits per second, from the rates that were measured rail
/// by rail. Each rail carries as much, so all wait for the slowest; rails without a measurement count too.
pub fn over_all(
    fabric: &Fabric,
    (from, to): (NodeId, NodeId),
    rails: &BTreeMap<u32, f64>,
) -> Option<f64> {
    let slowest = rails.values().copied().reduce(f64::min)?;
    let count = rails.len().max(fabric.common_rails(from, to));
    Some(slowest * count as f64)
}

fn host(row: &CsvRow<'_>, key: &str, fabric: &Fabric) -> Result<NodeId, InputError> {
    let name = row.text(key)?;
    let host = fabric.find(name);
    let host = host.filter(|&node| fabric.node(node).role != Role::Switch);
    host.ok_or_else(|| row.error(key, format!("the fabric has no host named {name:?}")))
}
