//! Sends one train: requests it, hands it to the kernel as fast as possible, and fetches the arrival times.

use std::io::IoSlice;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, SockaddrIn, bind, connect, recv,
    sendmsg, setsockopt, socket, sockopt,
};
use reweave_agent_core::packet_trains::{
    FRAME_HEADER_BYTES, PAGE_BYTES, PAGE_PACKETS, Train, TrainArrivals, TrainMessage, TrainShape,
};
use reweave_common::flow::FlowKey;

use super::TrainError;

/// The timeout and the number of attempts of a request.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(300);
const MAX_TRIES: usize = 3;
/// The kernel's buffer holds a whole train.
const SEND_BUFFER_BYTES: usize = 8 << 20;
/// The number of pieces of a train; with fewer, their arrivals would show little.
const PIECES_PER_TRAIN: usize = 32;
/// The longest piece that kernels segment.
const MAX_PIECE_BYTES: usize = 60_000;
const MAX_PIECE_PACKETS: usize = 44;

/// Sends the trains of one flow.
pub struct TrainSender {
    fd: OwnedFd,
    to: SocketAddrV4,
    last: Train,
    /// Whether the kernel segments pieces into packets.
    cuts: bool,
}

/// The packets of a train, one after the other.
struct TrainPayload {
    bytes: Vec<u8>,
    packet: usize,
}

impl TrainSender {
    /// `session` is random. The flow's source port is used by the train alone.
    pub fn open(flow: &FlowKey, session: u32) -> Result<Self, TrainError> {
        let port = flow.source.port();
        Ok(Self {
            fd: connected(flow).map_err(|source| TrainError::Open { port, source })?,
            to: flow.destination,
            last: Train { session, number: 0 },
            cuts: true,
        })
    }

    /// Sends the next train, if `may_go` still agrees once it has been granted.
    pub fn send(
        &mut self,
        shape: TrainShape,
        may_go: impl FnOnce() -> bool,
    ) -> Result<TrainArrivals, TrainError> {
        self.last.number = self.last.number.wrapping_add(1);
        let key = self.ask(shape)?;
        if !may_go() {
            return Err(TrainError::Missed);
        }
        let offered_bits_per_s =
            self.hand_over(&TrainPayload::new(self.last, key, shape), shape)?;
        let mut arrived = vec![];
        for page in 0..shape.packets.div_ceil(PAGE_PACKETS as u32) {
            arrived.extend(self.fetch(key, page)?);
        }
        arrived.truncate(shape.packets as usize);
        let mut arrived_ns: Vec<_> = arrived.into_iter().flatten().map(u64::from).collect();
        arrived_ns.sort_unstable();
        Ok(TrainArrivals {
            frame_bytes: u32::from(shape.bytes) + FRAME_HEADER_BYTES,
            packets: shape.packets,
            arrived_ns,
            offered_bits_per_s,
        })
    }

    fn ask(&self, shape: TrainShape) -> Result<u64, TrainError> {
        let to = self.to;
        let granted = self.question(&TrainMessage::Ask(shape), |answer| match answer {
            TrainMessage::Grant { key } => Some(Ok(key)),
            TrainMessage::Refuse(refusal) => Some(Err(TrainError::Unwilling { to, refusal })),
            _ => None,
        });
        granted?
    }

    fn fetch(&self, key: u64, page: u32) -> Result<Vec<Option<u32>>, TrainError> {
        self.question(&TrainMessage::Fetch { key, page }, |answer| match answer {
            TrainMessage::Arrivals { page: it, after_ns } if it == page => Some(after_ns),
            _ => None,
        })
    }

    /// Repeats a request until `read` accepts an answer.
    fn question<T>(
        &self,
        question: &TrainMessage,
        read: impl Fn(TrainMessage) -> Option<T>,
    ) -> Result<T, TrainError> {
        let question = question.to_bytes(self.last);
        for _ in 0..MAX_TRIES {
            self.send_all(&question, &[])?;
            let end = Instant::now() + ANSWER_TIMEOUT;
            while self.wait(PollFlags::POLLIN, end) {
                if let Some(answer) = self.receive()?.and_then(&read) {
                    return Ok(answer);
                }
            }
        }
        Err(TrainError::Silent { to: self.to })
    }

    /// The next answer about this train; none if it is about another one, or there is none.
    fn receive(&self) -> Result<Option<TrainMessage>, TrainError> {
        let mut bytes = [0; PAGE_BYTES];
        let received = recv(self.fd.as_raw_fd(), &mut bytes, MsgFlags::empty());
        match received {
            Ok(length) => {
                let read = TrainMessage::read(&bytes[..length]);
                let own = read.filter(|(train, _)| *train == self.last);
                Ok(own.map(|(_, message)| message))
            }
            Err(Errno::ECONNREFUSED) => Err(TrainError::Refused { to: self.to }),
            Err(_) => Ok(None),
        }
    }

    /// The rate at which the kernel took the train; none if it held the program back.
    fn hand_over(
        &mut self,
        load: &TrainPayload,
        shape: TrainShape,
    ) -> Result<Option<f64>, TrainError> {
        let piece = (shape.packets as usize / PIECES_PER_TRAIN).clamp(1, MAX_PIECE_PACKETS);
        let piece = piece.min((MAX_PIECE_BYTES / load.packet).max(1)) * load.packet;
        let began = Instant::now();
        let mut held_back = false;
        for part in load.bytes.chunks(piece) {
            held_back |= self.send_piece(part, load.packet)?;
        }
        let took = began.elapsed().as_secs_f64().max(1e-9);
        let frames =
            u64::from(shape.packets) * u64::from(u32::from(shape.bytes) + FRAME_HEADER_BYTES);
        Ok((!held_back).then(|| frames as f64 * 8.0 / took))
    }

    /// Sends a piece. Returns whether the kernel held the program back.
    fn send_piece(&mut self, part: &[u8], packet: usize) -> Result<bool, TrainError> {
        if self.cuts && part.len() > packet {
            let size = packet as u16;
            match self.send_all(part, &[ControlMessage::UdpGsoSegments(&size)]) {
                // The kernel or NIC cannot segment; packets are sent one by one from now on.
                Err(TrainError::Send { .. }) => self.cuts = false,
                sent => return sent,
            }
        }
        let mut held_back = false;
        for packet in part.chunks(packet) {
            held_back |= self.send_all(packet, &[])?;
        }
        Ok(held_back)
    }

    /// Sends, and waits for buffer space if necessary. Returns whether it waited.
    fn send_all(&self, bytes: &[u8], control: &[ControlMessage]) -> Result<bool, TrainError> {
        let mut held_back = false;
        let end = Instant::now() + ANSWER_TIMEOUT;
        loop {
            let parts = [IoSlice::new(bytes)];
            let fd = self.fd.as_raw_fd();
            let sent = sendmsg::<SockaddrIn>(fd, &parts, control, MsgFlags::empty(), None);
            match sent {
                Ok(_) => return Ok(held_back),
                Err(Errno::EAGAIN) if self.wait(PollFlags::POLLOUT, end) => held_back = true,
                Err(Errno::ECONNREFUSED) => return Err(TrainError::Refused { to: self.to }),
                Err(source) => {
                    return Err(TrainError::Send {
                        to: self.to,
                        source,
                    });
                }
            }
        }
    }

    /// Whether the event occurred before `end`.
    fn wait(&self, event: PollFlags, end: Instant) -> bool {
        let left = end.saturating_duration_since(Instant::now());
        let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        let mut watched = [PollFd::new(self.fd.as_fd(), event)];
        poll(&mut watched, left).is_ok_and(|ready| ready > 0)
    }
}

fn connected(flow: &FlowKey) -> Result<OwnedFd, Errno> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(AddressFamily::Inet, SockType::Datagram, flags, None)?;
    widen(&fd)?;
    bind(fd.as_raw_fd(), &SockaddrIn::from(flow.source))?;
    connect(fd.as_raw_fd(), &SockaddrIn::from(flow.destination))?;
    Ok(fd)
}

/// Enlarges the buffer as far as the kernel permits.
pub(crate) fn widen(fd: &OwnedFd) -> Result<(), Errno> {
    if setsockopt(fd, sockopt::SndBufForce, &SEND_BUFFER_BYTES).is_err() {
        setsockopt(fd, sockopt::SndBuf, &SEND_BUFFER_BYTES)?;
    }
    Ok(())
}

impl TrainPayload {
    fn new(train: Train, key: u64, shape: TrainShape) -> Self {
        let packet = usize::from(shape.bytes);
        let mut bytes = vec![0; packet * shape.packets as usize];
        for (number, place) in (0..).zip(bytes.chunks_mut(packet)) {
            let header = TrainMessage::TrainPacket { key, number }.to_bytes(train);
            place[..header.len()].copy_from_slice(&header);
        }
        Self { bytes, packet }
    }
}
