//! What people see of each answer.

mod finding;
mod history;
mod plan;
mod status;

pub(crate) use finding::findings;
pub(crate) use history::{history, record};
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
mod tests {
    use super::*;

    pub(crate) fn to(from: &str, to: &str) -> Hop {
        Hop {
            from: from.to_owned(),
            to: to.to_owned(),
            link: format!("{from}-{to}"),
        }
    }

    #[test]
    fn parallel_links_are_told_apart() {
        assert_eq!(hop(&to("leaf0", "spine1")), "leaf0 > spine1");
        assert_eq!(hop(&to("rack.1", "spine.2")), "rack.1 > spine.2");
        let third = Hop {
            link: "spine1-leaf0.2".to_owned(),
            ..to("leaf0", "spine1")
        };
        assert_eq!(hop(&third), "leaf0 > spine1 .2");
    }
}
