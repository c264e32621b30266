//! The limits of a session, and the socket it runs over.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::UdpGroSegment;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{
    EndpointConfig, IdleTimeout, Runtime, ServerConfig, TokioRuntime, TransportConfig, VarInt,
};
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::LinkError;
use crate::receive_limit::{RateLimitedSocket, ReceiveFlag, ReceiveLimits};

/// From the first packet to the end of the hello.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);
/// From the first packet to the certificate, which the cluster has to write down first.
pub(crate) const JOIN_TIMEOUT: Duration = Duration::from_secs(10);
/// A peer that is silent for longer is gone.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
pub(crate) const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Clusters are near. Until measured, the general internet's third of a second would make each lost
/// first packet cost a whole one.
const INITIAL_RTT: Duration = Duration::from_millis(100);

const CHANNEL_COUNT: u32 = 2;
/// What a peer may send ahead of its reader on one channel.
const CHANNEL_WINDOW_BYTES: u32 = 256 << 10;
/// Each channel can fill its own window and no more, so a full one takes nothing from the other.
const SESSION_WINDOW_BYTES: u32 = CHANNEL_COUNT * CHANNEL_WINDOW_BYTES;
/// The same for what waits to be acknowledged, with room for acknowledgements that come late.
const SEND_WINDOW_BYTES: u64 = 4 * CHANNEL_WINDOW_BYTES as u64;

/// Unread or unsent datagrams; older ones are dropped.
const MAX_DATAGRAM_BUFFER_BYTES: usize = 16 << 10;

const JOIN_WINDOW_BYTES: u32 = 32 << 10;

/// A storm of agents that all come back at once must fit: with the usual 208 KiB a third of four
/// thousand were still outside after half a minute, with this none after three seconds.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// What has come and was not looked at yet; beyond, it is turned away unseen.
pub(crate) struct Waiting {
    pub(crate) most: usize,
    pub(crate) bytes: u64,
}

/// A side that is connected to. Who comes stays at its address.
pub(crate) fn server(
    crypto: QuicServerConfig,
    transport: Arc<TransportConfig>,
    waiting: &Waiting,
) -> ServerConfig {
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config
        .transport_config(transport)
        .migration(false)
        .max_incoming(waiting.most)
        .incoming_buffer_size_total(waiting.bytes);
    config
}

/// For the side that opens the channels.
pub(crate) fn opening_side() -> Arc<TransportConfig> {
    limits(0)
}

/// For the side on which they are opened.
pub(crate) fn accepting_side() -> Arc<TransportConfig> {
    limits(CHANNEL_COUNT)
}

/// For the join listener, whose peers open one stream and send little.
pub(crate) fn door() -> Arc<TransportConfig> {
    let mut config = base(1);
    config
        .datagram_receive_buffer_size(None)
        .stream_receive_window(JOIN_WINDOW_BYTES.into())
        .receive_window(JOIN_WINDOW_BYTES.into())
        .send_window(JOIN_WINDOW_BYTES.into());
    Arc::new(config)
}

fn limits(streams_from_peer: u32) -> Arc<TransportConfig> {
    Arc::new(base(streams_from_peer))
}

fn base(streams_from_peer: u32) -> TransportConfig {
    let idle = VarInt::from_u32(IDLE_TIMEOUT.as_millis() as u32);
    let mut config = TransportConfig::default();
    config
        .max_concurrent_bidi_streams(streams_from_peer.into())
        .max_concurrent_uni_streams(0_u32.into())
        .datagram_receive_buffer_size(Some(MAX_DATAGRAM_BUFFER_BYTES))
        .datagram_send_buffer_size(MAX_DATAGRAM_BUFFER_BYTES)
        .stream_receive_window(CHANNEL_WINDOW_BYTES.into())
        .receive_window(SESSION_WINDOW_BYTES.into())
        .send_window(SEND_WINDOW_BYTES)
        .max_idle_timeout(Some(IdleTimeout::from(idle)))
        .keep_alive_interval(Some(KEEP_ALIVE_INTERVAL))
        .initial_rtt(INITIAL_RTT);
    config
}

/// Somewhere to send from to `peer`.
pub(crate) fn client_endpoint(
    peer: SocketAddr,
    from: Option<IpAddr>,
    heard: ReceiveFlag,
) -> Result<quinn::Endpoint, LinkError> {
    let any = match peer {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let from = SocketAddr::new(from.unwrap_or(any), 0);
    endpoint(
        from,
        EndpointConfig::default(),
        None,
        ReceiveLimits::default(),
        heard,
    )
}

/// No peer is read beyond its share.
pub(crate) fn endpoint(
    address: SocketAddr,
    config: EndpointConfig,
    server: Option<ServerConfig>,
    shares: ReceiveLimits,
    heard: ReceiveFlag,
) -> Result<quinn::Endpoint, LinkError> {
    let is_server = server.is_some();
    let open = || {
        let socket = udp_socket(address, is_server)?;
        let options = socket.try_clone()?;
        let socket = TokioRuntime.wrap_udp_socket(socket)?;
        let together = if is_server {
            socket.max_receive_segments()
        } else {
            one_by_one(&options)
        };
        let socket = Arc::new(RateLimitedSocket {
            socket,
            together,
            shares,
            heard,
        });
        let runtime = Arc::new(TokioRuntime);
        quinn::Endpoint::new_with_abstract_socket(config, server, socket, runtime)
    };
    open().map_err(|source| LinkError::Socket { address, source })
}

/// From here on each packet comes by itself. Room for packets that the kernel has put together takes 3 MiB,
/// which are cleared for each session: half of the time that a thousand agents on one machine take to
/// come back. A kernel that knows nothing of it puts nothing together.
fn one_by_one(socket: &UdpSocket) -> usize {
    let _ = setsockopt(socket, UdpGroSegment, &false);
    1
}

/// Only a server is sent to by many.
fn udp_socket(address: SocketAddr, is_server: bool) -> io::Result<UdpSocket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    if is_server {
        ask_for_a_large_buffer(&socket);
    }
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// The kernel gives what `net.core.rmem_max` allows, and we live with what we get.
fn ask_for_a_large_buffer(socket: &Socket) {
    let asked = socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES);
    let got_bytes = asked.and_then(|()| socket.recv_buffer_size());
    if !got_bytes
        .as_ref()
        .is_ok_and(|got| *got >= RECEIVE_BUFFER_BYTES)
    {
        tracing::info!(
            ?got_bytes,
            asked_bytes = RECEIVE_BUFFER_BYTES,
            "small UDP receive buffer; raise net.core.rmem_max where thousands connect at once"
        );
    }
}
