//! What the ranks of a job have said so far, and what it adds up to.

use std::time::Duration;

use reweave_common::scenario::Job;
use reweave_common::units::{Bytes, Rate};

use super::launch::PlannedFlow;
use super::ports::Hop;
use crate::cluster::Cluster;
use crate::report::{Broken, FlowOutcome, JobReport, Spread};
use crate::worker::protocol::{Event, FlowReport, RankReport};

pub(crate) struct Tally<'c> {
    cluster: &'c Cluster,
    job: &'c Job,
    flows: Vec<PlannedFlow>,
    ranks: Vec<RankTally>,
    /// Bytes received, by flow, in the order of time.
    received: Vec<Vec<Received>>,
}

#[derive(Default)]
struct RankTally {
    listens: bool,
    connected: bool,
    silent: bool,
    /// All it said, as it said it.
    log: String,
    /// Duration, and the part of it that was communication.
    iterations: Vec<[Duration; 2]>,
    report: Option<RankReport>,
}

#[derive(Clone, Copy)]
struct Received {
    at: Duration,
    bytes: Bytes,
}

impl RankTally {
    fn ended(&self) -> bool {
        self.silent || self.report.is_some()
    }
}

impl<'c> Tally<'c> {
    pub(super) fn new(cluster: &'c Cluster, job: &'c Job, flows: Vec<PlannedFlow>) -> Self {
        let ranks = job.hosts.iter().map(|_| RankTally::default()).collect();
        let received = flows.iter().map(|_| Vec::new()).collect();
        Self {
            cluster,
            job,
            flows,
            ranks,
            received,
        }
    }

    pub(super) fn note(&mut self, rank: usize, event: Event) {
        let tally = &mut self.ranks[rank];
        match event {
            Event::Listening => tally.listens = true,
            Event::Connected => tally.connected = true,
            Event::Iteration {
                duration_us,
                exposed_us,
                ..
            } => {
                tally
                    .iterations
                    .push([duration_us, exposed_us].map(Duration::from_micros));
            }
            Event::Sample { at_us, flows } => {
                for flow in flows {
                    let bytes = Bytes::new(flow.bytes_received);
                    let received = Received {
                        at: Duration::from_micros(at_us),
                        bytes,
                    };
                    self.received[flow.id as usize].push(received);
                }
            }
            Event::Report(report) => tally.report = Some(report),
        }
    }

    pub(super) fn write_down(&mut self, rank: usize, line: &str) {
        let log = &mut self.ranks[rank].log;
        log.push_str(line);
        log.push('\n');
    }

    /// What each rank said, line by line.
    pub(crate) fn logs(&self) -> impl Iterator<Item = &str> {
        self.ranks.iter().map(|rank| rank.log.as_str())
    }

    pub(super) fn fell_silent(&mut self, rank: usize) {
        self.ranks[rank].silent = true;
    }

    /// A rank that has ended already will not do what is waited for.
    pub(super) fn all_listen(&self) -> bool {
        self.ranks.iter().all(|rank| rank.listens || rank.ended())
    }

    pub(super) fn all_connected(&self) -> bool {
        self.ranks.iter().all(|rank| rank.connected)
    }

    pub(crate) fn all_ended(&self) -> bool {
        self.ranks.iter().all(RankTally::ended)
    }

    /// Whether there is nothing more to wait for.
    pub(crate) fn has_come_to_an_end(&self) -> bool {
        self.all_ended() || self.is_broken()
    }

    /// Whether a session is lost, so that the job cannot complete.
    fn is_broken(&self) -> bool {
        let lost = |rank: &RankTally| {
            rank.report
                .as_ref()
                .is_none_or(|report| report.broken.is_some())
        };
        self.ranks.iter().any(|rank| rank.ended() && lost(rank))
    }

    pub(crate) fn flows(&self) -> &[PlannedFlow] {
        &self.flows
    }

    /// Iterations that all ranks have completed: how long the slowest rank took for each.
    pub(crate) fn iterations(&self) -> Vec<Duration> {
        self.slowest_ranks(0)
    }

    /// The mean rate at which a flow arrived over the last `window` of its samples.
    pub(crate) fn rate(&self, flow: usize, window: Duration) -> Rate {
        let received = &self.received[flow];
        let Some(last) = received.last() else {
            return Rate::from_bits_per_s(0);
        };
        let since = last.at.saturating_sub(window);
        let first = received.iter().find(|one| one.at >= since).unwrap_or(last);
        let bytes = last.bytes.count() - first.bytes.count();
        Rate::mean(Bytes::new(bytes), last.at - first.at)
    }

    /// What the first rank that broke had to say.
    pub(super) fn first_breakage(&self) -> Option<String> {
        self.ranks
            .iter()
            .find_map(|rank| rank.report.as_ref()?.broken.clone())
    }

    pub(crate) fn report(&self) -> JobReport {
        JobReport {
            name: self.job.name.clone(),
            iterations_wanted: self.job.iterations,
            iterations: self.iterations().len() as u32,
            iteration_ms: spread(&self.slowest_ranks(0)),
            exposed_ms: spread(&self.slowest_ranks(1)),
            flows: (0..self.flows.len())
                .map(|flow| self.flow_outcome(flow))
                .collect(),
            broken: self.broken(),
        }
    }

    fn slowest_ranks(&self, which: usize) -> Vec<Duration> {
        let completed = self
            .ranks
            .iter()
            .map(|rank| rank.iterations.len())
            .min()
            .unwrap_or(0);
        let slowest = |n: usize| {
            self.ranks
                .iter()
                .map(|rank| rank.iterations[n][which])
                .max()
        };
        (0..completed).filter_map(slowest).collect()
    }

    fn broken(&self) -> Vec<Broken> {
        let why = |rank: &RankTally| match &rank.report {
            Some(report) => report.broken.clone(),
            None => Some("its process is gone without a word".to_owned()),
        };
        let host = |rank: usize| self.cluster.fabric().name(self.job.hosts[rank]).to_owned();
        let broken = self.ranks.iter().enumerate().filter_map(|(rank, tally)| {
            Some(Broken {
                rank,
                host: host(rank),
                why: why(tally)?,
            })
        });
        broken.collect()
    }

    fn flow_outcome(&self, flow: usize) -> FlowOutcome {
        let PlannedFlow { spec, path, .. } = &self.flows[flow];
        let sender = self.end_report(spec.from.index(), spec.id, |report| &report.sent);
        let receiver = self.end_report(spec.to.index(), spec.id, |report| &report.received);
        let name = |rank: usize| self.cluster.fabric().name(self.job.hosts[rank]).to_owned();
        let ends = [sender, receiver];
        let resets = ends.iter().flatten().map(|end| end.resets).sum();
        let of_receiver = |count: fn(&FlowReport) -> u64| receiver.map_or(0, count);
        FlowOutcome {
            from: name(spec.from.index()),
            to: name(spec.to.index()),
            source: spec.source.to_string(),
            destination: spec.destination.to_string(),
            path: self.names(path),
            bytes: of_receiver(|end| end.bytes),
            rate_mbps: receiver.map_or(0.0, |end| end.rate_bits_per_s as f64 / 1e6),
            longest_stall_ms: of_receiver(|end| end.longest_stall_us) as f64 / 1e3,
            connections: ends
                .iter()
                .flatten()
                .map(|end| end.connections)
                .max()
                .unwrap_or(0),
            resets,
            retransmits: sender.and_then(|end| end.retransmits),
            lost: ends.iter().flatten().find_map(|end| end.lost),
            reordered: receiver.and_then(|end| end.reordered),
            corrupted: of_receiver(|end| end.corrupted),
        }
    }

    fn end_report(
        &self,
        rank: usize,
        id: u32,
        side: impl Fn(&RankReport) -> &Vec<FlowReport>,
    ) -> Option<&FlowReport> {
        side(self.ranks[rank].report.as_ref()?)
            .iter()
            .find(|flow| flow.id == id)
    }

    /// The nodes a path passes, its ends included.
    fn names(&self, path: &[Hop]) -> Vec<String> {
        let fabric = self.cluster.fabric();
        let last = path
            .last()
            .map(|&(from, link)| fabric.link(link).far(from).node);
        let nodes = path.iter().map(|&(from, _)| from).chain(last);
        nodes.map(|node| fabric.name(node).to_owned()).collect()
    }
}

fn spread(durations: &[Duration]) -> Option<Spread> {
    Spread::of(
        durations
            .iter()
            .map(|duration| duration.as_secs_f64() * 1e3)
            .collect(),
    )
}
