//! Interfaces at optical switches share one hardware address, so the node that a circuit leads to accepts packets for
//! the previous one. Network cards that send by themselves resolve an address once and never again.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use clap::Args;
use reweave_common::error::error_chain;
use reweave_common::hardware::Mac;

use crate::counters::{Tree, carried_over};
use crate::netlink::{Link, NetlinkError, RouteSocket};

/// The longest that jobs reckon without a word to each other, as a rule.
const QUIET_CHECK_TIME: Duration = Duration::from_secs(2);
/// What passes though no job runs, in that time: ARP, LLDP, and probes between hosts.
const MAX_IDLE_BYTES: u64 = 250_000;

#[derive(Debug, Clone, Args)]
pub struct Fibres {
    /// Interfaces at optical switches, separated by commas: at the start of the agent, each idle one gets the hardware
    /// address that all of them share
    #[arg(long = "fibres", value_name = "INTERFACE", value_delimiter = ',')]
    pub interfaces: Vec<String>,
    /// Shared hardware address, the same on all hosts
    #[arg(long, value_name = "ADDRESS", default_value_t = Mac::DEFAULT_FIBRE_MAC, requires = "interfaces")]
    pub fabric_mac: Mac,
}

impl Fibres {
    /// A fault of one interface stops neither measuring nor forwarding: the coordinator hears of the address it has,
    /// and says so.
    pub fn settle(&self) -> Result<(), NetlinkError> {
        if self.interfaces.is_empty() {
            return Ok(());
        }
        let mut socket = RouteSocket::open()?;
        let links = socket.links()?;
        self.warn_of_missing(&links);
        let before = self.others(&links);
        if before.is_empty() {
            return Ok(());
        }
        thread::park_timeout(QUIET_CHECK_TIME);
        for (name, (index, carried)) in self.others(&socket.links()?) {
            let earlier = before.get(&name).map(|(_, earlier)| *earlier);
            let passed = carried.saturating_sub(earlier.unwrap_or_default());
            self.settle_one(&mut socket, &name, index, passed);
        }
        Ok(())
    }

    fn warn_of_missing(&self, links: &[Link]) {
        for name in &self.interfaces {
            if !links.iter().any(|link| link.count.interface == *name) {
                tracing::warn!("no interface {name} for the fibres' hardware address");
            }
        }
    }

    /// Those that bear another address, by name: their number, and what they have carried.
    fn others(&self, links: &[Link]) -> BTreeMap<String, (u32, u64)> {
        let named = |link: &&Link| self.interfaces.contains(&link.count.interface);
        let others = links.iter().filter(named);
        let others = others.filter(|link| link.hardware != Some(self.fabric_mac));
        let known = others.map(|it| (it.count.interface.clone(), (it.index, carried(it))));
        known.collect()
    }

    fn settle_one(&self, socket: &mut RouteSocket, name: &str, index: u32, passed: u64) {
        let address = self.fabric_mac;
        if passed > MAX_IDLE_BYTES {
            tracing::warn!(
                "{name} carries traffic and keeps its hardware address: restart the agent while \
                 no job runs to set {address}"
            );
            return;
        }
        match socket.give_hardware_address(index, address) {
            Ok(()) => tracing::info!("{name} has the hardware address of all fibres, {address}"),
            Err(error) => {
                tracing::warn!("{name} keeps its hardware address: {}", error_chain(&error));
            }
        }
    }
}

/// The bytes in both directions, through the kernel and past it.
fn carried(link: &Link) -> u64 {
    let past_the_kernel = carried_over(&Tree::new(Path::new("/")), &link.count.interface);
    (link.count.sent + link.count.received + past_the_kernel).count()
}
