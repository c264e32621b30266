//! The joining side.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection};
use reweave_common::error::error_chain;
use reweave_proto::frame;
use reweave_proto::hello::{Hello, MAX_HELLO_BYTES};
use rustls::client::Resumption;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::version::TLS13;
use thiserror::Error;
use tokio::time::timeout;

use super::token::TokenError;
use super::verify::Newcomer;
use super::{ALPN, Application, JoinAnswer, MAX_MESSAGE_BYTES, Token};
use crate::error::LinkError;
use crate::identity::Identity;
use crate::pki::{KeyRequest, PkiError};
use crate::receive_limit::ReceiveFlag;
use crate::session::{CLOSE_DONE, Reader, Writer};
use crate::tls::SERVER_NAME;
use crate::verify::PeerRefusal;
use crate::{opening, transport};

#[derive(Debug, Error)]
pub enum JoinError {
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error("cannot keep the certificate")]
    Keep(#[source] PkiError),
    #[error(
        "{address} refuses this token: it may be used or expired; its log has the reason, and \
         `reweave cluster token` makes a new one"
    )]
    Refused { address: SocketAddr },
    #[error("{address} does not lead, and no other address was given that does")]
    DoesNotLead { address: SocketAddr },
    #[error("{address} gave a certificate for {given}, and the token is for {wanted}")]
    OtherMember {
        address: SocketAddr,
        given: String,
        wanted: String,
    },
    #[error("{address} gave a certificate that cannot be used")]
    Unusable {
        address: SocketAddr,
        source: PeerRefusal,
    },
    #[error("no address to join at")]
    NoAddress,
    #[error("none of the coordinators let this node in: {}", joined(.0))]
    Nowhere(Vec<JoinError>),
}

fn joined(errors: &[JoinError]) -> String {
    let reasons: Vec<_> = errors.iter().map(|error| error_chain(error)).collect();
    reasons.join("; ")
}

/// Tries each address in order until one lets us in, and writes key and certificate into `dir`.
pub async fn enter(
    addresses: &[SocketAddr],
    token: &Token,
    dir: &Path,
) -> Result<Identity, JoinError> {
    let key = KeyRequest::new(dir).map_err(JoinError::Keep)?;
    let mut failures = vec![];
    for &address in addresses {
        let attempt = timeout(transport::JOIN_TIMEOUT, knock(address, token, &key)).await;
        let attempt = attempt.unwrap_or(Err(LinkError::HandshakeTimedOut { address }.into()));
        match attempt.and_then(|answer| take(address, token, &key, dir, answer)) {
            Ok(identity) => return Ok(identity),
            Err(failure) => failures.push(failure),
        }
    }
    match failures.pop() {
        None => Err(JoinError::NoAddress),
        Some(only) if failures.is_empty() => Err(only),
        Some(last) => {
            failures.push(last);
            Err(JoinError::Nowhere(failures))
        }
    }
}

async fn knock(
    address: SocketAddr,
    token: &Token,
    key: &KeyRequest,
) -> Result<JoinAnswer, JoinError> {
    let verdict = Arc::default();
    let config = client_config(token, &verdict)?;
    let endpoint = transport::client_endpoint(address, None, ReceiveFlag::default())?;
    let connecting = endpoint.connect_with(config, address, SERVER_NAME);
    let connection = connecting
        .map_err(|source| LinkError::Connect { address, source })?
        .await
        .map_err(|source| refusal(address, &verdict, source))?;
    let answer = ask(address, &connection, token, key).await?;
    connection.close(CLOSE_DONE, b"");
    endpoint.wait_idle().await;
    Ok(answer)
}

/// Our own reason against the join listener precedes TLS's error.
fn refusal(
    address: SocketAddr,
    verdict: &OnceLock<PeerRefusal>,
    source: quinn::ConnectionError,
) -> LinkError {
    match verdict.get().cloned() {
        Some(source) => LinkError::Refused { address, source },
        None => LinkError::Handshake { address, source },
    }
}

async fn ask(
    address: SocketAddr,
    connection: &Connection,
    token: &Token,
    key: &KeyRequest,
) -> Result<JoinAnswer, JoinError> {
    let (send, receive) = connection.open_bi().await.map_err(LinkError::from)?;
    let mut writer = Writer::new(send);
    let mut reader = Reader::new(receive, MAX_HELLO_BYTES);
    let hello = Hello::new(&token.cluster()?);
    let greeted = opening::greet_on(&mut writer, &mut reader, &hello).await;
    greeted.map_err(|error| error.at(address))?;
    reader.raise_limit(MAX_MESSAGE_BYTES);
    let application = Application {
        secret: token.secret(),
        request: key.der().to_vec(),
    };
    let frame = frame::encode(&application).map_err(LinkError::Unsendable)?;
    writer.send(frame).await.map_err(LinkError::from)?;
    let frame = reader.receive().await?;
    Ok(frame::decode(&frame).map_err(LinkError::Unreadable)?)
}

fn take(
    address: SocketAddr,
    token: &Token,
    key: &KeyRequest,
    dir: &Path,
    answer: JoinAnswer,
) -> Result<Identity, JoinError> {
    let (authority_pem, chain_pem) = match answer {
        JoinAnswer::Welcome {
            authority_pem,
            chain_pem,
        } => (authority_pem, chain_pem),
        JoinAnswer::AskAnother => return Err(JoinError::DoesNotLead { address }),
        JoinAnswer::Refused => return Err(JoinError::Refused { address }),
    };
    let authority = CertificateDer::from_pem_slice(authority_pem.as_bytes());
    if !authority.is_ok_and(|authority| token.is_authority(&authority)) {
        let source = PeerRefusal::OtherAuthority;
        return Err(JoinError::Unusable { address, source });
    }
    let installed = key.install_with(&authority_pem, &chain_pem);
    let identity = installed.and_then(|()| Identity::load(dir));
    let identity = identity.map_err(JoinError::Keep)?;
    let wanted = token.name()?;
    if *identity.member() != wanted {
        return Err(JoinError::OtherMember {
            address,
            given: identity.member().to_string(),
            wanted: wanted.to_string(),
        });
    }
    match identity.problem(SystemTime::now()) {
        Some(source) => Err(JoinError::Unusable { address, source }),
        None => Ok(identity),
    }
}

fn client_config(
    token: &Token,
    verdict: &Arc<OnceLock<PeerRefusal>>,
) -> Result<ClientConfig, JoinError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Newcomer::new(token, provider.clone(), verdict.clone());
    let mut crypto = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(LinkError::Tls)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    crypto.alpn_protocols = vec![ALPN.to_vec()];
    crypto.resumption = Resumption::disabled();
    crypto.enable_early_data = false;
    let crypto: QuicClientConfig = crypto.try_into().map_err(LinkError::NoQuicCipher)?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(transport::opening_side());
    Ok(config)
}
