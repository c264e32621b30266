//! Connections, so few and so short that whoever holds them open takes nothing from the rest: each is a
//! file of this process, which needs some for its log.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// Browsers open six each.
const MOST: usize = 256;
/// Pages that follow what happens are told something more often.
const IDLE: Duration = Duration::from_secs(30);

pub(super) struct Visits {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

impl Visits {
    pub(super) fn to(listener: TcpListener) -> Self {
        let places = Arc::new(Semaphore::new(MOST));
        Self { listener, places }
    }
}

impl Listener for Visits {
    type Io = Visit<TcpStream, Option<OwnedSemaphorePermit>>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        // It is never closed.
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        let (stream, from) = Listener::accept(&mut self.listener).await;
        (Visit::over(stream, place), from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Ends when nothing has gone either way for too long.
pub(super) struct Visit<S, P> {
    stream: S,
    idle: Pin<Box<Sleep>>,
    _place: P,
}

impl<S, P> Visit<S, P> {
    pub(super) fn over(stream: S, place: P) -> Self {
        Self {
            stream,
            idle: Box::pin(sleep(IDLE)),
            _place: place,
        }
    }

    fn note<T>(&mut self, done: Poll<T>) -> Poll<T> {
        if done.is_ready() {
            self.idle.as_mut().reset(Instant::now() + IDLE);
        }
        done
    }
}

impl<S: AsyncRead + Unpin, P: Unpin> AsyncRead for Visit<S, P> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_pending() && self.idle.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        self.note(read)
    }
}

impl<S: AsyncWrite + Unpin, P: Unpin> AsyncWrite for Visit<S, P> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn visits() -> (Visits, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (Visits::to(listener), address)
    }

    #[tokio::test]
    async fn whoever_opens_many_waits_until_others_leave() {
        let (mut visits, address) = visits().await;
        let mut held = Vec::new();
        for _ in 0..MOST {
            let (visitor, visit) = tokio::join!(TcpStream::connect(address), visits.accept());
            held.push((visitor.unwrap(), visit));
        }
        let _waits = TcpStream::connect(address).await.unwrap();
        let one_more = visits.accept();
        tokio::pin!(one_more);
        let waited = tokio::time::timeout(Duration::ZERO, &mut one_more).await;
        assert!(waited.is_err(), "there is no place");
        held.pop();
        one_more.await;
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_says_nothing_is_gone_after_a_while() {
        let (mut visits, address) = visits().await;
        let (_visitor, (mut visit, _)) = tokio::join!(TcpStream::connect(address), visits.accept());
        let began = Instant::now();
        let mut room = [0; 8];
        let mut buffer = ReadBuf::new(&mut room);
        let read =
            std::future::poll_fn(|context| Pin::new(&mut visit).poll_read(context, &mut buffer));
        assert_eq!(read.await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), IDLE.as_secs());
    }
}
