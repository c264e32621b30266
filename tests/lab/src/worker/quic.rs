//! Flows over QUIC: a connection each, with the ports the lab has chosen, and one stream on it.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, RecvStream, SendStream,
    ServerConfig, TokioRuntime, TransportConfig,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::flow::{Incoming, Statistics, Wire};
use super::listening::expected;
use super::protocol::FlowSpec;
use crate::error::LabError;

/// Every rank listens before any connects, so an answer is due at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A job that computes for long has not gone.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// A killed process says no farewell: one that is silent for this long has gone.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
const SERVER_NAME: &str = "rank";
/// A stream is there for the other end when something has come over it.
const STREAM_HELLO: &[u8] = b"?";

/// Listens for all incoming flows; the ranks that send them listen on one address and port each.
pub(crate) struct Listeners {
    endpoints: Vec<(SocketAddrV4, Endpoint)>,
    awaited: BTreeMap<SocketAddrV4, FlowSpec>,
}

impl Listeners {
    pub(crate) fn open<'f>(flows: impl Iterator<Item = &'f FlowSpec>) -> Result<Self, LabError> {
        let (awaited, places) = expected(flows);
        let listen = |at| -> Result<_, LabError> {
            let endpoint = server().and_then(|config| endpoint(at, Some(config)));
            let endpoint = endpoint.map_err(|source| LabError::Listen { at, source })?;
            Ok((at, endpoint))
        };
        let endpoints = places.into_iter().map(listen).collect::<Result<_, _>>()?;
        Ok(Self { endpoints, awaited })
    }

    /// Accepts until every awaited flow is there. A stranger is refused.
    pub(crate) async fn accept_all(self) -> io::Result<Vec<(FlowSpec, Wire)>> {
        let mut accepting = JoinSet::new();
        for (at, endpoint) in self.endpoints {
            let flows = self.awaited.iter();
            let here = flows.filter(|(_, flow)| flow.destination == at);
            let here = here.map(|(from, flow)| (SocketAddr::V4(*from), flow.clone()));
            accepting.spawn_local(accept(endpoint, here.collect()));
        }
        let accepted = accepting.join_all().await.into_iter();
        let accepted: Vec<_> = accepted.collect::<io::Result<_>>()?;
        Ok(accepted.into_iter().flatten().collect())
    }
}

async fn accept(
    endpoint: Endpoint,
    mut awaited: BTreeMap<SocketAddr, FlowSpec>,
) -> io::Result<Vec<(FlowSpec, Wire)>> {
    let mut accepted = Vec::new();
    while !awaited.is_empty() {
        let incoming = endpoint.accept().await;
        let incoming = incoming.ok_or(io::ErrorKind::NotConnected)?;
        let Some(flow) = awaited.remove(&incoming.remote_address()) else {
            incoming.refuse();
            continue;
        };
        let connection = incoming.await?;
        let (write, mut read) = connection.accept_bi().await?;
        let hello = &mut [0; STREAM_HELLO.len()];
        read.read_exact(hello).await.map_err(io::Error::other)?;
        accepted.push((flow, wire(connection, read, write)));
    }
    Ok(accepted)
}

pub(crate) async fn connect(flow: &FlowSpec) -> io::Result<Wire> {
    let endpoint = endpoint(flow.source, None)?;
    let connecting = endpoint.connect_with(client()?, flow.destination.into(), SERVER_NAME);
    let connecting = connecting.map_err(io::Error::other)?;
    let connection = timeout(CONNECT_TIMEOUT, connecting).await??;
    let (mut write, read) = connection.open_bi().await?;
    write
        .write_all(STREAM_HELLO)
        .await
        .map_err(io::Error::other)?;
    Ok(wire(connection, read, write))
}

fn endpoint(at: SocketAddrV4, server: Option<ServerConfig>) -> io::Result<Endpoint> {
    let socket = UdpSocket::bind(at)?;
    Endpoint::new(
        EndpointConfig::default(),
        server,
        socket,
        Arc::new(TokioRuntime),
    )
}

fn wire(connection: Connection, read: RecvStream, write: SendStream) -> Wire {
    let (closed, counted) = (connection.clone(), connection);
    let gone = Box::pin(async move { closed.closed().await });
    Wire {
        read: Box::new(Inward { read, gone }),
        write: Box::new(write),
        statistics: Box::new(move || statistics(&counted)),
    }
}

fn statistics(connection: &Connection) -> Statistics {
    let path = connection.stats().path;
    Statistics {
        // Every packet taken for lost is sent again.
        retransmits: Some(path.lost_packets),
        rtt_us: Some(path.rtt.as_micros() as u64),
        ..Statistics::default()
    }
}

struct Inward {
    read: RecvStream,
    gone: Pin<Box<dyn Future<Output = ConnectionError>>>,
}

impl AsyncRead for Inward {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        AsyncRead::poll_read(Pin::new(&mut self.read), context, buffer)
    }
}

impl Incoming for Inward {
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let error = ready!(self.gone.as_mut().poll(context));
        Poll::Ready(io::Error::other(error))
    }
}

fn transport() -> io::Result<Arc<TransportConfig>> {
    let mut transport = TransportConfig::default();
    let silent_for = IDLE_TIMEOUT.try_into().map_err(io::Error::other)?;
    transport.max_idle_timeout(Some(silent_for));
    transport.keep_alive_interval(Some(KEEP_ALIVE_INTERVAL));
    Ok(Arc::new(transport))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn server() -> io::Result<ServerConfig> {
    let own =
        rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()]).map_err(io::Error::other)?;
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.into()], key.into())
        .map_err(io::Error::other)?;
    let tls = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    config.transport_config(transport()?);
    Ok(config)
}

fn client() -> io::Result<ClientConfig> {
    let tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider())))
        .with_no_client_auth();
    let tls = QuicClientConfig::try_from(tls).map_err(io::Error::other)?;
    let mut config = ClientConfig::new(Arc::new(tls));
    config.transport_config(transport()?);
    Ok(config)
}

/// Accepts any certificate: hosts of the lab identify each other by address.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("QUIC is over TLS 1.3".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.0.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
