//! Errors of certificates and keys. Each error names its file.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reweave_proto::name::NameError;
use rustls::pki_types::pem;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum PkiError {
    #[error("a certificate cannot be made for this name")]
    Name(#[source] NameError),
    #[error(
        "{} days are too long for a certificate; the longest is {}", days(.asked), days(.longest)
    )]
    TooLong { asked: Duration, longest: Duration },
    #[error("a certificate that is good for no time is good for nothing; give it a day at least")]
    NoTime,
    #[error("{} exists already: a cluster has one authority; name another directory", path.display())]
    Exists { path: PathBuf },
    #[error("cannot make the directory {}", path.display())]
    MakeDir { path: PathBuf, source: io::Error },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error(
        "others than its owner may read {} (mode {mode:04o}): a key is secret; run chmod 600 on \
         it, and issue a new one if it may have leaked", path.display()
    )]
    TooOpen { path: PathBuf, mode: u32 },
    #[error("{} holds no {what} in PEM", path.display())]
    NotPem {
        path: PathBuf,
        what: &'static str,
        source: pem::Error,
    },
    #[error("{} holds no usable certificate", path.display())]
    NotACertificate {
        path: PathBuf,
        source: webpki::Error,
    },
    #[error("the certificate in {} is not made for a cluster of Reweave", path.display())]
    CertificateName { path: PathBuf, source: NameError },
    #[error("the key of the authority in {} cannot be used", path.display())]
    AuthorityKey { path: PathBuf, source: rcgen::Error },
    #[error("the key in {} cannot be used", path.display())]
    MemberKey {
        path: PathBuf,
        source: rustls::Error,
    },
    #[error("a key that was just made cannot be used")]
    FreshKey(#[source] rustls::Error),
    #[error(
        "{} is not the key of the certificate in {}; issue new ones", key.display(),
        certificate.display()
    )]
    Mismatch {
        key: PathBuf,
        certificate: PathBuf,
        source: rustls::Error,
    },
    #[error(
        "{} is not the key of the authority in {}", key.display(), certificate.display()
    )]
    AuthorityMismatch { key: PathBuf, certificate: PathBuf },
    #[error(
        "a coordinator's signer makes no signers: use the folder with the authority's key, {}",
        super::AUTHORITY_KEY_FILE
    )]
    SignerOfSigner,
    #[error("what a coordinator's signer signs is good for a day at most")]
    TooLongForSigner,
    #[error("not a certificate request")]
    BadRequest(#[source] rcgen::Error),
    #[error("cannot make a key")]
    Generate(#[source] rcgen::Error),
    #[error("cannot sign the certificate")]
    Sign(#[source] rcgen::Error),
}

impl PkiError {
    pub(crate) fn not_a_certificate(path: &Path, source: webpki::Error) -> Self {
        Self::NotACertificate {
            path: path.to_owned(),
            source,
        }
    }
}

fn days(length: &Duration) -> u64 {
    length.as_secs() / 86_400
}
