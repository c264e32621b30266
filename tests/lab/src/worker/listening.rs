//! How a rank's sessions come to be: first everybody listens, then everybody connects.

use std::io;
use std::rc::Rc;

use tokio::sync::Notify;

use super::flow::{Flow, Wire};
use super::protocol::{FlowSpec, Transport};
use super::rank::RankFlows;
use super::tcp;
use crate::error::LabError;

/// A rank that others can reach, and that has reached nobody yet.
pub(crate) struct Listening {
    outgoing: Vec<FlowSpec>,
    incoming: tcp::Listeners,
}

impl Listening {
    pub(crate) fn open<'f>(
        transport: Transport,
        outgoing: impl Iterator<Item = &'f FlowSpec>,
        incoming: impl Iterator<Item = &'f FlowSpec>,
    ) -> Result<Self, LabError> {
        if transport == Transport::Udp {
            let source = io::ErrorKind::Unsupported.into();
            return Err(LabError::Worker { source });
        }
        let outgoing = outgoing.cloned().collect();
        Ok(Self {
            outgoing,
            incoming: tcp::Listeners::open(incoming)?,
        })
    }

    pub(crate) async fn connect(self) -> Result<RankFlows, LabError> {
        let broken = Rc::<Notify>::default();
        let accepting = tokio::task::spawn_local(self.incoming.accept_all());
        let mut outgoing = Vec::new();
        for spec in self.outgoing {
            let wire = tcp::connect(&spec)
                .await
                .map_err(|source| LabError::OpenFlow {
                    flow: format!("{} > {}", spec.source, spec.destination),
                    source,
                })?;
            outgoing.push(Flow::sender(spec, wire, &broken));
        }
        let accepted = accepting.await.map_err(io::Error::from).flatten();
        let mut accepted = accepted.map_err(|source| LabError::Worker { source })?;
        accepted.sort_by_key(|(spec, _): &(FlowSpec, Wire)| spec.id);
        let incoming = accepted
            .into_iter()
            .map(|(spec, wire)| Flow::receiver(spec, wire, &broken));
        Ok(RankFlows {
            outgoing,
            incoming: incoming.collect(),
            broken,
        })
    }
}
