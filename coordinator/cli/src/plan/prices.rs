//! What parts cost, as a file says.

use std::path::Path;

use reweave_common::input::{Document, Table};
use reweave_planner::topology::prices::Prices;

use crate::error::CliError;
use crate::sim::input;

/// No part is dearer.
const DEAREST: f64 = 1e9;

pub(super) fn read(path: &Path) -> Result<Prices, CliError> {
    let (name, text) = (path.display().to_string(), input::text(path)?);
    let prices: Prices = Document::new(&name, &text)
        .table()
        .and_then(Table::finish)
        .map_err(CliError::Input)?;
    let bad = prices
        .named()
        .into_iter()
        .find(|(_, price)| !(0.0..DEAREST).contains(price));
    let free = prices.bill(1).patch_panels == 0.0;
    match bad.or(free.then_some(("panel_port", 0.0))) {
        Some((part, price)) => Err(CliError::BadPrice {
            path: path.to_owned(),
            part,
            price,
        }),
        None => Ok(prices),
    }
}
