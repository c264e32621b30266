//! The permitted use of each kind of certificate.

use std::net::IpAddr;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose,
    SanType, SerialNumber,
};
use reweave_common::member::Admission;
use reweave_proto::name::{ClusterName, MemberName};

use super::{MAX_VALIDITY, PkiError, Validity, facts};

/// The name of the local machine.
const LOOPBACK_NAME: &str = "localhost";

/// The authority's parameters, which depend only on the cluster: its name and usages are rebuilt from this when it is
/// loaded.
pub(super) fn authority(cluster: &ClusterName) -> Result<CertificateParams, PkiError> {
    let mut params = named(&[&cluster.uri()], &format!("Reweave cluster {cluster}"))?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params, Validity::lasting(MAX_VALIDITY)?);
    Ok(params)
}

/// A coordinator's signer, which may sign members but no further signers.
pub(super) fn signer(
    coordinator: &MemberName,
    validity: Validity,
) -> Result<CertificateParams, PkiError> {
    let common_name = format!("Reweave signer {}", coordinator.name());
    let mut params = named(&[&coordinator.signer_uri()], &common_name)?;
    params.use_authority_key_identifier_extension = true;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    set_validity(&mut params, validity);
    Ok(params)
}

/// The names under which browsers connect to a coordinator.
pub(super) fn server(
    coordinator: &MemberName,
    address: IpAddr,
    admission: Admission,
) -> Result<CertificateParams, PkiError> {
    let (uri, name) = (coordinator.to_string(), coordinator.name());
    let mut params = member(&[&uri], name, Validity::day(), admission)?;
    answer_to(&mut params, name)?;
    if address.is_loopback() && name != LOOPBACK_NAME {
        answer_to(&mut params, LOOPBACK_NAME)?;
    }
    params.subject_alt_names.push(SanType::IpAddress(address));
    Ok(params)
}

fn answer_to(params: &mut CertificateParams, host: &str) -> Result<(), PkiError> {
    let host = host.try_into().map_err(PkiError::Sign)?;
    params.subject_alt_names.push(SanType::DnsName(host));
    Ok(())
}

pub(super) fn member(
    uris: &[&str],
    common_name: &str,
    validity: Validity,
    admission: Admission,
) -> Result<CertificateParams, PkiError> {
    let mut params = named(uris, common_name)?;
    params.serial_number = Some(SerialNumber::from(facts::serial(admission)));
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ClientAuth,
        ExtendedKeyUsagePurpose::ServerAuth,
    ];
    set_validity(&mut params, validity);
    Ok(params)
}

fn named(uris: &[&str], common_name: &str) -> Result<CertificateParams, PkiError> {
    let mut params = CertificateParams::default();
    for &uri in uris {
        let uri = uri.try_into().map_err(PkiError::Sign)?;
        params.subject_alt_names.push(SanType::URI(uri));
    }
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    Ok(params)
}

fn set_validity(params: &mut CertificateParams, validity: Validity) {
    params.not_before = validity.not_before.into();
    params.not_after = validity.not_after.into();
}
