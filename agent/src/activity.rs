//! What a host's traffic says as a whole: with whom it is exchanged, and whether it repeats itself.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use nix::net::if_::if_nametoindex;
use reweave_agent_core::flows::Socket;
use reweave_agent_core::rhythm::RhythmBook;
use reweave_common::moment::Moment;
use reweave_common::sample::HostReading;
use reweave_common::traffic::{Traffic, TrafficSource};
use reweave_common::units::Rate;

use crate::clock;
use crate::counters::Tree;
use crate::pulse::Pulse;
use crate::traffic::{Refusal, TrafficReader, Wire};
use crate::trains::SharedGate;

/// Asking nft costs a process.
const NFT_PERIOD: Duration = Duration::from_secs(2);

pub struct Activity {
    /// None where the counters' files are those of another network namespace.
    pulse: Option<Pulse>,
    rhythm: RhythmBook,
    gate: SharedGate,
    traffic: TrafficReader,
    /// What was last counted, with the flows of datagrams.
    told: Option<(Moment, Traffic, Vec<Socket>)>,
}

impl Activity {
    /// Tells `gate` when the wires rest.
    pub fn start(gate: SharedGate) -> Self {
        let root = Path::new("/");
        let tree = Tree::new(root);
        Self {
            pulse: Pulse::start(root, move |name| is_wire(&tree, name), gate.clone()).ok(),
            gate,
            rhythm: RhythmBook::default(),
            traffic: TrafficReader::open(TrafficSource::Ebpf),
            told: None,
        }
    }

    /// All that is known at this moment, and the flows of datagrams that this host sends. `sockets` are
    /// those of TCP.
    pub fn readings(
        &mut self,
        now: Moment,
        wires: &[Wire],
        own: &BTreeSet<Ipv4Addr>,
        sockets: &[Socket],
    ) -> (Vec<HostReading>, Vec<Socket>) {
        if self.is_due(now) {
            let read = self.traffic.read(now, wires, own, sockets);
            self.rhythm.handle_peers(now, &read.traffic.peers);
            self.told = Some((now, read.traffic, read.datagrams));
        }
        let mut readings = vec![];
        if let Some(pulse) = &self.pulse {
            for it in pulse.take() {
                self.rhythm
                    .handle_growth(it.from, it.to, it.sent, it.received);
            }
            let rhythm = self.rhythm.poll_rhythm(now);
            self.gate.handle_rhythm(now, rhythm);
            readings.push(HostReading::Rhythm(rhythm));
        }
        let (traffic, datagrams) = match &self.told {
            Some((_, traffic, datagrams)) => (Some(traffic.clone()), datagrams.clone()),
            None => (None, vec![]),
        };
        readings.extend(traffic.map(HostReading::Traffic));
        (readings, datagrams)
    }

    /// See [`RhythmBook::handle_measuring`].
    pub fn handle_measuring(&mut self, most_rate: Rate) {
        self.rhythm.handle_measuring(most_rate);
    }

    fn is_due(&self, now: Moment) -> bool {
        let dear = self.traffic.source() == TrafficSource::Nftables;
        let told = self.told.as_ref().map(|(at, ..)| *at);
        !dear || clock::is_due(told, now, NFT_PERIOD)
    }

    pub fn refused(&self) -> &[Refusal] {
        self.traffic.refused()
    }
}

/// Interfaces that lie on top of others would be counted twice.
fn is_wire(tree: &Tree, name: &str) -> bool {
    let here = || if_nametoindex(name).is_ok_and(|index| tree.has_interface(name, index));
    !tree.is_loopback(name) && here() && !tree.is_stacked(name)
}
