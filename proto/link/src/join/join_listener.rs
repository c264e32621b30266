//! The side that admits new members.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use quinn::{Connection, Endpoint, Incoming, ServerConfig};
use reweave_common::member::Digest;
use reweave_proto::frame;
use reweave_proto::hello::{Hello, MAX_HELLO_BYTES};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;

use super::token::secret_digest;
use super::{ALPN, Application, JoinAnswer, MAX_MESSAGE_BYTES};
use crate::error::LinkError;
use crate::handshake::Handshake;
use crate::handshake_limit::{HandshakeLimits, Handshakes};
use crate::identity::Identity;
use crate::opening::{self, OpeningError};
use crate::pki::key_digest;
use crate::receive_limit::{ReceiveFlag, ReceiveLimits};
use crate::session::{CLOSE_DONE, Reader, Writer};
use crate::tls;
use crate::transport::{self, Waiting};

/// Nodes join once, so thousands of connections at a time are no joining nodes.
const HANDSHAKE_LIMITS: HandshakeLimits = HandshakeLimits {
    most: 64,
    most_turns: 32,
    many: 8,
    most_of_one: 16,
    many_of_one: 4,
};
const WAITING_LIMITS: Waiting = Waiting {
    most: 256,
    bytes: 1 << 20,
};

/// Accepts joining peers, which are not authenticated yet.
pub struct JoinListener {
    endpoint: Endpoint,
    ours: Identity,
    handshakes: Handshakes<Applicant>,
}

impl JoinListener {
    /// Needs the runtime of tokio around it.
    pub fn bind(address: SocketAddr, ours: &Identity) -> Result<Self, LinkError> {
        let endpoint = ours.return_key().endpoint_config();
        let config = server_config(ours)?;
        Ok(Self {
            endpoint: transport::endpoint(
                address,
                endpoint,
                Some(config),
                ReceiveLimits::default(),
                ReceiveFlag::default(),
            )?,
            ours: ours.clone(),
            handshakes: Handshakes::new(HANDSHAKE_LIMITS),
        })
    }

    pub fn address(&self) -> io::Result<SocketAddr> {
        self.endpoint.local_addr()
    }

    /// A new certificate, to be shown to those who come from now on.
    pub fn renew(&mut self, ours: &Identity) -> Result<(), LinkError> {
        self.endpoint.set_server_config(Some(server_config(ours)?));
        self.ours = ours.clone();
        Ok(())
    }

    /// The next applicant, or why the next who knocked is none. Nothing is lost when the wait is
    /// given up. `None` when the socket is gone.
    pub async fn accept(&mut self) -> Option<Result<Applicant, LinkError>> {
        let begin = |incoming: Incoming| {
            let hello = Hello::new(self.ours.cluster());
            let handshake = Handshake::new(&self.ours, &hello, incoming.remote_address());
            async move { hear(&handshake, incoming).await }
        };
        self.handshakes.next(&self.endpoint, begin).await
    }
}

/// A joining peer with a secret and a key, which waits for an answer.
pub struct Applicant {
    connection: Connection,
    writer: Writer,
    authority: String,
    token: Digest,
    key: Digest,
    request: Vec<u8>,
}

impl Applicant {
    pub fn address(&self) -> SocketAddr {
        self.connection.remote_address()
    }

    /// The digest of the token's secret.
    pub fn token(&self) -> Digest {
        self.token
    }

    /// The digest of the key to be certified.
    pub fn key(&self) -> Digest {
        self.key
    }

    pub fn request(&self) -> &[u8] {
        &self.request
    }

    /// Hands over the certificate, with that of its signer.
    pub async fn welcome(self, chain_pem: &str) {
        let answer = JoinAnswer::Welcome {
            authority_pem: self.authority.clone(),
            chain_pem: chain_pem.to_owned(),
        };
        self.answer(&answer).await;
    }

    /// Sends it to the coordinator that leads, wherever that is.
    pub async fn ask_another(self) {
        self.answer(&JoinAnswer::AskAnother).await;
    }

    /// Says no, and not why.
    pub async fn refuse(self) {
        self.answer(&JoinAnswer::Refused).await;
    }

    /// The applicant leaves when it has the answer.
    async fn answer(mut self, answer: &JoinAnswer) {
        let sending = async {
            if let Ok(frame) = frame::encode(answer)
                && self.writer.send(frame).await.is_ok()
            {
                self.connection.closed().await;
            }
        };
        let _ = tokio::time::timeout(transport::HANDSHAKE_TIMEOUT, sending).await;
        self.connection.close(CLOSE_DONE, b"");
    }
}

async fn hear(handshake: &Handshake, incoming: Incoming) -> Result<Applicant, LinkError> {
    let connection = incoming
        .await
        .map_err(|error| handshake.connecting_failed(error))?;
    let listened = listen(&connection, &handshake.hello).await;
    let listened = opening::part(&connection, listened).await;
    let (writer, application) = listened.map_err(|error| handshake.opening_failed(error))?;
    let address = handshake.address;
    let key = key_digest(&application.request).ok_or(LinkError::NoKey { address })?;
    Ok(Applicant {
        connection,
        writer,
        authority: handshake.ours.authority_pem().to_owned(),
        token: secret_digest(&application.secret),
        key,
        request: application.request,
    })
}

async fn listen(
    connection: &Connection,
    hello: &Hello,
) -> Result<(Writer, Application), OpeningError> {
    let (send, receive) = connection.accept_bi().await.map_err(OpeningError::Lost)?;
    let mut writer = Writer::new(send);
    let mut reader = Reader::new(receive, MAX_HELLO_BYTES);
    opening::greet_on(&mut writer, &mut reader, hello).await?;
    reader.raise_limit(MAX_MESSAGE_BYTES);
    let frame = reader.receive().await?;
    let application = frame::decode(&frame).map_err(LinkError::Unreadable)?;
    Ok((writer, application))
}

/// Shows its own certificate, its signer's and the authority's, and asks for none.
fn server_config(ours: &Identity) -> Result<ServerConfig, LinkError> {
    let mut certified = CertifiedKey::clone(ours.certified());
    certified.cert.push(ours.authority_der().clone());
    let crypto = rustls::ServerConfig::builder_with_provider(ours.provider().clone())
        .with_protocol_versions(&[&TLS13])
        .map_err(LinkError::Tls)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    let crypto = tls::forgetful(crypto, ALPN).try_into();
    let crypto = crypto.map_err(LinkError::NoQuicCipher)?;
    Ok(transport::server(
        crypto,
        transport::door(),
        &WAITING_LIMITS,
    ))
}
