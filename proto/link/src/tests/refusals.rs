//! Refused peers. The refusing side knows the reason; the refused side learns that it was refused.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use quinn::{ClientConfig, ConnectionError};
use reweave_proto::hello::Hello;
use rustls::version::TLS13;

use super::cluster::{Cluster, listen, meet, soon};
use crate::pki::Validity;
use crate::receive_limit::ReceiveFlag;
use crate::verify::PeerVerifier;
use crate::{Identity, LinkError, Listener, PeerRefusal, Role, opening, tls, transport};

const ONE_HOUR: Duration = Duration::from_hours(1);

fn past() -> Validity {
    let now = SystemTime::now();
    Validity {
        not_before: now - 3 * ONE_HOUR,
        not_after: now - ONE_HOUR,
    }
}

fn future() -> Validity {
    let now = SystemTime::now();
    Validity {
        not_before: now + ONE_HOUR,
        not_after: now + 3 * ONE_HOUR,
    }
}

/// The reason on the refusing side.
fn refusal<T>(outcome: Result<T, LinkError>) -> PeerRefusal {
    match outcome.map(drop) {
        Err(LinkError::Refused { source, .. }) => source,
        other => panic!("not a refusal: {other:?}"),
    }
}

/// What the refused side can detect by itself.
fn refused<T>(outcome: Result<T, LinkError>) -> Option<PeerRefusal> {
    match outcome.map(drop) {
        Err(LinkError::RefusedByPeer { own_problem, .. }) => own_problem,
        other => panic!("not refused by the peer: {other:?}"),
    }
}

/// `visitor` is refused by a coordinator of `cluster`.
async fn refused_visitor(
    cluster: &Cluster,
    visitor: &Identity,
) -> (PeerRefusal, Option<PeerRefusal>) {
    let (mut listener, _) = listen(&cluster.coordinator());
    let (accepted, connected) = meet(&mut listener, visitor).await;
    (refusal(accepted), refused(connected))
}

/// An agent of `cluster` refuses `host`.
async fn refused_host(cluster: &Cluster, host: &Identity) -> (PeerRefusal, Option<PeerRefusal>) {
    let (mut listener, _) = listen(host);
    let (accepted, connected) = meet(&mut listener, &cluster.agent()).await;
    (refusal(connected), refused(accepted))
}

#[tokio::test]
async fn agent_of_other_authority_is_refused() {
    let (ours, theirs) = (Cluster::new("lab"), Cluster::new("lab"));
    let visitor = ours.infiltrator(&theirs, Role::Agent, "h0");
    let (why, own_problem) = refused_visitor(&ours, &visitor).await;
    assert_eq!(why, PeerRefusal::OtherAuthority);
    assert_eq!(own_problem, Some(PeerRefusal::OtherAuthority));
}

#[tokio::test]
async fn coordinator_of_other_authority_is_refused() {
    let (ours, theirs) = (Cluster::new("lab"), Cluster::new("lab"));
    let (why, own_problem) = refused_host(&ours, &theirs.coordinator()).await;
    assert_eq!((why, own_problem), (PeerRefusal::OtherAuthority, None));
}

#[tokio::test]
async fn expired_agent_is_refused() {
    let cluster = Cluster::new("lab");
    let visitor = cluster.member_for(Role::Agent, "h0", past());
    let (why, own_problem) = refused_visitor(&cluster, &visitor).await;
    assert!(
        matches!(why, PeerRefusal::Expired { ago, .. } if ago >= ONE_HOUR),
        "{why:?}"
    );
    let named = "its certificate as agent h0 expired";
    assert!(why.to_string().starts_with(named), "{why}");
    assert!(matches!(own_problem, Some(PeerRefusal::Expired { .. })));
}

/// A peer that can put any name into a certificate is not named by it.
#[tokio::test]
async fn expired_foreign_agent_is_unnamed() {
    let (ours, theirs) = (Cluster::new("lab"), Cluster::new("lab"));
    let visitor = ours.infiltrator_for(&theirs, Role::Agent, "h0", past());
    let (why, _) = refused_visitor(&ours, &visitor).await;
    assert!(
        matches!(why, PeerRefusal::Expired { whose: None, .. }),
        "{why:?}"
    );
}

#[tokio::test]
async fn expired_coordinator_is_refused() {
    let cluster = Cluster::new("lab");
    let host = cluster.member_for(Role::Coordinator, "c0", past());
    let (why, own_problem) = refused_host(&cluster, &host).await;
    assert!(matches!(why, PeerRefusal::Expired { .. }), "{why:?}");
    assert!(matches!(own_problem, Some(PeerRefusal::Expired { .. })));
}

#[tokio::test]
async fn not_yet_valid_agent_is_refused() {
    let cluster = Cluster::new("lab");
    let visitor = cluster.member_for(Role::Agent, "h0", future());
    let (why, _) = refused_visitor(&cluster, &visitor).await;
    assert!(matches!(why, PeerRefusal::NotYetValid { .. }), "{why:?}");
}

#[tokio::test]
async fn not_yet_valid_coordinator_is_refused() {
    let cluster = Cluster::new("lab");
    let host = cluster.member_for(Role::Coordinator, "c0", future());
    let (why, _) = refused_host(&cluster, &host).await;
    assert!(matches!(why, PeerRefusal::NotYetValid { .. }), "{why:?}");
}

#[tokio::test]
async fn agent_posing_as_coordinator_is_refused() {
    let cluster = Cluster::new("lab");
    for role in [Role::Agent, Role::Operator] {
        let host = cluster.member(role, "h9");
        let (why, own_problem) = refused_host(&cluster, &host).await;
        let expected = PeerRefusal::WrongRole {
            theirs: host.member().clone(),
            accepted: vec![Role::Coordinator],
        };
        assert_eq!((why, own_problem), (expected, None));
    }
}

#[tokio::test]
async fn unaccepted_role_is_refused() {
    let cluster = Cluster::new("lab");
    let loopback = "127.0.0.1:0".parse().unwrap();
    let roles = [Role::Agent, Role::Coordinator];
    let mut listener = Listener::bind(loopback, &cluster.coordinator(), &roles).unwrap();
    let operator = cluster.member(Role::Operator, "ann");
    let (accepted, connected) = meet(&mut listener, &operator).await;
    assert_eq!(
        refusal(accepted).to_string(),
        "it is spiffe://lab/operator/ann, and only agent or coordinator may stand at that end"
    );
    assert_eq!(refused(connected), None);
}

/// A peer whose local identity is a member, and whose certificate is another one.
fn impostor(cluster: &Cluster, uris: &[&str]) -> Identity {
    let dir = cluster.dir("impostor");
    let signed = cluster.authority.sign(uris, "x", Validity::day(), &dir);
    signed.unwrap();
    cluster.agent().showing(&dir)
}

#[tokio::test]
async fn member_of_other_cluster_is_refused() {
    let cluster = Cluster::new("lab");
    let other = PeerRefusal::OtherCluster {
        theirs: "prod".parse().unwrap(),
        ours: "lab".parse().unwrap(),
    };
    let visitor = impostor(&cluster, &["spiffe://prod/agent/h0"]);
    assert_eq!(refused_visitor(&cluster, &visitor).await.0, other);
    let host = impostor(&cluster, &["spiffe://prod/coordinator/c0"]);
    assert_eq!(refused_host(&cluster, &host).await.0, other);
}

#[tokio::test]
async fn certificate_must_name_one_member() {
    let cluster = Cluster::new("lab");
    let twice = ["spiffe://lab/agent/h0", "spiffe://lab/coordinator/c1"];
    let unknown_role = ["spiffe://lab/root/h0"];
    for uris in [&[][..], &twice, &unknown_role, &["https://lab/agent/h0"]] {
        let (why, _) = refused_visitor(&cluster, &impostor(&cluster, uris)).await;
        assert!(matches!(why, PeerRefusal::Unnamed(_)), "{uris:?}: {why:?}");
    }
}

/// A client that accepts any coordinator of the cluster, with this certificate or none.
async fn visit(listener: &mut Listener, visitor: &Identity, shows: bool) -> Visit {
    let roles = [Role::Coordinator];
    let builder = rustls::ClientConfig::builder_with_provider(visitor.provider().clone())
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(PeerVerifier::new(visitor, &roles, Arc::default()));
    let mut config = if shows {
        builder.with_client_cert_resolver(Arc::new(tls::certificate(visitor)))
    } else {
        builder.with_no_client_auth()
    };
    config.alpn_protocols = vec![tls::ALPN.to_vec()];
    let config: quinn::crypto::rustls::QuicClientConfig = config.try_into().unwrap();
    let address = listener.address().unwrap();
    let endpoint = transport::client_endpoint(address, None, ReceiveFlag::default()).unwrap();
    let connecting = endpoint
        .connect_with(ClientConfig::new(Arc::new(config)), address, "x")
        .unwrap();
    let visiting = async {
        match connecting.await {
            Ok(connection) => connection.closed().await,
            Err(error) => error,
        }
    };
    let (accepted, seen) = soon(async { tokio::join!(listener.accept(), visiting) }).await;
    Visit {
        why: refusal(accepted.unwrap()),
        seen,
    }
}

struct Visit {
    why: PeerRefusal,
    seen: ConnectionError,
}

#[tokio::test]
async fn missing_certificate_is_refused() {
    let cluster = Cluster::new("lab");
    let (mut listener, _) = listen(&cluster.coordinator());
    let visit = visit(&mut listener, &cluster.agent(), false).await;
    assert_eq!(visit.why, PeerRefusal::NoCertificate);
}

#[tokio::test]
async fn refused_peers_see_same_error() {
    let (cluster, other) = (Cluster::new("lab"), Cluster::new("lab"));
    let (mut listener, _) = listen(&cluster.coordinator());
    let visitors = [
        cluster.infiltrator(&other, Role::Agent, "h0"),
        cluster.member_for(Role::Agent, "h1", past()),
        cluster.member_for(Role::Agent, "h2", future()),
        impostor(&cluster, &["spiffe://prod/agent/h0"]),
        impostor(&cluster, &["spiffe://lab/root/h0"]),
    ];
    let mut seen = vec![];
    for visitor in &visitors {
        let visit = visit(&mut listener, visitor, true).await;
        seen.push(format!("{:?}", visit.seen));
    }
    assert!(
        seen[0].contains("ApplicationVerificationFailure"),
        "{}",
        seen[0]
    );
    seen.dedup();
    assert_eq!(seen.len(), 1, "{seen:?}");
}

#[tokio::test]
async fn session_tickets_are_never_resumed() {
    let cluster = Cluster::new("lab");
    let (mut listener, address) = listen(&cluster.coordinator());
    let agent = cluster.agent();
    // Both attempts have one configuration, so that the second could resume.
    let crypto = tls::client(&agent, Role::Coordinator, Arc::default()).unwrap();
    let config = ClientConfig::new(Arc::new(crypto));
    let endpoint = transport::client_endpoint(address, None, ReceiveFlag::default()).unwrap();
    let connecting = || endpoint.connect_with(config.clone(), address, "x").unwrap();
    let hello = Hello::new(agent.cluster());
    let greeting = async {
        let first = connecting().await.unwrap();
        opening::open(&first, &hello).await.unwrap()
    };
    // By the hello, a session ticket would have arrived.
    let (accepted, _opened) = soon(async { tokio::join!(listener.accept(), greeting) }).await;
    accepted.unwrap().unwrap();
    assert!(connecting().into_0rtt().is_err());
}
