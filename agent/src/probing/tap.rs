//! Captures incoming packets that look like those of traces, before any other processing.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::libc::{self, sock_filter, sock_fprog};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, socket};

/// The headers with all their options.
const MAX_HEADER_BYTES: usize = 120;
/// A flood of packets must not delay other sources.
const MAX_PACKETS_PER_TURN: usize = 256;

/// As long as it is open, each packet that comes in costs the kernel the few steps of its filter.
pub(super) struct Tap(OwnedFd);

impl Tap {
    pub(super) fn open() -> Result<Self, Errno> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let kind = (AddressFamily::Packet, SockType::Datagram);
        let fd = socket(kind.0, kind.1, flags, SockProtocol::EthIp)?;
        let tap = Self(fd);
        tap.attach(&filter())?;
        Ok(tap)
    }

    #[allow(
        unsafe_code,
        reason = "the kernel copies the program, which outlives the call"
    )]
    fn attach(&self, steps: &[sock_filter]) -> Result<(), Errno> {
        let program = sock_fprog {
            len: steps.len() as u16,
            filter: steps.as_ptr().cast_mut(),
        };
        let set = unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_FILTER,
                std::ptr::from_ref(&program).cast(),
                size_of_val(&program) as libc::socklen_t,
            )
        };
        Errno::result(set).map(drop)
    }

    /// What waits, from the IP header on.
    pub(super) fn receive(&self, mut take: impl FnMut(&[u8])) {
        let mut packet = [0; MAX_HEADER_BYTES];
        for _ in 0..MAX_PACKETS_PER_TURN {
            match recv(self.0.as_raw_fd(), &mut packet, MsgFlags::empty()) {
                Ok(length) => take(&packet[..length]),
                Err(_) => return,
            }
        }
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// TCP without a flag, or UDP without content: only traces send them.
fn filter() -> [sock_filter; 10] {
    const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
    const LOAD_BYTE_INDIRECT: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_IND;
    const LOAD_HALF_INDIRECT: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_IND;
    const LOAD_HEADER_LENGTH: u32 = libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH;
    const JUMP_IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const RETURN_CONSTANT: u32 = libc::BPF_RET | libc::BPF_K;
    let step = |code: u32, k: u32, [jt, jf]: [u8; 2]| sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let on = [0, 0];
    [
        step(LOAD_HEADER_LENGTH, 0, on),
        step(LOAD_BYTE, 9, on),
        step(JUMP_IF_EQUAL, libc::IPPROTO_TCP.cast_unsigned(), [0, 2]),
        step(LOAD_BYTE_INDIRECT, 13, on),
        step(JUMP_IF_EQUAL, 0, [4, 3]),
        step(JUMP_IF_EQUAL, libc::IPPROTO_UDP.cast_unsigned(), [0, 2]),
        step(LOAD_HALF_INDIRECT, 4, on),
        step(JUMP_IF_EQUAL, 8, [1, 0]),
        step(RETURN_CONSTANT, 0, on),
        step(RETURN_CONSTANT, MAX_HEADER_BYTES as u32, on),
    ]
}
