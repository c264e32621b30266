//! Whole frames in and out of one interface.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use nix::libc;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use socket2::Socket;

use super::{bind, set, statistics, unbound, widen};

/// Header before each frame, with the state of checksum and segmentation offload.
const OFFLOAD_HEADER_BYTES: usize = 10;
/// A frame of many segments that are still to be cut, with all its headers.
const MAX_FRAME_BYTES: usize = OFFLOAD_HEADER_BYTES + 64 * 1024 + 64;

/// Takes and gives the frames of one interface with what is still to be done to them, so that
/// passing them on computes nothing and cuts nothing.
#[derive(Debug)]
pub(crate) struct FrameSocket {
    socket: Socket,
}

/// Buffer for received frames, which serves several sockets in turn.
#[derive(Debug)]
pub(crate) struct Inbox {
    frame: Vec<u8>,
    control: Vec<u8>,
}

/// A frame that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Received<'i> {
    /// Frame in the format in which it is sent.
    pub(crate) frame: &'i [u8],
    /// Time that it has waited in the kernel.
    pub(crate) age: Duration,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self {
            frame: vec![0; MAX_FRAME_BYTES],
            control: nix::cmsg_space!(TimeSpec),
        }
    }
}

impl FrameSocket {
    /// Opens `interface` of the calling thread's network namespace; the kernel holds up to about
    /// `buffer_bytes` for it, or as much as it grants.
    pub(crate) fn open(interface: &str, buffer_bytes: usize) -> io::Result<Self> {
        let socket = unbound()?;
        for option in [
            libc::PACKET_VNET_HDR,
            libc::PACKET_QDISC_BYPASS,
            libc::PACKET_IGNORE_OUTGOING,
        ] {
            set(&socket, libc::SOL_PACKET, option, &1_i32)?;
        }
        set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32)?;
        widen(&socket, buffer_bytes)?;
        bind(&socket, Some(interface))?;
        Ok(Self { socket })
    }

    /// The next frame that waits, if any does.
    pub(crate) fn receive<'i>(&self, inbox: &'i mut Inbox) -> io::Result<Option<Received<'i>>> {
        let fd = self.socket.as_raw_fd();
        let mut buffers = [IoSliceMut::new(&mut inbox.frame)];
        let control = Some(&mut *inbox.control);
        let message = match recvmsg::<()>(fd, &mut buffers, control, MsgFlags::MSG_DONTWAIT) {
            Err(nix::errno::Errno::EAGAIN) => return Ok(None),
            message => message?,
        };
        let stamp = message.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::ScmTimestampns(stamp) => Some(stamp),
            _ => None,
        });
        let (length, age) = (message.bytes, stamp.map_or(Duration::ZERO, age));
        let frame = &inbox.frame[..length];
        Ok(Some(Received { frame, age }))
    }

    pub(crate) fn send(&self, frame: &[u8]) -> io::Result<usize> {
        self.socket.send(frame)
    }

    /// Returns the number of frames that the kernel has dropped since the last call.
    pub(crate) fn dropped(&self) -> io::Result<u32> {
        Ok(statistics(&self.socket)?.tp_drops)
    }
}

impl AsFd for FrameSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Returns the time since `stamp` by the kernel's wall clock; zero if the clock was set since.
fn age(stamp: TimeSpec) -> Duration {
    const MAX_FRAME_AGE: Duration = Duration::from_secs(1);
    let now = clock_gettime(ClockId::CLOCK_REALTIME).map_or(Duration::ZERO, Duration::from);
    let age = now.saturating_sub(stamp.into());
    if age < MAX_FRAME_AGE {
        age
    } else {
        Duration::ZERO
    }
}
