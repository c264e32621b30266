//! New members get certificates, and others do not.

use std::fs;
use std::net::SocketAddr;
use std::time::SystemTime;

use reweave_common::member::{Admission, Member};
use tempfile::TempDir;

use super::cluster::{Cluster, listen, meet, soon};
use crate::join::{Applicant, JoinError, JoinListener, Token, enter};
use crate::pki::{Authority, Validity};
use crate::{Identity, LinkError, PeerRefusal, Role};

const ADMISSION: Admission = Admission(7);

fn door(cluster: &Cluster) -> (JoinListener, SocketAddr) {
    let loopback = "127.0.0.1:0".parse().unwrap();
    let door = JoinListener::bind(loopback, &cluster.coordinator()).unwrap();
    let address = door.address().unwrap();
    (door, address)
}

fn token(cluster: &Cluster, role: Role, name: &str) -> Token {
    Token::new(&cluster.coordinator(), Member::new(role, name))
}

/// The result of `token` at a listener that always gives this `answer`.
async fn attempt<F: Future<Output = ()>>(
    cluster: &Cluster,
    token: &Token,
    answer: impl FnOnce(Applicant) -> F,
) -> (Result<Identity, JoinError>, TempDir) {
    let (mut door, address) = door(cluster);
    let home = tempfile::tempdir().unwrap();
    let answering = async {
        let applicant = door.accept().await.unwrap().unwrap();
        answer(applicant).await;
    };
    let entering = enter(std::slice::from_ref(&address), token, home.path());
    let (joined, ()) = soon(async { tokio::join!(entering, answering) }).await;
    (joined, home)
}

fn signer(cluster: &Cluster, name: &str) -> Authority {
    let dir = cluster.dir(name);
    let year = Validity::lasting(365 * crate::pki::MAX_MEMBER_VALIDITY).unwrap();
    cluster.authority.issue_signer(name, year, &dir).unwrap();
    let root = cluster.dir("authority").join("ca.pem");
    fs::copy(root, dir.join("ca.pem")).unwrap();
    Authority::load(&dir).unwrap()
}

async fn joined(cluster: &Cluster, signer: &Authority, name: &str) -> (Identity, TempDir) {
    let token = token(cluster, Role::Agent, name);
    let digest = token.digest();
    let (identity, home) = attempt(cluster, &token, |applicant| async {
        assert_eq!(applicant.token(), digest);
        let member = Member::new(Role::Agent, name);
        let chain = signer.certify(applicant.request(), &member, ADMISSION);
        applicant.welcome(&chain.unwrap()).await;
    })
    .await;
    (identity.unwrap(), home)
}

#[tokio::test]
async fn joined_agent_has_day_certificate() {
    let cluster = Cluster::new("lab");
    cluster.coordinator();
    let (agent, home) = joined(&cluster, &signer(&cluster, "c0"), "h7").await;
    assert_eq!(agent.member().to_string(), "spiffe://lab/agent/h7");
    assert!(agent.validity().is_short());
    let (mut listener, _) = listen(&cluster.coordinator());
    let (accepted, connected) = meet(&mut listener, &agent).await;
    let session = accepted.unwrap();
    connected.unwrap();
    assert_eq!(session.peer(), &Member::new(Role::Agent, "h7"));
    assert_eq!(session.credentials().admission, ADMISSION);
    let signed_by = Member::new(Role::Coordinator, "c0");
    assert_eq!(session.credentials().signer.clone().unwrap().0, signed_by);
    assert!(session.good_until() > SystemTime::now());
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 3);
}

#[tokio::test]
async fn refused_applicant_learns_no_reason() {
    let cluster = Cluster::new("lab");
    let token = token(&cluster, Role::Agent, "h7");
    let (refused, home) = attempt(&cluster, &token, Applicant::refuse).await;
    assert!(matches!(refused, Err(JoinError::Refused { .. })));
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn token_stays_within_its_cluster() {
    let (ours, theirs) = (Cluster::new("lab"), Cluster::new("lab"));
    let token = token(&ours, Role::Agent, "h7");
    let (mut door, address) = door(&theirs);
    let home = tempfile::tempdir().unwrap();
    let entering = enter(std::slice::from_ref(&address), &token, home.path());
    let (refused, knocked) = soon(async { tokio::join!(entering, door.accept()) }).await;
    let Err(JoinError::Link(LinkError::Refused { source, .. })) = refused else {
        panic!("another's listener was believed");
    };
    assert_eq!(source, PeerRefusal::OtherAuthority);
    assert!(knocked.unwrap().is_err());
}

#[tokio::test]
async fn certificate_of_other_member_is_rejected() {
    let cluster = Cluster::new("lab");
    let token = token(&cluster, Role::Agent, "h7");
    let (refused, _home) = attempt(&cluster, &token, |applicant| {
        let other = Member::new(Role::Agent, "h8");
        let chain = cluster
            .authority
            .certify(applicant.request(), &other, ADMISSION);
        let chain = chain.unwrap();
        async move { applicant.welcome(&chain).await }
    })
    .await;
    assert!(matches!(refused, Err(JoinError::OtherMember { .. })));
}

#[tokio::test]
async fn join_tries_next_address() {
    let cluster = Cluster::new("lab");
    let token = token(&cluster, Role::Agent, "h7");
    let ((mut first, one), (mut second, other)) = (door(&cluster), door(&cluster));
    let home = tempfile::tempdir().unwrap();
    let answering = async {
        first.accept().await.unwrap().unwrap().ask_another().await;
        let applicant = second.accept().await.unwrap().unwrap();
        let chain = cluster
            .authority
            .certify(applicant.request(), token.member(), ADMISSION);
        applicant.welcome(&chain.unwrap()).await;
    };
    let addresses = [one, other];
    let entering = enter(&addresses, &token, home.path());
    let (joined, ()) = soon(async { tokio::join!(entering, answering) }).await;
    joined.unwrap();
}

#[test]
fn token_roundtrips_and_hides_secret() {
    let cluster = Cluster::new("lab");
    let token = token(&cluster, Role::Viewer, "ann");
    let text = token.to_string();
    assert_eq!(format!(" {text}\n").parse::<Token>(), Ok(token.clone()));
    assert_eq!(format!("{token:?}"), "Token for viewer ann of lab");
    for broken in [
        "",
        "x",
        &text[1..],
        &text[..text.len() - 3],
        &(text.clone() + "AAAA"),
    ] {
        assert!(broken.parse::<Token>().is_err(), "{broken}");
    }
}
