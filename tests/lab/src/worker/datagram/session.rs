//! A stream's end as its user and its driver share it.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

use super::endpoint::Endpoint;
use crate::worker::flow::{Incoming, Wire};

pub(super) struct Session {
    state: RefCell<State>,
    /// The user has done something that the driver must act on.
    pub(super) stirred: Notify,
}

struct State {
    endpoint: Endpoint,
    broken: Option<Breakage>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// Reason for the end of a session.
#[derive(Debug, Clone, Copy)]
pub(super) enum Breakage {
    /// The peer's kernel says that no program has its port.
    Refused,
    Silent,
}

impl Breakage {
    fn error(self) -> io::Error {
        match self {
            Self::Refused => io::Error::new(
                io::ErrorKind::ConnectionReset,
                "its peer's process is gone, says the peer's kernel",
            ),
            Self::Silent => io::Error::new(
                io::ErrorKind::TimedOut,
                "its peer has been silent for too long",
            ),
        }
    }
}

impl Session {
    pub(super) fn new(endpoint: Endpoint) -> Rc<Self> {
        let state = State {
            endpoint,
            broken: None,
            reader: None,
            writer: None,
        };
        Rc::new(Self {
            state: state.into(),
            stirred: Notify::new(),
        })
    }

    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Endpoint) -> T) -> T {
        act(&mut self.state.borrow_mut().endpoint)
    }

    pub(super) fn break_off(&self, why: Breakage) {
        self.state.borrow_mut().broken = Some(why);
        self.wake_user();
    }

    /// The user looks again whether what it waits for is there.
    pub(super) fn wake_user(&self) {
        let mut state = self.state.borrow_mut();
        let waiting = [state.reader.take(), state.writer.take()];
        waiting.into_iter().flatten().for_each(Waker::wake);
    }

    /// Until the peer has answered.
    pub(super) async fn opened(&self) -> io::Result<()> {
        poll_fn(|context| self.poll_writer(context, |endpoint| endpoint.is_open().then_some(())))
            .await
    }

    pub(super) fn into_wire(self: Rc<Self>) -> Wire {
        let watched = Rc::clone(&self);
        Wire {
            read: Box::new(Half(Rc::clone(&self))),
            write: Box::new(Half(self)),
            statistics: Box::new(move || watched.with(|endpoint| endpoint.statistics())),
        }
    }

    /// Ready with what `attempt` yields, or when the session is over.
    fn poll_writer<T>(
        &self,
        context: &Context<'_>,
        attempt: impl FnOnce(&mut Endpoint) -> Option<T>,
    ) -> Poll<io::Result<T>> {
        let state = &mut *self.state.borrow_mut();
        if let Some(why) = state.broken {
            return Poll::Ready(Err(why.error()));
        }
        let done = attempt(&mut state.endpoint);
        if done.is_none() {
            state.writer = Some(context.waker().clone());
        }
        done.map_or(Poll::Pending, |done| Poll::Ready(Ok(done)))
    }

    /// Ready when the session is over.
    fn poll_gone(&self, context: &Context<'_>) -> Poll<io::Error> {
        let state = &mut *self.state.borrow_mut();
        state.reader = Some(context.waker().clone());
        state
            .broken
            .map_or(Poll::Pending, |why| Poll::Ready(why.error()))
    }

    fn poll_read(&self, context: &Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let state = &mut *self.state.borrow_mut();
        let length = state.endpoint.read(buffer.initialize_unfilled());
        buffer.advance(length);
        if length > 0 {
            if state.endpoint.owes_answer() {
                self.stirred.notify_one();
            }
            return Poll::Ready(Ok(()));
        }
        if let Some(why) = state.broken {
            return Poll::Ready(Err(why.error()));
        }
        state.reader = Some(context.waker().clone());
        Poll::Pending
    }
}

/// One direction of a session, as its user holds it.
struct Half(Rc<Session>);

impl AsyncRead for Half {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.poll_read(context, buffer)
    }
}

impl Incoming for Half {
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        self.0.poll_gone(context)
    }
}

impl AsyncWrite for Half {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.0.poll_writer(context, |endpoint| {
            Some(endpoint.write(bytes)).filter(|&length| length > 0)
        });
        if written.is_ready() {
            self.0.stirred.notify_one();
        }
        written
    }

    /// Written data are in flight. Only the receiver's acknowledgement shows that they have arrived.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
