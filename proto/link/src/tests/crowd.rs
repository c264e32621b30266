//! Everybody at once, as after a power cut.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use reweave_common::instruction::Watch;
use reweave_common::moment::Moment;
use reweave_common::sample::Sample;
use reweave_proto::message::{AgentMessage, CoordinatorMessage};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::cluster::{Cluster, listen, soon};
use crate::{Channel, Dialer, Identity, LinkError, Listener, Role, Session};

const AGENTS: usize = 20;
const SESSIONS_OF_EACH: usize = 10;
const SESSIONS: usize = AGENTS * SESSIONS_OF_EACH;

/// One agent's day: it reports, is answered, and stays. A machine that is too busy to let everybody
/// in at the first knock makes some come again, which is how it shall be.
async fn work(identity: Identity, coordinator: SocketAddr) -> Session {
    let mut dialer = Dialer::new(&identity, vec![coordinator], Role::Coordinator).unwrap();
    loop {
        let session = dialer.dial().await;
        if report(&session).await.is_ok() {
            return session;
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

/// Answers whoever comes, for ever, and keeps the session: the names of those who were answered.
async fn answer_all(mut listener: Listener, answered: mpsc::UnboundedSender<String>) {
    let mut answering = JoinSet::new();
    loop {
        let Ok(session) = listener.accept().await.unwrap() else {
            continue;
        };
        let answered = answered.clone();
        answering.spawn(async move {
            if answer(&session).await.is_ok() {
                answered.send(session.peer().name.clone()).unwrap();
            }
            session.closed().await
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_sessions_at_once() {
    let cluster = Cluster::new("lab");
    let (listener, address) = listen(&cluster.coordinator());
    let mut working = JoinSet::new();
    for index in 0..AGENTS {
        let agent = cluster.member(Role::Agent, &format!("h{index}"));
        for _ in 0..SESSIONS_OF_EACH {
            working.spawn(work(agent.clone(), address));
        }
    }
    let (answered, mut answers) = mpsc::unbounded_channel();
    let answering = tokio::spawn(answer_all(listener, answered));
    let start = Instant::now();
    let sessions = soon(working.join_all()).await;
    println!("{SESSIONS} sessions in {:?}", start.elapsed());
    let alive = sessions
        .iter()
        .filter(|session| session.connection.close_reason().is_none());
    assert_eq!(alive.count(), SESSIONS);
    answering.abort();
    let mut seen = BTreeMap::<String, usize>::new();
    while let Ok(name) = answers.try_recv() {
        *seen.entry(name).or_default() += 1;
    }
    assert_eq!(seen.len(), AGENTS);
    // An answer that came too late for its receiver was given twice.
    assert!(
        seen.values().all(|count| *count >= SESSIONS_OF_EACH),
        "{seen:?}"
    );
}
