//! Signing: the authority of a cluster, or a coordinator's signer.

use std::net::IpAddr;
use std::path::Path;

use rcgen::{CertificateSigningRequestParams, Issuer, KeyPair, PublicKeyData};
use reweave_common::member::{Admission, Member};
use reweave_files::LocalFiles;
use reweave_proto::name::{ClusterName, MemberName, Role};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::request::replace_pair;
use super::{
    AUTHORITY_CERTIFICATE_FILE, AUTHORITY_KEY_FILE, PkiError, SIGNER_CERTIFICATE_FILE,
    SIGNER_KEY_FILE, Validity, certificate_in, facts, files, params, sole_uri,
};

/// A holder of this decides who belongs to the cluster: the authority itself without a time limit, a signer for a day.
pub struct Authority {
    cluster: ClusterName,
    /// The certificate that every member trusts.
    root_pem: String,
    /// The certificate between the root's and a member's.
    signer_pem: Option<String>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Creates a cluster: a new authority in `dir`, unless there is one already.
    pub fn create(dir: &Path, cluster: &str) -> Result<Self, PkiError> {
        let cluster = cluster.parse().map_err(PkiError::Name)?;
        let (certificate_path, key_path) = (
            dir.join(AUTHORITY_CERTIFICATE_FILE),
            dir.join(AUTHORITY_KEY_FILE),
        );
        files::refuse_existing(&certificate_path)?;
        files::refuse_existing(&key_path)?;
        let key = KeyPair::generate().map_err(PkiError::Generate)?;
        let params = params::authority(&cluster)?;
        let certificate = params.self_signed(&key).map_err(PkiError::Sign)?;
        files::make_private_dir(dir)?;
        files::write_new(&key_path, &key.serialize_pem(), files::PRIVATE_MODE)?;
        files::write_new(&certificate_path, &certificate.pem(), files::PUBLIC_MODE)?;
        Ok(Self {
            cluster,
            root_pem: certificate.pem(),
            signer_pem: None,
            issuer: Issuer::new(params, key),
        })
    }

    /// Loads the authority in `dir`, otherwise the signer.
    pub fn load(dir: &Path) -> Result<Self, PkiError> {
        let root_path = dir.join(AUTHORITY_CERTIFICATE_FILE);
        let root_pem = files::read(&root_path)?;
        let root = certificate_in(&root_path, &root_pem)?;
        let cluster = cluster_of(&root_path, &root)?;
        if !dir.join(AUTHORITY_KEY_FILE).exists() && dir.join(SIGNER_KEY_FILE).exists() {
            return Self::load_signer(dir, cluster, root_pem);
        }
        let key = matching_key(&dir.join(AUTHORITY_KEY_FILE), &root_path, &root)?;
        Ok(Self {
            issuer: Issuer::new(params::authority(&cluster)?, key),
            cluster,
            root_pem,
            signer_pem: None,
        })
    }

    fn load_signer(dir: &Path, cluster: ClusterName, root_pem: String) -> Result<Self, PkiError> {
        let path = dir.join(SIGNER_CERTIFICATE_FILE);
        let signer_pem = files::read(&path)?;
        let certificate = certificate_in(&path, &signer_pem)?;
        let key = matching_key(&dir.join(SIGNER_KEY_FILE), &path, &certificate)?;
        let issuer = Issuer::from_ca_cert_der(&certificate, key);
        let issuer = issuer.map_err(|source| PkiError::AuthorityKey { path, source })?;
        Ok(Self {
            cluster,
            root_pem,
            signer_pem: Some(signer_pem),
            issuer,
        })
    }

    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    /// The validity of a signer; none for the authority itself.
    pub fn signer_validity(&self) -> Option<Validity> {
        let pem = self.signer_pem.as_ref()?;
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
        Some(facts(&certificate)?.validity)
    }

    /// Writes a new signer for a coordinator into `dir`, replacing the old one.
    pub fn issue_signer(&self, name: &str, validity: Validity, dir: &Path) -> Result<(), PkiError> {
        if self.signer_pem.is_some() {
            return Err(PkiError::SignerOfSigner);
        }
        let coordinator = self.name(Role::Coordinator, name)?;
        let key = KeyPair::generate().map_err(PkiError::Generate)?;
        let certificate = params::signer(&coordinator, validity)?
            .signed_by(&key, &self.issuer)
            .map_err(PkiError::Sign)?;
        files::make_private_dir(dir)?;
        let _alone = files::lock(dir)?;
        let (key_path, path) = (dir.join(SIGNER_KEY_FILE), dir.join(SIGNER_CERTIFICATE_FILE));
        files::replace(
            &LocalFiles,
            &key_path,
            &key.serialize_pem(),
            files::PRIVATE_MODE,
        )?;
        files::replace(&LocalFiles, &path, &certificate.pem(), files::PUBLIC_MODE)
    }

    /// Writes a new key and certificate for a member into `dir`, replacing the old ones.
    pub fn issue(
        &self,
        role: Role,
        name: &str,
        validity: Validity,
        dir: &Path,
    ) -> Result<MemberName, PkiError> {
        let member = self.name(role, name)?;
        if self.signer_pem.is_some() && !validity.is_short() {
            return Err(PkiError::TooLongForSigner);
        }
        let uri = member.to_string();
        self.sign(&[&uri], name, validity, dir)?;
        Ok(member)
    }

    /// Certifies the key of a request for a day, and returns the certificate with the signer's. Other contents of the
    /// request are ignored.
    pub fn certify(
        &self,
        request: &[u8],
        member: &Member,
        admission: Admission,
    ) -> Result<String, PkiError> {
        let uri = self.name(member.role, &member.name)?.to_string();
        let request = CertificateSigningRequestParams::from_der(&request.into());
        let key = request.map_err(PkiError::BadRequest)?.public_key;
        let params = params::member(&[&uri], &member.name, Validity::day(), admission)?;
        let certificate = params.signed_by(&key, &self.issuer);
        Ok(self.chain(&certificate.map_err(PkiError::Sign)?.pem()))
    }

    /// A certificate for browsers that connect to this address. Its key is in no file.
    pub(crate) fn issue_server(
        &self,
        coordinator: &MemberName,
        address: IpAddr,
        admission: Admission,
    ) -> Result<(Vec<CertificateDer<'static>>, KeyPair), PkiError> {
        let key = KeyPair::generate().map_err(PkiError::Generate)?;
        let params = params::server(coordinator, address, admission)?;
        let certificate = params.signed_by(&key, &self.issuer);
        let mut chain = vec![certificate.map_err(PkiError::Sign)?.der().clone()];
        if let Some(pem) = &self.signer_pem {
            chain.push(certificate_in(Path::new(SIGNER_CERTIFICATE_FILE), pem)?);
        }
        Ok((chain, key))
    }

    /// Signs any certificate. Apart from tests, only members' certificates are signed.
    pub(crate) fn sign(
        &self,
        uris: &[&str],
        common_name: &str,
        validity: Validity,
        dir: &Path,
    ) -> Result<(), PkiError> {
        let key = KeyPair::generate().map_err(PkiError::Generate)?;
        let certificate = params::member(uris, common_name, validity, Admission::default())?
            .signed_by(&key, &self.issuer)
            .map_err(PkiError::Sign)?;
        let authority = dir.join(AUTHORITY_CERTIFICATE_FILE);
        files::make_private_dir(dir)?;
        let _alone = files::lock(dir)?;
        files::replace(&LocalFiles, &authority, &self.root_pem, files::PUBLIC_MODE)?;
        let chain = self.chain(&certificate.pem());
        replace_pair(&LocalFiles, dir, &key.serialize_pem(), &chain)
    }

    /// Returns the same key for another cluster's name.
    #[cfg(test)]
    pub(crate) fn in_name_of(self, cluster: &str) -> Self {
        let cluster = cluster.parse().unwrap();
        Self { cluster, ..self }
    }

    fn name(&self, role: Role, name: &str) -> Result<MemberName, PkiError> {
        MemberName::new(self.cluster.clone(), role, name).map_err(PkiError::Name)
    }

    fn chain(&self, certificate_pem: &str) -> String {
        certificate_pem.to_owned() + self.signer_pem.as_deref().unwrap_or_default()
    }
}

fn matching_key(
    key_path: &Path,
    certificate_path: &Path,
    certificate: &CertificateDer<'_>,
) -> Result<KeyPair, PkiError> {
    let key = authority_key(key_path)?;
    if public_key(certificate_path, certificate)? != key.subject_public_key_info() {
        return Err(PkiError::AuthorityMismatch {
            key: key_path.to_owned(),
            certificate: certificate_path.to_owned(),
        });
    }
    Ok(key)
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
