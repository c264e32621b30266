//! Packets above a peer's limit are dropped unread; other peers are not affected.

use super::cluster::{Cluster, listen, session, soon};
use crate::{Channel, Role, Session, TokenBucket};

const SHARE_PACKETS: u64 = 40;
const SENT_PACKETS: usize = 400;

async fn flood(agent: &Session) {
    for _ in 0..SENT_PACKETS {
        agent.send_loose(&vec![0_u8; 100]).unwrap();
        tokio::task::yield_now().await;
    }
}

async fn is_heard(agent: &Session, by: &Session) {
    agent.send_any(Channel::Commands, &7_u8).await.unwrap();
    assert_eq!(by.receive::<u8>(Channel::Commands).await.unwrap(), 7);
}

#[tokio::test]
async fn peer_is_limited_to_its_share() {
    let cluster = Cluster::new("lab");
    let (mut listener, _) = listen(&cluster.coordinator());
    let hostile = cluster.member(Role::Agent, "h0");
    let honest = cluster.member(Role::Agent, "h1");
    let (from_hostile, hostile) = session(&mut listener, &hostile).await;
    let (from_honest, honest) = session(&mut listener, &honest).await;
    let before = from_hostile.heard_packets();
    let share = from_hostile.pace_packets(TokenBucket::new(1, SHARE_PACKETS as u32));
    for _ in 0..4 {
        soon(flood(&hostile)).await;
        soon(is_heard(&honest, &from_honest)).await;
    }
    // Packets that are read together count together.
    let heard = from_hostile.heard_packets() - before;
    assert!(heard <= 2 * SHARE_PACKETS, "{heard} packets");
    drop(share);
    soon(is_heard(&hostile, &from_hostile)).await;
}
