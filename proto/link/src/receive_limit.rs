//! A socket that drops packets beyond a peer's limit, before any processing: reading a packet costs ten times as much
//! as dropping it, and other peers' packets wait in the same queue. It also reports whether anything arrived.

use std::collections::HashMap;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};
use reweave_common::lock::lock;

use crate::token_bucket::TokenBucket;

/// Addresses with a limit; others are unlimited. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReceiveLimits(Arc<Mutex<HashMap<SocketAddr, PeerLimit>>>);

#[derive(Debug)]
struct PeerLimit {
    pace: TokenBucket,
    /// The number of sessions of the address.
    sessions: usize,
}

/// The limit applies as long as this value exists.
#[derive(Debug)]
pub struct ReceiveLimitGuard {
    of: ReceiveLimits,
    address: SocketAddr,
}

impl ReceiveLimits {
    pub(crate) fn give(&self, address: SocketAddr, pace: TokenBucket) -> ReceiveLimitGuard {
        let mut shares = lock(&self.0);
        let sessions = shares.get(&address).map_or(0, |share| share.sessions) + 1;
        shares.insert(address, PeerLimit { pace, sessions });
        let of = self.clone();
        ReceiveLimitGuard { of, address }
    }

    /// Whether the limit allows this many more packets of the peer.
    fn has_room(&self, address: SocketAddr, packets: usize) -> bool {
        let shares = lock(&self.0);
        shares
            .get(&address)
            .is_none_or(|share| share.pace.has_room(packets))
    }
}

impl Drop for ReceiveLimitGuard {
    fn drop(&mut self) {
        let mut shares = lock(&self.of.0);
        if let Some(share) = shares.get_mut(&self.address) {
            share.sessions -= 1;
            if share.sessions == 0 {
                shares.remove(&self.address);
            }
        }
    }
}

/// Whether anything was received. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReceiveFlag(Arc<AtomicBool>);

impl ReceiveFlag {
    pub(crate) fn anything(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub(crate) struct RateLimitedSocket {
    pub(crate) socket: Arc<dyn AsyncUdpSocket>,
    /// The maximum number of merged packets.
    pub(crate) together: usize,
    pub(crate) shares: ReceiveLimits,
    pub(crate) heard: ReceiveFlag,
}

/// Skips empty buffers.
fn sift(shares: &ReceiveLimits, received: &mut [RecvMeta]) {
    for meta in received {
        let packets = meta.len.div_ceil(meta.stride.max(1));
        if !shares.has_room(meta.addr, packets) {
            meta.len = 0;
        }
    }
}

impl AsyncUdpSocket for RateLimitedSocket {
    fn poll_recv(
        &self,
        cx: &mut Context,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(self.socket.poll_recv(cx, bufs, meta))?;
        self.heard.0.store(true, Ordering::Relaxed);
        sift(&self.shares, &mut meta[..count]);
        Poll::Ready(Ok(count))
    }

    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.socket).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit) -> io::Result<()> {
        self.socket.try_send(transmit)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.socket.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.together
    }

    fn may_fragment(&self) -> bool {
        self.socket.may_fragment()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn received(port: u16, packets: usize) -> RecvMeta {
        RecvMeta {
            addr: address(port),
            stride: 1200,
            len: packets * 1200 - 100,
            ..RecvMeta::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_packets_beyond_share_are_dropped() {
        let shares = ReceiveLimits::default();
        let _share = shares.give(address(1), TokenBucket::new(1, 3));
        let kept = |received: &mut [RecvMeta]| {
            sift(&shares, received);
            received.iter().map(|meta| meta.len > 0).collect::<Vec<_>>()
        };
        let batch = [(1, 2), (2, 64), (1, 2), (1, 1), (2, 64)];
        let mut batch = batch.map(|(port, packets)| received(port, packets));
        assert_eq!(kept(&mut batch), [true, true, true, false, true]);
        tokio::time::advance(std::time::Duration::from_secs(2)).await;
        assert_eq!(kept(&mut [received(1, 1)]), [true]);
    }

    #[tokio::test(start_paused = true)]
    async fn share_lasts_until_last_session_ends() {
        let shares = ReceiveLimits::default();
        let [first, second] = [0, 0].map(|_| shares.give(address(1), TokenBucket::new(1, 0)));
        drop(first);
        assert!(!shares.has_room(address(1), 1));
        drop(second);
        assert!(shares.has_room(address(1), 1));
    }
}
