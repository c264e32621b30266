//! A host's traffic as a whole: its peers, and its iteration period.

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

/// Reading nft starts a process.
const NFT_INTERVAL: Duration = Duration::from_secs(2);

pub struct Activity {
    /// None if the counter files belong to another network namespace.
    pulse: Option<Sampler>,
    rhythm: IterationDetector,
    /// For a host that forwards for others, whose links also carry their traffic.
    own: Option<IterationDetector>,
    jobs: Option<Jobs>,
    gate: SharedGate,
    traffic: TrafficReader,
    /// The last count, with the UDP flows.
    last_report: Option<(Moment, Traffic, Vec<Socket>)>,
}

impl Activity {
    /// Reports to `gate` when the links are idle. A host that `forwards` is also measured by its own segments.
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
            last_report: None,
        }
    }

    /// All readings now, and the UDP flows that this host sends. `sockets` are those of TCP.
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
            self.last_report = Some((now, read.traffic, read.datagrams));
        }
        let mut readings = vec![];
        readings.extend(self.listen(now).map(HostReading::Rhythm));
        let ranks = self.jobs.iter().flat_map(|jobs| jobs.listener.readings());
        readings.extend(ranks.map(Box::new).map(HostReading::Rank));
        let (traffic, datagrams) = match &self.last_report {
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

    /// The iteration period by the links or, on a host that forwards, by its own segments; where NICs bypass the
    /// kernel, by the reports of jobs.
    fn listen(&mut self, now: Moment) -> Option<Periodicity> {
        let of_jobs = self.jobs.as_mut().map(|jobs| jobs.listen(now));
        let heard = self.pulse.as_ref().map(Sampler::take);
        let wires = heard
            .as_ref()
            .map(|it| self.listen_to_wires(now, &it.wires));
        let own = match &mut self.own {
            Some(own) => heard.map(|it| listen_to_own(own, now, &it.own)),
            None => wires,
        };
        // Trains wait for idle links, whatever traffic they carry.
        if let Some(rhythm) = surer(wires, of_jobs) {
            self.gate.handle_rhythm(now, rhythm);
        }
        surer(own, of_jobs)
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
        let reported_at = self.last_report.as_ref().map(|(at, ..)| *at);
        !dear || clock::is_due(reported_at, now, NFT_INTERVAL)
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

fn surer(seen: Option<Periodicity>, of_jobs: Option<Periodicity>) -> Option<Periodicity> {
    let is_found = |rhythm: &Periodicity| matches!(rhythm, Periodicity::Found(_));
    let found = seen.filter(is_found).or(of_jobs.filter(is_found));
    found.or(seen).or(of_jobs)
}

/// The reports of jobs.
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

/// Stacked interfaces would be counted twice.
fn is_wire(tree: &Tree, name: &str) -> bool {
    !tree.is_loopback(name)
        && if_nametoindex(name).is_ok_and(|index| tree.has_interface(name, index))
        && !tree.is_stacked(name)
}
