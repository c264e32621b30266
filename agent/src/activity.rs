//! A host's traffic as a whole: its peers, and its period.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use nix::net::if_::if_nametoindex;
use reweave_agent_core::flows::Socket;
use reweave_agent_core::iteration_detector::{ByteDelta, IterationDetector};
use reweave_common::moment::Moment;
use reweave_common::periodicity::Periodicity;
use reweave_common::sample::HostReading;
use reweave_common::traffic::{Traffic, TrafficSource};
use reweave_common::units::Rate;

use crate::clock;
use crate::collectives::Listener;
use crate::counters::Tree;
use crate::packet_trains::SharedGate;
use crate::sampler::{Sampler, SegmentDelta};
use crate::traffic::{Refusal, TrafficReader, Wire};

/// Asking nft costs a process.
const NFT_INTERVAL: Duration = Duration::from_secs(2);

pub struct Activity {
    /// None where the counters' files are those of another network namespace.
    pulse: Option<Sampler>,
    rhythm: IterationDetector,
    /// Of a host that forwards for others, whose wires say nothing of itself.
    own: Option<IterationDetector>,
    jobs: Option<Jobs>,
    gate: SharedGate,
    traffic: TrafficReader,
    /// What was last counted, with the flows of datagrams.
    told: Option<(Moment, Traffic, Vec<Socket>)>,
}

impl Activity {
    /// Tells `gate` when the wires rest. Who `forwards` is listened to beside them.
    pub fn start(forwards: bool, gate: SharedGate) -> Self {
        let root = Path::new("/");
        let tree = Tree::new(root);
        Self {
            pulse: Sampler::start(
                root,
                move |name| is_wire(&tree, name),
                forwards,
                gate.clone(),
            )
            .ok(),
            gate,
            rhythm: IterationDetector::default(),
            own: forwards.then(IterationDetector::of_segments),
            jobs: None,
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
            let books = std::iter::once(&mut self.rhythm).chain(&mut self.own);
            books.for_each(|book| book.handle_peers(now, &read.traffic.peers));
            self.told = Some((now, read.traffic, read.datagrams));
        }
        let mut readings = vec![];
        readings.extend(self.listen(now).map(HostReading::Rhythm));
        let ranks = self.jobs.iter().flat_map(|jobs| jobs.listener.readings());
        readings.extend(ranks.map(Box::new).map(HostReading::Rank));
        let (traffic, datagrams) = match &self.told {
            Some((_, traffic, datagrams)) => (Some(traffic.clone()), datagrams.clone()),
            None => (None, vec![]),
        };
        readings.extend(traffic.map(HostReading::Traffic));
        (readings, datagrams)
    }

    pub fn hear_jobs(&mut self, listener: Listener) {
        let rhythm = IterationDetector::default();
        self.jobs = Some(Jobs { listener, rhythm });
    }

    /// As the wires have it, or where they have what passes, the host's own segments; where NICs bypass the
    /// kernel, and so its counters, as jobs tell it.
    fn listen(&mut self, now: Moment) -> Option<Periodicity> {
        let told = self.jobs.as_mut().map(|jobs| jobs.listen(now));
        let heard = self.pulse.as_ref().map(Sampler::take);
        let wires = heard
            .as_ref()
            .map(|it| self.listen_to_wires(now, &it.wires));
        let own = match &mut self.own {
            Some(own) => heard.map(|it| listen_to_own(own, now, &it.own)),
            None => wires,
        };
        // Trains wait for wires that rest, whosever packets they carry.
        if let Some(rhythm) = surer(wires, told) {
            self.gate.handle_rhythm(now, rhythm);
        }
        surer(own, told)
    }

    fn listen_to_wires(&mut self, now: Moment, heard: &[ByteDelta]) -> Periodicity {
        for it in heard {
            self.rhythm
                .handle_growth(it.from, it.to, it.sent, it.received);
        }
        self.rhythm.poll_rhythm(now)
    }

    /// See [`IterationDetector::handle_measuring`].
    pub fn handle_measuring(&mut self, most_rate: Rate) {
        let books = std::iter::once(&mut self.rhythm).chain(&mut self.own);
        books.for_each(|book| book.handle_measuring(most_rate));
    }

    fn is_due(&self, now: Moment) -> bool {
        let dear = self.traffic.source() == TrafficSource::Nftables;
        let told = self.told.as_ref().map(|(at, ..)| *at);
        !dear || clock::is_due(told, now, NFT_INTERVAL)
    }

    pub fn refused(&self) -> &[Refusal] {
        self.traffic.refused()
    }
}

fn listen_to_own(own: &mut IterationDetector, now: Moment, heard: &[SegmentDelta]) -> Periodicity {
    for it in heard {
        own.handle_segments(it.from, it.to, it.segments);
    }
    own.poll_rhythm(now)
}

fn surer(seen: Option<Periodicity>, told: Option<Periodicity>) -> Option<Periodicity> {
    let is_found = |rhythm: &Periodicity| matches!(rhythm, Periodicity::Found(_));
    let found = seen.filter(is_found).or(told.filter(is_found));
    found.or(seen).or(told)
}

/// What jobs themselves tell.
struct Jobs {
    listener: Listener,
    rhythm: IterationDetector,
}

impl Jobs {
    fn listen(&mut self, now: Moment) -> Periodicity {
        for it in self.listener.growth() {
            self.rhythm
                .handle_growth(it.from, it.to, it.sent, it.received);
        }
        self.rhythm.poll_rhythm(now)
    }
}

/// Interfaces that lie on top of others would be counted twice.
fn is_wire(tree: &Tree, name: &str) -> bool {
    !tree.is_loopback(name)
        && if_nametoindex(name).is_ok_and(|index| tree.has_interface(name, index))
        && !tree.is_stacked(name)
}
