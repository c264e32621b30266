//! This host's traffic by peer: from a program in the kernel, or else from nftables, or else from sockets.

mod batch;
mod ebpf;
mod nft;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::Path;

use reweave_agent_core::flows::Socket;
use reweave_agent_core::traffic::{
    DatagramBook, Direction, FlowCount, SocketTraffic, TrafficCounts, peers,
};
use reweave_common::error::error_chain;
use reweave_common::moment::Moment;
use reweave_common::sample::Interface;
use reweave_common::traffic::{PortTraffic, Traffic, TrafficSource, Volume};

use crate::counters::{Tree, port_traffic};
use crate::netlink::Link;

pub use ebpf::EbpfError;
pub use nft::{NftError, may_use_nft};

pub(crate) use ebpf::read_entries as read_ebpf;
pub(crate) use nft::{nft, read_list as read_nft};

use ebpf::EbpfCounter;
use nft::NftCounter;

/// Whether programs that count packets may be loaded into this kernel.
pub fn may_load() -> Result<(), EbpfError> {
    EbpfCounter::load().map(drop)
}

/// What counts.
enum Counter {
    Ebpf(Box<EbpfCounter>),
    Nftables(NftCounter),
    Sockets(SocketTraffic),
}

pub struct TrafficReader {
    counter: Counter,
    datagrams: DatagramBook,
    refused: Vec<Refusal>,
}

/// Why a better source is not in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub source: TrafficSource,
    pub because: String,
}

/// What was counted, in three ways.
pub struct TrafficRead {
    pub traffic: Traffic,
    /// Flows of both directions, including forwarded ones.
    pub flows: Vec<FlowCount>,
    /// The flows of datagrams this host sends, as if they were sockets.
    pub datagrams: Vec<Socket>,
}

/// An interface to count at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wire {
    pub index: u32,
    pub name: String,
}

impl TrafficReader {
    /// Opens the best permitted source, from `best` on.
    pub fn open(best: TrafficSource) -> Self {
        let mut refused = vec![];
        let counter = counter(best, &mut refused);
        Self {
            counter,
            datagrams: DatagramBook::default(),
            refused,
        }
    }

    pub fn source(&self) -> TrafficSource {
        match self.counter {
            Counter::Ebpf(_) => TrafficSource::Ebpf,
            Counter::Nftables(_) => TrafficSource::Nftables,
            Counter::Sockets(_) => TrafficSource::Sockets,
        }
    }

    pub fn refused(&self) -> &[Refusal] {
        &self.refused
    }

    /// What was exchanged since this began to count. `sockets` are those of TCP. What fails now is given up for the next best.
    pub fn read(
        &mut self,
        now: Moment,
        wires: &[Wire],
        own: &BTreeSet<Ipv4Addr>,
        sockets: &[Socket],
    ) -> TrafficRead {
        let counted = match &mut self.counter {
            Counter::Ebpf(ebpf) => ebpf.read(wires).map_err(|error| error_chain(&error)),
            Counter::Nftables(nft) => nft.read().map_err(|error| error_chain(&error)),
            Counter::Sockets(book) => return of_sockets(book, sockets),
        };
        match counted {
            Ok(counted) => self.report(now, counted, own),
            Err(because) => {
                self.fall_back(because);
                self.read(now, wires, own, sockets)
            }
        }
    }

    fn report(
        &mut self,
        now: Moment,
        counted: TrafficCounts,
        own: &BTreeSet<Ipv4Addr>,
    ) -> TrafficRead {
        let traffic = Traffic {
            source: self.source(),
            unknown_packets: counted.unknown_packets,
            peers: peers(&counted.pairs, own),
            rdma: rdma(),
        };
        TrafficRead {
            traffic,
            datagrams: self.datagrams.handle_flows(now, &counted.flows, own),
            flows: counted.flows,
        }
    }

    fn fall_back(&mut self, because: String) {
        let source = self.source();
        tracing::warn!("traffic is no longer counted by {source}: {because}");
        self.refused.push(Refusal { source, because });
        let next = match source {
            TrafficSource::Ebpf => TrafficSource::Nftables,
            _ => TrafficSource::Sockets,
        };
        self.counter = counter(next, &mut self.refused);
    }
}

fn counter(best: TrafficSource, refused: &mut Vec<Refusal>) -> Counter {
    let mut refuse = |source, because| refused.push(Refusal { source, because });
    if best <= TrafficSource::Ebpf {
        match EbpfCounter::load() {
            Ok(ebpf) => return Counter::Ebpf(Box::new(ebpf)),
            Err(error) => refuse(TrafficSource::Ebpf, error_chain(&error)),
        }
    }
    if best <= TrafficSource::Nftables {
        match NftCounter::install() {
            Ok(nft) => return Counter::Nftables(nft),
            Err(error) => refuse(TrafficSource::Nftables, error_chain(&error)),
        }
    }
    Counter::Sockets(SocketTraffic::default())
}

fn of_sockets(book: &mut SocketTraffic, sockets: &[Socket]) -> TrafficRead {
    let flows = sockets.iter().map(|socket| FlowCount {
        flow: socket.flow,
        direction: Direction::Sent,
        volume: Volume {
            bytes: socket.acked,
            packets: None,
        },
        busy: socket.busy,
    });
    TrafficRead {
        traffic: Traffic {
            source: TrafficSource::Sockets,
            unknown_packets: 0,
            peers: book.handle_sockets(sockets),
            rdma: rdma(),
        },
        flows: flows.collect(),
        datagrams: vec![],
    }
}

/// The traffic of RDMA ports. It is also counted elsewhere where packets pass the kernel, as those of Soft-RoCE do.
fn rdma() -> Vec<PortTraffic> {
    port_traffic(&Tree::new(Path::new("/")))
}

/// Where a host meets the network. On interfaces that lie on top of others, all would be counted
/// twice.
pub fn wires(links: &[Link]) -> Vec<Wire> {
    let wires = links.iter().filter(|link| !link.loopback && !link.stacked);
    wires
        .map(|link| Wire {
            index: link.index,
            name: link.count.interface.clone(),
        })
        .collect()
}

pub fn own_addresses(interfaces: &[Interface]) -> BTreeSet<Ipv4Addr> {
    let addresses = interfaces.iter().flat_map(|it| &it.addresses);
    addresses.copied().collect()
}
