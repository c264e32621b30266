//! The uplinks of one leaf and what they carry, by the counters of its kernel.

use std::fs;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use reweave_common::ids::{LinkId, NodeId};
use reweave_common::units::{Bytes, Rate};

use crate::cluster::Cluster;
use crate::error::LabError;

pub(crate) struct Uplink {
    pub(crate) link: LinkId,
    pub(crate) name: String,
    pub(crate) interface: String,
    /// The spine's address at the other end.
    pub(crate) gateway: Ipv4Addr,
    pub(crate) capacity: Rate,
}

pub(crate) struct Uplinks<'c> {
    cluster: &'c Cluster,
    pub(crate) leaf: NodeId,
    pub(crate) links: Vec<Uplink>,
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

impl<'c> Uplinks<'c> {
    pub(crate) fn of(cluster: &'c Cluster, leaf: &str) -> Self {
        let fabric = cluster.fabric();
        let leaf = fabric.find(leaf).expect("the fabric has this leaf");
        let uplink = |&link: &LinkId| {
            let cable = fabric.link(link);
            let far = cable.far(leaf);
            let own = cable.ports().into_iter().find(|port| port.node == leaf)?;
            fabric.node(far.node).role.forwards().then(|| Uplink {
                link,
                name: format!("{} > {}", fabric.name(leaf), fabric.name(far.node)),
                interface: cluster.interface(own),
                gateway: cluster.gateway(link, far),
                capacity: cable.rate,
            })
        };
        let links = fabric.links_of(leaf).iter().filter_map(uplink).collect();
        Self {
            cluster,
            leaf,
            links,
        }
    }

    pub(crate) fn read(&self) -> Result<Counters, LabError> {
        let read = || fs::read_to_string("/proc/thread-self/net/dev");
        let table = self.cluster.inside(self.leaf, read)?;
        let table = table.map_err(|source| LabError::Counters { source })?;
        let sent = |uplink: &Uplink| sent_by(&table, &uplink.interface).unwrap_or(0);
        Ok(Counters {
            at: Instant::now(),
            sent: self.links.iter().map(sent).collect(),
        })
    }
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
        let sent = self
            .sent
            .iter()
            .zip(&earlier.sent)
            .map(|(now, then)| now - then);
        Loads {
            rates: sent
                .map(|sent| Rate::mean(Bytes::new(sent), elapsed))
                .collect(),
        }
    }
}

impl Loads {
    /// The uplink that carried least.
    pub(crate) fn least(&self) -> Option<usize> {
        (0..self.rates.len()).min_by_key(|&index| self.rates[index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_sent_are_read_from_the_kernels_table() {
        let table = "Inter-|   Receive  |  Transmit\n face |bytes packets|bytes\n\
                     swp10: 1 2 3 4 5 6 7 8 1000 10 11\n swp1: 1 2 3 4 5 6 7 8 999 10 11\n";
        assert_eq!(sent_by(table, "swp1"), Some(999));
        assert_eq!(sent_by(table, "swp2"), None);
    }
}
