//! Who this process is: its certificate, its key, and the authority it trusts.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use reweave_proto::name::{ClusterName, MemberName};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, TrustAnchor, UnixTime};
use rustls::sign::CertifiedKey;

use crate::pki::{self, PkiError, files};
use crate::return_key::ReturnKey;
use crate::verify::{self, Refusal};

/// Cheap to clone.
#[derive(Clone)]
pub struct Identity {
    member: MemberName,
    certified: Arc<CertifiedKey>,
    authority: Arc<TrustAnchor<'static>>,
    provider: Arc<CryptoProvider>,
    return_key: ReturnKey,
}

impl Identity {
    /// Reads what [`Authority::issue`](pki::Authority::issue) wrote. Whether the certificate is
    /// good at this time is not asked here, see [`Identity::problem`].
    pub fn load(dir: &Path) -> Result<Self, PkiError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let certificate_path = dir.join(pki::MEMBER_CERTIFICATE);
        let certificate = pki::certificate_in(&certificate_path, &files::read(&certificate_path)?)?;
        let key = private_key(&dir.join(pki::MEMBER_KEY))?;
        Ok(Self {
            member: member_of(&certificate_path, &certificate)?,
            authority: Arc::new(authority_in(&dir.join(pki::AUTHORITY_CERTIFICATE))?),
            return_key: ReturnKey::derive(key.secret_der()),
            certified: Arc::new(certified(dir, &provider, certificate, key)?),
            provider,
        })
    }

    pub fn member(&self) -> &MemberName {
        &self.member
    }

    pub fn cluster(&self) -> &ClusterName {
        self.member.cluster()
    }

    /// Why nobody will accept this certificate at `now`, if so: for a program to say at its start.
    pub fn problem(&self, now: SystemTime) -> Option<Refusal> {
        let since_epoch = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(since_epoch);
        verify::chain(&self.authority, &self.certified.cert[0], &[], now).err()
    }

    pub(crate) fn authority(&self) -> &Arc<TrustAnchor<'static>> {
        &self.authority
    }

    pub(crate) fn certified(&self) -> &Arc<CertifiedKey> {
        &self.certified
    }

    /// The same believer with another certificate, whatever that says.
    #[cfg(test)]
    pub(crate) fn showing(mut self, dir: &Path) -> Self {
        let path = dir.join(pki::MEMBER_CERTIFICATE);
        let certificate = pki::certificate_in(&path, &files::read(&path).unwrap()).unwrap();
        let key = private_key(&dir.join(pki::MEMBER_KEY)).unwrap();
        self.certified = Arc::new(certified(dir, &self.provider, certificate, key).unwrap());
        self
    }

    pub(crate) fn return_key(&self) -> ReturnKey {
        self.return_key
    }

    pub(crate) fn provider(&self) -> &Arc<CryptoProvider> {
        &self.provider
    }
}

fn member_of(path: &Path, certificate: &CertificateDer<'_>) -> Result<MemberName, PkiError> {
    let uri =
        pki::sole_uri(certificate).map_err(|source| PkiError::not_a_certificate(path, source))?;
    uri.parse().map_err(|source| PkiError::CertificateName {
        path: path.to_owned(),
        source,
    })
}

fn authority_in(path: &Path) -> Result<TrustAnchor<'static>, PkiError> {
    let certificate = pki::certificate_in(path, &files::read(path)?)?;
    let anchor = webpki::anchor_from_trusted_cert(&certificate);
    let anchor = anchor.map_err(|source| PkiError::not_a_certificate(path, source))?;
    Ok(anchor.to_owned())
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, PkiError> {
    let pem = files::read_private(path)?;
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|source| PkiError::NotPem {
        path: path.to_owned(),
        what: "key",
        source,
    })
}

fn certified(
    dir: &Path,
    provider: &CryptoProvider,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> Result<CertifiedKey, PkiError> {
    let path = dir.join(pki::MEMBER_KEY);
    let key = provider.key_provider.load_private_key(key);
    let key = key.map_err(|source| PkiError::MemberKey {
        path: path.clone(),
        source,
    })?;
    let certified = CertifiedKey::new(vec![certificate], key);
    match certified.keys_match() {
        Ok(()) => Ok(certified),
        Err(source) => Err(PkiError::Mismatch {
            key: path,
            certificate: dir.join(pki::MEMBER_CERTIFICATE),
            source,
        }),
    }
}
