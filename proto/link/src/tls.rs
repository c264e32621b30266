//! TLS 1.3 with a certificate on both sides, for one handshake.
//!
//! Each handshake has a configuration of its own, since that is the only way to get the verifier's result about its
//! peer.

use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use reweave_proto::name::Role;
use rustls::client::Resumption;
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;

use crate::error::LinkError;
use crate::identity::Identity;
use crate::verify::{PeerVerdict, PeerVerifier};

/// Keeps other QUIC protocols out. The hello distinguishes our own versions, and can say why one is refused.
pub(crate) const ALPN: &[u8] = b"reweave";

/// TLS wants a name for the server; ours are known by the role in their certificates.
pub(crate) const SERVER_NAME: &str = "reweave";

pub(crate) fn client(
    ours: &Identity,
    role: Role,
    verdict: Arc<PeerVerdict>,
) -> Result<QuicClientConfig, LinkError> {
    let mut config = rustls::ClientConfig::builder_with_provider(ours.provider().clone())
        .with_protocol_versions(&[&TLS13])
        .map_err(LinkError::Tls)?
        .dangerous()
        .with_custom_certificate_verifier(PeerVerifier::new(ours, &[role], verdict))
        .with_client_cert_resolver(Arc::new(certificate(ours)));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_early_data = false;
    config.try_into().map_err(LinkError::NoQuicCipher)
}

pub(crate) fn server(
    ours: &Identity,
    accepted: &[Role],
    verdict: Arc<PeerVerdict>,
) -> Result<QuicServerConfig, LinkError> {
    let config = rustls::ServerConfig::builder_with_provider(ours.provider().clone())
        .with_protocol_versions(&[&TLS13])
        .map_err(LinkError::Tls)?
        .with_client_cert_verifier(PeerVerifier::new(ours, accepted, verdict))
        .with_cert_resolver(Arc::new(certificate(ours)));
    forgetful(config, ALPN)
        .try_into()
        .map_err(LinkError::NoQuicCipher)
}

/// Keeps no session state that another connection could resume.
pub(crate) fn forgetful(mut config: rustls::ServerConfig, alpn: &[u8]) -> rustls::ServerConfig {
    config.alpn_protocols = vec![alpn.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    config
}

pub(crate) fn certificate(ours: &Identity) -> SingleCertAndKey {
    SingleCertAndKey::from(CertifiedKey::clone(ours.certified()))
}
