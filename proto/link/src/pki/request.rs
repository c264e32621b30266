//! A new key and its certificate request. The key never leaves its folder.

use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, KeyPair, PublicKeyData};
use reweave_common::member::Digest;
use reweave_files::{FileSystem, LocalFiles};

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

    /// Replaces key and certificate: see [`replace_pair`].
    pub fn install(&self, chain_pem: &str) -> Result<(), PkiError> {
        files::make_private_dir(&self.dir)?;
        let _alone = files::lock(&self.dir)?;
        self.replace_pair(chain_pem)
    }

    /// Replaces the certificate of the authority, then key and certificate.
    pub(crate) fn install_with(&self, root_pem: &str, chain_pem: &str) -> Result<(), PkiError> {
        files::make_private_dir(&self.dir)?;
        let _alone = files::lock(&self.dir)?;
        let authority = self.dir.join(AUTHORITY_CERTIFICATE_FILE);
        files::replace(&LocalFiles, &authority, root_pem, files::PUBLIC_MODE)?;
        self.replace_pair(chain_pem)
    }

    fn replace_pair(&self, chain_pem: &str) -> Result<(), PkiError> {
        replace_pair(&LocalFiles, &self.dir, &self.key.serialize_pem(), chain_pem)
    }
}

/// Replaces the key and the certificate of a member. If this is interrupted, the folder holds either the old pair or the new
/// one: see [`settle`]. The caller holds the folder's lock.
pub(super) fn replace_pair<F: FileSystem>(
    files: &F,
    dir: &Path,
    key_pem: &str,
    chain_pem: &str,
) -> Result<(), PkiError> {
    let next = dir.join(NEXT_KEY_FILE);
    files::replace(files, &next, key_pem, files::PRIVATE_MODE)?;
    let certificate = dir.join(MEMBER_CERTIFICATE_FILE);
    files::replace(files, &certificate, chain_pem, files::PUBLIC_MODE)?;
    settle(files, dir)
}

/// Completes a replacement after the certificate was written. The caller holds the folder's lock.
pub(crate) fn settle<F: FileSystem>(files: &F, dir: &Path) -> Result<(), PkiError> {
    files::rename(files, &dir.join(NEXT_KEY_FILE), &dir.join(MEMBER_KEY_FILE))
}

/// Distinguishes keys. None if it is no request, or the requester does not have the key.
pub(crate) fn key_digest(request: &[u8]) -> Option<Digest> {
    let parsed = rcgen::CertificateSigningRequestParams::from_der(&request.into()).ok()?;
    Some(sha256(&parsed.public_key.subject_public_key_info()))
}

#[cfg(test)]
mod tests {
    use reweave_sim_disk::{LossyFiles, ROOT};

    use super::*;

    const BEFORE: [&str; 2] = ["the key before", "the chain before"];
    const AFTER: [&str; 2] = ["the key after it", "the chain after it"];

    fn replaced(files: &LossyFiles, [key, chain]: [&str; 2]) -> Result<(), PkiError> {
        replace_pair(files, Path::new(ROOT), key, chain)
    }

    fn read(files: &LossyFiles, name: &str) -> Option<String> {
        let content = files.read(&Path::new(ROOT).join(name)).ok()?;
        Some(String::from_utf8(content).unwrap())
    }

    /// Whether the folder holds this pair: a start takes the next key if it belongs to the certificate.
    fn has_pair(files: &LossyFiles, [key, chain]: [&str; 2]) -> bool {
        let mut keys = [MEMBER_KEY_FILE, NEXT_KEY_FILE].into_iter();
        let has_chain = read(files, MEMBER_CERTIFICATE_FILE).as_deref() == Some(chain);
        has_chain && keys.any(|name| read(files, name).as_deref() == Some(key))
    }

    /// Power is lost at each operation, with each part of the unsynced data.
    #[test]
    fn key_pair_survives_power_loss() {
        for operation in 1.. {
            let mut always_replaced = true;
            for kept_bytes in 0..=AFTER[1].len() {
                let files = LossyFiles::exact();
                replaced(&files, BEFORE).unwrap();
                files.die_at(operation);
                let outcome = replaced(&files, AFTER);
                always_replaced &= outcome.is_ok();
                files.lose_power_but(kept_bytes);
                let of_operation = format!("operation {operation}, {kept_bytes} bytes");
                if outcome.is_ok() {
                    let key = read(&files, MEMBER_KEY_FILE);
                    assert_eq!(key.as_deref(), Some(AFTER[0]), "{of_operation}");
                }
                let is_old = outcome.is_err() && has_pair(&files, BEFORE);
                assert!(is_old || has_pair(&files, AFTER), "{of_operation}");
                replaced(&files, BEFORE).unwrap();
            }
            if always_replaced {
                assert!(operation > 12, "{operation} operations are too few");
                return;
            }
        }
    }
}
