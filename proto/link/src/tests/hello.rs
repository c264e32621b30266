//! Incompatible versions and clusters, whose reason both sides get; and peers that never send a hello.

use std::net::SocketAddr;
use std::sync::Arc;

use quinn::ClientConfig;
use reweave_common::error::error_chain;
use reweave_common::operator::{PolicyStatus, Request, Response};
use reweave_proto::hello::{Hello, PROTOCOL_VERSION, Version};
use reweave_proto::message::CoordinatorMessage;
use tokio::time::Instant;

use super::cluster::{ANY_ROLE, Cluster, listen, pair, soon};
use crate::connect::{Caller, reach};
use crate::receive_limit::ReceiveFlag;
use crate::session::Channel;
use crate::{HANDSHAKE_TIMEOUT, LinkError, Listener, Role, Session, connect, tls, transport};

fn hello(major: u16, minor: u16, cluster: &str) -> Hello {
    Hello {
        version: Version { major, minor },
        cluster: cluster.into(),
        build: "0.0.0".into(),
    }
}

type Outcome = Result<Session, LinkError>;

/// A coordinator with the hello `host`, and an agent with the hello `visitor`.
async fn greet(host: Hello, visitor: Hello) -> (Outcome, Outcome) {
    let cluster = Cluster::new("lab");
    let loopback = "127.0.0.1:0".parse().unwrap();
    let host = Listener::bind_as(loopback, &cluster.coordinator(), ANY_ROLE, host);
    let mut listener = host.unwrap();
    let address = listener.address().unwrap();
    let caller = Caller {
        hello: visitor,
        ..Caller::new(&cluster.agent(), Role::Coordinator)
    };
    let reaching = reach(address, &caller, ReceiveFlag::default());
    let (accepted, connected) = soon(async { tokio::join!(listener.accept(), reaching) }).await;
    (accepted.unwrap(), connected)
}

fn disagreement(outcome: Outcome) -> String {
    match outcome {
        Err(error @ LinkError::Hello { .. }) => {
            let text = error_chain(&error);
            let (_, why) = text.split_once(": ").unwrap();
            why.to_owned()
        }
        other => panic!("not a disagreement: {other:?}"),
    }
}

#[tokio::test]
async fn another_major_is_refused_by_both() {
    let (accepted, connected) = greet(hello(2, 0, "lab"), hello(1, 4, "lab")).await;
    assert_eq!(
        disagreement(accepted),
        "the other side speaks protocol 1.4 (build \"0.0.0\"), this one 2.0 (build \"0.0.0\"): \
         upgrade the other side"
    );
    assert_eq!(
        disagreement(connected),
        "the other side speaks protocol 2.0 (build \"0.0.0\"), this one 1.4 (build \"0.0.0\"): \
         upgrade this one"
    );
}

#[tokio::test]
async fn lower_minor_version_is_agreed() {
    let (accepted, connected) = greet(hello(1, 3, "lab"), hello(1, 2, "lab")).await;
    let lower = Version { major: 1, minor: 2 };
    assert_eq!(accepted.unwrap().version(), lower);
    assert_eq!(connected.unwrap().version(), lower);
}

/// A peer of the previous version gets every message that it knows, and no other.
#[tokio::test]
async fn older_minor_omits_newer_kinds() {
    let earlier = hello(PROTOCOL_VERSION.major, PROTOCOL_VERSION.minor - 1, "lab");
    let (accepted, connected) = greet(
        hello(PROTOCOL_VERSION.major, PROTOCOL_VERSION.minor, "lab"),
        earlier,
    )
    .await;
    let (coordinator, agent) = (accepted.unwrap(), connected.unwrap());
    let later = Response::Policy(PolicyStatus {
        revision: 0,
        settings: vec![],
    });
    let refused = coordinator.send(Channel::Commands, &later).await;
    let refused = refused.unwrap_err().to_string();
    assert_eq!(
        refused,
        "the other side speaks protocol 1.1 and this needs 1.2: upgrade the other side"
    );
    let asked = agent.send(Channel::Commands, &Request::Policy).await;
    assert!(
        matches!(asked, Err(LinkError::NotSpoken { .. })),
        "{asked:?}"
    );
    let known = CoordinatorMessage::Here;
    soon(coordinator.send(Channel::Commands, &known))
        .await
        .unwrap();
    let heard: CoordinatorMessage = soon(agent.receive(Channel::Commands)).await.unwrap();
    assert_eq!(heard, known);
}

#[tokio::test]
async fn old_minor_is_refused_by_both() {
    let (accepted, connected) = greet(hello(1, 9, "lab"), hello(1, 2, "lab")).await;
    assert!(disagreement(accepted).contains("upgrade the other side, by one release"));
    assert!(disagreement(connected).contains("upgrade this one, by one release"));
}

#[tokio::test]
async fn another_cluster_is_refused_by_both() {
    let (accepted, connected) = greet(hello(1, 0, "lab"), hello(1, 0, "prod")).await;
    assert_eq!(
        disagreement(accepted),
        "the other side belongs to cluster \"prod\", this one to \"lab\""
    );
    assert_eq!(
        disagreement(connected),
        "the other side belongs to cluster \"lab\", this one to \"prod\""
    );
}

/// An agent with a valid certificate that stops following the protocol after TLS.
async fn stray(cluster: &Cluster, address: SocketAddr) -> quinn::Connection {
    let agent = cluster.member(Role::Agent, "stray");
    let crypto = tls::client(&agent, Role::Coordinator, Arc::default()).unwrap();
    let config = ClientConfig::new(Arc::new(crypto));
    let endpoint = transport::client_endpoint(address, None, ReceiveFlag::default()).unwrap();
    let connecting = endpoint.connect_with(config, address, "x").unwrap();
    connecting.await.unwrap()
}

/// The listener's result for such an agent that does `act`.
async fn judged<T>(act: impl AsyncFnOnce(quinn::Connection) -> T) -> LinkError {
    let cluster = Cluster::new("lab");
    let (mut listener, address) = listen(&cluster.coordinator());
    let straying = async { act(stray(&cluster, address).await).await };
    let (judged, _kept) = soon(async { tokio::join!(listener.accept(), straying) }).await;
    judged.unwrap().unwrap_err()
}

type Stream = (quinn::SendStream, quinn::RecvStream);

async fn open(connection: &quinn::Connection, first_bytes: &[u8]) -> Stream {
    let (mut send, receive) = connection.open_bi().await.unwrap();
    send.write_all(first_bytes).await.unwrap();
    (send, receive)
}

#[tokio::test]
async fn channels_must_differ_in_kind() {
    for marks in [[0, 0], [1, 1], [0, 7]] {
        let error = judged(async |connection| {
            let streams = [
                open(&connection, &marks[..1]).await,
                open(&connection, &marks[1..]).await,
            ];
            (connection, streams)
        });
        let error = error.await;
        assert!(
            matches!(error, LinkError::WrongChannels { .. }),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn hello_length_is_limited() {
    let error = judged(async |connection| {
        let commands = open(&connection, b"\0\0\0\x04\x01").await;
        let telemetry = open(&connection, b"\x01").await;
        (connection, commands, telemetry)
    });
    let error = error_chain(&error.await);
    let (_, why) = error.split_once(": ").unwrap();
    assert_eq!(
        why,
        "the other side sent an invalid message: a frame of 1025 bytes, and the limit is 1024"
    );
}

#[tokio::test]
async fn third_channel_is_never_granted() {
    let (_coordinator, agent) = pair().await;
    let third = agent.connection.open_bi();
    let answered = agent.receive::<u8>(Channel::Commands);
    tokio::time::pause();
    // Keep-alives were exchanged for a while, so it would have been admitted by now.
    let waited = tokio::time::timeout(4 * HANDSHAKE_TIMEOUT, async {
        tokio::select! {
            _ = third => "granted",
            _ = answered => "ended",
        }
    });
    assert!(waited.await.is_err());
}

#[tokio::test]
async fn silent_peer_times_out_without_blocking() {
    let cluster = Cluster::new("lab");
    let (mut listener, address) = listen(&cluster.coordinator());
    let visits = async {
        let silent = stray(&cluster, address).await;
        let agent = cluster.agent();
        (silent, connect(&[address], &agent, Role::Coordinator).await)
    };
    let (accepted, (_silent, connected)) =
        soon(async { tokio::join!(listener.accept(), visits) }).await;
    assert_eq!(accepted.unwrap().unwrap().peer().name, "h0");
    connected.unwrap();
    tokio::time::pause();
    let start = Instant::now();
    let error = soon(listener.accept()).await.unwrap().unwrap_err();
    assert!(
        matches!(error, LinkError::HandshakeTimedOut { .. }),
        "{error:?}"
    );
    assert!(
        start.elapsed() <= HANDSHAKE_TIMEOUT,
        "{:?}",
        start.elapsed()
    );
}
