//! The certificates of a cluster, and who may issue them.
//!
//! A cluster has one authority, whose key is needed to make a cluster and its coordinators, and may lie in a safe
//! after that. Each coordinator has a *signer*: a certificate of the authority that allows it to sign members, for a
//! day at a time. So nodes join and renew without the authority's key being on any running machine. A compromised
//! coordinator is revoked with all that it ever signed, while the cluster keeps its authority.
//!
//! A member's certificate serves both ends of TLS; the role in its URI alone decides its use. Its serial number has
//! the time of its admission.

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

/// The certificate of the authority, which every member holds.
pub const AUTHORITY_CERTIFICATE_FILE: &str = "ca.pem";
/// The key of the authority, which leaves its directory never.
pub const AUTHORITY_KEY_FILE: &str = "ca.key";
/// What a coordinator signs members with.
pub const SIGNER_CERTIFICATE_FILE: &str = "signer.pem";
pub const SIGNER_KEY_FILE: &str = "signer.key";
pub const MEMBER_CERTIFICATE_FILE: &str = "node.pem";
pub const MEMBER_KEY_FILE: &str = "node.key";
/// A key whose certificate may not be there yet.
pub(crate) const NEXT_KEY_FILE: &str = "node.key.next";

/// Whether a group shares the key in this folder of a member. No program renews such a key: the members of the
/// group could not read the next one.
pub fn is_shared(folder: &Path) -> bool {
    files::is_shared(&folder.join(MEMBER_KEY_FILE))
}

/// As long as a signer may let a member be good.
pub const MAX_MEMBER_VALIDITY: Duration = Duration::from_hours(24);
const MAX_VALIDITY: Duration = Duration::from_hours(24 * 3653);
/// Clocks are wrong by an hour where a change of the time zone was missed, and a certificate is used
/// at once.
const BACKDATING: Duration = Duration::from_mins(65);

/// The validity period of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub not_before: SystemTime,
    pub not_after: SystemTime,
}

impl Validity {
    /// Whether another should take its place: its time is nearly over, or has not come, as after a clock
    /// that was ahead was set right.
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

    /// What a member gets that will come back for the next one in time.
    pub fn day() -> Self {
        Self::lasting(MAX_MEMBER_VALIDITY).expect("a day is shorter than the longest validity")
    }

    /// Whether a signer may have given it.
    pub(crate) fn is_short(&self) -> bool {
        let length = self.not_after.duration_since(self.not_before);
        length.is_ok_and(|length| length <= MAX_MEMBER_VALIDITY + 2 * BACKDATING)
    }

    /// When to ask for the next one: with a third of its life left, it can be asked for often.
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

/// A certificate, and that of its signer where the authority did not sign it itself.
pub(crate) fn chain_in(path: &Path, pem: &str) -> Result<Vec<CertificateDer<'static>>, PkiError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        _ => certificate_in(path, pem).map(|certificate| vec![certificate]),
    }
}

/// The one URI of a certificate; empty, which is no member's name, when there is none or several.
pub(crate) fn sole_uri(certificate: &CertificateDer<'_>) -> Result<String, webpki::Error> {
    let parsed = webpki::EndEntityCert::try_from(certificate)?;
    let mut uris = parsed.valid_uri_names();
    let sole = uris.next().filter(|_| uris.next().is_none());
    Ok(sole.unwrap_or_default().to_owned())
}
