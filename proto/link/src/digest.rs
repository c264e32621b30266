//! Digests of secrets, keys and certificates.

use reweave_common::member::Digest;
use ring::digest::{SHA256, digest};

pub(crate) fn sha256(bytes: &[u8]) -> Digest {
    let digest = digest(&SHA256, bytes);
    Digest(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
}
