//! The certificates of a cluster: one authority that signs, and one certificate for each member.
//!
//! A member's certificate serves both ends of TLS; what it may be used for follows from the role in
//! its URI alone.

use std::path::Path;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType,
};
use reweave_proto::name::{ClusterName, MemberName, Role};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

mod error;
pub(crate) mod files;

pub use error::PkiError;

/// The certificate of the authority, which every member holds.
pub const AUTHORITY_CERTIFICATE: &str = "ca.pem";
/// The key of the authority, which signs members and leaves its directory never.
pub const AUTHORITY_KEY: &str = "ca.key";
pub const MEMBER_CERTIFICATE: &str = "node.pem";
pub const MEMBER_KEY: &str = "node.key";

const DAY: Duration = Duration::from_hours(24);
const LONGEST: Duration = Duration::from_hours(24 * 3653);
/// Clocks differ by so much, and a certificate is used at once.
const BACKDATED: Duration = Duration::from_mins(5);

/// When a certificate is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub not_before: SystemTime,
    pub not_after: SystemTime,
}

impl Validity {
    pub fn lasting(length: Duration) -> Result<Self, PkiError> {
        let now = SystemTime::now();
        (length <= LONGEST)
            .then(|| Self {
                not_before: now - BACKDATED,
                not_after: now + length,
            })
            .ok_or(PkiError::TooLong {
                asked: length,
                longest: LONGEST,
            })
    }

    /// What a member gets that will come back for the next one in time.
    pub fn day() -> Self {
        Self::lasting(DAY).expect("a day is shorter than the longest validity")
    }
}

/// Whoever holds this decides who belongs to the cluster.
pub struct Authority {
    cluster: ClusterName,
    certificate_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Makes a cluster: a new authority in `dir`, unless there is one already.
    pub fn create(dir: &Path, cluster: &str) -> Result<Self, PkiError> {
        let cluster = cluster.parse().map_err(PkiError::Name)?;
        let (certificate_path, key_path) =
            (dir.join(AUTHORITY_CERTIFICATE), dir.join(AUTHORITY_KEY));
        files::refuse_existing(&certificate_path)?;
        files::refuse_existing(&key_path)?;
        let key = KeyPair::generate().map_err(PkiError::Generate)?;
        let params = authority_params(&cluster)?;
        let certificate = params.self_signed(&key).map_err(PkiError::Sign)?;
        files::make_private_dir(dir)?;
        files::write_new(&key_path, &key.serialize_pem(), files::PRIVATE)?;
        files::write_new(&certificate_path, &certificate.pem(), files::PUBLIC)?;
        Ok(Self {
            cluster,
            certificate_pem: certificate.pem(),
            issuer: Issuer::new(params, key),
        })
    }

    pub fn load(dir: &Path) -> Result<Self, PkiError> {
        let certificate_path = dir.join(AUTHORITY_CERTIFICATE);
        let key_path = dir.join(AUTHORITY_KEY);
        let certificate_pem = files::read(&certificate_path)?;
        let certificate = certificate_in(&certificate_path, &certificate_pem)?;
        let cluster = cluster_of(&certificate_path, &certificate)?;
        let key = authority_key(&key_path)?;
        if public_key(&certificate_path, &certificate)? != key.subject_public_key_info() {
            return Err(PkiError::AuthorityMismatch {
                key: key_path,
                certificate: certificate_path,
            });
        }
        Ok(Self {
            issuer: Issuer::new(authority_params(&cluster)?, key),
            cluster,
            certificate_pem,
        })
    }

    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    /// Writes a new key and certificate for a member into `dir`, in place of those it had.
    pub fn issue(
        &self,
        role: Role,
        name: &str,
        validity: Validity,
        dir: &Path,
    ) -> Result<MemberName, PkiError> {
        let cluster = self.cluster.clone();
        let member = MemberName::new(cluster, role, name).map_err(PkiError::Name)?;
        let uri = member.to_string();
        self.sign(&[&uri], name, validity, dir)?;
        Ok(member)
    }

    /// Signs whatever it is told to. Apart from tests, members are all that is ever signed.
    pub(crate) fn sign(
        &self,
        uris: &[&str],
        common_name: &str,
        validity: Validity,
        dir: &Path,
    ) -> Result<(), PkiError> {
        let key = KeyPair::generate().map_err(PkiError::Generate)?;
        let certificate = member_params(uris, common_name, validity)?
            .signed_by(&key, &self.issuer)
            .map_err(PkiError::Sign)?;
        let authority = dir.join(AUTHORITY_CERTIFICATE);
        files::make_private_dir(dir)?;
        files::replace(&authority, &self.certificate_pem, files::PUBLIC)?;
        files::replace(&dir.join(MEMBER_KEY), &key.serialize_pem(), files::PRIVATE)?;
        files::replace(
            &dir.join(MEMBER_CERTIFICATE),
            &certificate.pem(),
            files::PUBLIC,
        )
    }
}

/// The same for the same cluster, apart from its dates: the authority's name and usages are
/// rebuilt from this when it is loaded.
fn authority_params(cluster: &ClusterName) -> Result<CertificateParams, PkiError> {
    let mut params = params_for(&[&cluster.uri()], &format!("Reweave cluster {cluster}"))?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params, Validity::lasting(LONGEST)?);
    Ok(params)
}

fn member_params(
    uris: &[&str],
    common_name: &str,
    validity: Validity,
) -> Result<CertificateParams, PkiError> {
    let mut params = params_for(uris, common_name)?;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ClientAuth,
        ExtendedKeyUsagePurpose::ServerAuth,
    ];
    set_validity(&mut params, validity);
    Ok(params)
}

fn params_for(uris: &[&str], common_name: &str) -> Result<CertificateParams, PkiError> {
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

fn authority_key(path: &Path) -> Result<KeyPair, PkiError> {
    let key = KeyPair::from_pem(&files::read_private(path)?);
    key.map_err(|source| PkiError::AuthorityKey {
        path: path.to_owned(),
        source,
    })
}

fn public_key(path: &Path, certificate: &CertificateDer<'_>) -> Result<Vec<u8>, PkiError> {
    match webpki::EndEntityCert::try_from(certificate) {
        Ok(parsed) => Ok(parsed.subject_public_key_info().to_vec()),
        Err(source) => Err(PkiError::not_a_certificate(path, source)),
    }
}

fn cluster_of(path: &Path, certificate: &CertificateDer<'_>) -> Result<ClusterName, PkiError> {
    let uri = sole_uri(certificate);
    let uri = uri.map_err(|source| PkiError::not_a_certificate(path, source))?;
    ClusterName::from_uri(&uri).map_err(|source| PkiError::CertificateName {
        path: path.to_owned(),
        source,
    })
}

pub(crate) fn certificate_in(path: &Path, pem: &str) -> Result<CertificateDer<'static>, PkiError> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|source| PkiError::NotPem {
        path: path.to_owned(),
        what: "certificate",
        source,
    })
}

/// The one URI a certificate is for; empty, which is nobody's name, when there is none or several.
pub(crate) fn sole_uri(certificate: &CertificateDer<'_>) -> Result<String, webpki::Error> {
    let parsed = webpki::EndEntityCert::try_from(certificate)?;
    let mut uris = parsed.valid_uri_names();
    let sole = uris.next().filter(|_| uris.next().is_none());
    Ok(sole.unwrap_or_default().to_owned())
}
