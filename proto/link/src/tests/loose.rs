//! Datagrams: short messages beside the channels, which may be lost.

use super::cluster::{pair, soon};
use crate::{Channel, LinkError};

#[tokio::test]
async fn datagram_passes_unread_channel() {
    let (coordinator, agent) = pair().await;
    let piece = vec![0_u8; 200 << 10];
    coordinator
        .send_any(Channel::Commands, &piece)
        .await
        .unwrap();
    assert!(coordinator.send_loose(&7_u32).unwrap());
    assert_eq!(soon(agent.receive_loose::<u32>()).await.unwrap(), 7);
}

#[tokio::test]
async fn long_datagram_is_not_sent() {
    let (coordinator, agent) = pair().await;
    assert!(!coordinator.send_loose(&vec![0_u8; 2000]).unwrap());
    assert!(coordinator.send_loose(&7_u32).unwrap());
    assert_eq!(soon(agent.receive_loose::<u32>()).await.unwrap(), 7);
}

#[tokio::test]
async fn unreadable_datagram_ends_session() {
    let (coordinator, agent) = pair().await;
    assert!(coordinator.send_loose(&"none").unwrap());
    let heard = soon(agent.receive_loose::<u8>()).await;
    assert!(matches!(heard, Err(LinkError::Unreadable(_))), "{heard:?}");
    let farewell = soon(coordinator.receive_loose::<u8>()).await;
    assert!(
        matches!(farewell, Err(LinkError::ClosedByPeer { .. })),
        "{farewell:?}"
    );
}

/// A peer that reads no datagrams keeps few of them, and loses nothing else.
#[tokio::test]
async fn unread_datagram_flood_is_bounded() {
    let (coordinator, agent) = pair().await;
    for _ in 0..100_000 {
        assert!(agent.send_loose(&[1_u8; 32]).unwrap());
        tokio::task::consume_budget().await;
    }
    agent.send_any(Channel::Commands, &7_u8).await.unwrap();
    let heard = soon(coordinator.receive::<u8>(Channel::Commands)).await;
    assert_eq!(heard.unwrap(), 7);
}
