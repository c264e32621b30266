//! TLS over TCP, for browsers and scripts.
//!
//! A client with a certificate is verified as at any other listener. A client without one is admitted unauthenticated,
//! and has to authenticate otherwise. No session state is kept that another connection could resume: each connection
//! authenticates again.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::SystemTime;

use reweave_common::member::{DenyLists, Member};
use reweave_proto::name::Role;
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Duration, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::error::LinkError;
use crate::identity::Identity;
use crate::pki::{Authority, PkiError, Validity};
use crate::tls;
use crate::transport::HANDSHAKE_TIMEOUT;
use crate::verify::{Credentials, PeerRefusal, PeerVerdict, PeerVerifier};

const ALPN: &[u8] = b"http/1.1";
/// Certificates expire by the clock, which may be set while this waits.
const EXPIRY_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A coordinator's server certificate. Cheap to clone.
#[derive(Clone)]
pub struct ServerCertificate {
    certified: Arc<CertifiedKey>,
    validity: Validity,
}

impl ServerCertificate {
    /// The coordinator's own certificate, for members, which do not check names.
    pub fn of(ours: &Identity) -> Self {
        Self {
            certified: ours.certified().clone(),
            validity: ours.validity(),
        }
    }

    /// A certificate with this address, for browsers that connect to it.
    pub fn at(address: IpAddr, ours: &Identity, signer: &Authority) -> Result<Self, PkiError> {
        let (chain, key) = signer.issue_server(ours.member(), address, ours.admission())?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let key = ours.provider().key_provider.load_private_key(key.into());
        let key = key.map_err(PkiError::FreshKey)?;
        Ok(Self {
            certified: Arc::new(CertifiedKey::new(chain, key)),
            validity: Validity::day(),
        })
    }

    /// The certificate in DER.
    fn certificate(&self) -> Option<&[u8]> {
        self.certified.cert.first().map(AsRef::as_ref)
    }

    /// Whether to renew it.
    pub fn is_due(&self, now: SystemTime) -> bool {
        self.validity.is_due(now)
    }
}

pub type Stream = TlsStream<TcpStream>;

/// Prints no key.
impl fmt::Debug for ServerCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ServerCertificate");
        shown
            .field("validity", &self.validity)
            .finish_non_exhaustive()
    }
}

impl PartialEq for ServerCertificate {
    fn eq(&self, other: &Self) -> bool {
        self.certificate() == other.certificate()
    }
}

/// An accepted connection.
pub struct WebConnection {
    pub stream: Stream,
    /// None for an unauthenticated client.
    pub card: Option<WebCredentials>,
}

/// The client's proven identity, and whether it has been revoked since.
pub struct WebCredentials {
    credentials: Credentials,
    denied: watch::Receiver<DenyLists>,
}

impl WebCredentials {
    pub fn member(&self) -> &Member {
        &self.credentials.member
    }

    /// Waits until the credentials are no longer valid, and returns why.
    pub async fn ended(mut self) -> PeerRefusal {
        loop {
            if let Some(refusal) = self.refusal() {
                return refusal;
            }
            // Certificates expire even if the deny list can no longer change.
            tokio::select! {
                Ok(()) = self.denied.changed() => {}
                () = sleep(EXPIRY_CHECK_INTERVAL) => {}
            }
        }
    }

    fn refusal(&mut self) -> Option<PeerRefusal> {
        let denied = self.credentials.denied_by(&self.denied.borrow_and_update());
        let past = SystemTime::now().duration_since(self.credentials.until);
        denied.or_else(|| {
            past.ok().map(|ago| PeerRefusal::Expired {
                ago,
                whose: Some(self.member().clone()),
            })
        })
    }
}

/// Performs the handshake with the client of this stream.
pub async fn receive(
    stream: TcpStream,
    address: SocketAddr,
    ours: &Identity,
    face: &ServerCertificate,
    accepted: &[Role],
) -> Result<WebConnection, LinkError> {
    let verdict = Arc::new(PeerVerdict::default());
    let config = config(ours, face, accepted, &verdict)?;
    let handshake = TlsAcceptor::from(Arc::new(config)).accept(stream);
    let done = timeout(HANDSHAKE_TIMEOUT, handshake).await;
    let done = done.map_err(|_| LinkError::HandshakeTimedOut { address })?;
    let credentials = match verdict.get().cloned().transpose() {
        Ok(credentials) => credentials,
        Err(source) => return Err(LinkError::Refused { address, source }),
    };
    let card = credentials.map(|credentials| WebCredentials {
        credentials,
        denied: ours.denied().follow(),
    });
    let stream = done.map_err(|source| LinkError::Web { address, source })?;
    Ok(WebConnection { stream, card })
}

fn config(
    ours: &Identity,
    face: &ServerCertificate,
    accepted: &[Role],
    verdict: &Arc<PeerVerdict>,
) -> Result<ServerConfig, LinkError> {
    let shown = CertifiedKey::clone(&face.certified);
    let config = ServerConfig::builder_with_provider(ours.provider().clone())
        .with_protocol_versions(&[&TLS13])
        .map_err(LinkError::Tls)?
        .with_client_cert_verifier(PeerVerifier::of_guests(ours, accepted, verdict.clone()))
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(shown)));
    Ok(tls::forgetful(config, ALPN))
}

#[cfg(test)]
mod tests {
    use reweave_common::member::Admission;

    use super::*;

    fn credentials(until: SystemTime, denied: watch::Receiver<DenyLists>) -> WebCredentials {
        let credentials = Credentials {
            member: Member::new(Role::Viewer, "ann"),
            admission: Admission::default(),
            until,
            signer: None,
        };
        WebCredentials {
            credentials,
            denied,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn expired_credentials_end_connection() {
        let (_list, denied) = watch::channel(DenyLists::default());
        let now = SystemTime::now();
        let good = credentials(now + Duration::from_hours(1), denied.clone());
        let early = timeout(3 * EXPIRY_CHECK_INTERVAL, good.ended()).await;
        assert!(early.is_err(), "it is good for an hour: {early:?}");
        let past = credentials(now - Duration::from_secs(1), denied);
        let ended = timeout(3 * EXPIRY_CHECK_INTERVAL, past.ended()).await;
        let Ok(PeerRefusal::Expired { ago, whose }) = ended else {
            panic!("{ended:?}");
        };
        assert!(ago >= Duration::from_secs(1), "{ago:?}");
        assert_eq!(whose, Some(Member::new(Role::Viewer, "ann")));
    }
}
