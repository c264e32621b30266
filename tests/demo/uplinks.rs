//! The uplinks of one leaf and what they carry, by the counters of its kernel.

use std::time::{Duration, Instant};

use reweave_common::fabric::Fabric;
use reweave_common::units::{Bytes, Rate};
use reweave_tests::{Stage, StageError};

pub(crate) struct LeafUplink {
    pub(crate) leaf: String,
    pub(crate) spine: String,
    pub(crate) capacity: Rate,
    interface: String,
}

impl LeafUplink {
    pub(crate) fn name(&self) -> String {
        format!("{} > {}", self.leaf, self.spine)
    }
}

/// Bytes sent so far, uplink by uplink.
pub(crate) struct Counters {
    at: Instant,
    sent: Vec<u64>,
}

/// What each uplink carried over some time.
pub(crate) struct Loads {
    pub(crate) rates: Vec<Rate>,
}

/// The links of a leaf to other switches. The lab names the interfaces of a switch by its ports.
pub(crate) fn uplinks(fabric: &Fabric, leaf: &str) -> Vec<LeafUplink> {
    let Some(node) = fabric.find(leaf) else {
        return Vec::new();
    };
    let links = fabric.links_of(node).iter().enumerate();
    let uplink = |(port, &link)| {
        let cable = fabric.link(link);
        let far = fabric.node(cable.far(node).node);
        far.role.forwards().then(|| LeafUplink {
            leaf: leaf.to_owned(),
            spine: far.name.clone(),
            capacity: cable.rate,
            interface: format!("swp{port}"),
        })
    };
    links.filter_map(uplink).collect()
}

pub(crate) fn read(stage: &Stage, uplinks: &[LeafUplink]) -> Result<Counters, StageError> {
    let table = match uplinks.first() {
        Some(LeafUplink { leaf, .. }) => stage.output(leaf, &["cat", "/proc/net/dev"])?,
        None => String::new(),
    };
    let sent = |uplink: &LeafUplink| sent_by(&table, &uplink.interface).unwrap_or(0);
    Ok(Counters {
        at: Instant::now(),
        sent: uplinks.iter().map(sent).collect(),
    })
}

/// The ninth figure of an interface's line in /proc/net/dev.
fn sent_by(table: &str, interface: &str) -> Option<u64> {
    let figures = table.lines().find_map(|line| {
        let (name, figures) = line.split_once(':')?;
        (name.trim() == interface).then_some(figures)
    })?;
    figures.split_whitespace().nth(8)?.parse().ok()
}

impl Counters {
    pub(crate) fn since(&self, earlier: &Self) -> Loads {
        let elapsed: Duration = self.at - earlier.at;
        let pairs = self.sent.iter().zip(&earlier.sent);
        let rate = |(now, then): (&u64, &u64)| Rate::mean(Bytes::new(now - then), elapsed);
        Loads {
            rates: pairs.map(rate).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sent_bytes_parse_from_kernel_table() {
        let table = "Inter-|   Receive  |  Transmit\n face |bytes packets|bytes\n\
                     swp10: 1 2 3 4 5 6 7 8 1000 10 11\n swp1: 1 2 3 4 5 6 7 8 999 10 11\n";
        assert_eq!(sent_by(table, "swp1"), Some(999));
        assert_eq!(sent_by(table, "swp2"), None);
    }

    #[test]
    fn leaf_uplinks_are_its_last_ports() {
        let text = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n\
                    host_gbps = 0.4\nuplink_gbps = 0.2";
        let fabric = Fabric::parse("f.toml", text).unwrap();
        let found = uplinks(&fabric, "leaf0");
        let found: Vec<_> = found
            .iter()
            .map(|uplink| (uplink.spine.as_str(), uplink.interface.as_str()))
            .collect();
        assert_eq!(found, [("spine0", "swp4"), ("spine1", "swp5")]);
    }
}
