//! Sends probes and receives answers of the network, by raw sockets.

use std::collections::BTreeMap;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::libc::{in_addr, in_pktinfo};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType,
    SockaddrIn, recvmsg, sendmsg, setsockopt, socket, sockopt,
};
use reweave_agent_core::probe::{Probe, ProbeAim, ProbeMark, TraceAnswer};
use reweave_common::flow::FlowKey;
use reweave_common::moment::Moment;
use thiserror::Error;

use crate::clock;
use crate::netlink::{Leaves, NetlinkError, OwnHashing, RouteSocket};

#[derive(Debug, Error)]
pub enum ProbeError {
    #[error("cannot open a raw socket; CAP_NET_RAW is required")]
    Open { source: Errno },
    #[error("cannot query the egress route of flows")]
    Ask { source: NetlinkError },
    #[error("cannot receive answers to probes")]
    Receive { source: Errno },
}

/// The raw sockets of one agent.
pub struct Prober {
    sender: OwnedFd,
    receiver: OwnedFd,
    mark: ProbeMark,
    own_ways: OwnWays,
}

/// Only the headers of the quoted packet matter.
const MAX_ICMP_BYTES: usize = 256;

/// Whether this user may open raw sockets here.
pub fn may_trace() -> Result<(), Errno> {
    open(SockProtocol::Raw, SockFlag::empty()).map(drop)
}

fn open(protocol: SockProtocol, flags: SockFlag) -> Result<OwnedFd, Errno> {
    let flags = flags | SockFlag::SOCK_CLOEXEC;
    socket(AddressFamily::Inet, SockType::Raw, flags, protocol)
}

/// The socket that sends probes, and the one that receives answers.
fn open_both() -> Result<(OwnedFd, OwnedFd), Errno> {
    let sender = open(SockProtocol::Raw, SockFlag::empty())?;
    let receiver = open(SockProtocol::Icmp, SockFlag::SOCK_NONBLOCK)?;
    setsockopt(&receiver, sockopt::ReceiveTimestampns, &true)?;
    Ok((sender, receiver))
}

impl Prober {
    pub fn open(mark: ProbeMark) -> Result<Self, ProbeError> {
        let opened = open_both().map_err(|source| ProbeError::Open { source });
        let (sender, receiver) = opened?;
        Ok(Self {
            sender,
            receiver,
            mark,
            own_ways: OwnWays::open()?,
        })
    }

    /// Sends a probe like a packet of its flow; unless this host has no path there, or several of which the flow's is
    /// unknown. Then there will be no answer.
    pub fn send(&mut self, probe: &Probe) {
        let interface = match probe.aim {
            ProbeAim::Hop(flow) => self.own_ways.interface(flow),
            ProbeAim::Distance(_) => Some(ANY_INTERFACE),
        };
        let Some(interface) = interface else {
            return tracing::debug!(
                "{probe:?} not sent: it might take a different path than the \
                                    flow"
            );
        };
        if let Err(errno) = self.try_send(probe, interface) {
            tracing::debug!("{probe:?} not sent: {errno}");
        }
    }

    fn try_send(&self, probe: &Probe, interface: u32) -> Result<usize, Errno> {
        let packet = probe.packet(self.mark);
        let to = SockaddrIn::from(std::net::SocketAddrV4::new(probe.destination(), 0));
        let parts = [IoSlice::new(&packet)];
        // Routes may depend on the source, which the kernel does not read from the packet.
        let source = in_pktinfo {
            ipi_ifindex: interface.cast_signed(),
            ipi_spec_dst: in_addr {
                s_addr: u32::from(probe.source()).to_be(),
            },
            ipi_addr: in_addr { s_addr: 0 },
        };
        let control = [ControlMessage::Ipv4PacketInfo(&source)];
        sendmsg(
            self.sender.as_raw_fd(),
            &parts,
            &control,
            MsgFlags::empty(),
            Some(&to),
        )
    }

    /// The next answer to a probe of this agent, and its time; none if no packet waits.
    pub fn receive(&self) -> Result<Option<(Moment, TraceAnswer)>, ProbeError> {
        loop {
            let mut packet = [0; MAX_ICMP_BYTES];
            match self.receive_packet(&mut packet) {
                Ok((length, at)) => {
                    if let Some(answer) = self.mark.read(&packet[..length]) {
                        return Ok(Some((at, answer)));
                    }
                }
                Err(Errno::EAGAIN) => return Ok(None),
                Err(Errno::EINTR) => {}
                Err(source) => return Err(ProbeError::Receive { source }),
            }
        }
    }

    /// The received length, and when the kernel received it.
    fn receive_packet(&self, packet: &mut [u8]) -> Result<(usize, Moment), Errno> {
        let mut control = nix::cmsg_space!(nix::libc::timespec);
        let mut parts = [IoSliceMut::new(packet)];
        let flags = MsgFlags::empty();
        let fd = self.receiver.as_raw_fd();
        let received = recvmsg::<SockaddrIn>(fd, &mut parts, Some(&mut control), flags)?;
        let stamps = received.cmsgs()?.filter_map(|message| match message {
            ControlMessageOwned::ScmTimestampns(stamp) => Some(Duration::from(stamp)),
            _ => None,
        });
        let at = stamps.map(clock::when_stamped).next();
        Ok((received.bytes, at.unwrap_or_else(clock::now)))
    }
}

/// The interfaces by which flows leave. A raw socket has no ports for the kernel's hash.
struct OwnWays {
    kernel: RouteSocket,
    hashing: OwnHashing,
    /// The results since this moment.
    known: (Moment, BTreeMap<FlowKey, Leaves>),
}

/// Whichever the kernel takes.
const ANY_INTERFACE: u32 = 0;
/// A path is looked up once, not for each probe of a trace.
const ROUTE_TTL: Duration = Duration::from_millis(500);

impl OwnWays {
    fn open() -> Result<Self, ProbeError> {
        let kernel = RouteSocket::open().map_err(|source| ProbeError::Ask { source })?;
        Ok(Self {
            kernel,
            hashing: OwnHashing::open(),
            known: (clock::now(), BTreeMap::new()),
        })
    }

    /// None if it is unknown.
    fn interface(&mut self, flow: FlowKey) -> Option<u32> {
        match self.leaves(flow) {
            Leaves::Anyhow => Some(ANY_INTERFACE),
            Leaves::Over(interface) => Some(interface),
            Leaves::Unknown => None,
        }
    }

    fn leaves(&mut self, flow: FlowKey) -> Leaves {
        let now = clock::now();
        if now.since(self.known.0) >= ROUTE_TTL {
            self.known = (now, BTreeMap::new());
        }
        let known = self.known.1.entry(flow);
        *known.or_insert_with(|| {
            let leaves = self.kernel.leaves(&flow, &self.hashing);
            // Without a path, probes cannot reach it either.
            leaves.unwrap_or(Leaves::Anyhow)
        })
    }
}

impl AsFd for Prober {
    /// Readable when an answer may have come.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}
