//! Reports of a job's ranks so far, and their sums.

use std::time::Duration;

use reweave_common::ids::Rank;
use reweave_common::scenario::Job;
use reweave_common::units::{Bytes, Rate};

use super::launch::PlannedFlow;
use super::ports::Hop;
use crate::nodes::Nodes;
use crate::report::{Broken, FlowOutcome, JobReport, Spread};
use crate::worker::protocol::{Event, FlowReport, RankReport};

pub(crate) struct Tally<'c> {
    nodes: &'c Nodes,
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
    silence: Option<Silence>,
    /// Complete output.
    log: String,
    /// Duration, and the part of it that was communication.
    iterations: Vec<[Duration; 2]>,
    report: Option<RankReport>,
}

/// Reason why a rank has no further output.
#[derive(Debug, Clone, Copy)]
pub(super) enum Silence {
    /// Its output has ended, which happens only with the process.
    Gone,
    /// Its output is no valid event.
    Unintelligible,
}

impl Silence {
    fn words(self) -> &'static str {
        match self {
            Self::Gone => "its process is gone",
            Self::Unintelligible => "what it says makes no sense",
        }
    }
}

#[derive(Clone, Copy)]
struct Received {
    at: Duration,
    bytes: Bytes,
}

impl RankTally {
    fn ended(&self) -> bool {
        self.silence.is_some() || self.report.is_some()
    }

    /// Whether it went before it could report, and all its sessions with it.
    fn is_gone(&self) -> bool {
        self.report.is_none() && matches!(self.silence, Some(Silence::Gone))
    }

    /// Describes a failure of the rank, if there is one.
    fn complaint(&self) -> Option<String> {
        match (&self.report, self.silence) {
            (Some(report), _) => report.broken.clone(),
            (None, Some(silence)) => Some(silence.words().to_owned()),
            (None, None) => Some("it did not answer".to_owned()),
        }
    }
}

impl<'c> Tally<'c> {
    pub(super) fn new(nodes: &'c Nodes, job: &'c Job, flows: Vec<PlannedFlow>) -> Self {
        let ranks = job.hosts.iter().map(|_| RankTally::default()).collect();
        let received = flows.iter().map(|_| Vec::new()).collect();
        Self {
            nodes,
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

    /// Returns the output of each rank, line by line.
    pub(crate) fn logs(&self) -> impl Iterator<Item = &str> {
        self.ranks.iter().map(|rank| rank.log.as_str())
    }

    pub(super) fn fell_silent(&mut self, rank: usize, silence: Silence) {
        self.ranks[rank].silence = Some(silence);
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

    /// Returns the total time of these iterations by the first rank's clock, whose iterations follow one another
    /// without gaps. The slowest times of all ranks do not add up: a rank that waits for the slowest of one iteration
    /// is slow in the next.
    pub(crate) fn iterations_took(&self) -> Duration {
        let completed = self.iterations().len();
        let first = self.ranks.first().into_iter();
        let own = first.flat_map(|rank| rank.iterations.iter().take(completed));
        own.map(|[took, _]| *took).sum()
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

    /// Returns the error of the first rank that failed.
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
        let host = |rank: usize| self.nodes.fabric().name(self.job.hosts[rank]).to_owned();
        let broken = self.ranks.iter().enumerate().filter_map(|(rank, tally)| {
            Some(Broken {
                rank,
                host: host(rank),
                why: tally.complaint()?,
            })
        });
        broken.collect()
    }

    /// Each end reports what only it can know. A missing value is unknown, and never replaced by that of the other end:
    /// a sender counts bytes given to its kernel, a receiver counts retransmissions of its acknowledgements.
    fn flow_outcome(&self, flow: usize) -> FlowOutcome {
        let PlannedFlow { spec, path, .. } = &self.flows[flow];
        let [from, to] = [spec.from, spec.to].map(Rank::index);
        let sender = self.end_report(from, spec.id, |report| &report.sent);
        let receiver = self.end_report(to, spec.id, |report| &report.received);
        let name = |rank: usize| self.nodes.fabric().name(self.job.hosts[rank]).to_owned();
        FlowOutcome {
            from: name(from),
            to: name(to),
            source: spec.source.to_string(),
            destination: spec.destination.to_string(),
            path: self.names(path),
            bytes: receiver.map(|end| end.bytes).or(self.last_sample(flow)),
            rate_mbps: receiver
                .and_then(|end| end.rate_bits_per_s)
                .map(|rate| rate as f64 / 1e6),
            longest_stall_ms: receiver.map(|end| end.longest_stall_us as f64 / 1e3),
            resets: resets(
                [sender, receiver],
                [from, to].iter().any(|&rank| self.ranks[rank].is_gone()),
            ),
            retransmits: sender.and_then(|end| end.retransmits),
            lost: sender.and_then(|end| end.lost),
            reordered: receiver.and_then(|end| end.reordered),
            corrupted: receiver.map(|end| end.corrupted),
        }
    }

    /// Returns a lower bound of the received bytes.
    fn last_sample(&self, flow: usize) -> Option<u64> {
        self.received[flow].last().map(|last| last.bytes.count())
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
    pub(crate) fn names(&self, path: &[Hop]) -> Vec<String> {
        let fabric = self.nodes.fabric();
        let last = path
            .last()
            .map(|&(from, link)| fabric.link(link).far(from).node);
        let nodes = path.iter().map(|&(from, _)| from).chain(last);
        nodes.map(|node| fabric.name(node).to_owned()).collect()
    }
}

/// Both ends have one session between them: it broke once when either says so, or when an end is
/// gone that cannot.
fn resets(ends: [Option<&FlowReport>; 2], an_end_is_gone: bool) -> Option<u64> {
    let reports = ends.into_iter().flatten().map(|end| end.resets).max();
    if an_end_is_gone { Some(1) } else { reports }
}

fn spread(durations: &[Duration]) -> Option<Spread> {
    Spread::of(
        durations
            .iter()
            .map(|duration| duration.as_secs_f64() * 1e3)
            .collect(),
    )
}
