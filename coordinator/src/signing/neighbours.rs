//! Other coordinators, which sign for a coordinator without a signer.

use std::net::SocketAddr;
use std::time::Duration;

use reweave_common::error::error_chain;
use reweave_link::{Channel, Identity, Role, Session, connect};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::replication::{Cluster, PeerMessage, PeerMessageReceiver, Wish};

/// Signing takes a millisecond; the other coordinator may be busy, or gone.
const SIGN_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub(crate) struct Neighbours {
    pub(crate) ours: watch::Receiver<Identity>,
    pub(crate) cluster: watch::Receiver<Cluster>,
}

impl Neighbours {
    /// What the first of them gives that can.
    pub(super) async fn certify(&self, wish: Option<&Wish>) -> Option<String> {
        let addresses: Vec<_> = {
            let cluster = self.cluster.borrow();
            let peers = cluster.directory.peers();
            peers.map(|(_, member)| member.address).collect()
        };
        for address in addresses {
            let asked = timeout(SIGN_TIMEOUT, self.ask(address, wish)).await;
            if let Ok(Some(chain_pem)) = asked {
                return Some(chain_pem);
            }
        }
        None
    }

    async fn ask(&self, address: SocketAddr, wish: Option<&Wish>) -> Option<String> {
        let ours = self.ours.borrow().clone();
        let session = connect(&[address], &ours, Role::Coordinator).await;
        let session = session
            .inspect_err(|error| {
                tracing::debug!("cannot request a signature: {}", error_chain(error));
            })
            .ok()?;
        let answer = exchange(&session, wish).await;
        session.close("no further request").await;
        answer
    }
}

async fn exchange(session: &Session, wish: Option<&Wish>) -> Option<String> {
    let peer_message = PeerMessage::Certify(wish.cloned());
    peer_message.send(session).await.ok()?;
    let mut peer_messages = PeerMessageReceiver::new(session, Channel::Commands);
    match peer_messages.receive().await.ok()? {
        PeerMessage::Certified(chain_pem) => chain_pem,
        _ => None,
    }
}
