//! A new key and its certificate request. The key never leaves its folder.

use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, KeyPair, PublicKeyData};
use reweave_common::member::Digest;

use crate::digest::sha256;

use super::{
    AUTHORITY_CERTIFICATE_FILE, MEMBER_CERTIFICATE_FILE, MEMBER_KEY_FILE, NEXT_KEY_FILE, PkiError,
    files,
};

pub struct KeyRequest {
    dir: PathBuf,
    key: KeyPair,
    request: Vec<u8>,
}

impl KeyRequest {
    /// A new key for the member of this folder. Nothing is written yet.
    pub fn new(dir: &Path) -> Result<Self, PkiError> {
        let key = KeyPair::generate().map_err(PkiError::Generate)?;
        let request = CertificateParams::default().serialize_request(&key);
        let request = request.map_err(PkiError::Sign)?;
        Ok(Self {
            dir: dir.to_owned(),
            request: request.der().to_vec(),
            key,
        })
    }

    /// The request to be signed. It proves possession of the key, and contains nothing about the member.
    pub fn der(&self) -> &[u8] {
        &self.request
    }

    /// Replaces key and certificate. If this is interrupted, the folder holds either the old pair or the new one: see
    /// [`settle`].
    pub fn install(&self, chain_pem: &str) -> Result<(), PkiError> {
        let next = self.dir.join(NEXT_KEY_FILE);
        files::make_private_dir(&self.dir)?;
        let _alone = files::lock(&self.dir)?;
        files::replace(&next, &self.key.serialize_pem(), files::PRIVATE_MODE)?;
        let certificate = self.dir.join(MEMBER_CERTIFICATE_FILE);
        files::replace(&certificate, chain_pem, files::PUBLIC_MODE)?;
        settle(&self.dir)
    }

    /// The same, with the authority for a folder that has none yet.
    pub(crate) fn install_with(&self, root_pem: &str, chain_pem: &str) -> Result<(), PkiError> {
        files::make_private_dir(&self.dir)?;
        let authority = self.dir.join(AUTHORITY_CERTIFICATE_FILE);
        files::replace(&authority, root_pem, files::PUBLIC_MODE)?;
        self.install(chain_pem)
    }
}

/// Completes a replacement after the certificate was written. The caller holds the folder's lock.
pub(crate) fn settle(dir: &Path) -> Result<(), PkiError> {
    files::rename(&dir.join(NEXT_KEY_FILE), &dir.join(MEMBER_KEY_FILE))
}

/// Distinguishes keys. None if it is no request, or the requester does not have the key.
pub(crate) fn key_digest(request: &[u8]) -> Option<Digest> {
    let parsed = rcgen::CertificateSigningRequestParams::from_der(&request.into()).ok()?;
    Some(sha256(&parsed.public_key.subject_public_key_info()))
}
