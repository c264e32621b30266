//! The table of measured pairs.
//!
//! ```text
//! from,to,gbps
//! h0,h5,92.5
//! ```

use reweave_common::fabric::{Fabric, Role};
use reweave_common::ids::NodeId;
use reweave_common::input::InputError;

use super::Pairs;
use crate::sim::columns::{Columns, Row};

const COLUMNS: [&str; 3] = ["from", "to", "gbps"];

/// Reads measured pairs; `file` is the name that errors call it by.
pub fn read_pairs(file: &str, text: &str, fabric: &Fabric) -> Result<Pairs, InputError> {
    let columns = Columns::parse(file, text, &COLUMNS, &COLUMNS)?;
    let mut pairs = Pairs::new();
    for row in columns.rows(text) {
        let row = row?;
        let ends = (host(&row, "from", fabric)?, host(&row, "to", fabric)?);
        if ends.0 == ends.1 {
            return Err(row.error("to", "it is from: a host measures others"));
        }
        let gbps: f64 = row.require("gbps")?;
        if !(gbps > 0.0 && gbps.is_finite()) {
            return Err(row.error("gbps", format!("{gbps:?} is no rate")));
        }
        if pairs.insert(ends, gbps * 1e9).is_some() {
            return Err(row.error("to", "this pair was listed before"));
        }
    }
    Ok(pairs)
}

fn host(row: &Row<'_>, key: &str, fabric: &Fabric) -> Result<NodeId, InputError> {
    let name = row.text(key)?;
    let host = fabric.find(name);
    let host = host.filter(|&node| fabric.node(node).role != Role::Switch);
    host.ok_or_else(|| row.error(key, format!("the fabric has no host named {name:?}")))
}
