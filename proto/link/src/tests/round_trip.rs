//! Messages arrive in order, in both directions and on both channels, also after cancellations.

use std::future::poll_fn;
use std::task::Poll;

use reweave_common::forwarding_state::ForwardingState;
use reweave_common::instruction::{Ack, Install, InstallRefusal, Token, Watch};
use reweave_common::moment::Moment;
use reweave_common::plan::Generation;
use reweave_common::sample::Sample;
use reweave_proto::hello::PROTOCOL_VERSION;
use reweave_proto::message::{AgentMessage, CoordinatorMessage};

use super::cluster::{Cluster, listen, pair, session, soon};
use crate::{Channel, Peer, Role, Session};

/// Polls once and cancels, as a `select!` may.
async fn give_up<T>(future: impl Future<Output = T>) -> bool {
    let mut future = std::pin::pin!(future);
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

#[tokio::test]
async fn messages_come_through_on_both_channels() {
    let (coordinator, agent) = pair().await;
    let install = CoordinatorMessage::Install(Install {
        generation: Generation(3),
        token: Token(9),
        holding: ForwardingState::default(),
    });
    coordinator
        .send_any(Channel::Commands, &install)
        .await
        .unwrap();
    let received: CoordinatorMessage = soon(agent.receive(Channel::Commands)).await.unwrap();
    assert_eq!(received, install);

    let ack = AgentMessage::Ack(Ack {
        generation: Generation(3),
        token: Token(9),
        outcome: Err(InstallRefusal::NotASwitch),
    });
    let sample = AgentMessage::Sample(Sample {
        taken: Moment::from_micros(7),
        readings: vec![],
    });
    agent.send_any(Channel::Telemetry, &sample).await.unwrap();
    agent.send_any(Channel::Commands, &ack).await.unwrap();
    for (channel, sent) in [(Channel::Commands, ack), (Channel::Telemetry, sample)] {
        let received: AgentMessage = soon(coordinator.receive(channel)).await.unwrap();
        assert_eq!(received, sent);
    }
}

#[tokio::test]
async fn both_ends_know_their_peer() {
    let cluster = Cluster::new("lab");
    let (mut listener, address) = listen(&cluster.coordinator());
    for role in Role::ALL {
        let (accepted, connected) = session(&mut listener, &cluster.member(role, "x1")).await;
        let name = "x1".to_owned();
        assert_eq!(*accepted.peer(), Peer { role, name });
        assert_eq!(connected.peer().to_string(), "coordinator c0");
        assert_eq!(connected.address(), address);
        assert_eq!(
            (accepted.version(), connected.version()),
            (PROTOCOL_VERSION, PROTOCOL_VERSION)
        );
    }
}

/// Makes a text longer than a channel holds in flight, so that sending needs a reader.
fn long() -> String {
    "there is more than one way ".repeat(30_000)
}

async fn receive(session: &Session) -> String {
    soon(session.receive(Channel::Telemetry)).await.unwrap()
}

#[tokio::test]
async fn cancelled_receiver_loses_nothing() {
    let (coordinator, agent) = pair().await;
    let sending = async { agent.send_any(Channel::Telemetry, &long()).await.unwrap() };
    let receiving = async {
        let mut given_up = 0;
        while give_up(coordinator.receive::<String>(Channel::Telemetry)).await {
            given_up += 1;
            if given_up == 5 {
                return receive(&coordinator).await;
            }
            tokio::task::yield_now().await;
        }
        panic!("all of it came through in fewer than 5 looks");
    };
    let ((), received) = soon(async { tokio::join!(sending, receiving) }).await;
    assert_eq!(received, long());
}

#[tokio::test]
async fn cancelled_sender_keeps_stream_whole() {
    let (coordinator, agent) = pair().await;
    assert!(give_up(agent.send_any(Channel::Telemetry, &long())).await);
    let sending = async { agent.send_any(Channel::Telemetry, &"short").await.unwrap() };
    let receiving = async { [receive(&coordinator).await, receive(&coordinator).await] };
    let ((), received) = soon(async { tokio::join!(sending, receiving) }).await;
    assert_eq!(received, [long(), "short".to_owned()]);
}

#[tokio::test]
async fn closed_session_names_reason() {
    let (coordinator, agent) = pair().await;
    let (error, ()) = tokio::join!(
        soon(coordinator.receive::<AgentMessage>(Channel::Commands)),
        soon(agent.close("this agent\n is being\u{1b} stopped")),
    );
    assert_eq!(
        error.unwrap_err().to_string(),
        "the other side closed the session: this agent is being stopped"
    );
    let watch = CoordinatorMessage::Watch(Watch::default());
    let sent = coordinator.send_any(Channel::Commands, &watch).await;
    assert!(matches!(sent, Err(crate::LinkError::ClosedByPeer { .. })));
}

#[tokio::test]
async fn commands_outrank_telemetry() {
    let (coordinator, agent) = pair().await;
    for side in [coordinator, agent] {
        let [commands, telemetry] = [Channel::Commands, Channel::Telemetry].map(|c| side.lane(c));
        let commands = commands.writer.lock().await.priority();
        assert!(commands > telemetry.writer.lock().await.priority());
    }
}
