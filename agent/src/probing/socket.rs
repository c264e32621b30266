//! A UDP socket whose packets are stamped by the kernel, or by the network card where it does so.

use std::io::{IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc::{self, in_addr, in_pktinfo, sock_extended_err, sockaddr_in};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, SockaddrIn,
    TimestampingFlag, Timestamps, bind, recvmsg, sendmsg, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;
use reweave_agent_core::latency::{Arrival, LENGTH, Stamp, TTL};

use crate::clock;

/// Both stamps of a departure where there are two; nix has no name for it.
const BOTH_STAMPS: u32 = 1 << 14;
/// An error tells the same of a packet that was sent as this many headers and the packet itself.
const MOST_BYTES: usize = 256;
/// A long train, with what the kernel keeps beside each packet.
const TRAIN_BYTES: usize = 8 << 20;
const IP_AND_UDP: usize = 28;
/// A socket tells what went wrong with earlier packets when the next one is sent; only once each.
const MOST_OLD_ERRORS: usize = 8;

pub(super) struct StampedSocket {
    fd: OwnedFd,
    port: u16,
}

/// Whether this kernel stamps packets.
pub fn may_stamp() -> Result<(), Errno> {
    StampedSocket::open(0).map(drop)
}

/// What the socket has to say, besides packets, of packets that it sent.
pub(super) enum Fate {
    /// One between these addresses has left.
    Left {
        pair: [Ipv4Addr; 2],
        bytes: [u8; LENGTH],
        stamp: Stamp,
    },
    /// The receiver's kernel says that nobody listens.
    Refused {
        pair: [Ipv4Addr; 2],
        bytes: [u8; LENGTH],
    },
    /// Something else that does not matter here.
    Other,
}

/// A packet that was received, and where.
pub(super) struct Received {
    /// Its beginning, and how long all of it was.
    bytes: [u8; MOST_BYTES],
    length: usize,
    from: SocketAddrV4,
    to: SocketAddrV4,
    ttl: u8,
    stamp: Stamp,
}

impl StampedSocket {
    /// Makes room for a train that arrives while the program has not its turn: as much as the
    /// kernel grants.
    pub(super) fn widen(&self) -> Result<(), Errno> {
        if setsockopt(&self.fd, sockopt::RcvBufForce, &TRAIN_BYTES).is_err() {
            setsockopt(&self.fd, sockopt::RcvBuf, &TRAIN_BYTES)?;
        }
        Ok(())
    }

    /// On all addresses of the host. No two programs may have the same port.
    pub(super) fn open(port: u16) -> Result<Self, Errno> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(AddressFamily::Inet, SockType::Datagram, flags, None)?;
        let stamps = TimestampingFlag::all()
            .difference(TimestampingFlag::SOF_TIMESTAMPING_OPT_ID)
            .difference(TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY)
            .union(TimestampingFlag::from_bits_retain(BOTH_STAMPS));
        setsockopt(&fd, sockopt::Timestamping, &stamps)?;
        setsockopt(&fd, sockopt::Ipv4PacketInfo, &true)?;
        setsockopt(&fd, sockopt::Ipv4RecvTtl, &true)?;
        setsockopt(&fd, sockopt::Ipv4RecvErr, &true)?;
        setsockopt(&fd, sockopt::Ipv4Ttl, &i32::from(TTL))?;
        bind(fd.as_raw_fd(), &SockaddrIn::new(0, 0, 0, 0, port))?;
        Ok(Self { fd, port })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn send(&self, bytes: &[u8], from: Ipv4Addr, to: SocketAddrV4) -> Result<(), Errno> {
        let source = in_pktinfo {
            ipi_ifindex: 0,
            ipi_spec_dst: in_addr {
                s_addr: u32::from(from).to_be(),
            },
            ipi_addr: in_addr { s_addr: 0 },
        };
        let parts = [IoSlice::new(bytes)];
        let control = [ControlMessage::Ipv4PacketInfo(&source)];
        let to = SockaddrIn::from(to);
        let send = || {
            let fd = self.fd.as_raw_fd();
            sendmsg(fd, &parts, &control, MsgFlags::empty(), Some(&to)).map(drop)
        };
        let is_old = |sent: &Result<(), Errno>| *sent == Err(Errno::ECONNREFUSED);
        let mut sent = send();
        for _ in 0..MOST_OLD_ERRORS {
            if !is_old(&sent) {
                break;
            }
            sent = send();
        }
        sent
    }

    /// The next packet; none when no packet waits.
    pub(super) fn receive(&self) -> Option<Received> {
        let mut bytes = [0; MOST_BYTES];
        let mut control = cmsg_space!(Timestamps, in_pktinfo, libc::c_int);
        for _ in 0..=MOST_OLD_ERRORS {
            let mut parts = [IoSliceMut::new(&mut bytes)];
            let fd = self.fd.as_raw_fd();
            let whole = MsgFlags::MSG_TRUNC;
            match recvmsg::<SockaddrIn>(fd, &mut parts, Some(&mut control), whole) {
                Err(Errno::EAGAIN) => return None,
                Err(_) => {}
                Ok(message) => {
                    let length = message.bytes;
                    let from = message.address.map(SocketAddrV4::from);
                    let said = Said::of(message.cmsgs().ok()?);
                    return Some(Received {
                        bytes,
                        length,
                        from: from?,
                        to: SocketAddrV4::new(said.to?, self.port),
                        ttl: said.ttl.unwrap_or(0),
                        stamp: said.stamp,
                    });
                }
            }
        }
        None
    }

    /// What became of the next packet that something is known of.
    pub(super) fn fate(&self) -> Option<Fate> {
        let mut bytes = [0; MOST_BYTES];
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let mut control = cmsg_space!(
            Timestamps,
            in_pktinfo,
            libc::c_int,
            (sock_extended_err, sockaddr_in)
        );
        let fd = self.fd.as_raw_fd();
        let flags = MsgFlags::MSG_ERRQUEUE;
        let message = recvmsg::<SockaddrIn>(fd, &mut parts, Some(&mut control), flags).ok()?;
        let (length, peer) = (message.bytes, message.address.map(|it| it.ip()));
        let said = Said::of(message.cmsgs().ok()?);
        let bytes = bytes.get(..length)?;
        let fate = match said.error {
            Some(SaidError::Stamped) => left(bytes, said.stamp),
            Some(SaidError::Refused) => refused(bytes, said.to, peer),
            _ => None,
        };
        Some(fate.unwrap_or(Fate::Other))
    }
}

impl AsFd for StampedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Received {
    pub(super) fn length(&self) -> usize {
        self.length
    }

    pub(super) fn arrival(&self) -> Arrival<'_> {
        Arrival {
            from: self.from,
            to: self.to,
            bytes: &self.bytes[..self.length.min(MOST_BYTES)],
            ttl: self.ttl,
            stamp: self.stamp,
            read: clock::clocks(),
        }
    }
}

/// A packet that left comes back with all its headers, the last of which is UDP's.
fn left(frame: &[u8], stamp: Stamp) -> Option<Fate> {
    let (frame, bytes) = frame.split_last_chunk::<LENGTH>()?;
    let (_, headers) = frame.split_last_chunk::<IP_AND_UDP>()?;
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

fn refused(bytes: &[u8], own: Option<Ipv4Addr>, peer: Option<Ipv4Addr>) -> Option<Fate> {
    Some(Fate::Refused {
        pair: [own?, peer?],
        bytes: *bytes.first_chunk()?,
    })
}

/// What stands beside a message.
#[derive(Default)]
struct Said {
    stamp: Stamp,
    to: Option<Ipv4Addr>,
    ttl: Option<u8>,
    error: Option<SaidError>,
}

enum SaidError {
    Stamped,
    Refused,
    Other,
}

impl Said {
    fn of(messages: impl Iterator<Item = ControlMessageOwned>) -> Self {
        let mut said = Self::default();
        for message in messages {
            match message {
                ControlMessageOwned::ScmTimestampsns(stamps) => said.stamp = stamp(&stamps),
                ControlMessageOwned::Ipv4PacketInfo(info) => {
                    said.to = Some(Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr)));
                }
                ControlMessageOwned::Ipv4Ttl(ttl) => said.ttl = u8::try_from(ttl).ok(),
                ControlMessageOwned::Ipv4RecvErr(error, _) => said.error = Some(error_of(&error)),
                _ => {}
            }
        }
        said
    }
}

fn error_of(error: &sock_extended_err) -> SaidError {
    /// Destination unreachable: port unreachable.
    const PORT: (u8, u8) = (3, 3);
    match error.ee_origin {
        libc::SO_EE_ORIGIN_TIMESTAMPING => SaidError::Stamped,
        libc::SO_EE_ORIGIN_ICMP if (error.ee_type, error.ee_code) == PORT => SaidError::Refused,
        _ => SaidError::Other,
    }
}

fn stamp(stamps: &Timestamps) -> Stamp {
    let nanos = |stamp: TimeSpec| {
        let nanos = Duration::from(stamp).as_nanos() as u64;
        (nanos > 0).then_some(nanos)
    };
    Stamp {
        kernel_ns: nanos(stamps.system),
        hardware_ns: nanos(stamps.hw_raw),
    }
}
