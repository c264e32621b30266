//! Jobs: hosts that work together, as their traffic shows it, independent of orchestrators.
//!
//! Hosts that exchange large flows, directly or through others, are one job. Its name is the one registered for
//! exactly these hosts, or else it is derived from them.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::ids::NodeId;
use reweave_common::observations::{RecentReadings, TimedReading};
use reweave_common::periodicity::{IterationPeriod, Periodicity};
use reweave_common::snapshot::{FlowState, PeriodicJob, Snapshot};
use reweave_common::time_span::TimeSpan;
use reweave_common::units::{Bytes, Rate};
use reweave_repair::Together;
use reweave_repair::causes::JobFacts;

use crate::estimate::rank_groups::RankGroups;
use crate::estimate::rank_reports::{Ranks, ReportedPair};
use crate::log::state::InForce;
use crate::model::world::{Measurements, World};

/// A shorter period than this part of an iteration is not an iteration period.
const MAX_BEATS_PER_ITERATION: f64 = 64.0;
/// The rates of flows and their periods are measured over different iterations.
const MAX_RATE_RATIO: f64 = 1.75;

/// The hosts of a job and their traffic; none for traffic without a job.
#[derive(Debug, Clone, Default)]
pub(crate) struct Job {
    pub(crate) hosts: BTreeSet<NodeId>,
    pub(crate) flows: Vec<FlowState>,
    /// Their kernel-bypass traffic, as ranks report it.
    pub(crate) reported_pairs: Vec<ReportedPair>,
}

/// All present jobs, in the order of their first hosts.
pub(crate) fn jobs(world: &World<'_>) -> Vec<Job> {
    together(world, elephants(world))
}

/// The groups of hosts that these flows join.
pub(crate) fn together(world: &World<'_>, flows: Vec<FlowState>) -> Vec<Job> {
    let mut together = Together::new(world.known.fabric.nodes().len());
    let reported_pairs = past_the_kernel(world, &flows);
    let of_flows = flows.iter().map(|flow| (flow.from, flow.to));
    for (from, to) in of_flows.chain(reported_pairs.iter().map(|pair| (pair.from, pair.to))) {
        together.join(from.index(), to.index());
    }
    let mut jobs: BTreeMap<usize, Job> = BTreeMap::new();
    for flow in flows {
        let job = jobs.entry(together.first(flow.from.index())).or_default();
        job.hosts.extend([flow.from, flow.to]);
        job.flows.push(flow);
    }
    for pair in reported_pairs {
        let job = jobs.entry(together.first(pair.from.index())).or_default();
        job.hosts.extend([pair.from, pair.to]);
        job.reported_pairs.push(pair);
    }
    jobs.into_values().collect()
}

/// Reported traffic that no kernel flow shows.
fn past_the_kernel(world: &World<'_>, flows: &[FlowState]) -> Vec<ReportedPair> {
    let seen: BTreeSet<_> = flows.iter().map(|flow| (flow.from, flow.to)).collect();
    let mut reported_pairs = Ranks::of(world.known.ingest).pairs();
    reported_pairs.retain(|pair| world.known.is_elephant(pair.rate));
    reported_pairs.retain(|pair| !seen.contains(&(pair.from, pair.to)));
    reported_pairs
}

/// The job of exactly these hosts, with the traffic among them.
pub(crate) fn job_of(world: &World<'_>, hosts: BTreeSet<NodeId>) -> Job {
    let is_inside = |flow: &FlowState| hosts.contains(&flow.from) && hosts.contains(&flow.to);
    let flows: Vec<_> = elephants(world).into_iter().filter(is_inside).collect();
    let mut reported_pairs = past_the_kernel(world, &flows);
    reported_pairs.retain(|pair| hosts.contains(&pair.from) && hosts.contains(&pair.to));
    Job {
        hosts,
        flows,
        reported_pairs,
    }
}

fn elephants(world: &World<'_>) -> Vec<FlowState> {
    let mut flows = world.flows();
    flows.retain(|flow| world.known.is_elephant(flow.rate));
    flows
}

/// The planner's snapshot, with idle jobs.
pub(crate) fn snapshot(world: &World<'_>, in_force: &InForce) -> Snapshot {
    Snapshot {
        beating: beating(world),
        ..world.snapshot(in_force)
    }
}

/// Jobs whose traffic has an iteration period.
fn beating(world: &World<'_>) -> Vec<PeriodicJob> {
    let mut hosts = world.fabric().endpoints();
    if !hosts.any(|host| beat(world.known, host).is_some()) {
        return Vec::new();
    }
    let jobs = world.known.resting.all_jobs(world);
    jobs.iter().filter_map(|job| job.beating(world)).collect()
}

impl Job {
    fn beating(&self, world: &World<'_>) -> Option<PeriodicJob> {
        let beat = self.beat(world.known)?;
        let flows = self.flows.iter().map(|it| it.flow);
        let carried = flows.map(|flow| {
            let recent = world.known.ingest.flow(&flow)?;
            Some((flow, recent.carried()?))
        });
        Some(PeriodicJob {
            job: self.name(world.known),
            exchanged: self.exchanged(world.known, beat.period),
            flows: carried.collect::<Option<_>>()?,
            period: beat.period,
            gap: beat.gap,
        })
    }

    pub(crate) fn name(&self, known: Measurements<'_>) -> String {
        let registered = known.names.find(&self.hosts);
        registered.map_or_else(|| self.after_hosts(known), str::to_owned)
    }

    fn after_hosts(&self, known: Measurements<'_>) -> String {
        let mut hosts = self.hosts.iter().map(|&host| known.fabric.name(host));
        let first = hosts.next().unwrap_or_default();
        match (hosts.next(), hosts.count()) {
            (None, _) => first.to_owned(),
            (Some(second), 0) => format!("{first} and {second}"),
            (Some(_), more) => format!("{first} and {} others", more + 1),
        }
    }

    /// The bytes of each of its hosts that has an iteration period, in this time.
    fn exchanged(&self, known: Measurements<'_>, period: TimeSpan) -> BTreeMap<NodeId, Bytes> {
        let heard = self.hosts.iter();
        let heard = heard.filter_map(|&host| Some((host, beat(known, host)?.value)));
        let in_period =
            |beat: IterationPeriod| beat.exchanged() as f64 * period.div_duration_f64(*beat.period);
        heard
            .map(|(host, beat)| (host, Bytes::new(in_period(beat) as u64)))
            .collect()
    }

    /// The job's facts for a diagnosis.
    pub(crate) fn facts(&self, world: &World<'_>, ranks: &Ranks<'_>) -> JobFacts {
        let fabric = world.fabric();
        let hosts = self.hosts.iter();
        let halves = self.halves(world.known, ranks);
        let (compute_ms, communicate_ms) = halves.unwrap_or_default();
        let groups = RankGroups::of(ranks, &self.hosts);
        JobFacts {
            job: self.name(world.known),
            ranks: hosts.map(|&host| fabric.name(host).to_owned()).collect(),
            ring: self.ring().unwrap_or_default(),
            rest_share: self.rest_share(world.known),
            compute_ms,
            communicate_ms,
            tensor_groups: groups.tensors,
            pipeline_stages: groups.stages,
            allreduce_ms: ranks.allreduce_ms(&self.hosts),
            ..JobFacts::default()
        }
    }

    /// The most certain iteration period of its traffic.
    pub(crate) fn beat(&self, known: Measurements<'_>) -> Option<IterationPeriod> {
        let beats = self.hosts.iter().filter_map(|&host| beat(known, host));
        let beats = beats.map(|heard| heard.value);
        let surest = beats.max_by_key(|beat| beat.confidence_percent)?;
        Some(self.whole(known, surest))
    }

    /// Ranks run each kind of collective at least once per iteration: a period in which they ran none of them that
    /// often belongs to a part, such as a step of a ring.
    fn whole(&self, known: Measurements<'_>, beat: IterationPeriod) -> IterationPeriod {
        let often = Ranks::of(known.ingest).most_often_per_s(&self.hosts);
        let in_beat = often.map_or(1.0, |often| often * beat.period.as_secs_f64());
        let parts = (1.0 / in_beat.max(1.0 / MAX_BEATS_PER_ITERATION)).round() as u32;
        if parts < 2 {
            return beat;
        }
        let times = |bytes: Bytes| Bytes::new(bytes.count().saturating_mul(parts.into()));
        IterationPeriod {
            period: beat.period.saturating_mul(parts).into(),
            sent: times(beat.sent),
            received: times(beat.received),
            iterations: beat.iterations / parts,
            ..beat
        }
    }

    pub(crate) fn rest_share(&self, known: Measurements<'_>) -> Option<f64> {
        let beat = self.beat(known)?;
        let period = Some(beat.period.as_secs_f64()).filter(|period| *period > 0.0)?;
        Some((beat.gap.as_secs_f64() / period).min(1.0))
    }

    /// Returns the computing and the communicating time of each host in an iteration, or in a second if no period is
    /// known.
    fn halves(&self, known: Measurements<'_>, ranks: &Ranks<'_>) -> Option<(Vec<f64>, Vec<f64>)> {
        let shares = ranks.collective_shares(&self.hosts)?;
        let period = self
            .beat(known)
            .map_or(TimeSpan::from_secs(1), |it| it.period);
        let whole_ms = period.as_secs_f64() * 1e3;
        let halves = |share: f64| ((1.0 - share) * whole_ms, share * whole_ms);
        Some(shares.into_iter().map(halves).unzip())
    }

    /// The positions of its hosts in a ring, if each sends to one other and all are in it.
    fn ring(&self) -> Option<Vec<usize>> {
        let mut next = BTreeMap::new();
        let flows = self.flows.iter().map(|flow| (flow.from, flow.to));
        for (from, to) in flows.chain(self.reported_pairs.iter().map(|pair| (pair.from, pair.to))) {
            let known = next.insert(from, to);
            known.is_none_or(|before| before == to).then_some(())?;
        }
        let places: BTreeMap<_, _> = self.hosts.iter().zip(0..).collect();
        let mut ring = Vec::new();
        let mut at = *self.hosts.first()?;
        for _ in &self.hosts {
            ring.push(*places.get(&at)?);
            at = *next.get(&at)?;
        }
        let once: BTreeSet<_> = ring.iter().collect();
        (once.len() == places.len() && ring.len() > 2).then_some(ring)
    }
}

pub(crate) fn beat(known: Measurements<'_>, host: NodeId) -> Option<TimedReading<IterationPeriod>> {
    let observed = known.ingest.observations().node(host)?;
    let &TimedReading { value, at } = observed.host.rhythm.as_ref()?;
    match value {
        Periodicity::Found(value) if is_its_own(known, host, value) => {
            Some(TimedReading { value, at })
        }
        _ => None,
    }
}

/// An older agent of a forwarding host reports the periods and bytes of all packets on its wires, including others'.
/// These are more bytes than its flows send.
fn is_its_own(known: Measurements<'_>, host: NodeId, beat: IterationPeriod) -> bool {
    if !known.fabric.node(host).role.forwards() {
        return true;
    }
    let observed = known.ingest.observations().node(host).into_iter();
    let carried = observed.flat_map(|it| it.flows.values().filter_map(RecentReadings::carried));
    let carried: Rate = carried.sum();
    let reported = Rate::mean(beat.sent, *beat.period).bits_per_s();
    reported as f64 <= MAX_RATE_RATIO * carried.bits_per_s() as f64
}
