//! Links whose failures are certain and long enough for the policy to drain them.
//!
//! No traffic passes a drained link, so no measurement shows that it has recovered: an operator ends the drain.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use reweave_common::cause::{Cause, Subject};
use reweave_common::fabric::{Fabric, NicUse};
use reweave_common::finding::Finding;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::moment::Moment;
use reweave_common::plan::Plan;

use crate::estimate::interval_timer::IntervalTimer;
use crate::ingest::admission::Admissions;
use crate::log::command::Author;
use crate::log::state::{Ended, State};
use crate::model::world::{DecisionWorld, Measurements, World};
use crate::plan::drain_routes::{self, LinkIntent, Partitioned};
use crate::plan::proposals;

/// With many probes, a diagnosis takes a while.
const DIAGNOSIS_INTERVAL: Duration = Duration::from_secs(5);
/// A link that the policy has drained is left to operators for this long after that plan has ended in any way.
const DRAIN_HOLD_OFF: Duration = Duration::from_hours(1);

/// Findings about links that every diagnosis has confirmed, and since when.
#[derive(Debug, Clone, Default)]
pub(crate) struct FailingLinks {
    looks: IntervalTimer,
    found: BTreeMap<LinkId, LinkFault>,
}

#[derive(Debug, Clone)]
struct LinkFault {
    since: Moment,
    cause: Cause,
}

/// Reason why a failing link is not drained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DrainRefusal {
    CutsOff {
        link: String,
        from: String,
        to: String,
    },
    LeavesTooLittle {
        link: String,
        at: String,
    },
    SplitsHost {
        link: String,
        why: String,
    },
}

impl fmt::Display for DrainRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutsOff { link, from, to } => write!(
                f,
                "{link} fails and is not drained: without it {from} has no equally short path to \
                 {to}"
            ),
            Self::LeavesTooLittle { link, at } => write!(
                f,
                "{link} fails and is not drained: {at} would keep less than capacity_floor of its capacity"
            ),
            Self::SplitsHost { link, why } => {
                write!(f, "{link} fails and is not drained: {why}")
            }
        }
    }
}

impl FailingLinks {
    /// Updates the findings. A link that is missing in one diagnosis starts again.
    pub(crate) fn handle_time(&mut self, world: &DecisionWorld<'_>, arrivals: &Admissions) {
        let known = world.known;
        if !self.looks.is_due(known.now, DIAGNOSIS_INTERVAL) {
            return;
        }
        let causes = proposals::causes(world.get(), arrivals);
        let before = std::mem::take(&mut self.found);
        for cause in causes.into_iter().filter(is_sure) {
            if let Some(link) = link(known.fabric, &cause.subject) {
                let since = before.get(&link).map_or(known.now, |found| found.since);
                self.found.entry(link).or_insert(LinkFault { since, cause });
            }
        }
    }

    /// The plan that drains the longest failing link, or why none may be drained.
    pub(crate) fn plan(
        &self,
        world: &World<'_>,
        state: &State,
    ) -> Result<Option<Plan>, DrainRefusal> {
        let Measurements { now, policy, .. } = world.known;
        let is_due = |found: &LinkFault| now.since(found.since) >= policy.drain_failing_after;
        let due = self.found.iter().filter(|(_, found)| is_due(found));
        let due = due.filter(|(link, _)| !was_tried(world, state, **link));
        let mut due: Vec<_> = due.collect();
        due.sort_by_key(|(_, found)| found.since);
        let plans = due
            .into_iter()
            .map(|(&link, found)| drain(world, state, link, &found.cause));
        // A link that may not be drained does not block the others.
        let mut kept = None;
        for plan in plans {
            match plan {
                Ok(plan) => return Ok(Some(plan)),
                Err(why) => kept = kept.or(Some(why)),
            }
        }
        kept.map_or(Ok(None), Err)
    }
}

fn is_sure(cause: &Cause) -> bool {
    let least = cause.class.drain_confidence();
    least.is_some_and(|least| cause.confidence >= least)
}

/// The link that the finding names, if it is between switches that carry training traffic.
fn link(fabric: &Fabric, subject: &Subject) -> Option<LinkId> {
    let (Subject::Hop { link: name, .. } | Subject::Link { link: name, .. }) = subject else {
        return None;
    };
    let found = fabric.find_link(name)?;
    let ends = fabric.link(found).ports().map(|port| port.node);
    let is_for_training = !ends.iter().any(|&end| has_no_training_nic(fabric, end));
    (is_for_training && fabric.is_between_switches(found)).then_some(found)
}

/// Whether all NICs of a leaf are for storage or management. An operator may still drain its links.
fn has_no_training_nic(fabric: &Fabric, leaf: NodeId) -> bool {
    let mut nics = fabric.nics_behind(leaf).map(|nic| nic.purpose).peekable();
    nics.peek().is_some() && nics.all(|purpose| purpose != NicUse::Training)
}

/// Whether the policy drained the link recently: an operator who ended the drain had a reason, and a plan that was
/// rolled back would fail again.
fn was_tried(world: &World<'_>, state: &State, tried: LinkId) -> bool {
    let lately = |ended: &&Ended| world.known.now.since(ended.at) < DRAIN_HOLD_OFF;
    let by_policy =
        |ended: &&Ended| ended.proposed.by == Author::Policy && ended.outcome.changed_something();
    let of_it = |finding: &Finding| match finding {
        Finding::Cause(cause) => link(world.fabric(), &cause.subject) == Some(tried),
        _ => false,
    };
    let mut ended = state.history().filter(lately).filter(by_policy);
    ended.any(|ended| ended.plan.report.findings.iter().any(of_it))
}

fn drain(
    world: &World<'_>,
    state: &State,
    link: LinkId,
    cause: &Cause,
) -> Result<Plan, DrainRefusal> {
    let fabric = world.fabric();
    let name = |node| fabric.name(node).to_owned();
    let mut wish = LinkIntent::in_force(fabric, state);
    wish.drained.insert(link);
    let called = fabric.link_name(link);
    if let Some(at) = left_with_too_little(world, &wish, link) {
        let (link, at) = (called, name(at));
        return Err(DrainRefusal::LeavesTooLittle { link, at });
    }
    let mut plan =
        drain_routes::plan(world, state, &wish).map_err(|Partitioned { from, to }| {
            DrainRefusal::CutsOff {
                link: called,
                from: name(from),
                to: name(to),
            }
        })?;
    if let Some(split) = drain_routes::split_host(world, &plan.tables) {
        let (link, why) = (fabric.link_name(link), split.words(fabric));
        return Err(DrainRefusal::SplitsHost { link, why });
    }
    plan.report.findings = vec![Finding::Cause(cause.clone())];
    Ok(plan)
}

/// A switch at an end of the link that would keep too little capacity towards other switches. If every switch of a
/// layer keeps the required share, the layer does.
fn left_with_too_little(world: &World<'_>, wish: &LinkIntent, link: LinkId) -> Option<NodeId> {
    let (fabric, down) = (world.fabric(), world.down());
    let sum = |links: &mut dyn Iterator<Item = LinkId>| -> f64 {
        links.map(|link| fabric.link(link).rate.gbps()).sum()
    };
    let keeps_enough = |at: NodeId| {
        let links = fabric.links_of(at).iter().copied();
        let links = links.filter(|&link| fabric.is_between_switches(link));
        let is_open = |link: &LinkId| !down.contains(link) && !wish.drained.contains(link);
        let open = sum(&mut links.clone().filter(is_open));
        open >= world.known.policy.capacity_floor * sum(&mut links.clone())
    };
    let ends = fabric.link(link).ports().map(|port| port.node);
    ends.into_iter().find(|&at| !keeps_enough(at))
}
