//! Connections without TLS, limited in number and duration: each is an open file, and the log needs some of those.
//! Beyond the limit, connections wait in the kernel's backlog.

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

/// Maximum number of connections; a browser opens six.
const MAX_CONNECTIONS: usize = 256;
/// Time limit without data. Event streams send keepalives more often.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct PlainListener {
    listener: TcpListener,
    slots: Arc<Semaphore>,
}

impl PlainListener {
    pub(super) fn to(listener: TcpListener) -> Self {
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        Self { listener, slots }
    }
}

impl Listener for PlainListener {
    type Io = IdleTimeout<TcpStream, Option<OwnedSemaphorePermit>>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        // The semaphore is never closed.
        let slot = Arc::clone(&self.slots).acquire_owned().await.ok();
        let (stream, from) = Listener::accept(&mut self.listener).await;
        (IdleTimeout::over(stream, slot), from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that ends if no data pass in either direction for too long, with its slot.
pub(super) struct IdleTimeout<S, P> {
    stream: S,
    idle: Pin<Box<Sleep>>,
    _slot: P,
}

impl<S, P> IdleTimeout<S, P> {
    pub(super) fn over(stream: S, slot: P) -> Self {
        Self {
            stream,
            idle: Box::pin(sleep(IDLE_TIMEOUT)),
            _slot: slot,
        }
    }

    fn note<T>(&mut self, done: Poll<T>) -> Poll<T> {
        if done.is_ready() {
            self.idle.as_mut().reset(Instant::now() + IDLE_TIMEOUT);
        }
        done
    }
}

impl<S: AsyncRead + Unpin, P: Unpin> AsyncRead for IdleTimeout<S, P> {
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

impl<S: AsyncWrite + Unpin, P: Unpin> AsyncWrite for IdleTimeout<S, P> {
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
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn listener() -> (PlainListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (PlainListener::to(listener), address)
    }

    #[tokio::test]
    async fn connections_beyond_limit_wait() {
        let (mut listener, address) = listener().await;
        let mut held = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            let (client, connection) = tokio::join!(TcpStream::connect(address), listener.accept());
            held.push((client.unwrap(), connection));
        }
        let _waits = TcpStream::connect(address).await.unwrap();
        let one_more = listener.accept();
        tokio::pin!(one_more);
        let waited = tokio::time::timeout(Duration::ZERO, &mut one_more).await;
        assert!(waited.is_err(), "there is no place");
        held.pop();
        one_more.await;
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connection_times_out() {
        let (mut listener, address) = listener().await;
        let (_client, (mut connection, _)) =
            tokio::join!(TcpStream::connect(address), listener.accept());
        let began = Instant::now();
        let mut room = [0; 8];
        let mut buffer = ReadBuf::new(&mut room);
        let read = std::future::poll_fn(|context| {
            Pin::new(&mut connection).poll_read(context, &mut buffer)
        });
        assert_eq!(read.await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), IDLE_TIMEOUT.as_secs());
    }

    /// Checks that a connection with regular writes stays open, such as an event stream.
    #[tokio::test(start_paused = true)]
    async fn written_connection_stays_open() {
        let (mut listener, address) = listener().await;
        let (_client, (mut connection, _)) =
            tokio::join!(TcpStream::connect(address), listener.accept());
        let mut room = [0; 8];
        for in_pieces in [true, true, false, false] {
            if in_pieces {
                let pieces = [IoSlice::new(b"new"), IoSlice::new(b"s")];
                let written = connection.write_vectored(&pieces).await.unwrap();
                assert!(written > 0);
            } else {
                connection.write_all(b"news").await.unwrap();
            }
            let read = connection.read(&mut room);
            let ended = tokio::time::timeout(IDLE_TIMEOUT * 2 / 3, read).await;
            assert!(ended.is_err(), "{ended:?}, in pieces: {in_pieces}");
        }
    }
}
