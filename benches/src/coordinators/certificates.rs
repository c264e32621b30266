//! Certificates of the members of etcd and of its client: one for all of them.

use std::net::IpAddr;

use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType,
};
use reweave_tests::Stage;

use crate::system::address;

/// Files of the authority, the certificate and its key.
pub(crate) const CERTIFICATE_FILES: [&str; 3] = ["etcd-ca.pem", "etcd.pem", "etcd.key"];

pub(crate) fn make(stage: &Stage) {
    let (authority, key) = (KeyPair::generate(), KeyPair::generate());
    let (authority, key) = (authority.expect("a key"), key.expect("a key"));
    let mut root = CertificateParams::default();
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root_pem = root.self_signed(&authority).expect("sound").pem();
    let mut params = CertificateParams::default();
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ClientAuth,
        ExtendedKeyUsagePurpose::ServerAuth,
    ];
    let addresses = (0..3).map(|place| address(place).parse::<IpAddr>().expect("an address"));
    params.subject_alt_names = addresses.map(SanType::IpAddress).collect();
    let issuer = Issuer::new(root, authority);
    let certificate = params.signed_by(&key, &issuer).expect("sound").pem();
    let contents = [root_pem, certificate, key.serialize_pem()];
    for (name, content) in CERTIFICATE_FILES.into_iter().zip(contents) {
        stage.write(name, &content).expect("there is room");
    }
}
