//! Verifies a join listener, when only the digest of the authority is known.

use std::fmt;
use std::sync::{Arc, OnceLock};

use rustls::CertificateError;
use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

use super::Token;
use crate::signatures::verify_signatures;
use crate::verify::{PeerRefusal, PeerVerifier};

pub(super) struct Newcomer {
    token: Token,
    provider: Arc<CryptoProvider>,
    /// Why the join listener is refused.
    found: Arc<OnceLock<PeerRefusal>>,
}

impl Newcomer {
    pub(super) fn new(
        token: &Token,
        provider: Arc<CryptoProvider>,
        found: Arc<OnceLock<PeerRefusal>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            token: token.clone(),
            provider,
            found,
        })
    }

    fn judge(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), PeerRefusal> {
        let authority = others.iter().find(|other| self.token.is_authority(other));
        let authority = authority.ok_or(PeerRefusal::OtherAuthority)?;
        let anchor = webpki::anchor_from_trusted_cert(authority).map_err(PeerRefusal::Unusable)?;
        let cluster = self.token.cluster();
        let cluster = cluster.map_err(|_| PeerRefusal::OtherAuthority)?;
        let judge = PeerVerifier::of_door(anchor.to_owned(), cluster, self.provider.clone());
        judge.examine(certificate, others, now).map(drop)
    }
}

impl ServerCertVerifier for Newcomer {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.judge(end_entity, intermediates, now) {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            Err(refusal) => {
                self.found.get_or_init(|| refusal);
                Err(CertificateError::ApplicationVerificationFailure.into())
            }
        }
    }

    verify_signatures!();
}

impl fmt::Debug for Newcomer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Newcomer").finish_non_exhaustive()
    }
}
