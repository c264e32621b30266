//! Sends probes and receives what the network answers, by raw sockets.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::libc::{in_addr, in_pktinfo};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType,
    SockaddrIn, recvmsg, sendmsg, setsockopt, socket, sockopt,
};
use reweave_agent_core::probe::{Answer, Mark, Probe};
use reweave_common::moment::Moment;
use thiserror::Error;

use crate::clock;

#[derive(Debug, Error)]
pub enum ProbeError {
    #[error("cannot open a raw socket; it takes CAP_NET_RAW")]
    Open { source: Errno },
    #[error("cannot receive answers to probes")]
    Receive { source: Errno },
}

/// The raw sockets of one agent.
pub struct Prober {
    sender: OwnedFd,
    receiver: OwnedFd,
    mark: Mark,
}

/// Of an answer, the quoted packet's headers matter only.
const MOST_BYTES: usize = 256;

/// Whether this user may open raw sockets here.
pub fn may_trace() -> Result<(), Errno> {
    open(SockProtocol::Raw, SockFlag::empty()).map(drop)
}

fn open(protocol: SockProtocol, flags: SockFlag) -> Result<OwnedFd, Errno> {
    let flags = flags | SockFlag::SOCK_CLOEXEC;
    socket(AddressFamily::Inet, SockType::Raw, flags, protocol)
}

impl Prober {
    pub fn open(mark: Mark) -> Result<Self, ProbeError> {
        let both = || -> Result<_, Errno> {
            let sender = open(SockProtocol::Raw, SockFlag::empty())?;
            let receiver = open(SockProtocol::Icmp, SockFlag::SOCK_NONBLOCK)?;
            setsockopt(&receiver, sockopt::ReceiveTimestampns, &true)?;
            Ok((sender, receiver))
        };
        let (sender, receiver) = both().map_err(|source| ProbeError::Open { source })?;
        Ok(Self {
            sender,
            receiver,
            mark,
        })
    }

    /// Sends it, unless this host cannot reach anything there; then nobody will answer.
    pub fn send(&self, probe: &Probe) {
        if let Err(errno) = self.try_send(probe) {
            tracing::debug!("{probe:?} not sent: {errno}");
        }
    }

    fn try_send(&self, probe: &Probe) -> Result<usize, Errno> {
        let packet = probe.packet(self.mark);
        let to = SockaddrIn::from(std::net::SocketAddrV4::new(probe.destination(), 0));
        let parts = [IoSlice::new(&packet)];
        // Routes may depend on the source, which the kernel does not look for in the packet.
        let source = in_pktinfo {
            ipi_ifindex: 0,
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

    /// The next answer to one of this agent's probes, and when it came; none when no packet waits.
    pub fn receive(&self) -> Result<Option<(Moment, Answer)>, ProbeError> {
        loop {
            let mut packet = [0; MOST_BYTES];
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

    /// How much was received, and when the kernel got it.
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

impl AsFd for Prober {
    /// Readable when an answer may have come.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}
