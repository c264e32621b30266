//! Opens a rank's sessions: first all ranks listen, then all connect.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddrV4;
use std::rc::Rc;

use tokio::sync::Notify;

use super::flow::{Flow, Wire};
use super::protocol::{FlowSpec, Transport};
use super::rank::RankFlows;
use super::{datagram, quic, tcp};
use crate::error::LabError;

/// A rank that others can reach, and that has reached none yet.
pub(crate) struct Listening {
    outgoing: Vec<FlowSpec>,
    incoming: Incoming,
}

enum Incoming {
    Tcp(tcp::Listeners),
    Udp(datagram::Listeners),
    Quic(quic::Listeners),
}

impl Listening {
    pub(crate) fn open<'f>(
        transport: Transport,
        outgoing: impl Iterator<Item = &'f FlowSpec>,
        incoming: impl Iterator<Item = &'f FlowSpec>,
    ) -> Result<Self, LabError> {
        let incoming = match transport {
            Transport::Tcp => Incoming::Tcp(tcp::Listeners::open(incoming)?),
            Transport::Udp => Incoming::Udp(datagram::Listeners::open(incoming)?),
            Transport::Quic => Incoming::Quic(quic::Listeners::open(incoming)?),
        };
        Ok(Self {
            outgoing: outgoing.cloned().collect(),
            incoming,
        })
    }

    pub(crate) async fn connect(self) -> Result<RankFlows, LabError> {
        let broken = Rc::<Notify>::default();
        let transport = self.incoming.transport();
        let accepting = tokio::task::spawn_local(self.incoming.accept_all());
        let mut outgoing = Vec::new();
        for spec in self.outgoing {
            let wire = connect(transport, &spec)
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

impl Incoming {
    fn transport(&self) -> Transport {
        match self {
            Self::Tcp(_) => Transport::Tcp,
            Self::Udp(_) => Transport::Udp,
            Self::Quic(_) => Transport::Quic,
        }
    }

    async fn accept_all(self) -> io::Result<Vec<(FlowSpec, Wire)>> {
        match self {
            Self::Tcp(listeners) => listeners.accept_all().await,
            Self::Udp(listeners) => Ok(listeners.into_wires()),
            Self::Quic(listeners) => listeners.accept_all().await,
        }
    }
}

/// Incoming flows by where they come from, and where to listen for them.
pub(super) fn expected<'f>(
    flows: impl Iterator<Item = &'f FlowSpec>,
) -> (BTreeMap<SocketAddrV4, FlowSpec>, BTreeSet<SocketAddrV4>) {
    let awaited: BTreeMap<_, _> = flows.map(|flow| (flow.source, flow.clone())).collect();
    let places = awaited.values().map(|flow| flow.destination).collect();
    (awaited, places)
}

async fn connect(transport: Transport, flow: &FlowSpec) -> io::Result<Wire> {
    match transport {
        Transport::Tcp => tcp::connect(flow).await,
        Transport::Udp => datagram::connect(flow).await,
        Transport::Quic => quic::connect(flow).await,
    }
}
