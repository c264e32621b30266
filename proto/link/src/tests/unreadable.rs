//! An invalid message ends the session, and both sides report why.

use bytes::Bytes;
use reweave_common::error::error_chain;
use reweave_proto::frame::WireError;
use reweave_proto::message::AgentMessage;

use super::cluster::{pair, soon};
use crate::{Channel, LinkError, Session};

/// Sends bytes that no encoder of ours makes.
async fn send_raw(session: &Session, bytes: &'static [u8]) {
    let mut writer = session.commands.writer.lock().await;
    writer.send(Bytes::from_static(bytes)).await.unwrap();
}

/// Returns what the coordinator and then the agent report after the agent has sent these bytes.
async fn after(bytes: &'static [u8]) -> (WireError, String) {
    let (coordinator, agent) = pair().await;
    send_raw(&agent, bytes).await;
    let error = soon(coordinator.receive::<AgentMessage>(Channel::Commands)).await;
    let Err(LinkError::Unreadable(wire)) = error else {
        panic!("it was read: {error:?}");
    };
    let farewell = soon(agent.receive::<u8>(Channel::Commands)).await;
    // The other channel is as dead as this one.
    let telemetry = soon(coordinator.receive::<u8>(Channel::Telemetry)).await;
    assert!(matches!(telemetry, Err(LinkError::ClosedHere)));
    (wire, error_chain(&farewell.unwrap_err()))
}

#[tokio::test]
async fn oversized_frame_is_unreadable() {
    let (wire, farewell) = after(&[0, 0x10, 0, 1]).await;
    let expected = WireError::Oversized {
        length_bytes: (1 << 20) + 1,
        limit_bytes: 1 << 20,
    };
    assert_eq!(wire, expected);
    assert_eq!(
        farewell,
        "the other side closed the session: a frame of 1048577 bytes, and the limit is 1048576"
    );
}

#[tokio::test]
async fn frame_without_message_is_unreadable() {
    let (wire, farewell) = after(&[0, 0, 0, 2, 9, 9]).await;
    assert!(matches!(wire, WireError::Garbage(_)), "{wire:?}");
    assert!(
        farewell.contains("a message unknown to this version"),
        "{farewell}"
    );
}

#[tokio::test]
async fn channel_ending_inside_frame_is_truncated() {
    let (coordinator, agent) = pair().await;
    send_raw(&agent, &[0, 0, 0, 9, 1]).await;
    agent.commands.writer.lock().await.finish();
    let error = soon(coordinator.receive::<AgentMessage>(Channel::Commands)).await;
    let truncated = WireError::Truncated { held_bytes: 5 };
    assert!(matches!(error, Err(LinkError::Unreadable(wire)) if wire == truncated));
}

#[tokio::test]
async fn oversized_message_is_not_sent() {
    let (coordinator, agent) = pair().await;
    let sent = agent
        .send_any(Channel::Commands, &vec![0_u8; 1 << 20])
        .await;
    assert!(matches!(
        sent,
        Err(LinkError::Unsendable(WireError::Oversized { .. }))
    ));
    agent.send_any(Channel::Commands, &7_u8).await.unwrap();
    assert_eq!(
        soon(coordinator.receive::<u8>(Channel::Commands))
            .await
            .unwrap(),
        7
    );
}

/// The state of a whole cluster is longer than anything that agents report.
#[tokio::test]
async fn connector_takes_long_answers() {
    let (coordinator, agent) = pair().await;
    let answer = vec![7_u8; 3 << 20];
    let sending = coordinator.send_any(Channel::Commands, &answer);
    let receiving = soon(agent.receive::<Vec<u8>>(Channel::Commands));
    let (sent, received) = tokio::join!(sending, receiving);
    sent.unwrap();
    assert!(received.unwrap() == answer, "another one came");
    let endless = coordinator
        .send_any(Channel::Commands, &vec![0_u8; 64 << 20])
        .await;
    assert!(matches!(
        endless,
        Err(LinkError::Unsendable(WireError::Oversized { .. }))
    ));
}
