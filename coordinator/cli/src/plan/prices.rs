//! Prices of parts, from a file.

use std::path::Path;

use reweave_common::input::{Document, InputError, Number};
use reweave_design::topology::prices::Prices;
use serde::Deserialize;
use toml::Spanned;

use crate::error::CliError;
use crate::sim::input;

/// Maximum price of a part.
const MAX_PRICE: f64 = 1e9;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    transceiver: Spanned<f64>,
    switch_port: Spanned<f64>,
    panel_port: Spanned<f64>,
    optical_port: Spanned<f64>,
    card_port: Option<Spanned<f64>>,
    fibre: Option<Spanned<f64>>,
}

pub(super) fn read(path: &Path) -> Result<Prices, CliError> {
    let (name, text) = (path.display().to_string(), input::text(path)?);
    parsed(&name, &text).map_err(CliError::Input)
}

/// Parses prices. `file` is the name in error messages.
fn parsed(file: &str, text: &str) -> Result<Prices, InputError> {
    let table = Document::new(file, text).table()?;
    let document = table.document();
    let parts: Parts = table.finish()?;
    let price = |part: &Spanned<f64>| match *part.get_ref() {
        price if (0.0..MAX_PRICE).contains(&price) => Ok(price),
        other => {
            let problem = format!("{} is not the price of a part", Number(other));
            Err(document.error(part.span(), problem))
        }
    };
    let if_any = |part: &Option<Spanned<f64>>| part.as_ref().map_or(Ok(0.0), price);
    let prices = Prices {
        transceiver: price(&parts.transceiver)?,
        switch_port: price(&parts.switch_port)?,
        panel_port: price(&parts.panel_port)?,
        optical_port: price(&parts.optical_port)?,
        card_port: if_any(&parts.card_port)?,
        fibre: if_any(&parts.fibre)?,
    };
    if prices.bill(1).patch_panels > 0.0 {
        return Ok(prices);
    }
    let problem = "all parts for circuits cost 0, so costs cannot be compared";
    Err(document.error(parts.panel_port.span(), problem))
}
