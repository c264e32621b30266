//! All decoders of this crate for input from unauthenticated peers, for the fuzzers. Nothing else needs this module.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use reweave_proto::name::Role;
use rustls::pki_types::{CertificateDer, UnixTime};

use crate::identity::Identity;
use crate::verify::{Credentials, PeerRefusal, PeerVerifier};
use crate::{deny_list_file, join};

/// Decodes a peer's certificate, and that of its signer.
pub fn certificates(
    ours: &Identity,
    chain: [&[u8]; 2],
    now: SystemTime,
) -> Result<Credentials, PeerRefusal> {
    let now = UnixTime::since_unix_epoch(now.duration_since(UNIX_EPOCH).unwrap_or_default());
    let judge = PeerVerifier::new(ours, &[Role::Agent], Arc::default());
    let [certificate, signer] = chain.map(CertificateDer::from_slice);
    // Fields are also read without a valid signature.
    let _ = judge.credentials(&certificate, Some(&signer));
    judge.examine(&certificate, std::slice::from_ref(&signer), now)
}

/// The messages of the join listener.
pub fn joining(frame: &[u8]) {
    join::read(frame);
}

/// Decodes the stored deny lists of a member and of an operator's commands.
pub fn deny_lists(bytes: &[u8]) {
    if let Ok(Ok(record)) = deny_list_file::decode(bytes) {
        let again = deny_list_file::decode(deny_list_file::encode(&record).as_bytes());
        assert_eq!(again.expect("it is read"), Ok(record));
    }
}
