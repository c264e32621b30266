//! Links with their load.

use reweave_common::operator::{Findings, LinkStatus};

use super::{dash, hop};
use crate::page::{Ink, Page, age};
use crate::trouble;

const BAR_CELLS: usize = 20;
/// Load above which a link limits its flows.
pub(crate) const MIN_FULL_LOAD: f64 = 0.9;

/// Adds the links with load or findings.
pub(super) fn busy(page: &mut Page, links: &[LinkStatus], findings: &Findings) {
    let matters =
        |link: &&LinkStatus| load(link) >= 0.01 || !trouble::describe(link, findings).is_empty();
    let mut busy: Vec<_> = links.iter().filter(matters).collect();
    busy.sort_by_cached_key(|link| trouble::rank(link, findings));
    let idle = links.len() - busy.len();
    page.heading("Links");
    if !busy.is_empty() {
        table(page, &busy, findings);
    }
    page.line(&format!("  idle directions: {idle}"));
}

pub(crate) fn load(link: &LinkStatus) -> f64 {
    let capacity = link.capacity_bits_per_s.bits_per_s().max(1);
    link.rate_bits_per_s.bits_per_s() as f64 / capacity as f64
}

/// Adds these links, with any load.
pub(crate) fn table(page: &mut Page, links: &[&LinkStatus], findings: &Findings) {
    let rows: Vec<_> = links.iter().map(|link| row(page, link, findings)).collect();
    page.table(["link", "load", "rate", "of", "left", "trouble"], rows);
}

/// Same as `table`, with the name of the link and the age of the reading.
pub(crate) fn wide_table(page: &mut Page, links: &[&LinkStatus], findings: &Findings) {
    let wide = |link: &&LinkStatus| {
        let [hop, load, rate, of, left, trouble] = row(page, link, findings);
        let name = link.hop.link.clone();
        [hop, load, rate, of, left, name, age(link.age_ms), trouble]
    };
    let rows: Vec<_> = links.iter().map(wide).collect();
    let headings = [
        "link", "load", "rate", "of", "left", "name", "read", "trouble",
    ];
    page.table(headings, rows);
}

fn row(page: &Page, link: &LinkStatus, findings: &Findings) -> [String; 6] {
    let trouble = trouble::describe(link, findings);
    let ink = if link.drained { Ink::Grey } else { Ink::Red };
    [
        hop(&link.hop),
        bar(page, link),
        link.rate_bits_per_s.to_string(),
        link.capacity_bits_per_s.to_string(),
        link.spare_bits_per_s.map_or_else(dash, |it| it.to_string()),
        if trouble.is_empty() {
            trouble
        } else {
            page.ink(ink, &trouble)
        },
    ]
}

/// Draws the load. A link that is down or drained has none.
fn bar(page: &Page, link: &LinkStatus) -> String {
    let load = load(link);
    let filled = ((load * BAR_CELLS as f64).round() as usize).min(BAR_CELLS);
    let ink = if load >= MIN_FULL_LOAD {
        Ink::Red
    } else {
        Ink::Green
    };
    match (link.up, link.drained) {
        (false, _) => page.ink(Ink::Red, "down"),
        (true, true) => page.ink(Ink::Grey, "drained"),
        (true, false) => {
            let rest = page.ink(Ink::Grey, &"·".repeat(BAR_CELLS - filled));
            page.ink(ink, &"█".repeat(filled)) + &rest
        }
    }
}
