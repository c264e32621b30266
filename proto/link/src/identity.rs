//! The identity of this process: its certificate, its key, and its authority.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use reweave_common::member::{Admission, DenyList, Digest};
use reweave_files::LocalFiles;
use reweave_proto::name::{ClusterName, MemberName};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, TrustAnchor, UnixTime};
use rustls::sign::CertifiedKey;

use crate::digest::sha256;
use crate::pki::{self, PkiError, Validity, files};
use crate::return_key::ReturnKey;
use crate::shared_deny_list::SharedDenyList;
use crate::verify::{self, PeerRefusal};

/// A new certificate and its key are not replaced at the same moment.
const MAX_READ_RETRIES: usize = 3;

/// Cheap to clone.
#[derive(Clone)]
pub struct Identity {
    member: MemberName,
    certified: Arc<CertifiedKey>,
    admission: Admission,
    validity: Validity,
    authority: Arc<TrustAnchor<'static>>,
    authority_der: CertificateDer<'static>,
    authority_pem: Arc<str>,
    denied: SharedDenyList,
    provider: Arc<CryptoProvider>,
    return_key: ReturnKey,
}

impl Identity {
    /// Loads what [`Authority::issue`](pki::Authority::issue) or [`KeyRequest::install`](pki::KeyRequest::install)
    /// wrote, without checking the validity period: see [`Identity::problem`].
    pub fn load(dir: &Path) -> Result<Self, PkiError> {
        Self::read(dir, &SharedDenyList::default())
    }

    /// Loads the folder again, with the same deny lists.
    pub fn reload(&self, dir: &Path) -> Result<Self, PkiError> {
        Self::read(dir, &self.denied)
    }

    /// Reads key and certificate. Another process may replace them meanwhile: a key that does not match is wrong only
    /// if the certificate is still the same.
    fn read(dir: &Path, denied: &SharedDenyList) -> Result<Self, PkiError> {
        let path = dir.join(pki::MEMBER_CERTIFICATE_FILE);
        let mut again = 0..MAX_READ_RETRIES;
        loop {
            let chain = files::read(&path)?;
            match Self::read_with(dir, &chain, denied.clone()) {
                Err(PkiError::Mismatch { .. }) if files::read(&path)? != chain => {}
                Err(PkiError::Mismatch { .. }) if again.next().is_some() => {}
                read => return read,
            }
        }
    }

    fn read_with(dir: &Path, chain_pem: &str, denied: SharedDenyList) -> Result<Self, PkiError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let path = dir.join(pki::MEMBER_CERTIFICATE_FILE);
        let chain = pki::chain_in(&path, chain_pem)?;
        let member = member_of(&path, &chain[0])?;
        let facts = pki::facts(&chain[0])
            .ok_or_else(|| PkiError::not_a_certificate(&path, webpki::Error::BadDer))?;
        let authority_path = dir.join(pki::AUTHORITY_CERTIFICATE_FILE);
        let authority_pem = files::read(&authority_path)?;
        let authority_der = pki::certificate_in(&authority_path, &authority_pem)?;
        let (key, return_key) = certified(dir, &provider, &chain)?;
        // A signer outlasts many keys, so sessions' resets use its key.
        let lasting = files::read_private(&dir.join(pki::SIGNER_KEY_FILE)).ok();
        let lasting = lasting.map(|key| ReturnKey::derive(key.as_bytes()));
        Ok(Self {
            member,
            admission: facts.admission,
            validity: facts.validity,
            authority: Arc::new(anchor(dir, &authority_der)?),
            authority_der,
            authority_pem: authority_pem.into(),
            return_key: lasting.unwrap_or(return_key),
            certified: Arc::new(key),
            denied,
            provider,
        })
    }

    pub fn member(&self) -> &MemberName {
        &self.member
    }

    pub fn cluster(&self) -> &ClusterName {
        self.member.cluster()
    }

    /// Why peers would refuse this certificate at `now`, for a program to report at its start.
    pub fn problem(&self, now: SystemTime) -> Option<PeerRefusal> {
        let since_epoch = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(since_epoch);
        let chain = &self.certified.cert;
        verify::chain(&self.authority, &chain[0], &chain[1..], now).err()
    }

    pub fn admission(&self) -> Admission {
        self.admission
    }

    /// The validity period of this certificate.
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// Denies these members from now on, and ends their sessions. All clones share the list.
    pub fn deny(&self, list: DenyList) {
        self.denied.set(list);
    }

    pub(crate) fn denied(&self) -> &SharedDenyList {
        &self.denied
    }

    pub(crate) fn authority_pem(&self) -> &str {
        &self.authority_pem
    }

    /// The authority's certificate, by which joining peers recognize the cluster.
    pub(crate) fn authority_der(&self) -> &CertificateDer<'static> {
        &self.authority_der
    }

    /// The digest that distinguishes its cluster from others, whatever their names.
    pub fn authority_digest(&self) -> Digest {
        sha256(&self.authority_der)
    }

    pub(crate) fn authority(&self) -> &Arc<TrustAnchor<'static>> {
        &self.authority
    }

    pub(crate) fn certified(&self) -> &Arc<CertifiedKey> {
        &self.certified
    }

    /// Returns the same trust with another certificate, of any content.
    #[cfg(test)]
    pub(crate) fn showing(mut self, dir: &Path) -> Self {
        let path = dir.join(pki::MEMBER_CERTIFICATE_FILE);
        let chain = pki::chain_in(&path, &files::read(&path).unwrap()).unwrap();
        self.certified = Arc::new(certified(dir, &self.provider, &chain).unwrap().0);
        self
    }

    pub(crate) fn return_key(&self) -> ReturnKey {
        self.return_key
    }

    pub(crate) fn provider(&self) -> &Arc<CryptoProvider> {
        &self.provider
    }
}

/// Prints no key.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("member", &self.member)
            .field("admission", &self.admission)
            .finish_non_exhaustive()
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

fn anchor(dir: &Path, authority: &CertificateDer<'_>) -> Result<TrustAnchor<'static>, PkiError> {
    let anchor = webpki::anchor_from_trusted_cert(authority);
    let path = dir.join(pki::AUTHORITY_CERTIFICATE_FILE);
    let anchor = anchor.map_err(|source| PkiError::not_a_certificate(&path, source))?;
    Ok(anchor.to_owned())
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, PkiError> {
    let pem = files::read_member_key(path)?;
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|source| PkiError::NotPem {
        path: path.to_owned(),
        what: "key",
        source,
    })
}

/// The certificate with its key. An interrupted renewal is completed first.
fn certified(
    dir: &Path,
    provider: &CryptoProvider,
    chain: &[CertificateDer<'static>],
) -> Result<(CertifiedKey, ReturnKey), PkiError> {
    let key = dir.join(pki::MEMBER_KEY_FILE);
    let next = dir.join(pki::NEXT_KEY_FILE);
    let held = matching(&key, dir, provider, chain);
    if held.is_ok() || !next.exists() {
        return held;
    }
    // A running renewal ends before the lock is granted, so an incomplete one was interrupted.
    let _alone = files::lock(dir)?;
    let held = matching(&key, dir, provider, chain);
    if held.is_ok() || !next.exists() {
        return held;
    }
    let renewed = matching(&next, dir, provider, chain);
    if renewed.is_ok() {
        pki::settle(&LocalFiles, dir)?;
    }
    renewed.or(held)
}

fn matching(
    path: &Path,
    dir: &Path,
    provider: &CryptoProvider,
    chain: &[CertificateDer<'static>],
) -> Result<(CertifiedKey, ReturnKey), PkiError> {
    let key = private_key(path)?;
    let return_key = ReturnKey::derive(key.secret_der());
    let key = provider.key_provider.load_private_key(key);
    let key = key.map_err(|source| PkiError::MemberKey {
        path: path.to_owned(),
        source,
    })?;
    let certified = CertifiedKey::new(chain.to_vec(), key);
    match certified.keys_match() {
        Ok(()) => Ok((certified, return_key)),
        Err(source) => Err(PkiError::Mismatch {
            key: path.to_owned(),
            certificate: dir.join(pki::MEMBER_CERTIFICATE_FILE),
            source,
        }),
    }
}
