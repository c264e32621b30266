//! The heads of all packets of a network, by a ring of memory that the kernel fills.
//!
//! The kernel copies no more than the head of each packet and hands over many at once, so that
//! watching costs the watched little.

use std::io;
use std::mem::{offset_of, size_of};
use std::num::NonZero;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::libc;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use socket2::Socket;

use super::{bind, set, statistics, unbound};

const BLOCK_BYTES: usize = 1 << 18;
const BLOCK_COUNT: usize = 16;
/// A block that is not full is handed over after this time.
pub(crate) const BLOCK_TIMEOUT: Duration = Duration::from_millis(50);

/// The head of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header<'b> {
    /// Since 1970.
    pub(crate) time: Duration,
    pub(crate) interface: u32,
    pub(crate) outgoing: bool,
    /// Length of the whole packet.
    pub(crate) length: u32,
    pub(crate) bytes: &'b [u8],
}

/// A socket and the memory it shares with the kernel.
#[derive(Debug)]
pub(crate) struct HeaderRing {
    socket: Socket,
    memory: NonNull<libc::c_void>,
    next: usize,
}

#[allow(
    unsafe_code,
    reason = "the memory belongs to this value alone, and moves with it"
)]
// SAFETY: nothing but this value refers to the memory, and nothing in it is bound to a thread.
unsafe impl Send for HeaderRing {}

impl HeaderRing {
    /// Watches all interfaces of the calling thread's network, and keeps `snap_bytes` of each
    /// packet.
    pub(crate) fn open(snap_bytes: u32) -> io::Result<Self> {
        let socket = unbound()?;
        cut_after(&socket, snap_bytes)?;
        let version = libc::tpacket_versions::TPACKET_V3 as i32;
        set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &layout())?;
        let memory = map(&socket)?;
        let ring = Self {
            socket,
            memory,
            next: 0,
        };
        bind(&ring.socket, None)?;
        Ok(ring)
    }

    /// Shows all packets that the kernel has handed over since the last call.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(Header<'_>)) {
        while let Some(block) = self.full_block() {
            headers(block).for_each(&mut each);
            self.status()
                .store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) % BLOCK_COUNT;
        }
    }

    /// Returns the number of packets that the kernel has dropped since the last call.
    pub(crate) fn dropped(&self) -> io::Result<u32> {
        Ok(statistics(&self.socket)?.tp_drops)
    }

    #[allow(
        unsafe_code,
        reason = "the kernel's memory is read where it has handed it over"
    )]
    fn full_block(&self) -> Option<&[u8]> {
        let is_full = self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0;
        let start = self.block_start().cast_const();
        // SAFETY: the block lies within the mapping, and the kernel does not touch it until its
        // status is set back.
        is_full.then(|| unsafe { std::slice::from_raw_parts(start, BLOCK_BYTES) })
    }

    #[allow(
        unsafe_code,
        reason = "the status of a block is shared with the kernel"
    )]
    fn status(&self) -> &AtomicU32 {
        // SAFETY: the status lies within the mapping, is aligned, and is read and written
        // atomically by both sides.
        unsafe { AtomicU32::from_ptr(self.block_start().add(STATUS_OFFSET_BYTES).cast()) }
    }

    #[allow(
        unsafe_code,
        reason = "blocks lie one after another in the kernel's memory"
    )]
    fn block_start(&self) -> *mut u8 {
        // SAFETY: `next` is less than the number of blocks.
        unsafe {
            self.memory
                .cast::<u8>()
                .as_ptr()
                .add(self.next * BLOCK_BYTES)
        }
    }
}

impl Drop for HeaderRing {
    #[allow(unsafe_code, reason = "what was mapped is unmapped")]
    fn drop(&mut self) {
        // SAFETY: the mapping has this size, and nothing refers to it any longer.
        let _ = unsafe { munmap(self.memory, BLOCK_COUNT * BLOCK_BYTES) };
    }
}

impl AsFd for HeaderRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The kernel is to take no more than this many bytes of each packet.
fn cut_after(socket: &Socket, bytes: u32) -> io::Result<()> {
    let mut take = libc::sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: bytes,
    };
    let program = libc::sock_fprog {
        len: 1,
        filter: &raw mut take,
    };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

fn layout() -> libc::tpacket_req3 {
    // Frames have variable lengths in this version, but the kernel requires a size.
    const FRAME_BYTES: usize = 1 << 11;
    libc::tpacket_req3 {
        tp_block_size: BLOCK_BYTES as u32,
        tp_block_nr: BLOCK_COUNT as u32,
        tp_frame_size: FRAME_BYTES as u32,
        tp_frame_nr: (BLOCK_COUNT * BLOCK_BYTES / FRAME_BYTES) as u32,
        tp_retire_blk_tov: BLOCK_TIMEOUT.as_millis() as u32,
        tp_sizeof_priv: 0,
        tp_feature_req_word: 0,
    }
}

#[allow(unsafe_code, reason = "the ring is memory shared with the kernel")]
fn map(socket: &Socket) -> io::Result<NonNull<libc::c_void>> {
    const RING_BYTES: NonZero<usize> =
        NonZero::new(BLOCK_COUNT * BLOCK_BYTES).expect("it is not empty");
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a new mapping at a place the kernel chooses belongs to no other.
    Ok(unsafe { mmap(None, RING_BYTES, access, MapFlags::MAP_SHARED, socket, 0)? })
}

/// Offsets in a block, which begins with its header.
const STATUS_OFFSET_BYTES: usize =
    offset_of!(libc::tpacket_block_desc, hdr) + offset_of!(libc::tpacket_hdr_v1, block_status);
const COUNT_OFFSET_BYTES: usize =
    offset_of!(libc::tpacket_block_desc, hdr) + offset_of!(libc::tpacket_hdr_v1, num_pkts);
const FIRST_PACKET_OFFSET_BYTES: usize = offset_of!(libc::tpacket_block_desc, hdr)
    + offset_of!(libc::tpacket_hdr_v1, offset_to_first_pkt);
/// Offset of the address, which follows the header of a packet.
const ADDRESS_OFFSET_BYTES: usize = size_of::<libc::tpacket3_hdr>();

/// Returns the packets of a block. A header beyond the block ends the list.
fn headers(block: &[u8]) -> impl Iterator<Item = Header<'_>> {
    let count = u32_at(block, COUNT_OFFSET_BYTES).unwrap_or(0);
    let mut at = u32_at(block, FIRST_PACKET_OFFSET_BYTES).unwrap_or(0) as usize;
    (0..count).map_while(move |_| {
        let packet = block.get(at..)?;
        at += u32_at(packet, offset_of!(libc::tpacket3_hdr, tp_next_offset))? as usize;
        header(packet)
    })
}

fn header(packet: &[u8]) -> Option<Header<'_>> {
    let field = |offset| u32_at(packet, offset);
    let start = usize::from(u16_at(packet, offset_of!(libc::tpacket3_hdr, tp_mac))?);
    let kept = field(offset_of!(libc::tpacket3_hdr, tp_snaplen))? as usize;
    let seconds = field(offset_of!(libc::tpacket3_hdr, tp_sec))?;
    let nanos = field(offset_of!(libc::tpacket3_hdr, tp_nsec))?;
    let kind = *packet.get(ADDRESS_OFFSET_BYTES + offset_of!(libc::sockaddr_ll, sll_pkttype))?;
    Some(Header {
        time: Duration::new(seconds.into(), nanos),
        interface: field(ADDRESS_OFFSET_BYTES + offset_of!(libc::sockaddr_ll, sll_ifindex))?,
        outgoing: kind == libc::PACKET_OUTGOING,
        length: field(offset_of!(libc::tpacket3_hdr, tp_len))?,
        bytes: packet.get(start..start + kept)?,
    })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*field))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let field = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_ne_bytes(*field))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(block: &mut [u8], at: usize, value: u32) {
        block[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }

    /// A packet of `length` bytes, of which the first three were kept.
    fn put_packet(block: &mut [u8], at: usize, next: u32, length: u32) {
        put(
            block,
            at + offset_of!(libc::tpacket3_hdr, tp_next_offset),
            next,
        );
        put(block, at + offset_of!(libc::tpacket3_hdr, tp_sec), 7);
        put(block, at + offset_of!(libc::tpacket3_hdr, tp_nsec), 9);
        put(block, at + offset_of!(libc::tpacket3_hdr, tp_snaplen), 3);
        put(block, at + offset_of!(libc::tpacket3_hdr, tp_len), length);
        let mac = at + offset_of!(libc::tpacket3_hdr, tp_mac);
        block[mac..mac + 2].copy_from_slice(&80_u16.to_ne_bytes());
        put(
            block,
            at + ADDRESS_OFFSET_BYTES + offset_of!(libc::sockaddr_ll, sll_ifindex),
            5,
        );
        block[at + ADDRESS_OFFSET_BYTES + offset_of!(libc::sockaddr_ll, sll_pkttype)] =
            libc::PACKET_OUTGOING;
        block[at + 80..at + 83].copy_from_slice(b"abc");
    }

    #[test]
    fn all_packets_of_block_are_found() {
        let mut block = vec![0; 1024];
        put(&mut block, COUNT_OFFSET_BYTES, 2);
        put(&mut block, FIRST_PACKET_OFFSET_BYTES, 64);
        put_packet(&mut block, 64, 128, 1500);
        put_packet(&mut block, 192, 0, 60);
        let found: Vec<_> = headers(&block).collect();
        let first = Header {
            time: Duration::new(7, 9),
            interface: 5,
            outgoing: true,
            length: 1500,
            bytes: b"abc",
        };
        assert_eq!(
            found,
            [
                first,
                Header {
                    length: 60,
                    ..first
                }
            ]
        );
    }

    #[test]
    fn invalid_block_ends_early() {
        let mut block = vec![0; 256];
        put(&mut block, COUNT_OFFSET_BYTES, 1000);
        put(&mut block, FIRST_PACKET_OFFSET_BYTES, 200);
        assert_eq!(headers(&block).count(), 0);
        assert_eq!(headers(&[]).count(), 0);
    }
}
