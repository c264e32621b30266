//! What the links carry.

use reweave_common::operator::LinkStatus;

use super::{dash, hop};
use crate::page::{Ink, Page};

const BAR_CELLS: usize = 20;
/// Full enough to hold its flows back.
const FULL: f64 = 0.9;

/// Those that carry nothing are left out.
pub(super) fn busy(page: &mut Page, links: &[LinkStatus]) {
    let matters = |link: &&LinkStatus| !link.up || link.drained || load(link) >= 0.01;
    let busy: Vec<_> = links.iter().filter(matters).collect();
    let idle = links.len() - busy.len();
    page.heading("Links");
    if !busy.is_empty() {
        table(page, &busy);
    }
    page.line(&format!("  idle directions: {idle}"));
}

pub(crate) fn load(link: &LinkStatus) -> f64 {
    let capacity = link.capacity_bits_per_s.bits_per_s().max(1);
    link.rate_bits_per_s.bits_per_s() as f64 / capacity as f64
}

/// Each of these, whatever it carries.
pub(crate) fn table(page: &mut Page, links: &[&LinkStatus]) {
    let rows: Vec<_> = links.iter().map(|link| row(page, link)).collect();
    page.table(["link", "load", "rate", "of", "left"], rows);
}

fn row(page: &Page, link: &LinkStatus) -> [String; 5] {
    let rate = link.rate_bits_per_s.to_string();
    let load = load(link);
    let filled = ((load * BAR_CELLS as f64).round() as usize).min(BAR_CELLS);
    let ink = if load >= FULL { Ink::Red } else { Ink::Green };
    let bar = page.ink(ink, &"█".repeat(filled));
    let rest = page.ink(Ink::Grey, &"·".repeat(BAR_CELLS - filled));
    let bar = match (link.up, link.drained) {
        (false, _) => page.ink(Ink::Red, "down"),
        (true, true) => page.ink(Ink::Grey, "drained"),
        (true, false) => bar + &rest,
    };
    [
        hop(&link.hop),
        bar,
        rate,
        link.capacity_bits_per_s.to_string(),
        link.spare_bits_per_s.map_or_else(dash, |it| it.to_string()),
    ]
}
