//! A UDP socket with timestamps by the kernel, or by the NIC if it supports them.

use std::fs;
use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, SockaddrIn, TimestampingFlag,
    bind, sendmsg, setsockopt, socket, sockopt,
};
use reweave_agent_core::latency::{Clocks, PACKET_BYTES, ReceivedPacket, Stamp, TTL, Unsendable};

use super::control_messages::SocketErrorKind;
use super::packet_batch::{self, IncomingPacket, OutgoingPacket, PacketBatch};
use crate::{clock, probes};

/// The flag requests both stamps of a departure where there are two. nix has no name for it.
const SOF_TIMESTAMPING_OPT_TX_SWHW: u32 = 1 << 14;
/// A long train, with what the kernel keeps beside each packet.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;
/// A sent packet comes back with these headers in front.
const IP_UDP_HEADER_BYTES: usize = 28;
/// A socket reports an error of an earlier packet once, when the next packet is sent.
const MAX_OLD_ERRORS: usize = 8;
/// A flood on one port must not delay the others.
const MAX_PACKETS_PER_TURN: usize = 256;

/// With the value 0, packets only come back with their stamps to users that may open raw sockets.
const TSTAMP_ALLOW_DATA_PATH: &str = "/proc/sys/net/core/tstamp_allow_data";

pub(super) struct StampedSocket {
    fd: OwnedFd,
    port: u16,
}

/// Whether this kernel timestamps packets and reports to this user when they left.
pub fn may_stamp() -> Result<(), Errno> {
    let is_withheld = fs::read_to_string(TSTAMP_ALLOW_DATA_PATH).is_ok_and(|it| it.trim() == "0");
    if is_withheld {
        probes::may_trace()?;
    }
    StampedSocket::open(0).map(drop)
}

/// What the socket has to say, besides packets, of packets that it sent.
pub(super) enum Fate {
    /// One between these addresses has left.
    Left {
        pair: [Ipv4Addr; 2],
        bytes: [u8; PACKET_BYTES],
        stamp: Stamp,
    },
    /// The receiver's kernel reports that no socket listens.
    Refused {
        pair: [Ipv4Addr; 2],
        bytes: [u8; PACKET_BYTES],
    },
}

impl StampedSocket {
    /// Binds the port on all addresses of the host. No two programs may have the same port.
    pub(super) fn open(port: u16) -> Result<Self, Errno> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(AddressFamily::Inet, SockType::Datagram, flags, None)?;
        let stamps = TimestampingFlag::all()
            .difference(TimestampingFlag::SOF_TIMESTAMPING_OPT_ID)
            .difference(TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY)
            .union(TimestampingFlag::from_bits_retain(
                SOF_TIMESTAMPING_OPT_TX_SWHW,
            ));
        setsockopt(&fd, sockopt::Timestamping, &stamps)?;
        setsockopt(&fd, sockopt::Ipv4PacketInfo, &true)?;
        setsockopt(&fd, sockopt::Ipv4RecvTtl, &true)?;
        setsockopt(&fd, sockopt::Ipv4RecvErr, &true)?;
        setsockopt(&fd, sockopt::Ipv4Ttl, &i32::from(TTL))?;
        forbid_fragments(fd.as_fd())?;
        bind(fd.as_raw_fd(), &SockaddrIn::new(0, 0, 0, 0, port))?;
        Ok(Self { fd, port })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Sends all of them. Returns the ones that could not be sent, each with the reason.
    pub(super) fn send(&self, parcels: &mut [OutgoingPacket]) -> Vec<(usize, Unsendable)> {
        let (mut at, mut old, mut unsent) = (0, 0, vec![]);
        while at < parcels.len() {
            match packet_batch::send(self.as_fd(), &mut parcels[at..]) {
                Ok(sent) => (at, old) = (at + sent.max(1), 0),
                Err(error) if may_be_old(error) && old < MAX_OLD_ERRORS => old += 1,
                Err(error) => {
                    unsent.push((at, unsendable(error)));
                    (at, old) = (at + 1, 0);
                }
            }
        }
        unsent
    }

    /// Makes room for a train that arrives while the program has not its turn: as much as the
    /// kernel grants.
    pub(super) fn widen(&self) -> Result<(), Errno> {
        if setsockopt(&self.fd, sockopt::RcvBufForce, &RECEIVE_BUFFER_BYTES).is_err() {
            setsockopt(&self.fd, sockopt::RcvBuf, &RECEIVE_BUFFER_BYTES)?;
        }
        Ok(())
    }

    /// What is longer than probes and their answers, from the own address `from`.
    pub(super) fn send_long(
        &self,
        bytes: &[u8],
        from: Ipv4Addr,
        to: SocketAddrV4,
    ) -> Result<(), Errno> {
        let source = packet_batch::info(from);
        let (parts, control) = (
            [IoSlice::new(bytes)],
            [ControlMessage::Ipv4PacketInfo(&source)],
        );
        let (fd, to) = (self.fd.as_raw_fd(), SockaddrIn::from(to));
        sendmsg(fd, &parts, &control, MsgFlags::empty(), Some(&to)).map(drop)
    }

    /// Packets that wait, with their lengths, of which little may be looked at; and how many.
    pub(super) fn receive(
        &self,
        inbox: &mut PacketBatch,
        mut take: impl FnMut(&ReceivedPacket<'_>, usize),
    ) -> usize {
        self.read(inbox, libc::MSG_TRUNC, |letter, read| {
            if let Some(to) = letter.beside.to {
                let arrival = ReceivedPacket {
                    from: letter.from,
                    to: SocketAddrV4::new(to, self.port),
                    bytes: letter.bytes,
                    ttl: letter.beside.ttl.unwrap_or(0),
                    stamp: letter.beside.stamp,
                    read,
                };
                take(&arrival, letter.length);
            }
        })
    }

    /// What became of packets that were sent.
    pub(super) fn fates(&self, inbox: &mut PacketBatch, mut take: impl FnMut(Fate)) {
        self.read(inbox, libc::MSG_ERRQUEUE, |letter, _| {
            let fate = match letter.beside.error {
                Some(SocketErrorKind::Stamped) => left(letter.bytes, letter.beside.stamp),
                Some(SocketErrorKind::Refused) => refused(&letter),
                _ => None,
            };
            fate.into_iter().for_each(&mut take);
        });
    }

    fn read(
        &self,
        inbox: &mut PacketBatch,
        flags: libc::c_int,
        mut take: impl FnMut(IncomingPacket<'_>, Clocks),
    ) -> usize {
        let (mut old, mut taken) = (0, 0);
        while taken < MAX_PACKETS_PER_TURN && old < MAX_OLD_ERRORS {
            let letters = match inbox.receive(self.as_fd(), flags) {
                Ok(letters) => letters,
                Err(Errno::EAGAIN) => break,
                Err(_) => {
                    old += 1;
                    continue;
                }
            };
            let (before, read) = (taken, clock::clocks());
            for letter in letters {
                taken += 1;
                take(letter, read);
            }
            if taken - before < packet_batch::MAX_BATCH_PACKETS {
                break;
            }
        }
        taken
    }
}

/// What routers and receivers said of earlier packets comes back as the error of the next one.
fn may_be_old(error: Errno) -> bool {
    !matches!(
        unsendable(error),
        Unsendable::Forbidden | Unsendable::NoRoom
    )
}

fn unsendable(error: Errno) -> Unsendable {
    match error {
        Errno::EPERM | Errno::EACCES => Unsendable::Forbidden,
        Errno::ENOBUFS | Errno::ENOMEM | Errno::EAGAIN => Unsendable::NoRoom,
        Errno::EMSGSIZE => Unsendable::TooLong,
        _ => Unsendable::NoWay,
    }
}

impl AsFd for StampedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What may not be cut to pieces needs no number, which the kernel would have to draw. A large probe should be lost
/// where it does not fit through, independent of the path MTU that the kernel has learned.
#[allow(
    unsafe_code,
    reason = "the kernel reads a number that outlives the call"
)]
fn forbid_fragments(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    let never = libc::IP_PMTUDISC_PROBE;
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            std::ptr::from_ref(&never).cast(),
            size_of_val(&never) as libc::socklen_t,
        )
    };
    Errno::result(set).map(drop)
}

/// A packet that left comes back with all its headers, the last of which is UDP's.
pub(super) fn left(frame: &[u8], stamp: Stamp) -> Option<Fate> {
    let (frame, bytes) = frame.split_last_chunk::<PACKET_BYTES>()?;
    let (_, headers) = frame.split_last_chunk::<IP_UDP_HEADER_BYTES>()?;
    let address = |at: usize| -> Option<Ipv4Addr> {
        let octets: [u8; 4] = *headers[at..].first_chunk()?;
        Some(octets.into())
    };
    (headers[0] == 0x45).then_some(Fate::Left {
        pair: [address(12)?, address(16)?],
        bytes: *bytes,
        stamp,
    })
}

fn refused(letter: &IncomingPacket<'_>) -> Option<Fate> {
    Some(Fate::Refused {
        pair: [letter.beside.to?, *letter.from.ip()],
        bytes: *letter.bytes.first_chunk()?,
    })
}
