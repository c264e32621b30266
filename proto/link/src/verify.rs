//! Verifies a certificate, and determines its subject.
//!
//! Both ends of TLS check the same: signed by our authority, valid now, one URI, our cluster, a permitted role. The
//! precise reason stays on this side; the peer only learns that it was refused.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use reweave_common::member::{Admission, DenyLists, Member};
use reweave_proto::name::{ClusterName, MemberName, NameError, Role};
use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DistinguishedName};
use thiserror::Error;
use webpki::KeyUsage;

use crate::identity::Identity;
use crate::pki::{self, Facts};
use crate::shared_deny_list::SharedDenyList;
use crate::signatures::verify_signatures;

/// Why a peer is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PeerRefusal {
    #[error("it showed no certificate")]
    NoCertificate,
    #[error("its certificate was not signed by the authority of this cluster")]
    OtherAuthority,
    #[error(
        "its certificate{} expired {} ago, by this machine's clock", of(whose.as_ref()), coarse(.ago)
    )]
    Expired {
        ago: Duration,
        /// The member, if our authority had certified it.
        whose: Option<Member>,
    },
    #[error("its certificate is not valid for another {}, by this machine's clock", coarse(.until))]
    NotYetValid { until: Duration },
    #[error("its certificate cannot be used")]
    Unusable(#[source] webpki::Error),
    #[error("its certificate does not name a member of a cluster")]
    Unnamed(#[source] NameError),
    #[error("its certificate is for cluster {theirs}, this is {ours}")]
    OtherCluster {
        theirs: ClusterName,
        ours: ClusterName,
    },
    #[error("it is {theirs}, and only {} may stand at that end", listed(.accepted))]
    WrongRole {
        theirs: MemberName,
        accepted: Vec<Role>,
    },
    #[error("{theirs} has been revoked")]
    Revoked { theirs: Member },
    #[error("{theirs} was removed from the cluster")]
    Removed { theirs: Member },
    #[error("its certificate was signed by {signer}, whose signer has been revoked")]
    SignerRevoked { signer: Member },
    #[error("the issuer of its certificate is not a signer of this cluster")]
    NotASigner,
    #[error("its certificate was signed by {signer} for longer than a signer may")]
    LivesTooLong { signer: Member },
}

impl PeerRefusal {
    /// Whether the deny lists are the reason.
    pub fn is_denial(&self) -> bool {
        matches!(
            self,
            Self::Revoked { .. } | Self::Removed { .. } | Self::SignerRevoked { .. }
        )
    }
}

fn of(whose: Option<&Member>) -> String {
    whose.map_or_else(String::new, |member| format!(" as {member}"))
}

fn coarse(time: &Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7199 => format!("{} min", seconds / 60),
        seconds @ 7200..=172_799 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

fn listed(roles: &[Role]) -> String {
    let names: Vec<_> = roles.iter().map(|role| role.as_str()).collect();
    names.join(" or ")
}

/// The bearer of a valid certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    pub member: Member,
    pub admission: Admission,
    pub until: SystemTime,
    /// The signer, if it was not the authority itself.
    pub signer: Option<(Member, Admission)>,
}

/// The verifier's result about the peer of one handshake.
pub(crate) type PeerVerdict = OnceLock<Result<Credentials, PeerRefusal>>;

/// Verifies the peer of one handshake.
#[derive(Debug)]
pub(crate) struct PeerVerifier {
    authority: Arc<TrustAnchor<'static>>,
    cluster: ClusterName,
    accepted: Vec<Role>,
    denied: SharedDenyList,
    provider: Arc<CryptoProvider>,
    verdict: Arc<PeerVerdict>,
    /// The authorities whose certificates browsers may offer. Only for listeners that admit clients without a
    /// certificate.
    hints: Option<Vec<DistinguishedName>>,
}

impl PeerVerifier {
    pub(crate) fn new(ours: &Identity, accepted: &[Role], verdict: Arc<PeerVerdict>) -> Arc<Self> {
        Arc::new(Self::of_members(ours, accepted, verdict))
    }

    fn of_members(ours: &Identity, accepted: &[Role], verdict: Arc<PeerVerdict>) -> Self {
        Self {
            authority: ours.authority().clone(),
            cluster: ours.cluster().clone(),
            accepted: accepted.to_vec(),
            denied: ours.denied().clone(),
            provider: ours.provider().clone(),
            verdict,
            hints: None,
        }
    }

    /// Makes a verifier for listeners that admit clients without a certificate. Browsers get the authority's name, or
    /// they would offer certificates of other services.
    pub(crate) fn of_guests(
        ours: &Identity,
        accepted: &[Role],
        verdict: Arc<PeerVerdict>,
    ) -> Arc<Self> {
        let subject = DistinguishedName::in_sequence(&ours.authority().subject);
        Arc::new(Self {
            hints: Some(vec![subject]),
            ..Self::of_members(ours, accepted, verdict)
        })
    }

    /// Makes a verifier for a joining peer, which has no certificate.
    pub(crate) fn of_door(
        authority: TrustAnchor<'static>,
        cluster: ClusterName,
        provider: Arc<CryptoProvider>,
    ) -> Self {
        Self {
            authority: Arc::new(authority),
            cluster,
            accepted: vec![Role::Coordinator],
            denied: SharedDenyList::default(),
            provider,
            verdict: Arc::default(),
            hints: None,
        }
    }

    /// Stores the verdict; the peer only gets yes or no.
    fn judge(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let verdict = self.examine(certificate, intermediates, now);
        let opaque = CertificateError::ApplicationVerificationFailure;
        let answer = verdict.as_ref().map(|_| ()).map_err(|_| opaque.into());
        self.verdict.get_or_init(|| verdict.clone());
        answer
    }

    pub(crate) fn examine(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<Credentials, PeerRefusal> {
        match chain(&self.authority, certificate, intermediates, now) {
            Ok(signer) => self.credentials(certificate, signer.as_ref()),
            Err(PeerRefusal::Expired { ago, .. }) => {
                let good = Duration::from_secs(now.as_secs()).saturating_sub(ago);
                let good = UnixTime::since_unix_epoch(good);
                let vouched = chain(&self.authority, certificate, intermediates, good).is_ok();
                let whose = vouched.then(|| self.member(certificate).ok()).flatten();
                Err(PeerRefusal::Expired { ago, whose })
            }
            Err(refusal) => Err(refusal),
        }
    }

    pub(crate) fn credentials(
        &self,
        certificate: &CertificateDer<'_>,
        signer: Option<&CertificateDer<'_>>,
    ) -> Result<Credentials, PeerRefusal> {
        let member = self.member(certificate)?;
        let facts = facts(certificate)?;
        let credentials = Credentials {
            member,
            admission: facts.admission,
            until: facts.validity.not_after,
            signer: signer.map(|signer| self.signer(signer)).transpose()?,
        };
        if let Some((signer, _)) = &credentials.signer
            && !facts.validity.is_short()
        {
            let signer = signer.clone();
            return Err(PeerRefusal::LivesTooLong { signer });
        }
        match credentials.denied_by(&self.denied.now()) {
            Some(refusal) => Err(refusal),
            None => Ok(credentials),
        }
    }

    fn member(&self, certificate: &CertificateDer<'_>) -> Result<Member, PeerRefusal> {
        let uri = pki::sole_uri(certificate).map_err(PeerRefusal::Unusable)?;
        let member: MemberName = uri.parse().map_err(PeerRefusal::Unnamed)?;
        self.same_cluster(&member)?;
        if !self.accepted.contains(&member.role()) {
            return Err(PeerRefusal::WrongRole {
                theirs: member,
                accepted: self.accepted.clone(),
            });
        }
        Ok(member.member())
    }

    fn signer(&self, certificate: &CertificateDer<'_>) -> Result<(Member, Admission), PeerRefusal> {
        let uri = pki::sole_uri(certificate).map_err(PeerRefusal::Unusable)?;
        let signer = MemberName::from_signer_uri(&uri).map_err(|_| PeerRefusal::NotASigner)?;
        self.same_cluster(&signer)?;
        Ok((signer.member(), facts(certificate)?.admission))
    }

    fn same_cluster(&self, member: &MemberName) -> Result<(), PeerRefusal> {
        if *member.cluster() == self.cluster {
            return Ok(());
        }
        Err(PeerRefusal::OtherCluster {
            theirs: member.cluster().clone(),
            ours: self.cluster.clone(),
        })
    }
}

impl Credentials {
    /// Why the credentials are on the deny lists, if they are.
    pub(crate) fn denied_by(&self, lists: &DenyLists) -> Option<PeerRefusal> {
        let DenyLists {
            revoked, removed, ..
        } = lists;
        if revoked.denies(&self.member, self.admission) {
            let theirs = self.member.clone();
            return Some(PeerRefusal::Revoked { theirs });
        }
        if removed.denies(&self.member, self.admission) {
            let theirs = self.member.clone();
            return Some(PeerRefusal::Removed { theirs });
        }
        let (signer, admission) = self.signer.as_ref()?;
        let is_void = revoked.denies(signer, *admission);
        is_void.then(|| PeerRefusal::SignerRevoked {
            signer: signer.clone(),
        })
    }
}

fn facts(certificate: &CertificateDer<'_>) -> Result<Facts, PeerRefusal> {
    pki::facts(certificate).ok_or(PeerRefusal::Unusable(webpki::Error::BadDer))
}

/// Checks that it is signed by the authority or its signer, and valid now. Returns the signer's certificate, if any.
pub(crate) fn chain(
    authority: &TrustAnchor<'static>,
    certificate: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    now: UnixTime,
) -> Result<Option<CertificateDer<'static>>, PeerRefusal> {
    let parsed = webpki::EndEntityCert::try_from(certificate).map_err(PeerRefusal::Unusable)?;
    let verified = parsed.verify_for_usage(
        webpki::ALL_VERIFICATION_ALGS,
        std::slice::from_ref(authority),
        intermediates,
        now,
        KeyUsage::client_auth(),
        None,
        None,
    );
    let path = verified.map_err(refusal)?;
    let signer = path.intermediate_certificates().next();
    Ok(signer.map(|signer| signer.der().into_owned()))
}

fn refusal(error: webpki::Error) -> PeerRefusal {
    let between = |early: UnixTime, late: UnixTime| {
        Duration::from_secs(late.as_secs().saturating_sub(early.as_secs()))
    };
    match error {
        webpki::Error::CertExpired { time, not_after } => PeerRefusal::Expired {
            ago: between(not_after, time),
            whose: None,
        },
        webpki::Error::CertNotValidYet { time, not_before } => PeerRefusal::NotYetValid {
            until: between(time, not_before),
        },
        // An authority of the same name with another key is another authority.
        webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey => {
            PeerRefusal::OtherAuthority
        }
        other => PeerRefusal::Unusable(other),
    }
}

impl ServerCertVerifier for PeerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.judge(end_entity, intermediates, now)
            .map(|()| ServerCertVerified::assertion())
    }

    verify_signatures!();
}

impl ClientCertVerifier for PeerVerifier {
    /// Members do not learn which authority is trusted.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.hints.as_deref().unwrap_or_default()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.hints.is_none()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.judge(end_entity, intermediates, now)
            .map(|()| ClientCertVerified::assertion())
    }

    verify_signatures!();
}
