//! All members connect at once, as after a power failure, while preferred peers are admitted too.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::thread;

use reweave_common::instruction::Watch;
use reweave_common::moment::Moment;
use reweave_common::sample::Sample;
use reweave_proto::message::{AgentMessage, CoordinatorMessage};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::cluster::{Cluster, listen, soon};
use crate::handshake_limit::Handshakes;
use crate::listener::{HANDSHAKE_LIMITS, server_config};
use crate::receive_limit::{ReceiveFlag, ReceiveLimits};
use crate::transport;
use crate::{Channel, Dialer, Identity, LinkError, Listener, Role, Session};

const AGENT_COUNT: usize = 20;
const SESSIONS_PER_AGENT: usize = 10;
const SESSION_COUNT: usize = AGENT_COUNT * SESSIONS_PER_AGENT;

/// The number of live sessions of each agent that have carried messages.
type Crowd = BTreeMap<String, usize>;

/// An agent that reports, gets an answer, and stays. On a busy machine, some attempts time out and are repeated, as
/// intended.
async fn work(identity: Identity, coordinator: SocketAddr) {
    let mut dialer = Dialer::new(&identity, vec![coordinator], Role::Coordinator).unwrap();
    loop {
        let session = dialer.dial().await;
        if report(&session).await.is_ok() {
            session.closed().await;
        }
    }
}

async fn report(session: &Session) -> Result<(), LinkError> {
    let sample = AgentMessage::Sample(Sample {
        taken: Moment::from_micros(1),
        readings: vec![],
    });
    session.send(Channel::Telemetry, &sample).await?;
    let answer: CoordinatorMessage = session.receive(Channel::Commands).await?;
    assert_eq!(answer, CoordinatorMessage::Watch(Watch::default()));
    Ok(())
}

async fn answer(session: &Session) -> Result<(), LinkError> {
    let _: AgentMessage = session.receive(Channel::Telemetry).await?;
    let watch = CoordinatorMessage::Watch(Watch::default());
    session.send(Channel::Commands, &watch).await
}

async fn host(session: Session, crowd: watch::Sender<Crowd>) {
    if answer(&session).await.is_err() {
        return;
    }
    let count = |change: fn(&mut usize)| {
        let name = session.peer().name.clone();
        crowd.send_modify(|crowd| change(crowd.entry(name).or_default()));
    };
    count(|sessions| *sessions += 1);
    session.closed().await;
    count(|sessions| *sessions -= 1);
}

async fn host_all(mut listener: Listener, crowd: watch::Sender<Crowd>) {
    let mut hosting = JoinSet::new();
    while let Some(arrival) = listener.accept().await {
        if let Ok(session) = arrival {
            hosting.spawn(host(session, crowd.clone()));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_sessions_at_once() {
    let cluster = Cluster::new("lab");
    let (listener, address) = listen(&cluster.coordinator());
    let member = |index| cluster.member(Role::Agent, &format!("h{index}"));
    let agents: Vec<_> = (0..AGENT_COUNT).map(member).collect();
    let (crowd, mut seen) = watch::channel(Crowd::new());
    let hosting = tokio::spawn(host_all(listener, crowd));
    let start = Instant::now();
    let mut working = JoinSet::new();
    for agent in &agents {
        for _ in 0..SESSIONS_PER_AGENT {
            working.spawn(work(agent.clone(), address));
        }
    }
    let everybody = seen.wait_for(|crowd| {
        let full = crowd.values().filter(|count| **count == SESSIONS_PER_AGENT);
        full.count() == AGENT_COUNT
    });
    soon(everybody).await.unwrap();
    println!("{SESSION_COUNT} sessions in {:?}", start.elapsed());
    hosting.abort();
}

/// Coordinators connect to each other while thousands of agents are admitted.
#[test]
fn favoured_peers_get_own_runtime() {
    let apart = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("apart")
        .enable_all()
        .build()
        .unwrap();
    let cluster = Cluster::new("lab");
    let ours = cluster.coordinator();
    let entered = apart.enter();
    let config = server_config(&ours, &[Role::Agent]).unwrap();
    let endpoint = transport::endpoint(
        "127.0.0.1:0".parse().unwrap(),
        ours.return_key().endpoint_config(),
        Some(config),
        ReceiveLimits::default(),
        ReceiveFlag::default(),
    )
    .unwrap();
    let mut handshakes = Handshakes::new(HANDSHAKE_LIMITS);
    let agent = cluster.member(Role::Agent, "h0");
    let calling = apart.spawn(work(agent, endpoint.local_addr().unwrap()));
    drop(entered);
    let crowd = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut served_by = |favoured: &str| {
        handshakes.favour(BTreeSet::from([favoured.parse().unwrap()]));
        let name = |_| async { Ok(thread::current().name().map(str::to_owned)) };
        let served = crowd.block_on(handshakes.next(&endpoint, name));
        served.unwrap().unwrap().unwrap()
    };
    let of_crowd = served_by("127.0.0.2");
    assert_eq!(served_by("127.0.0.1"), "apart");
    assert_eq!(served_by("127.0.0.2"), of_crowd);
    calling.abort();
}
