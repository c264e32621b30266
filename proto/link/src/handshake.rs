//! The result of a handshake.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use quinn::{Connection, ConnectionError, Endpoint};
use reweave_proto::hello::Hello;
use rustls::AlertDescription;

use crate::error::LinkError;
use crate::identity::Identity;
use crate::opening::{OpenSession, OpeningError};
use crate::receive_limit::ReceiveLimits;
use crate::session::Session;
use crate::verify::{Credentials, PeerRefusal, PeerVerdict};

/// TLS alerts are QUIC errors from this code on.
const CRYPTO_ERROR_BASE: u64 = 0x100;

pub(crate) struct Handshake {
    pub(crate) ours: Identity,
    pub(crate) hello: Hello,
    pub(crate) address: SocketAddr,
    pub(crate) verdict: Arc<PeerVerdict>,
}

impl Handshake {
    pub(crate) fn new(ours: &Identity, hello: &Hello, address: SocketAddr) -> Self {
        Self {
            ours: ours.clone(),
            hello: hello.clone(),
            address,
            verdict: Arc::default(),
        }
    }

    pub(crate) fn session(
        &self,
        connection: Connection,
        opened: OpenSession,
        endpoint: Option<Endpoint>,
    ) -> Result<Session, LinkError> {
        let credentials = self.credentials()?;
        Ok(Session {
            peer: credentials.member.clone(),
            good_until: Mutex::new(credentials.until),
            credentials,
            denied: self.ours.denied().follow(),
            build: opened.build,
            version: opened.version,
            connection,
            commands: opened.commands,
            telemetry: opened.telemetry,
            endpoint,
            shares: ReceiveLimits::default(),
        })
    }

    /// TLS requires a verdict; without one, no peer is admitted.
    fn credentials(&self) -> Result<Credentials, LinkError> {
        match self.verdict.get() {
            Some(Ok(credentials)) => Ok(credentials.clone()),
            Some(Err(refusal)) => Err(self.refused(refusal.clone())),
            None => Err(self.refused(PeerRefusal::NoCertificate)),
        }
    }

    pub(crate) fn timed_out(&self) -> LinkError {
        let address = self.address;
        LinkError::HandshakeTimedOut { address }
    }

    pub(crate) fn opening_failed(&self, error: OpeningError) -> LinkError {
        match error {
            OpeningError::Lost(lost) => self.connecting_failed(lost),
            other => other.at(self.address),
        }
    }

    pub(crate) fn connecting_failed(&self, error: ConnectionError) -> LinkError {
        let address = self.address;
        if let Some(Err(refusal)) = self.verdict.get() {
            return self.refused(refusal.clone());
        }
        match error {
            ConnectionError::TransportError(error) if is_no_certificate(error.code.into()) => {
                self.refused(PeerRefusal::NoCertificate)
            }
            ConnectionError::ConnectionClosed(close) if is_refusal(close.error_code.into()) => {
                let own_problem = self.ours.problem(SystemTime::now());
                LinkError::RefusedByPeer {
                    address,
                    own_problem,
                }
            }
            ConnectionError::TimedOut => self.timed_out(),
            source => LinkError::Handshake { address, source },
        }
    }

    fn refused(&self, source: PeerRefusal) -> LinkError {
        let address = self.address;
        LinkError::Refused { address, source }
    }
}

fn is_no_certificate(code: u64) -> bool {
    code == code_of(AlertDescription::CertificateRequired)
}

/// Whether the code is that of our verifier's refusal, or of a missing certificate.
fn is_refusal(code: u64) -> bool {
    code == code_of(AlertDescription::AccessDenied) || is_no_certificate(code)
}

fn code_of(alert: AlertDescription) -> u64 {
    CRYPTO_ERROR_BASE + u64::from(u8::from(alert))
}
