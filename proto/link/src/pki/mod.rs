//! The certificates of a cluster, and who may issue them.
//!
//! A cluster has one authority. Its key is needed to create the cluster and its coordinators, and may be kept offline
//! after that. Each coordinator has a *signer*: a certificate of the authority that allows it to sign members, for a
//! day at a time. So nodes join and renew without the authority's key on any running machine. A compromised
//! coordinator is revoked with everything that it ever signed, while the cluster keeps its authority.
//!
//! A member's certificate serves as client and as server; the role in its URI alone decides its use. Its serial number
//! contains the time of its admission.

use std::path::Path;
use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

mod authority;
mod error;
mod facts;
pub(crate) mod files;
mod params;
mod request;

pub use authority::Authority;
pub use error::PkiError;
pub(crate) use facts::{Facts, facts};
pub use request::KeyRequest;
pub(crate) use request::{key_digest, settle};

/// The authority's certificate, which every member has.
pub const AUTHORITY_CERTIFICATE_FILE: &str = "ca.pem";
/// The authority's key, which never leaves its folder.
pub const AUTHORITY_KEY_FILE: &str = "ca.key";
/// The certificate with which a coordinator signs members.
pub const SIGNER_CERTIFICATE_FILE: &str = "signer.pem";
pub const SIGNER_KEY_FILE: &str = "signer.key";
pub const MEMBER_CERTIFICATE_FILE: &str = "node.pem";
pub const MEMBER_KEY_FILE: &str = "node.key";
/// A key whose certificate may not be there yet.
pub(crate) const NEXT_KEY_FILE: &str = "node.key.next";

/// Whether a group shares the key in this member's folder. No program renews such a key: the group could not read the
/// new one.
pub fn is_shared(folder: &Path) -> bool {
    files::is_shared(&folder.join(MEMBER_KEY_FILE))
}

/// The longest validity that a signer may give a member.
pub const MAX_MEMBER_VALIDITY: Duration = Duration::from_hours(24);
const MAX_VALIDITY: Duration = Duration::from_hours(24 * 3653);
/// Certificates are valid from an hour ago: a clock may be wrong by that much after a missed change of the time zone,
/// and a certificate is used at once.
const BACKDATING: Duration = Duration::from_mins(65);

/// The validity period of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub not_before: SystemTime,
    pub not_after: SystemTime,
}

impl Validity {
    /// Whether to renew it: it expires soon, or is not valid yet, as after a fast clock was corrected.
    pub fn is_due(&self, now: SystemTime) -> bool {
        now < self.not_before || self.renewal() <= now
    }

    pub fn lasting(length: Duration) -> Result<Self, PkiError> {
        if length.is_zero() {
            return Err(PkiError::NoTime);
        }
        let now = SystemTime::now();
        (length <= MAX_VALIDITY)
            .then(|| Self {
                not_before: now - BACKDATING,
                not_after: now + length,
            })
            .ok_or(PkiError::TooLong {
                asked: length,
                longest: MAX_VALIDITY,
            })
    }

    /// The validity for a member that will renew it in time.
    pub fn day() -> Self {
        Self::lasting(MAX_MEMBER_VALIDITY).expect("a day is shorter than the longest validity")
    }

    /// Whether a signer may have given it.
    pub(crate) fn is_short(&self) -> bool {
        let length = self.not_after.duration_since(self.not_before);
        length.is_ok_and(|length| length <= MAX_MEMBER_VALIDITY + 2 * BACKDATING)
    }

    /// When to request the next one: with a third of its life left, there is time for many retries.
    pub fn renewal(&self) -> SystemTime {
        let life = self.not_after.duration_since(self.not_before);
        self.not_before + life.unwrap_or_default() * 2 / 3
    }
}

pub(crate) fn certificate_in(path: &Path, pem: &str) -> Result<CertificateDer<'static>, PkiError> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|source| PkiError::NotPem {
        path: path.to_owned(),
        what: "certificate",
        source,
    })
}

/// A certificate, and its signer's if the authority did not sign it itself.
pub(crate) fn chain_in(path: &Path, pem: &str) -> Result<Vec<CertificateDer<'static>>, PkiError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        _ => certificate_in(path, pem).map(|certificate| vec![certificate]),
    }
}

/// The only URI of a certificate; empty, which is no member's name, if there is none or several.
pub(crate) fn sole_uri(certificate: &CertificateDer<'_>) -> Result<String, webpki::Error> {
    let parsed = webpki::EndEntityCert::try_from(certificate)?;
    let mut uris = parsed.valid_uri_names();
    let sole = uris.next().filter(|_| uris.next().is_none());
    Ok(sole.unwrap_or_default().to_owned())
}
