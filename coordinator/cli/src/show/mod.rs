//! Text output of each answer.

mod finding;
pub(crate) mod flows;
mod history;
pub(crate) mod hosts;
pub(crate) mod links;
mod measured;
mod peers;
mod plan;
mod standing;
mod status;
pub(crate) mod trace;

pub(crate) use finding::{cause, findings, in_a_sentence, not_seen, why_no_plan};
pub(crate) use history::{history, record, recorded};
pub(crate) use peers::{members, wide_members};
pub(crate) use plan::{all_changes, plan, touched};
pub(crate) use standing::leaderless;
pub(crate) use status::{phase, status, warnings};

use reweave_common::operator::Hop;

use crate::Detail;
use crate::page::Page;

/// Formats a link as `leaf0 > spine0`, with the cable number if links are parallel.
pub(crate) fn hop(hop: &Hop) -> String {
    let parallel = hop.link.rsplit_once('.');
    let nth = parallel.filter(|(_, nth)| nth.parse::<u32>().is_ok());
    match nth {
        Some((_, nth)) if is_parallel(hop) => format!("{} > {} .{nth}", hop.from, hop.to),
        _ => format!("{} > {}", hop.from, hop.to),
    }
}

/// Whether the name has a cable number. Names of nodes may contain dots too.
fn is_parallel(hop: &Hop) -> bool {
    let plain = [
        format!("{}-{}", hop.from, hop.to),
        format!("{}-{}", hop.to, hop.from),
    ];
    !plain.contains(&hop.link)
}

/// Maximum number of rows of a list that grows with the cluster; `--all` shows the rest.
const MAX_ROWS: usize = 20;

pub(crate) fn most_rows(Detail { all }: Detail) -> usize {
    if all { usize::MAX } else { MAX_ROWS }
}

fn more(page: &mut Page, rows: usize, detail: Detail) {
    let more = rows.saturating_sub(most_rows(detail));
    if more > 0 {
        page.line(&format!(
            "  and {more} more; `reweave status --all` shows them"
        ));
    }
}

fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
pub(crate) mod tests;
