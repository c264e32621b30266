//! Many packets with one system call, with reused buffers.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{from_mut, null_mut};

use nix::errno::Errno;
use nix::libc::{self, in_addr, in_pktinfo, iovec, mmsghdr, msghdr, sockaddr_in};
use reweave_agent_core::latency::PACKET_BYTES;

use super::control_messages::{self, ControlMessages};

/// Packets at once.
pub(super) const MAX_BATCH_PACKETS: usize = 32;
/// What is looked at of a packet.
const MAX_PACKET_BYTES: usize = 256;

/// Buffers for incoming packets.
pub(super) struct PacketBatch {
    slots: Box<[Slot; MAX_BATCH_PACKETS]>,
}

/// The kernel reads and writes what stands beside a packet in words.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Slot {
    beside: [u8; control_messages::MAX_CONTROL_BYTES],
    bytes: [u8; MAX_PACKET_BYTES],
    from: sockaddr_in,
}

/// A packet, or a control message about one.
pub(super) struct IncomingPacket<'m> {
    /// Its beginning, and how long all of it is.
    pub(super) bytes: &'m [u8],
    pub(super) length: usize,
    pub(super) from: SocketAddrV4,
    pub(super) beside: ControlMessages,
}

impl PacketBatch {
    pub(super) fn new() -> Self {
        let slot = Slot {
            beside: [0; control_messages::MAX_CONTROL_BYTES],
            bytes: [0; MAX_PACKET_BYTES],
            from: nowhere(),
        };
        Self {
            slots: Box::new([slot; MAX_BATCH_PACKETS]),
        }
    }

    /// What waits at the socket, `MAX_BATCH_PACKETS` at once; an error if nothing does. `flags` as of recvmsg.
    #[allow(
        unsafe_code,
        reason = "the kernel writes into the slots, no further than the given length, before the call ends"
    )]
    pub(super) fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        flags: libc::c_int,
    ) -> Result<impl Iterator<Item = IncomingPacket<'_>>, Errno> {
        let mut parts = [part(&mut []); MAX_BATCH_PACKETS];
        let mut headers = [header(); MAX_BATCH_PACKETS];
        for ((slot, part), header) in self.slots.iter_mut().zip(&mut parts).zip(&mut headers) {
            *part = self::part(&mut slot.bytes);
            header.msg_hdr = msghdr {
                msg_name: from_mut(&mut slot.from).cast(),
                msg_namelen: size_of::<sockaddr_in>() as libc::socklen_t,
                msg_iov: from_mut(part),
                msg_iovlen: 1,
                msg_control: slot.beside.as_mut_ptr().cast(),
                msg_controllen: slot.beside.len() as _,
                ..header.msg_hdr
            };
        }
        let fd = socket.as_raw_fd();
        let received = unsafe {
            libc::recvmmsg(
                fd,
                headers.as_mut_ptr(),
                MAX_BATCH_PACKETS as _,
                flags as _,
                null_mut(),
            )
        };
        let received = Errno::result(received)?;
        let headers = headers.into_iter().take(received.cast_unsigned() as usize);
        Ok(self
            .slots
            .iter()
            .zip(headers)
            .map(|(slot, header)| slot.letter(&header)))
    }
}

impl Slot {
    fn letter(&self, header: &mmsghdr) -> IncomingPacket<'_> {
        let length = (header.msg_len as usize).min(self.bytes.len());
        let control_bytes: usize = header.msg_hdr.msg_controllen as _;
        let beside = control_bytes.min(self.beside.len());
        IncomingPacket {
            bytes: &self.bytes[..length],
            length: header.msg_len as usize,
            from: SocketAddrV4::new(
                Ipv4Addr::from(u32::from_be(self.from.sin_addr.s_addr)),
                u16::from_be(self.from.sin_port),
            ),
            beside: ControlMessages::read(&self.beside[..beside]),
        }
    }
}

/// What large packets are filled up with.
static ZEROS: [u8; 1 << 14] = [0; 1 << 14];

/// A packet to be sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutgoingPacket {
    pub(super) bytes: [u8; PACKET_BYTES],
    /// The length of the whole packet. Zeros follow the given bytes.
    pub(super) length: usize,
    pub(super) from: Ipv4Addr,
    pub(super) to: SocketAddrV4,
}

/// The own address to send from, as the kernel reads it beside a packet.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Source {
    length: usize,
    level: libc::c_int,
    kind: libc::c_int,
    info: in_pktinfo,
}

impl Source {
    fn new(from: Ipv4Addr) -> Self {
        Self {
            length: size_of::<libc::cmsghdr>() + size_of::<in_pktinfo>(),
            level: libc::IPPROTO_IP,
            kind: libc::IP_PKTINFO,
            info: info(from),
        }
    }
}

/// Over any interface.
pub(super) fn info(from: Ipv4Addr) -> in_pktinfo {
    in_pktinfo {
        ipi_ifindex: 0,
        ipi_spec_dst: in_addr {
            s_addr: u32::from(from).to_be(),
        },
        ipi_addr: in_addr { s_addr: 0 },
    }
}

/// Sends the first of these, `MAX_BATCH_PACKETS` at once, and says how many; an error is that of the first.
#[allow(
    unsafe_code,
    reason = "the kernel reads what the headers point to, all of which outlives the call"
)]
pub(super) fn send(socket: BorrowedFd<'_>, parcels: &mut [OutgoingPacket]) -> Result<usize, Errno> {
    let mut parts = [[zeros(0); 2]; MAX_BATCH_PACKETS];
    let mut headers = [header(); MAX_BATCH_PACKETS];
    let mut sources = [Source::new(Ipv4Addr::UNSPECIFIED); MAX_BATCH_PACKETS];
    let mut names = [nowhere(); MAX_BATCH_PACKETS];
    let count = parcels.len().min(MAX_BATCH_PACKETS);
    let filled = parcels.iter_mut().zip(&mut headers);
    for (nth, (parcel, header)) in filled.enumerate() {
        let rest = zeros(parcel.length.saturating_sub(PACKET_BYTES));
        parts[nth] = [part(&mut parcel.bytes), rest];
        sources[nth] = Source::new(parcel.from);
        names[nth] = name(parcel.to);
        header.msg_hdr = msghdr {
            msg_name: from_mut(&mut names[nth]).cast(),
            msg_namelen: size_of::<sockaddr_in>() as libc::socklen_t,
            msg_iov: parts[nth].as_mut_ptr(),
            msg_iovlen: parts[nth].len(),
            msg_control: from_mut(&mut sources[nth]).cast(),
            msg_controllen: size_of::<Source>() as _,
            ..header.msg_hdr
        };
    }
    let fd = socket.as_raw_fd();
    let sent = unsafe { libc::sendmmsg(fd, headers.as_mut_ptr(), count as _, 0) };
    Errno::result(sent).map(|sent| sent.cast_unsigned() as usize)
}

#[allow(unsafe_code, reason = "zero is a value of every field")]
fn header() -> mmsghdr {
    unsafe { std::mem::zeroed() }
}

fn part(bytes: &mut [u8]) -> iovec {
    iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    }
}

/// The kernel only reads them.
fn zeros(count: usize) -> iovec {
    let bytes = &ZEROS[..count.min(ZEROS.len())];
    iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    }
}

fn name(of: SocketAddrV4) -> sockaddr_in {
    sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: of.port().to_be(),
        sin_addr: in_addr {
            s_addr: u32::from(*of.ip()).to_be(),
        },
        sin_zero: [0; 8],
    }
}

fn nowhere() -> sockaddr_in {
    name(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0))
}
