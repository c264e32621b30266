//! Connections without TLS, limited in number and duration: each is an open file, and the log needs some of those.
//!
//! Those that have made no request yet and those that have made one have separate limits. A newcomer always gets a place:
//! a full limit evicts. Of those without a request the oldest goes, however many bytes of one it has sent; of the others
//! the one that has been idle for the longest. So a crowd that requests nothing keeps no client out.

use std::io::{self, IoSlice};
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Request};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::serve::{IncomingStream, Listener};
use reweave_common::lock::lock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep, sleep};

use crate::intake::{Event, Intake};
use crate::session_limit::{Bounds, Evicted, Permit, SessionLimit};
use crate::sessions::Reason;

/// The limit on connections without a request. While a crowd opens 10 000 connections a second, a newcomer has 50 ms to
/// send its request.
const MAX_WAITING: usize = 512;
/// The limit on connections that have made a request; a browser opens six.
const MAX_SERVED: usize = 256;
/// Both limits for one address. On loopback all clients have the same, and there is no such limit.
const MAX_PER_ADDRESS: usize = 64;
/// Time limit without data. Event streams send keepalives more often.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The interval between reports of evicted connections.
const EVICTION_REPORT_INTERVAL: Duration = Duration::from_mins(1);

/// Serves these routes as long as the runtime exists. Without an intake, evictions are logged and not counted.
pub(super) async fn serve(listener: TcpListener, routes: Router, intake: Option<Intake>) {
    let routes = routes.layer(middleware::from_fn(note_request));
    let known = routes.into_make_service_with_connect_info::<Arrival>();
    // It never ends.
    let _ = axum::serve(PlainListener::to(listener, intake), known).await;
}

async fn note_request(
    ConnectInfo(arrival): ConnectInfo<Arrival>,
    request: Request,
    next: Next,
) -> Response {
    arrival.note_request();
    next.run(request).await
}

struct PlainListener {
    listener: TcpListener,
    waiting: SessionLimit<IpAddr>,
    served: SessionLimit<IpAddr>,
    evictions: Arc<Evictions>,
}

impl PlainListener {
    fn to(listener: TcpListener, intake: Option<Intake>) -> Self {
        Self::within(listener, intake, [MAX_WAITING, MAX_SERVED])
    }

    /// With these limits on connections without a request and on those that have made one.
    fn within(
        listener: TcpListener,
        intake: Option<Intake>,
        [max_waiting, max_served]: [usize; 2],
    ) -> Self {
        let near = listener.local_addr();
        let is_near = near.is_ok_and(|address| address.ip().to_canonical().is_loopback());
        let limit = |max| {
            SessionLimit::new(Bounds {
                max_per_group: Some(max),
                max_per_key: (!is_near).then_some(MAX_PER_ADDRESS),
            })
        };
        Self {
            listener,
            waiting: limit(max_waiting),
            served: limit(max_served),
            evictions: Arc::new(Evictions::reported_to(intake)),
        }
    }

    fn settle(&self, stream: TcpStream, from: IpAddr) -> PlainConnection {
        let (permit, evicted) = self.waiting.acquire_or_evict(from);
        let place = Place {
            permit,
            evicted: Some(evicted),
            is_served: false,
        };
        PlainConnection {
            stream: IdleTimeout::over(stream),
            arrival: Arrival {
                from,
                place: Arc::new(Mutex::new(place)),
                served: self.served.clone(),
                evictions: Arc::clone(&self.evictions),
            },
        }
    }
}

impl Listener for PlainListener {
    type Io = PlainConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (PlainConnection, SocketAddr) {
        let (stream, from) = Listener::accept(&mut self.listener).await;
        (self.settle(stream, from.ip().to_canonical()), from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// The place of one connection, among those without a request or among the others.
#[derive(Debug)]
struct Place {
    permit: Permit<IpAddr>,
    /// None once it was evicted.
    evicted: Option<Evicted>,
    /// It has made a request.
    is_served: bool,
}

/// A connection, as its requests know it.
#[derive(Debug, Clone)]
struct Arrival {
    from: IpAddr,
    place: Arc<Mutex<Place>>,
    served: SessionLimit<IpAddr>,
    evictions: Arc<Evictions>,
}

impl Arrival {
    /// A request came, with all of its headers: from now on the connection counts among those that are served.
    fn note_request(&self) {
        let mut place = lock(&self.place);
        if place.is_served {
            return place.permit.touch();
        }
        let (permit, evicted) = self.served.acquire_or_evict(self.from);
        *place = Place {
            permit,
            evicted: Some(evicted),
            is_served: true,
        };
    }

    /// Data passed. A part of a request makes a connection no younger.
    fn touch(&self) {
        let place = lock(&self.place);
        if place.is_served {
            place.permit.touch();
        }
    }
}

impl Connected<IncomingStream<'_, PlainListener>> for Arrival {
    fn connect_info(stream: IncomingStream<'_, PlainListener>) -> Self {
        stream.io().arrival.clone()
    }
}

/// Connections that were evicted without having made a request.
#[derive(Debug)]
struct Evictions {
    /// None before there is a core.
    intake: Option<Intake>,
    unreported: Mutex<Unreported>,
}

#[derive(Debug, Default)]
struct Unreported {
    times: u64,
    last_report: Option<Instant>,
}

impl Evictions {
    fn reported_to(intake: Option<Intake>) -> Self {
        Self {
            intake,
            unreported: Mutex::default(),
        }
    }

    /// Counts one. A crowd of thousands makes one line a minute.
    fn note(&self, from: IpAddr) {
        if let Some(intake) = &self.intake {
            intake.note_refused(Reason::Crowded, 1);
        }
        let mut unreported = lock(&self.unreported);
        unreported.times += 1;
        let last_report = unreported.last_report;
        if last_report.is_some_and(|at| at.elapsed() < EVICTION_REPORT_INTERVAL) {
            return;
        }
        unreported.last_report = Some(Instant::now());
        let times = mem::take(&mut unreported.times);
        drop(unreported);
        self.report(from, times);
    }

    fn report(&self, from: IpAddr, times: u64) {
        let from = from.to_string();
        let why = "HTTP connection evicted before it made a request: session limit reached";
        tracing::warn!("peer refused: {from}: {why} ({times} times)");
        if let Some(intake) = &self.intake {
            let why = why.to_owned();
            // When the queue is full of other things, the log has to do.
            let _ = intake.put_telemetry(Event::TurnedAway { from, why, times });
        }
    }
}

/// Ends when it is evicted, or is silent for too long.
struct PlainConnection {
    stream: IdleTimeout<TcpStream>,
    arrival: Arrival,
}

impl PlainConnection {
    fn note<T>(&self, context: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_pending() {
            self.keep_place(context)?;
        } else {
            self.arrival.touch();
        }
        done
    }

    /// An error once it is evicted. What a client without a request has sent until then is read first, so that a first
    /// request is served that came in time. A served client could keep its connection that way, by reading no response.
    fn keep_place(&self, context: &mut Context<'_>) -> io::Result<()> {
        let mut place = lock(&self.arrival.place);
        if let Some(evicted) = &mut place.evicted {
            if Pin::new(evicted).poll(context).is_pending() {
                return Ok(());
            }
            place.evicted = None;
        }
        if !place.is_served {
            if has_unread(&self.stream.stream) {
                return Ok(());
            }
            self.arrival.evictions.note(self.arrival.from);
        }
        Err(io::ErrorKind::ConnectionAborted.into())
    }
}

/// Whether data of the client lie in the socket. The runtime may not have noticed them yet.
fn has_unread(stream: &TcpStream) -> bool {
    let socket = stream.as_fd().try_clone_to_owned();
    let socket = socket.map(std::net::TcpStream::from);
    let peeked = socket.and_then(|socket| socket.peek(&mut [0]));
    peeked.is_ok_and(|bytes| bytes > 0)
}

impl AsyncRead for PlainConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.note(context, read)
    }
}

impl AsyncWrite for PlainConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.note(context, written)
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

/// A connection that ends if no data pass in either direction for too long.
pub(super) struct IdleTimeout<S> {
    stream: S,
    idle: Pin<Box<Sleep>>,
}

impl<S> IdleTimeout<S> {
    pub(super) fn over(stream: S) -> Self {
        Self {
            stream,
            idle: Box::pin(sleep(IDLE_TIMEOUT)),
        }
    }

    fn note<T>(&mut self, done: Poll<T>) -> Poll<T> {
        if done.is_ready() {
            self.idle.as_mut().reset(Instant::now() + IDLE_TIMEOUT);
        }
        done
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for IdleTimeout<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for IdleTimeout<S> {
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
    use std::task::Waker;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::advance;

    use super::*;
    use crate::intake::queue;

    /// One that has room for two connections of each kind.
    async fn listener() -> (PlainListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (PlainListener::within(listener, None, [2, 2]), address)
    }

    async fn connected(listener: &mut PlainListener) -> (TcpStream, PlainConnection) {
        let address = listener.local_addr().unwrap();
        let (client, (connection, _)) =
            tokio::join!(TcpStream::connect(address), listener.accept());
        (client.unwrap(), connection)
    }

    fn is_evicted(connection: &PlainConnection) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        connection.keep_place(&mut context).is_err()
    }

    #[tokio::test]
    async fn newcomer_evicts_oldest_silent_connection() {
        let (mut listener, _) = listener().await;
        let mut held = Vec::new();
        for _ in 0..2 {
            held.push(connected(&mut listener).await);
        }
        assert!(held.iter().all(|(_, connection)| !is_evicted(connection)));
        let (_client, newcomer) = connected(&mut listener).await;
        let evicted = held.iter().map(|(_, connection)| is_evicted(connection));
        assert_eq!(evicted.collect::<Vec<_>>(), [true, false]);
        assert!(!is_evicted(&newcomer));
    }

    /// A client that sends its headers byte by byte.
    #[tokio::test]
    async fn slow_headers_keep_no_place() {
        let (mut listener, _) = listener().await;
        let (mut slow, mut oldest) = connected(&mut listener).await;
        let (_client, second) = connected(&mut listener).await;
        slow.write_all(b"G").await.unwrap();
        assert_eq!(oldest.read_u8().await.unwrap(), b'G');
        let _newcomer = connected(&mut listener).await;
        assert!(is_evicted(&oldest) && !is_evicted(&second));
    }

    #[tokio::test]
    async fn sent_request_outlasts_eviction() {
        let (mut listener, _) = listener().await;
        let (mut client, mut connection) = connected(&mut listener).await;
        client.write_all(b"GET").await.unwrap();
        let mut newcomers = Vec::new();
        for _ in 0..2 {
            newcomers.push(connected(&mut listener).await);
        }
        let mut room = [0; 3];
        connection.read_exact(&mut room).await.unwrap();
        assert_eq!(&room, b"GET");
        connection.arrival.note_request();
        assert!(!is_evicted(&connection), "it is served now");
        let silent = connection.arrival.evictions.unreported.lock().unwrap();
        assert_eq!((silent.times, silent.last_report), (0, None));
    }

    #[tokio::test]
    async fn served_connections_outlast_silent_crowd() {
        let (mut listener, _) = listener().await;
        let (_client, served) = connected(&mut listener).await;
        served.arrival.note_request();
        let mut crowd = Vec::new();
        for _ in 0..4 {
            crowd.push(connected(&mut listener).await);
        }
        assert!(!is_evicted(&served));
        let evicted = crowd.iter().filter(|(_, it)| is_evicted(it));
        assert_eq!(evicted.count(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn evictions_are_reported_each_minute() {
        let (intake, mut events) = queue();
        let evictions = Evictions::reported_to(Some(intake.clone()));
        let from = IpAddr::from([127, 0, 0, 1]);
        let mut reported_times = Vec::new();
        for seconds in [0, 1, 58, 1] {
            advance(Duration::from_secs(seconds)).await;
            evictions.note(from);
            while let Ok(Event::TurnedAway { times, .. }) = events.try_next() {
                reported_times.push(times);
            }
        }
        assert_eq!(reported_times, [1, 3]);
        assert_eq!(intake.counts().refused_for(Reason::Crowded), 4);
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
