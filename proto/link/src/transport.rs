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

/// The maximum time from the first packet to the end of the hello.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);
/// The maximum time from the first packet to the certificate. The cluster has to log the admission first.
pub(crate) const JOIN_TIMEOUT: Duration = Duration::from_secs(10);
/// A peer that is silent for this long counts as lost.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
pub(crate) const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// The round-trip time that is assumed before a measurement. QUIC's default for the internet is a third of a second,
/// with which each lost first packet would cost a second.
const INITIAL_RTT: Duration = Duration::from_millis(100);

const CHANNEL_COUNT: u32 = 2;
/// The bytes that a peer may send ahead of its reader on one channel.
const CHANNEL_WINDOW_BYTES: u32 = 256 << 10;
/// The bytes that a peer may send ahead on all channels. Each channel can fill only its own window, so a full channel
/// takes nothing from the other.
const SESSION_WINDOW_BYTES: u32 = CHANNEL_COUNT * CHANNEL_WINDOW_BYTES;
/// The maximum number of sent bytes without an acknowledgement, with room for late acknowledgements.
const SEND_WINDOW_BYTES: u64 = 4 * CHANNEL_WINDOW_BYTES as u64;

/// The buffer for unread or unsent datagrams. When it is full, the oldest datagrams are dropped.
const MAX_DATAGRAM_BUFFER_BYTES: usize = 16 << 10;

const JOIN_WINDOW_BYTES: u32 = 32 << 10;

/// The receive buffer of a listener. All agents may reconnect at once: with the usual 208 KiB, a third of 4 000 agents
/// were still outside after 30 s; with this size, none was after 3 s.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// The limits of handshakes that wait. Further packets of new peers are refused without being read.
pub(crate) struct Waiting {
    pub(crate) most: usize,
    pub(crate) bytes: u64,
}

/// The configuration of a listener. Clients may not change their address.
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

/// Returns the limits of the side that opens the channels.
pub(crate) fn opening_side() -> Arc<TransportConfig> {
    limits(0)
}

/// Returns the limits of the side on which the channels are opened.
pub(crate) fn accepting_side() -> Arc<TransportConfig> {
    limits(CHANNEL_COUNT)
}

/// Returns the limits of the join listener, whose peers open one stream and send little.
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

/// Opens an endpoint from which `peer` can be reached.
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

/// Opens an endpoint that reads from no peer beyond its limit.
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

/// Turns off receive offload, and returns the number of packets per read. Buffers for merged packets take 3 MiB and are
/// cleared for each session, which is half of the time that a thousand agents on one machine take to reconnect. A
/// kernel without the option merges no packets.
fn one_by_one(socket: &UdpSocket) -> usize {
    let _ = setsockopt(socket, UdpGroSegment, &false);
    1
}

/// Opens a socket. Only a server's socket gets packets from many peers.
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

/// Requests a large receive buffer. The kernel grants what `net.core.rmem_max` allows.
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
