//! Agents, operators and other coordinators, each over a session of its own.

use std::sync::Arc;
use std::time::Duration;

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::instruction::Instruction;
use reweave_common::operator::Request;
use reweave_link::{Channel, LinkError, Listener, Role, Session, reason};
use reweave_proto::message::{AgentMessage, CoordinatorMessage, PeerPart};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use crate::error::CoordinatorError;
use crate::intake::{Closed, Event, Intake, Origin, SessionId};
use crate::replication::{Cluster, Joiner, Replication};

/// Instructions that an agent has not taken yet. A few watches and installs, unless it is stuck.
const OUTBOX: usize = 64;
/// An agent that was told to go elsewhere goes soon.
const FAREWELL: Duration = Duration::from_secs(1);

/// What sessions need to know.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) fabric: Arc<Fabric>,
    pub(crate) intake: Intake,
    pub(crate) cluster: watch::Receiver<Cluster>,
    pub(crate) replication: Replication,
}

/// Lets peers in for as long as the socket is there.
pub(crate) async fn welcome(listener: &mut Listener, host: &Host) -> CoordinatorError {
    let mut last = SessionId(0);
    loop {
        match listener.accept().await {
            None => return CoordinatorError::SocketGone,
            Some(Err(error)) => tracing::warn!("not let in: {}", reason(&error)),
            Some(Ok(session)) => {
                last = SessionId(last.0 + 1);
                begin(session, last, host.clone());
            }
        }
    }
}

fn begin(session: Session, id: SessionId, host: Host) {
    let peer = session.peer().clone();
    match peer.role {
        Role::Agent => match host.fabric.find(&peer.name) {
            Some(node) => drop(tokio::spawn(serve_agent(session, node, id, host))),
            None => drop(tokio::spawn(turn_away(session))),
        },
        Role::Operator => drop(tokio::spawn(serve_operator(session, host.intake))),
        Role::Coordinator => drop(tokio::spawn(hear_coordinator(session, host))),
    }
}

async fn turn_away(session: Session) {
    let why = format!("the fabric has no node called {:?}", session.peer().name);
    tracing::warn!("{} at {}: {why}", session.peer(), session.address());
    session.close(&why).await;
}

/// How a session came to its end.
enum Ending {
    Lost(LinkError),
    /// A newer session of the same agent took its place, or it took no instructions.
    Replaced,
    /// The program ends.
    Closed,
}

impl From<LinkError> for Ending {
    fn from(error: LinkError) -> Self {
        Self::Lost(error)
    }
}

impl From<Closed> for Ending {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}

async fn serve_agent(session: Session, node: NodeId, id: SessionId, host: Host) {
    let Host {
        intake, cluster, ..
    } = host;
    if !cluster.borrow().leads() {
        return send_elsewhere(session, &cluster).await;
    }
    let from = Origin { node, session: id };
    let name = session.peer().name.clone();
    tracing::info!("agent {name} is here, from {}", session.address());
    let (outbox, instructions) = mpsc::channel(OUTBOX);
    if intake.put(Event::Arrived { from, outbox }).await.is_err() {
        return;
    }
    let ending = tokio::select! {
        ending = hear(&session, Channel::Commands, from, &intake) => ending,
        ending = hear(&session, Channel::Telemetry, from, &intake) => ending,
        ending = instruct(&session, instructions) => ending,
    };
    // Without a queue nobody needs to know.
    let _ = intake.put(Event::Left { from }).await;
    match ending {
        Ending::Lost(error) => tracing::info!("agent {name} is gone: {}", reason(&error)),
        Ending::Replaced if !cluster.borrow().leads() => send_elsewhere(session, &cluster).await,
        Ending::Replaced => session.close("this session's place was taken").await,
        Ending::Closed => session.close("the coordinator ends").await,
    }
}

/// Tells an agent who leads, as far as that is known, and waits until it leaves.
async fn send_elsewhere(session: Session, cluster: &watch::Receiver<Cluster>) {
    let leader = cluster.borrow().leader();
    let message = CoordinatorMessage::Elsewhere(leader);
    if session.send(Channel::Commands, &message).await.is_ok() {
        let _ = timeout(FAREWELL, session.closed()).await;
    }
    session.close("another coordinator leads").await;
}

/// Another coordinator says what its replica has to say to ours.
async fn hear_coordinator(session: Session, host: Host) {
    let heard = tokio::select! {
        heard = hear_peer(&session, Channel::Commands, &host) => heard,
        heard = hear_peer(&session, Channel::Telemetry, &host) => heard,
    };
    if let Err(why) = heard {
        tracing::warn!("coordinator {}: {why}", session.peer().name);
        session.close(why).await;
    }
}

/// An error when it says what it may not.
async fn hear_peer(session: &Session, channel: Channel, host: &Host) -> Result<(), &'static str> {
    let mut joiner = Joiner::default();
    while let Ok(part) = session.receive::<PeerPart>(channel).await {
        let message = joiner
            .join(&part)
            .map_err(|_| "it sent what is no message")?;
        let Some(message) = message else { continue };
        let name = &session.peer().name;
        if !host.cluster.borrow().directory.is_named(message.from, name) {
            return Err("it speaks for a member of another name");
        }
        host.replication.put_message(message);
    }
    Ok(())
}

async fn hear(session: &Session, channel: Channel, from: Origin, intake: &Intake) -> Ending {
    loop {
        if let Err(ending) = hear_one(session, channel, from, intake).await {
            return ending;
        }
    }
}

async fn hear_one(
    session: &Session,
    channel: Channel,
    from: Origin,
    intake: &Intake,
) -> Result<(), Ending> {
    match session.receive(channel).await? {
        AgentMessage::Sample(sample) => {
            intake.put_telemetry(Event::Measured { from, sample })?;
        }
        AgentMessage::Ack(ack) => intake.put(Event::Acknowledged { from, ack }).await?,
    }
    Ok(())
}

async fn instruct(session: &Session, mut instructions: mpsc::Receiver<Instruction>) -> Ending {
    while let Some(instruction) = instructions.recv().await {
        let message = CoordinatorMessage::from(instruction);
        if let Err(error) = session.send(Channel::Commands, &message).await {
            return error.into();
        }
    }
    Ending::Replaced
}

/// One request after the other, each answered before the next is read.
async fn serve_operator(session: Session, intake: Intake) {
    let principal = session.peer().name.clone();
    loop {
        let answered = answer_one(&session, &principal, &intake).await;
        match answered {
            Ok(()) => {}
            Err(Ending::Lost(error @ LinkError::Unsendable(_))) => {
                tracing::warn!("answer to operator {principal}: {}", reason(&error));
                return session.close("the answer is too long to be sent").await;
            }
            Err(Ending::Lost(_)) => return,
            Err(Ending::Replaced | Ending::Closed) => {
                return session.close("the coordinator ends").await;
            }
        }
    }
}

async fn answer_one(session: &Session, principal: &str, intake: &Intake) -> Result<(), Ending> {
    let request: Request = session.receive(Channel::Commands).await?;
    let (reply, answer) = oneshot::channel();
    let principal = principal.to_owned();
    let asked = Event::Asked {
        principal,
        request,
        reply,
    };
    intake.put(asked).await?;
    let response = answer.await.map_err(|_| Ending::Closed)?;
    Ok(session.send(Channel::Commands, &response).await?)
}
