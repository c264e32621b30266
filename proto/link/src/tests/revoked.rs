//! Revoked members, revoked signers, and signers that exceed their rights.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use reweave_common::member::{Admission, DeniedCoordinators, DenyList, DenyLists, Member};

use super::cluster::{Cluster, listen, meet, session, soon};
use crate::pki::{Authority, KeyRequest, PkiError, Validity};
use crate::{DenyListFile, Identity, LinkError, PeerRefusal, Role};

fn denying(member: &Member, up_to: u64) -> DenyList {
    let mut list = DenyList::default();
    list.deny(member.clone(), Admission(up_to));
    list
}

/// The listening side's result for `visitor`.
async fn refused(ours: &Identity, visitor: &Identity) -> PeerRefusal {
    let (mut listener, _) = listen(ours);
    match meet(&mut listener, visitor).await.0 {
        Err(LinkError::Refused { source, .. }) => source,
        other => panic!("not refused: {other:?}"),
    }
}

fn signer(cluster: &Cluster, name: &str) -> Authority {
    signer_by(&cluster.authority, cluster, name)
}

fn signer_by(authority: &Authority, cluster: &Cluster, name: &str) -> Authority {
    let dir = cluster.dir(&format!("signer-{name}"));
    let year = Validity::lasting(365 * crate::pki::MAX_MEMBER_VALIDITY).unwrap();
    authority.issue_signer(name, year, &dir).unwrap();
    let root = cluster.dir("authority").join("ca.pem");
    std::fs::copy(root, dir.join("ca.pem")).unwrap();
    Authority::load(&dir).unwrap()
}

fn certified(cluster: &Cluster, signer: &Authority, name: &str, admission: u64) -> Identity {
    cluster.agent();
    let dir = cluster.dir(name);
    cluster.member(Role::Agent, name);
    let request = KeyRequest::new(&dir).unwrap();
    let member = Member::new(Role::Agent, name);
    let chain = signer.certify(request.der(), &member, Admission(admission));
    request.install(&chain.unwrap()).unwrap();
    Identity::load(&dir).unwrap()
}

#[tokio::test]
async fn revoked_member_loses_session() {
    let cluster = Cluster::new("lab");
    let (coordinator, agent) = (cluster.coordinator(), cluster.agent());
    let (mut listener, _) = listen(&coordinator);
    let (accepted, connected) = session(&mut listener, &agent).await;
    let h0 = Member::new(Role::Agent, "h0");
    let ended = tokio::spawn(async move { accepted.revoked().await });
    coordinator.deny(denying(&h0, 3));
    let ended = soon(ended).await.unwrap();
    assert!(
        matches!(ended, LinkError::Denied(PeerRefusal::Revoked { .. })),
        "{ended:?}"
    );
    let seen = soon(connected.closed()).await;
    let LinkError::ClosedByPeer { reason } = seen else {
        panic!("{seen:?}");
    };
    assert!(!reason.contains("revoked"), "{reason}");
    let again = refused(&coordinator, &agent).await;
    assert_eq!(again, PeerRefusal::Revoked { theirs: h0 });
}

#[tokio::test]
async fn readmitted_member_is_accepted() {
    let cluster = Cluster::new("lab");
    let coordinator = cluster.coordinator();
    coordinator.deny(denying(&Member::new(Role::Agent, "h0"), 3));
    let signer = signer(&cluster, "c0");
    let late = certified(&cluster, &signer, "h0", 4);
    let (mut listener, _) = listen(&coordinator);
    session(&mut listener, &late).await;
    let early = certified(&cluster, &signer, "h0", 3);
    assert!(matches!(
        refused(&coordinator, &early).await,
        PeerRefusal::Revoked { .. }
    ));
}

#[tokio::test]
async fn revoked_signer_voids_its_certificates() {
    let cluster = Cluster::new("lab");
    let coordinator = cluster.coordinator();
    let [stolen, kept] = ["c1", "c2"].map(|name| signer(&cluster, name));
    let [one, other] = [
        certified(&cluster, &stolen, "h1", 9),
        certified(&cluster, &kept, "h2", 9),
    ];
    let c1 = Member::new(Role::Coordinator, "c1");
    coordinator.deny(denying(&c1, 20));
    let why = refused(&coordinator, &one).await;
    assert_eq!(why, PeerRefusal::SignerRevoked { signer: c1 });
    let (mut listener, _) = listen(&coordinator);
    session(&mut listener, &other).await;
}

/// The signer of a former leader has signed all agents' certificates.
#[tokio::test]
async fn removed_coordinator_keeps_its_signatures() {
    let cluster = Cluster::new("lab");
    let ours = cluster.coordinator();
    let signed = certified(&cluster, &signer(&cluster, "c1"), "h1", 9);
    let removed = cluster.member(Role::Coordinator, "c1");
    let (mut listener, _) = listen(&ours);
    let (accepted, _connected) = session(&mut listener, &removed).await;
    let c1 = Member::new(Role::Coordinator, "c1");
    ours.denied().set_all(DenyLists {
        removed: denying(&c1, 20),
        ..DenyLists::default()
    });
    let ended = soon(accepted.revoked()).await;
    let LinkError::Denied(why) = ended else {
        panic!("{ended:?}");
    };
    let is_removed = PeerRefusal::Removed { theirs: c1 };
    assert_eq!(why, is_removed);
    assert_eq!(refused(&ours, &removed).await, is_removed);
    session(&mut listener, &signed).await;
}

fn removed(name: &str) -> DeniedCoordinators {
    DeniedCoordinators {
        as_of: Admission(20),
        removed: BTreeMap::from([(name.to_owned(), Admission(20))]),
        ..DeniedCoordinators::default()
    }
}

/// Running sessions check it, and so does the next command at its start.
#[tokio::test]
async fn operator_refuses_coordinators_learned_of() {
    let cluster = Cluster::new("lab");
    let operator = cluster.member(Role::Operator, "ann");
    let folder = cluster.dir("ann");
    let file = DenyListFile::load(&folder, &operator).unwrap();
    let (mut gone, _) = listen(&cluster.member(Role::Coordinator, "c1"));
    let (mut stays, _) = listen(&cluster.coordinator());
    let (_there, to_gone) = session(&mut gone, &operator).await;
    let (_here, to_stays) = session(&mut stays, &operator).await;
    file.note(&to_stays, removed("c1")).unwrap();
    let denied = |checked: Result<(), LinkError>| checked.is_err_and(|error| error.is_denial());
    assert!(denied(file.check(&to_gone)) && !denied(file.check(&to_stays)));
    assert!(denied(file.note(&to_gone, removed("c0"))));
    assert!(!denied(file.check(&to_stays)), "by a word of c1");

    let again = Identity::load(&folder).unwrap();
    DenyListFile::load(&folder, &again).unwrap();
    let Err(refused) = meet(&mut gone, &again).await.1 else {
        panic!("it is not refused");
    };
    assert!(refused.is_denial(), "{refused}");
    session(&mut stays, &again).await;
}

/// One authority may have several clusters.
#[tokio::test]
async fn signer_of_other_cluster_is_refused() {
    let cluster = Cluster::new("lab");
    let authority = Authority::load(&cluster.dir("authority")).unwrap();
    let signer = signer_by(&authority.in_name_of("prod"), &cluster, "c0");
    let visitor = certified(&cluster, &signer, "h0", 1);
    let why = refused(&cluster.coordinator(), &visitor).await;
    let other = PeerRefusal::OtherCluster {
        theirs: "prod".parse().unwrap(),
        ours: "lab".parse().unwrap(),
    };
    assert_eq!(why, other);
}

#[tokio::test]
async fn signer_cannot_sign_long_lifetimes() {
    let cluster = Cluster::new("lab");
    let signer = signer(&cluster, "c0");
    let dir = cluster.dir("h0");
    let month = Validity::lasting(30 * crate::pki::MAX_MEMBER_VALIDITY).unwrap();
    let kept = signer.issue(Role::Agent, "h0", month, &dir);
    assert!(matches!(kept, Err(PkiError::TooLongForSigner)));
    // The owner of the key can sign anything.
    signer
        .sign(&["spiffe://lab/agent/h0"], "h0", month, &dir)
        .unwrap();
    let visitor = Identity::load(&dir).unwrap();
    let why = refused(&cluster.coordinator(), &visitor).await;
    assert!(matches!(why, PeerRefusal::LivesTooLong { .. }), "{why:?}");
}

#[tokio::test]
async fn signer_cannot_issue_signers() {
    let cluster = Cluster::new("lab");
    let signer = signer(&cluster, "c0");
    let refused = signer.issue_signer("c1", Validity::day(), &cluster.dir("c1"));
    assert!(matches!(refused, Err(PkiError::SignerOfSigner)));
}

#[tokio::test]
async fn session_expires_with_certificate_unless_renewed() {
    let cluster = Cluster::new("lab");
    let (mut listener, _) = listen(&cluster.coordinator());
    let (accepted, _connected) = session(&mut listener, &cluster.agent()).await;
    let now = SystemTime::now();
    accepted.renewed(now + Duration::from_hours(1));
    let early = tokio::time::timeout(Duration::from_millis(50), accepted.expired()).await;
    assert!(early.is_err(), "it is good for an hour");
    accepted.renewed(now - Duration::from_secs(1));
    let ended = soon(accepted.expired()).await;
    assert!(matches!(
        ended,
        LinkError::Denied(PeerRefusal::Expired { .. })
    ));
}

/// Wherever it is interrupted, the folder holds one of both pairs.
#[test]
fn interrupted_renewal_finishes_on_load() {
    let cluster = Cluster::new("lab");
    let old = cluster.agent();
    let dir = cluster.dir("h0");
    let request = KeyRequest::new(&dir).unwrap();
    let member = Member::new(Role::Agent, "h0");
    let chain = cluster
        .authority
        .certify(request.der(), &member, Admission(1));
    let files = ["node.key", "node.pem"].map(|name| std::fs::read(dir.join(name)).unwrap());
    request.install(&chain.unwrap()).unwrap();
    // The certificate was not written yet: the next key is there, with the old pair.
    std::fs::rename(dir.join("node.key"), dir.join("node.key.next")).unwrap();
    let new = std::fs::read(dir.join("node.pem")).unwrap();
    std::fs::write(dir.join("node.key"), &files[0]).unwrap();
    std::fs::set_permissions(
        dir.join("node.key"),
        std::os::unix::fs::PermissionsExt::from_mode(0o600),
    )
    .unwrap();
    std::fs::write(dir.join("node.pem"), &files[1]).unwrap();
    assert_eq!(Identity::load(&dir).unwrap().admission(), old.admission());
    // The certificate was written, and the key was not renamed yet.
    std::fs::write(dir.join("node.pem"), new).unwrap();
    assert_eq!(Identity::load(&dir).unwrap().admission(), Admission(1));
    assert!(!dir.join("node.key.next").exists());
}
