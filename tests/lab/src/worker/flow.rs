//! One flow of a rank: a task that sends or receives message after message over a wire.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::{Notify, mpsc, oneshot};

use super::clock;
use super::meter::Meter;
use super::payload::{self, STAMP_BYTES};
use super::protocol::{FlowReport, FlowSpec};

const BUFFER_BYTES: usize = 256 * 1024;
const RECEIPT_BYTE: &[u8] = b"!";

/// A connection over any transport. As with RDMA, a message counts as sent when the receiver has acknowledged it: until
/// then it is in buffers, and the job does not proceed.
pub(crate) struct Wire {
    pub(crate) read: Box<dyn Incoming>,
    pub(crate) write: Box<dyn AsyncWrite + Unpin>,
    pub(crate) statistics: Box<dyn Fn() -> Statistics>,
}

/// Receiving half of a connection.
pub(crate) trait Incoming: AsyncRead + Unpin {
    /// While no task reads: ready when the connection is seen to be broken, with the reason.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<io::Error>;
}

/// Counters of a transport. A counter that it lacks is absent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Statistics {
    pub(crate) retransmits: Option<u64>,
    pub(crate) lost: Option<u64>,
    pub(crate) reordered: Option<u64>,
    pub(crate) rtt_us: Option<u64>,
}

/// A message to move, and the receiver of the notice when it has been moved.
struct Order {
    bytes: u64,
    done: oneshot::Sender<()>,
}

/// One end of a flow, as the rank holds it.
pub(crate) struct Flow {
    pub(crate) spec: FlowSpec,
    orders: mpsc::UnboundedSender<Order>,
    state: Rc<RefCell<State>>,
    statistics: Box<dyn Fn() -> Statistics>,
}

struct State {
    meter: Meter,
    corrupted: u64,
    broken: Option<io::Error>,
}

impl State {
    fn broke(&mut self, error: io::Error, tell: &Notify) {
        self.broken = Some(error);
        tell.notify_one();
    }
}

impl Flow {
    /// The sending end.
    pub(crate) fn sender(spec: FlowSpec, wire: Wire, broken: &Rc<Notify>) -> Self {
        Self::start(spec, wire, Side::Send, broken)
    }

    /// The receiving end.
    pub(crate) fn receiver(spec: FlowSpec, wire: Wire, broken: &Rc<Notify>) -> Self {
        Self::start(spec, wire, Side::Receive, broken)
    }

    /// `broken` is notified when the flow breaks.
    fn start(spec: FlowSpec, wire: Wire, side: Side, broken: &Rc<Notify>) -> Self {
        let (orders, work) = mpsc::unbounded_channel();
        let state = Rc::new(RefCell::new(State {
            meter: Meter::new(spec.burst_bytes),
            corrupted: 0,
            broken: None,
        }));
        let Wire {
            read,
            write,
            statistics,
        } = wire;
        let mover = Mover {
            read,
            write,
            state: Rc::clone(&state),
            position: 0,
        };
        let (broken, noted) = (Rc::clone(broken), Rc::clone(&state));
        tokio::task::spawn_local(async move {
            if let Err(error) = mover.run(side, work).await {
                noted.borrow_mut().broke(error, &broken);
            }
        });
        Self {
            spec,
            orders,
            state,
            statistics,
        }
    }

    /// Orders a message of this many bytes. What is returned ends when it has been moved, with an
    /// error when it never will be.
    pub(crate) fn order(&self, bytes: u64) -> oneshot::Receiver<()> {
        let (done, moved) = oneshot::channel();
        // A flow that is broken takes no orders: `done` is dropped, which is the error.
        let _ = self.orders.send(Order { bytes, done });
        moved
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.state.borrow().meter.bytes()
    }

    /// Returns the error of the flow, if there is one.
    pub(crate) fn breakage(&self) -> Option<String> {
        let state = self.state.borrow();
        let FlowSpec {
            source,
            destination,
            ..
        } = &self.spec;
        state
            .broken
            .as_ref()
            .map(|error| format!("flow {source} > {destination}: {error}"))
    }

    pub(crate) fn report(&self) -> FlowReport {
        self.state.borrow_mut().meter.interrupted(clock::now());
        let state = self.state.borrow();
        let Statistics {
            retransmits,
            lost,
            reordered,
            rtt_us,
        } = (self.statistics)();
        FlowReport {
            id: self.spec.id,
            bytes: state.meter.bytes(),
            busy_us: clock::micros(state.meter.busy()),
            rate_bits_per_s: state.meter.rate_bits_per_s(),
            longest_stall_us: clock::micros(state.meter.longest_stall()),
            resets: u64::from(state.broken.is_some()),
            retransmits,
            lost,
            reordered,
            rtt_us,
            corrupted: state.corrupted,
        }
    }
}

#[derive(Clone, Copy)]
enum Side {
    Send,
    Receive,
}

/// The task behind a flow.
struct Mover {
    read: Box<dyn Incoming>,
    write: Box<dyn AsyncWrite + Unpin>,
    state: Rc<RefCell<State>>,
    /// Bytes of the flow so far.
    position: u64,
}

impl Mover {
    /// Moves one message after another, until the rank is gone or the connection.
    async fn run(mut self, side: Side, mut work: mpsc::UnboundedReceiver<Order>) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        while let Some(Order { bytes, done }) = self.next_order(&mut work).await? {
            match side {
                Side::Send => self.send(bytes, &mut buffer).await?,
                Side::Receive => self.receive(bytes, &mut buffer).await?,
            }
            // The receiver is gone when the rank was stopped.
            let _ = done.send(());
        }
        Ok(())
    }

    async fn next_order(
        &mut self,
        work: &mut mpsc::UnboundedReceiver<Order>,
    ) -> io::Result<Option<Order>> {
        tokio::select! {
            order = work.recv() => Ok(order),
            error = poll_fn(|context| self.read.poll_gone(context)) => Err(error),
        }
    }

    async fn send(&mut self, bytes: u64, buffer: &mut [u8]) -> io::Result<()> {
        let sent = clock::now();
        self.state.borrow_mut().meter.message_began(sent);
        let end = self.position + bytes;
        let mut stamp = (bytes >= STAMP_BYTES).then_some(sent.as_nanos() as u64);
        while self.position < end {
            let length = (end - self.position).min(buffer.len() as u64) as usize;
            let chunk = &mut buffer[..length];
            payload::fill(chunk, self.position);
            if let Some(stamp) = stamp.take() {
                chunk[..STAMP_BYTES as usize].copy_from_slice(&stamp.to_le_bytes());
            }
            self.write.write_all(chunk).await?;
            self.position += length as u64;
            self.state
                .borrow_mut()
                .meter
                .progress(clock::now(), length as u64);
        }
        self.write.flush().await?;
        self.read.read_exact(&mut [0; RECEIPT_BYTE.len()]).await?;
        self.state.borrow_mut().meter.message_ended(clock::now());
        Ok(())
    }

    async fn receive(&mut self, bytes: u64, buffer: &mut [u8]) -> io::Result<()> {
        let end = self.position + bytes;
        let ready = clock::now();
        self.state.borrow_mut().meter.message_awaited(ready);
        if bytes >= STAMP_BYTES {
            self.receive_stamp().await?;
        } else {
            self.state.borrow_mut().meter.message_began(ready);
        }
        while self.position < end {
            let wanted = (end - self.position).min(buffer.len() as u64) as usize;
            let length = self.read_some(&mut buffer[..wanted]).await?;
            if length == 0 {
                return Err(closed());
            }
            let mut state = self.state.borrow_mut();
            state.corrupted += payload::corrupted(&buffer[..length], self.position);
            state.meter.progress(clock::now(), length as u64);
            self.position += length as u64;
        }
        self.state.borrow_mut().meter.message_ended(clock::now());
        self.write.write_all(RECEIPT_BYTE).await?;
        self.write.flush().await
    }

    /// Returns received bytes, at once if there are any.
    async fn read_some(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(buffer);
        poll_fn(|context| {
            let polled = Pin::new(&mut self.read).poll_read(context, &mut buffer);
            if polled.is_pending() {
                self.state.borrow_mut().meter.waits();
            }
            polled
        })
        .await?;
        Ok(buffer.filled().len())
    }

    async fn receive_stamp(&mut self) -> io::Result<()> {
        let mut stamp = [0; STAMP_BYTES as usize];
        self.read.read_exact(&mut stamp).await?;
        let sent = Duration::from_nanos(u64::from_le_bytes(stamp));
        let mut state = self.state.borrow_mut();
        state.meter.message_began(sent);
        state.meter.progress(clock::now(), STAMP_BYTES);
        self.position += STAMP_BYTES;
        Ok(())
    }
}

/// The other end is gone although it has more to do.
pub(crate) fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "closed by the other end")
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};

    use reweave_common::ids::Rank;
    use tokio::io::DuplexStream;
    use tokio::task::LocalSet;

    use super::*;

    impl Incoming for DuplexStream {
        fn poll_gone(&mut self, _: &mut Context<'_>) -> Poll<io::Error> {
            Poll::Pending
        }
    }

    fn spec() -> FlowSpec {
        let at = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1);
        FlowSpec {
            id: 0,
            from: Rank::from_index(0),
            to: Rank::from_index(1),
            nth: 0,
            source: at,
            destination: at,
            burst_bytes: 0,
        }
    }

    /// Returns a connection whose bytes the test can change in flight.
    fn wire() -> (Wire, DuplexStream, DuplexStream) {
        let (read, far_write) = tokio::io::duplex(1 << 20);
        let (write, far_read) = tokio::io::duplex(1 << 20);
        let wire = Wire {
            read: Box::new(read),
            write: Box::new(write),
            statistics: Box::new(Statistics::default),
        };
        (wire, far_read, far_write)
    }

    /// Returns the report of the receiver of a changed message.
    async fn received(change: fn(&mut [u8])) -> FlowReport {
        let broken = Rc::default();
        let (wire_out, mut sent, _receipts) = wire();
        let (wire_in, _given, mut way_in) = wire();
        let sender = Flow::sender(spec(), wire_out, &broken);
        let receiver = Flow::receiver(spec(), wire_in, &broken);
        let mut message = vec![0; 100_000];
        let _moved = sender.order(message.len() as u64);
        let arrived = receiver.order(message.len() as u64);
        sent.read_exact(&mut message).await.unwrap();
        change(&mut message);
        way_in.write_all(&message).await.unwrap();
        arrived.await.unwrap();
        receiver.report()
    }

    #[test]
    fn corrupted_bytes_are_counted() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let report = |change| LocalSet::new().block_on(&runtime, received(change));
        let sound = report(|_| ());
        assert_eq!((sound.bytes, sound.corrupted), (100_000, 0));
        let changed = report(|message| {
            message[50_000] ^= 1;
            message[99_999] ^= 128;
        });
        assert_eq!((changed.bytes, changed.corrupted), (100_000, 2));
    }
}
