//! Requests of orchestrators about their jobs and about hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddrV4;
use std::time::Duration;

use reweave_common::cause::Subject;
use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::names::{MAX_NAME_BYTES, is_plain, refusal};
use reweave_common::operator::{
    Allocation, JobOrder, JobPhase, Refused, RegisteredJob, Response, StartedJob,
};
use reweave_common::plan::Plan;
use reweave_common::units::Rate;
use reweave_design::placement::{self, Demand, Pairs, Placed};

use super::LeaderView;
use super::jobs::host;
use crate::log::command::{Author, Change};
use crate::log::millis::millis;
use crate::log::registered::{Phase, Registered};
use crate::model::evidence::measured;
use crate::model::world::{Measurements, World};
use crate::plan::{blast_radius, proposals};
use crate::rollout::autopilot::{WaitReason, not_now};
use crate::rollout::verify::concerned;
use crate::rollout::{DecisionContext, Hindrance, first_step};

/// All jobs have to fit into one message, and each is checked twice a second.
const MAX_JOBS: usize = 1000;
const MAX_JOB_HOSTS: usize = 1_000_000;
/// The limit of measured pairs in a search: some tenths of a second for a thousand hosts.
const MAX_EXCHANGES: usize = 20_000;
/// The bytes per host and step by which orders are compared. The resulting rate does not depend on them.
const RING_TRANSFER_BYTES: f64 = 1e9;

const NO_OWN_FLOW_REASON: &str =
    "no finding concerns flows between its hosts; `reweave plan` shows all";

const NO_CHANGE_REASON: &str = "no changes requested for it";

type Answer = Result<Response, Refused>;

pub(super) fn tell(
    turn: &mut DecisionContext<'_>,
    principal: String,
    job: String,
    order: JobOrder,
    seen: LeaderView<'_>,
) -> Response {
    let by = Author::Operator(principal);
    let answer = match order {
        JobOrder::Register { hosts, may_reorder } => {
            register(turn, by, job, &hosts, may_reorder, seen)
        }
        JobOrder::Phase {
            name,
            ring_bits_per_s,
        } => enter(turn, by, job, name, ring_bits_per_s, seen),
        JobOrder::Start { may_change } => start(turn, by, &job, may_change, seen),
        JobOrder::End => Ok(end(turn, by, job, seen)),
    };
    answer.unwrap_or_else(Response::Refused)
}

pub(super) fn all(turn: &DecisionContext<'_>, seen: LeaderView<'_>) -> Response {
    let registered = turn.state.registered().iter();
    let all = registered.map(|(job, registration)| shown(turn, job, registration, seen));
    Response::Registered(all.collect())
}

/// The hosts' order and objections. A job that is registered on these hosts keeps its recorded order.
pub(super) fn gate(
    turn: &DecisionContext<'_>,
    job: Option<&str>,
    hosts: &[String],
    seen: LeaderView<'_>,
) -> Response {
    let hosts = several(turn.known.fabric, hosts);
    let gate = hosts.map(|hosts| {
        let registration = job.and_then(|job| turn.state.registered().get_key_value(job));
        let registration =
            registration.filter(|(_, registration)| are_same(&registration.hosts, &hosts));
        let order = registration.and_then(|(_, registration)| registration.order.as_deref());
        let job = registration.map(|(job, _)| job.as_str());
        let listed = placed(turn.world(), &hosts);
        allocation(turn, job, &hosts, order, listed.as_ref(), seen)
    });
    gate.map_or_else(Response::Refused, |it| Response::Allocation(Box::new(it)))
}

/// Registers a job. The same registration again changes nothing, and another order of the same hosts only the order.
fn register(
    turn: &mut DecisionContext<'_>,
    by: Author,
    job: String,
    names: &[String],
    may_reorder: bool,
    seen: LeaderView<'_>,
) -> Answer {
    if !is_plain(&job, MAX_NAME_BYTES) {
        let why = refusal(&job, "job");
        return Err(Refused::NoSuchJob { why });
    }
    let hosts = several(turn.known.fabric, names)?;
    let known = turn.state.registered();
    let mut registration = match known.get(&job) {
        Some(other) if !are_same(&other.hosts, &hosts) => {
            let names = |hosts: &[NodeId]| named(turn.known.fabric, hosts);
            let [has, wanted] = [names(&other.hosts), names(&hosts)];
            return Err(Refused::OtherJob { job, has, wanted });
        }
        Some(same) => Registered {
            hosts,
            ..same.clone()
        },
        None if is_full(known, hosts.len()) => {
            let most = known.len();
            return Err(Refused::TooManyJobs { most });
        }
        None => Registered {
            hosts,
            order: None,
            by: by.clone(),
            since: turn.known.now,
            phase: None,
        },
    };
    if may_reorder {
        let order = match registration.order.take() {
            Some(order) => order,
            None => best_order(
                placed(turn.world(), &registration.hosts).as_ref(),
                &registration.hosts,
            ),
        };
        registration.order = Some(order.clone());
        registration.hosts = order;
    }
    match known.get(&job) {
        Some(same) if *same == registration => Ok(one(turn, &job, same, seen)),
        _ => Ok(note(turn, by, job, registration, seen)),
    }
}

/// The order for a job without one: the best now.
fn best_order(listed: Option<&Placed>, hosts: &[NodeId]) -> Vec<NodeId> {
    listed.map_or_else(|| hosts.to_vec(), |placed| placed.order.clone())
}

fn enter(
    turn: &mut DecisionContext<'_>,
    by: Author,
    job: String,
    name: String,
    ring: Option<Rate>,
    seen: LeaderView<'_>,
) -> Answer {
    let known = known(turn, &job)?;
    if !is_plain(&name, MAX_NAME_BYTES) {
        let why = refusal(&name, "phase");
        return Err(Refused::NoSuchJob { why });
    }
    let is_same = |phase: &Phase| phase.name == name && phase.ring == ring;
    if known.phase.as_ref().is_some_and(is_same) {
        return Ok(one(turn, &job, known, seen));
    }
    let since = turn.known.now;
    let phase = Some(Phase { name, ring, since });
    let registration = Registered {
        phase,
        ..known.clone()
    };
    Ok(note(turn, by, job, registration, seen))
}

/// Ends a job. An unknown job has ended already.
/// Ends a job, and shows it as it was. To end a job that is not registered changes nothing.
fn end(turn: &mut DecisionContext<'_>, by: Author, job: String, seen: LeaderView<'_>) -> Response {
    let Some(ended) = turn.state.registered().get(&job) else {
        return Response::Registered(Vec::new());
    };
    let shown = one(turn, &job, ended, seen);
    let registration = None;
    turn.decide(Change::Registered {
        job,
        registration,
        by,
    });
    shown
}

fn start(
    turn: &mut DecisionContext<'_>,
    by: Author,
    job: &str,
    may_change: bool,
    seen: LeaderView<'_>,
) -> Answer {
    let mut registration = known(turn, job)?.clone();
    let listed = placed(turn.world(), &registration.hosts);
    if registration.order.is_none() {
        registration.order = Some(best_order(listed.as_ref(), &registration.hosts));
        turn.decide(Change::Registered {
            job: job.to_owned(),
            registration: Some(registration.clone()),
            by: by.clone(),
        });
    }
    let Registered { hosts, order, .. } = registration;
    let order = order.as_deref();
    let allocation = allocation(turn, Some(job), &hosts, order, listed.as_ref(), seen);
    let plan = if may_change {
        fitting(turn, &hosts, seen)
    } else {
        Err(NO_CHANGE_REASON.to_owned())
    };
    let (generation, because) = match plan {
        Ok(plan) => {
            let generation = plan.generation;
            turn.carry_out(plan, by);
            (Some(generation), None)
        }
        Err(because) => (None, Some(because)),
    };
    let started = StartedJob {
        allocation,
        generation,
        because,
    };
    Ok(Response::Started(Box::new(started)))
}

/// A plan that helps flows between these hosts and may be applied now, or once its migration was checked; or why there
/// is none.
fn fitting(
    turn: &mut DecisionContext<'_>,
    hosts: &[NodeId],
    seen: LeaderView<'_>,
) -> Result<Plan, String> {
    let world = turn.world();
    let Some(plan) = proposals::plan(world, turn.state) else {
        let not_seen = world.not_seen();
        return Err(WaitReason::NothingToMend { not_seen }.to_string());
    };
    if !concerns(turn, &plan, hosts) {
        return Err(NO_OWN_FLOW_REASON.to_owned());
    }
    if let Some(waits) = waits(turn.known, &plan, seen.cool_down) {
        return Err(waits.to_string());
    }
    if let Some((running, _)) = turn.in_the_way(&plan) {
        return Err(Refused::Busy { running }.to_string());
    }
    let claims = turn.claims(&plan);
    if let Some(why) = blast_radius::too_wide(world, turn.state, &plan, &claims) {
        return Err(why.to_string());
    }
    match first_step(turn, &plan) {
        Ok(_) | Err(Hindrance::Unjudged) => Ok(plan),
        Err(Hindrance::Unready(reasons) | Hindrance::Wrong(reasons)) => {
            Err(turn.words(&reasons).join("; "))
        }
    }
}

/// Whether the plan moves or speeds up a flow between these hosts.
fn concerns(turn: &DecisionContext<'_>, plan: &Plan, hosts: &[NodeId]) -> bool {
    let owner = |end: SocketAddrV4| turn.known.ingest.owner(*end.ip());
    let is_theirs = |end| owner(end).is_some_and(|it| hosts.contains(&it));
    let mut flows = concerned(plan).into_iter();
    flows.any(|flow| is_theirs(flow.source) && is_theirs(flow.destination))
}

/// What forbids the plan now, by the policy for automatic changes.
fn waits(known: Measurements<'_>, plan: &Plan, cool_down: Duration) -> Option<WaitReason> {
    if !cool_down.is_zero() {
        return Some(WaitReason::CoolingDown { rest: cool_down });
    }
    let out_of_hours = |rest| WaitReason::OutOfHours {
        hours: known.policy.hours(),
        rest,
    };
    let closed = || known.policy.opens_in(known.now).map(out_of_hours);
    not_now(known, plan).or_else(closed)
}

/// The hosts in the job's recorded order, or in the best one.
fn allocation(
    turn: &DecisionContext<'_>,
    job: Option<&str>,
    hosts: &[NodeId],
    recorded: Option<&[NodeId]>,
    listed: Option<&Placed>,
    seen: LeaderView<'_>,
) -> Allocation {
    let fabric = turn.known.fabric;
    let against = against(turn, job, hosts, seen);
    let kept = recorded.filter(|&recorded| recorded != hosts);
    let kept_s = kept.and_then(|order| ring_s(turn.world(), order));
    let best = listed.map_or(hosts, |placed| &placed.order);
    let group = |places: &Vec<usize>| {
        let hosts: Vec<_> = places.iter().map(|&place| best[place]).collect();
        named(fabric, &hosts)
    };
    let groups = listed.into_iter().flat_map(|placed| &placed.groups);
    let ring = listed.filter(|_| hosts.len() > 1).map(|placed| {
        let after = match (kept_s, recorded) {
            (Some(kept_s), _) => kept_s,
            (None, Some(_)) => placed.before_s,
            (None, None) => placed.after_s,
        };
        [placed.before_s, after].map(ring_rate)
    });
    Allocation {
        is_good: against.is_empty(),
        against,
        order: named(fabric, recorded.unwrap_or(best)),
        groups: groups.map(group).collect(),
        ring_bits_per_s: ring,
    }
}

/// The rate of each host if all of them send the compared bytes to the next within this time.
pub(super) fn ring_rate(seconds: f64) -> Rate {
    Rate::from_bits_per_s((8.0 * RING_TRANSFER_BYTES / seconds) as u64)
}

/// The best order, by a search. A request needs at most one.
pub(super) fn placed(world: &World<'_>, hosts: &[NodeId]) -> Option<Placed> {
    let ring = ring(hosts.len());
    placement::place(&in_ring(world.fabric(), hosts, &ring, &pairs(world)))
}

/// How many seconds a ring takes in this order, without a search.
fn ring_s(world: &World<'_>, order: &[NodeId]) -> Option<f64> {
    let ring = ring(order.len());
    let found = placement::left_alone(&in_ring(world.fabric(), order, &ring, &pairs(world)));
    found.map(|it| it.before_s)
}

fn ring(places: usize) -> Demand {
    let mut demand = Demand {
        places,
        ..Demand::default()
    };
    for place in 0..places {
        demand.add(place, (place + 1) % places, RING_TRANSFER_BYTES);
    }
    demand
}

fn in_ring<'a>(
    fabric: &'a Fabric,
    hosts: &'a [NodeId],
    ring: &'a Demand,
    pairs: &'a Pairs,
) -> placement::Request<'a> {
    placement::Request {
        fabric,
        demand: ring,
        hosts,
        pairs,
        seed: 1,
        work: MAX_EXCHANGES,
    }
}

/// The measured pairs, each over all rails of both hosts.
fn pairs(world: &World<'_>) -> Pairs {
    let fabric = world.fabric();
    let mut rails: BTreeMap<_, BTreeMap<u32, f64>> = BTreeMap::new();
    for (pair, _) in measured(world) {
        if let (Some(from), Some(to)) = (fabric.find(&pair.from), fabric.find(&pair.to)) {
            let of_pair = rails.entry((from, to)).or_default();
            of_pair.insert(pair.rail, pair.gbps * 1e9);
        }
    }
    let together = |(ends, rails)| Some((ends, placement::over_all(fabric, ends, &rails)?));
    rails.into_iter().filter_map(together).collect()
}

/// Objections: missing agents, findings on the hosts and their links, and other jobs that use the hosts.
fn against(
    turn: &DecisionContext<'_>,
    job: Option<&str>,
    hosts: &[NodeId],
    seen: LeaderView<'_>,
) -> Vec<String> {
    let (known, fabric) = (turn.known, turn.known.fabric);
    let silent = hosts.iter().filter(|&&host| !known.is_heard(host));
    let silent = silent.map(|&host| format!("the agent on {} is silent", fabric.name(host)));
    let others = turn.state.registered().iter();
    let others = others.filter(|(other, _)| Some(other.as_str()) != job);
    let taken = others.flat_map(|(other, registration)| {
        let both = registration
            .hosts
            .iter()
            .filter(|host| hosts.contains(host));
        both.map(move |&host| format!("{other} runs on {}", fabric.name(host)))
    });
    let theirs: Vec<_> = named(fabric, hosts)
        .into_iter()
        .map(Subject::Host)
        .collect();
    let causes = proposals::causes(turn.world(), seen.arrivals);
    let found = causes
        .iter()
        .filter(|cause| theirs.iter().any(|host| cause.subject.touches(host)));
    let found = found.map(|cause| format!("{}: {}", cause.class, cause.subject));
    silent.chain(taken).chain(found).collect()
}

pub(super) fn known<'a>(turn: &DecisionContext<'a>, job: &str) -> Result<&'a Registered, Refused> {
    let found = turn.state.registered().get(job);
    found.ok_or_else(|| Refused::NotRegistered {
        job: job.to_owned(),
    })
}

pub(super) fn several(fabric: &Fabric, names: &[String]) -> Result<Vec<NodeId>, Refused> {
    let hosts = names.iter().map(|name| host(fabric, name));
    let hosts = hosts.collect::<Result<Vec<_>, _>>()?;
    let mut seen = BTreeSet::new();
    match hosts.iter().find(|&&host| !seen.insert(host)) {
        Some(&twice) => Err(Refused::NoSuchJob {
            why: format!("{} is listed twice among the hosts", fabric.name(twice)),
        }),
        None if hosts.is_empty() => Err(Refused::NoSuchJob {
            why: "a job needs at least one host".to_owned(),
        }),
        None => Ok(hosts),
    }
}

fn is_full(known: &BTreeMap<String, Registered>, more: usize) -> bool {
    let places = known.values().map(|job| job.hosts.len()).sum::<usize>();
    known.len() >= MAX_JOBS || places + more > MAX_JOB_HOSTS
}

fn are_same(one: &[NodeId], other: &[NodeId]) -> bool {
    let set = |hosts: &[NodeId]| hosts.iter().copied().collect::<BTreeSet<_>>();
    set(one) == set(other)
}

fn named(fabric: &Fabric, hosts: &[NodeId]) -> Vec<String> {
    let names = hosts.iter().map(|&host| fabric.name(host).to_owned());
    names.collect()
}

fn note(
    turn: &mut DecisionContext<'_>,
    by: Author,
    job: String,
    registration: Registered,
    seen: LeaderView<'_>,
) -> Response {
    let response = one(turn, &job, &registration, seen);
    let registration = Some(registration);
    turn.decide(Change::Registered {
        job,
        registration,
        by,
    });
    response
}

fn one(
    turn: &DecisionContext<'_>,
    job: &str,
    registration: &Registered,
    seen: LeaderView<'_>,
) -> Response {
    Response::Registered(vec![shown(turn, job, registration, seen)])
}

fn shown(
    turn: &DecisionContext<'_>,
    job: &str,
    registration: &Registered,
    seen: LeaderView<'_>,
) -> RegisteredJob {
    let age_ms = |since| millis(turn.known.now.since(since));
    let phase = registration.phase.as_ref().map(|phase| JobPhase {
        name: phase.name.clone(),
        ring_bits_per_s: phase.ring,
        age_ms: age_ms(phase.since),
    });
    RegisteredJob {
        job: job.to_owned(),
        hosts: named(turn.known.fabric, &registration.hosts),
        by: registration.by.to_string(),
        age_ms: age_ms(registration.since),
        silent_ms: seen.registry.heard(job).map_or(0, age_ms),
        phase,
    }
}
