//! Certificates of strangers, and who they say they are; what is said at the door of a cluster.

#![no_main]

use std::fs;
use std::sync::LazyLock;
use std::time::SystemTime;

use reweave_link::pki::{Authority, MEMBER_CERTIFICATE_FILE, Validity};
use reweave_link::{Identity, Role, decoders};
use reweave_proto::name::{ClusterName, MemberName};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tempfile::TempDir;

struct Cluster {
    identity: Identity,
    certificate: Vec<u8>,
    _folder: TempDir,
}

static CLUSTER: LazyLock<Cluster> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::create(&folder.path().join("ca"), "fuzz").expect("an authority");
    let own = folder.path().join("c0");
    let issued = authority.issue(Role::Agent, "h0", Validity::day(), &own);
    issued.expect("a certificate");
    let pem = fs::read(own.join(MEMBER_CERTIFICATE_FILE)).expect("it is there");
    Cluster {
        identity: Identity::load(&own).expect("it can be read"),
        certificate: CertificateDer::from_pem_slice(&pem)
            .expect("it is one")
            .to_vec(),
        _folder: folder,
    }
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let near = damaged(bytes);
    for certificate in [bytes, &near] {
        let judged =
            decoders::certificates(&CLUSTER.identity, [certificate, &near], SystemTime::now());
        assert_eq!(
            judged.is_ok(),
            certificate == CLUSTER.certificate,
            "{judged:?}"
        );
    }
    decoders::joining(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = (
            ClusterName::from_uri(text),
            MemberName::from_signer_uri(text),
        );
        if let Ok(member) = text.parse::<MemberName>() {
            assert_eq!(member.to_string().parse(), Ok(member));
        }
    }
});

/// A good certificate, but for these bytes at the place that the first two name.
fn damaged(bytes: &[u8]) -> Vec<u8> {
    let mut certificate = CLUSTER.certificate.clone();
    if let Some((place, bytes)) = bytes.split_first_chunk() {
        let place = usize::from(u16::from_be_bytes(*place)) % certificate.len();
        let places = certificate[place..].iter_mut();
        places.zip(bytes).for_each(|(place, byte)| *place = *byte);
    }
    certificate
}
