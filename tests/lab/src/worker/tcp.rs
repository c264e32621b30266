//! Flows over TCP: one connection each, with the ports the lab has chosen.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::ReadBuf;
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use super::flow::{Incoming, Statistics, Wire, closed};
use super::listening::expected;
use super::protocol::FlowSpec;
use crate::error::LabError;

/// Every rank listens before any connects, so an answer is due at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Listens for all incoming flows; the ranks that send them listen on one address and port each.
pub(crate) struct Listeners {
    sockets: Vec<TcpListener>,
    awaited: BTreeMap<SocketAddrV4, FlowSpec>,
}

impl Listeners {
    pub(crate) fn open<'f>(flows: impl Iterator<Item = &'f FlowSpec>) -> Result<Self, LabError> {
        let (awaited, places) = expected(flows);
        let listen = |at| listen(at).map_err(|source| LabError::Listen { at, source });
        let sockets = places.into_iter().map(listen).collect::<Result<_, _>>()?;
        Ok(Self { sockets, awaited })
    }

    /// Accepts until every awaited flow is there. A stranger's connection is closed.
    pub(crate) async fn accept_all(mut self) -> io::Result<Vec<(FlowSpec, Wire)>> {
        let mut accepted = Vec::new();
        while !self.awaited.is_empty() {
            let (stream, peer) = self.accept_one().await?;
            let SocketAddr::V4(peer) = peer else { continue };
            if let Some(flow) = self.awaited.remove(&peer) {
                accepted.push((flow, wire(stream)?));
            }
        }
        Ok(accepted)
    }

    async fn accept_one(&self) -> io::Result<(TcpStream, SocketAddr)> {
        poll_fn(|context| {
            let sockets = self.sockets.iter();
            let mut accepted = sockets.map(|socket| socket.poll_accept(context));
            // It stops at the first: a connection that another socket accepts too would be closed.
            accepted.find(Poll::is_ready).unwrap_or(Poll::Pending)
        })
        .await
    }
}

fn listen(at: SocketAddrV4) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(at.into())?;
    socket.listen(1024)
}

pub(crate) async fn connect(flow: &FlowSpec) -> io::Result<Wire> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(flow.source.into())?;
    wire(timeout(CONNECT_TIMEOUT, socket.connect(flow.destination.into())).await??)
}

fn wire(stream: TcpStream) -> io::Result<Wire> {
    stream.set_nodelay(true)?;
    let watched = stream.as_fd().try_clone_to_owned()?;
    let (read, write) = stream.into_split();
    Ok(Wire {
        read: Box::new(read),
        write: Box::new(write),
        statistics: Box::new(move || tcp_info(&watched)),
    })
}

impl Incoming for OwnedReadHalf {
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        match self.poll_peek(context, &mut ReadBuf::new(&mut [0])) {
            Poll::Ready(Ok(0)) => Poll::Ready(closed()),
            Poll::Ready(Err(error)) => Poll::Ready(error),
            // A message that has come too soon: what is behind it is seen when it is read.
            Poll::Ready(Ok(_)) | Poll::Pending => Poll::Pending,
        }
    }
}

/// The kernel's report of the connection. Older kernels report fewer fields.
#[allow(
    unsafe_code,
    reason = "TCP_INFO has grown fields that no wrapper knows"
)]
fn tcp_info(socket: &OwnedFd) -> Statistics {
    let mut info = [0_u8; 256];
    let mut length = info.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `info`, and says how many.
    let result = unsafe {
        let info = info.as_mut_ptr().cast();
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info,
            &mut length,
        )
    };
    let known = if result == 0 {
        &info[..length as usize]
    } else {
        &[]
    };
    let field = |offset: usize| {
        let bytes = known.get(offset..offset + 4)?.try_into().ok()?;
        Some(u64::from(u32::from_ne_bytes(bytes)))
    };
    let retransmits = field(offset::TOTAL_RETRANS);
    let needless = field(offset::DSACK_DUPS);
    Statistics {
        retransmits,
        // A segment sent twice and received twice was late, not lost.
        lost: retransmits
            .zip(needless)
            .map(|(sent, twice)| sent.saturating_sub(twice)),
        reordered: field(offset::RCV_OOOPACK),
        rtt_us: field(offset::RTT),
    }
}

/// Places in the kernel's `struct tcp_info`, which only ever grows at its end.
mod offset {
    pub(super) const RTT: usize = 68;
    pub(super) const TOTAL_RETRANS: usize = 100;
    pub(super) const DSACK_DUPS: usize = 216;
    pub(super) const RCV_OOOPACK: usize = 224;
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use reweave_common::ids::Rank;

    use super::*;

    /// A connection that is closed unseen is awaited for ever.
    const TEST_TIMEOUT: Duration = Duration::from_secs(60);

    /// Each begins and ends at addresses of its own, as on rails.
    fn flow(nth: u8) -> FlowSpec {
        // A network of the loopback interface for each run.
        let run = 1 + (std::process::id() % 120) as u8;
        let [from, to] = [0, 1].map(|host| Ipv4Addr::new(127, run, host, nth + 1));
        FlowSpec {
            id: nth.into(),
            from: Rank::from_index(0),
            to: Rank::from_index(1),
            nth: nth.into(),
            source: SocketAddrV4::new(from, 0xC000),
            destination: SocketAddrV4::new(to, 5001),
            burst_bytes: 0,
        }
    }

    #[test]
    fn connections_at_once_are_accepted() {
        let flows: Vec<_> = (0..8).map(flow).collect();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        let accepted = runtime.block_on(async {
            let listeners = Listeners::open(flows.iter()).unwrap();
            let mut senders = Vec::new();
            for flow in &flows {
                senders.push(connect(flow).await.unwrap());
            }
            let accepted = timeout(TEST_TIMEOUT, listeners.accept_all()).await;
            let accepted = accepted.expect("no connection is closed unseen").unwrap();
            let mut accepted: Vec<_> = accepted.into_iter().map(|(flow, _)| flow).collect();
            accepted.sort_by_key(|flow| flow.id);
            accepted
        });
        assert_eq!(accepted, flows);
    }
}
