//! What people see of each answer.

mod finding;
mod history;
mod peers;
mod plan;
mod status;

pub(crate) use finding::{cause, findings, in_a_sentence, not_seen};
pub(crate) use history::{history, record};
pub(crate) use peers::members;
pub(crate) use plan::plan;
pub(crate) use status::{phase, status};

use reweave_common::operator::Hop;

/// `leaf0 > spine0`, and the cable too where several join the two.
fn hop(hop: &Hop) -> String {
    let parallel = hop.link.rsplit_once('.');
    let nth = parallel.filter(|(_, nth)| nth.parse::<u32>().is_ok());
    match nth {
        Some((_, nth)) if is_parallel(hop) => format!("{} > {} .{nth}", hop.from, hop.to),
        _ => format!("{} > {}", hop.from, hop.to),
    }
}

/// Names of nodes may have dots too.
fn is_parallel(hop: &Hop) -> bool {
    let plain = [
        format!("{}-{}", hop.from, hop.to),
        format!("{}-{}", hop.to, hop.from),
    ];
    !plain.contains(&hop.link)
}

#[cfg(test)]
pub(crate) mod tests;
