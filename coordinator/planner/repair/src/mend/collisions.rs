//! Collisions: full hops whose flows would gain from a better spread.
//!
//! A collision is a full hop shared by elephant flows, although equal-cost hops exist, and at least one flow would
//! surely gain if they were spread. The other hops may be full too; only the gain counts. If the switch of the full hop
//! has a choice, its equal-cost hops are compared. If it has none, as on the way down, the choice was made earlier, and
//! the hops at the same place on the flows' other paths are compared.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::Role;
use reweave_common::finding::{Collision, Finding, Imbalance, Loser};
use reweave_common::ids::LinkId;
use reweave_common::plan::Plan;
use reweave_common::snapshot::{Hop, Snapshot};

use super::atlas;
use super::best::{Answer, Detours, best};
use super::detour::{Detour, ways};
use super::model::{Flow, Model};
use super::plan::plan;
use super::predict::Oracle;
use crate::Policy;
use crate::fim::{Load, imbalance};
use crate::maxmin::Share;
use crate::paths::Atlas;

/// The search tries this many single moves to find out whether a hop has room.
const MAX_TRIALS: usize = 64;

/// Findings of a snapshot and the plan that repairs them, from one run of the optimizer. The plan contains the result
/// of that run, and cannot be made otherwise.
pub struct CollisionRepair<'s> {
    model: Model<'s>,
    findings: Vec<Finding>,
    /// None if no flows with a choice share a hop: the optimizer did not run.
    answer: Option<Answer>,
}

impl CollisionRepair<'_> {
    /// All collisions, in the order of their hops. A stale, partial or doubtful picture yields none.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    pub fn into_findings(self) -> Vec<Finding> {
        self.findings
    }

    /// The plan that repairs the findings; none when nothing would, or not beyond doubt.
    pub fn into_plan(self) -> Option<Plan> {
        plan(&self.model, &self.findings, self.answer?)
    }
}

/// Runs the optimizer where flows with a choice meet on a full hop.
pub fn repair<'s>(snapshot: &'s Snapshot, policy: &'s Policy) -> CollisionRepair<'s> {
    let model = Model::new(snapshot, policy);
    let mut looking = Looking {
        atlas: atlas(&model.observed),
        model: &model,
    };
    let full_hops = full_hops(&model).into_iter();
    let meetings = full_hops.flat_map(|hop| looking.meetings(hop));
    let mut meetings = different(meetings.collect());
    meetings.retain(|meeting| has_choice(&model, meeting));
    if meetings.is_empty() {
        return CollisionRepair {
            model,
            findings: Vec::new(),
            answer: None,
        };
    }
    // Flows collide whether or not their switches hold pins.
    let answer = best(&model, &mut looking.atlas, &BTreeSet::new());
    let findings = looking.findings(&meetings, &answer);
    CollisionRepair {
        model,
        findings,
        answer: Some(answer),
    }
}

/// Elephants that cross one full hop.
struct Meeting {
    hop: Hop,
    elephants: BTreeSet<usize>,
    /// Hops equivalent to this one, and itself.
    peers: Vec<Hop>,
    /// Whether it is the switch of this hop that chose among them.
    chosen_here: bool,
}

/// One meeting for the same flows: where they meet again further down, it is for the same choice.
fn different(mut meetings: Vec<Meeting>) -> Vec<Meeting> {
    meetings.sort_by_key(|meeting| (!meeting.chosen_here, meeting.hop));
    let mut kept: Vec<Meeting> = Vec::new();
    for meeting in meetings {
        let meet_already = |other: &Meeting| meeting.elephants.is_subset(&other.elephants);
        if !kept.iter().any(meet_already) {
            kept.push(meeting);
        }
    }
    kept
}

fn full_hops(model: &Model<'_>) -> Vec<Hop> {
    let observed = &model.observed;
    let is_switch = |hop: &Hop| observed.fabric().node(hop.from).role == Role::Switch;
    let is_full = |hop: &Hop| observed.is_usable(*hop) && model.is_full(*hop);
    let hops = observed.snapshot.links.keys().copied();
    hops.filter(is_switch).filter(is_full).collect()
}

fn has_choice(model: &Model<'_>, meeting: &Meeting) -> bool {
    let mut peers = meeting.peers.iter();
    peers.any(|&hop| hop != meeting.hop && model.observed.is_usable(hop))
}

struct Looking<'m, 's> {
    model: &'m Model<'s>,
    atlas: Atlas<'s>,
}

impl Looking<'_, '_> {
    /// Returns the groups of flows on a hop, by the choice that led them there.
    fn meetings(&mut self, hop: Hop) -> Vec<Meeting> {
        let mut by_choice: BTreeMap<Vec<LinkId>, BTreeSet<usize>> = BTreeMap::new();
        for (index, flow) in self.model.flows.iter().enumerate() {
            if flow.elephant && flow.crosses(hop) {
                let choice = self.choice(flow, hop);
                by_choice.entry(choice).or_default().insert(index);
            }
        }
        by_choice.retain(|_, elephants| elephants.len() >= 2);
        by_choice
            .into_iter()
            .map(|(choice, elephants)| Meeting {
                hop,
                peers: self.peers(hop, &choice, &elephants),
                elephants,
                chosen_here: !choice.is_empty(),
            })
            .collect()
    }

    fn peers(&mut self, hop: Hop, choice: &[LinkId], elephants: &BTreeSet<usize>) -> Vec<Hop> {
        if choice.is_empty() {
            return self.in_same_place(elephants, hop);
        }
        let chosen = |&link: &LinkId| Hop { link, ..hop };
        choice.iter().map(chosen).collect()
    }

    /// The links among which the switch of `hop` chose for this flow; none when it had no choice.
    fn choice(&mut self, flow: &Flow<'_>, hop: Hop) -> Vec<LinkId> {
        let links = self.atlas.choices(hop.from, flow.state);
        if links.len() > 1 && links.contains(&hop.link) {
            links
        } else {
            Vec::new()
        }
    }

    /// Returns `hop` and the hops at its place on the flows' other paths.
    fn in_same_place(&mut self, flows: &BTreeSet<usize>, hop: Hop) -> Vec<Hop> {
        let mut peers = BTreeSet::from([hop]);
        for &index in flows {
            let flow = &self.model.flows[index];
            let place = flow.path.iter().position(|&on_it| on_it == hop);
            let ways = ways(self.model, &mut self.atlas, flow);
            peers.extend(ways.iter().filter_map(|way| way.get(place?).copied()));
        }
        peers.into_iter().collect()
    }

    fn findings(&mut self, meetings: &[Meeting], spread: &Answer) -> Vec<Finding> {
        let collisions = meetings.iter();
        let collisions = collisions.filter_map(|meeting| self.collision(meeting, spread));
        let mut collisions: Vec<_> = collisions.collect();
        collisions.sort_by_key(|collision| collision.hop);
        collisions.into_iter().map(Finding::EcmpCollision).collect()
    }

    /// A meeting is a collision if a flow loses by it.
    fn collision(&mut self, meeting: &Meeting, spread: &Answer) -> Option<Collision> {
        let losers = losers(self.model, meeting, spread);
        if losers.is_empty() {
            return None;
        }
        Some(Collision {
            hop: meeting.hop,
            utilization: self.model.utilization(meeting.hop)?,
            with_room: self.with_room(meeting, &losers, &spread.present.shares),
            losers,
            imbalance: imbalance_over(self.model, &meeting.peers)?,
        })
    }

    /// The hops on which one of the losers would get more than here, if it alone moved.
    fn with_room(&mut self, meeting: &Meeting, losers: &[Loser], present: &[Share]) -> Vec<Hop> {
        let mut left = MAX_TRIALS * meeting.peers.len();
        let mut room = BTreeSet::new();
        for flow in losers.iter().filter_map(|it| self.model.find(it.flow)) {
            for way in ways(self.model, &mut self.atlas, &self.model.flows[flow]) {
                let over = meeting.peers.iter().find(|peer| way.contains(peer));
                let over = over.filter(|hop| **hop != meeting.hop && !room.contains(*hop));
                if let Some(&hop) = over.filter(|_| left > 0) {
                    left -= 1;
                    room.extend(self.gains_alone(present, flow, way).then_some(hop));
                }
            }
        }
        let has_room = |hop: &&Hop| room.contains(hop);
        meeting.peers.iter().filter(has_room).copied().collect()
    }

    fn gains_alone(&self, present: &[Share], flow: usize, way: Vec<Hop>) -> bool {
        let known = &self.model.flows[flow];
        let Some(detour) = Detour::along(known.state.flow, known.path, way, &self.atlas) else {
            return false;
        };
        let shares = self.model.shares(&Detours::from([(flow, detour)]));
        let [before, after] =
            [present, &shares].map(|shares| shares[flow].rate.bits_per_s() as f64);
        after > before * (1.0 + self.model.policy().least_gain)
    }
}

/// Returns the imbalance of the elephant flows over some equivalent hops.
fn imbalance_over(model: &Model<'_>, hops: &[Hop]) -> Option<Imbalance> {
    let mut loads = vec![Load::default(); hops.len()];
    for flow in model.flows.iter().filter(|flow| flow.elephant) {
        for (load, hop) in loads.iter_mut().zip(hops) {
            if flow.crosses(*hop) {
                load.flows += 1;
                load.weight = load.weight.saturating_add(flow.state.rate.bits_per_s());
            }
        }
    }
    imbalance(&loads)
}

/// Returns the flows that would surely gain from the best spread of all flows on the hop.
fn losers(model: &Model<'_>, meeting: &Meeting, spread: &Answer) -> Vec<Loser> {
    let oracle = Oracle::new(model, &spread.present);
    let loser = |&flow: &usize| {
        let predicted = oracle.predict(flow, &spread.best);
        oracle.is_gain(flow, &predicted).then_some(Loser {
            flow: predicted.flow,
            rate: predicted.before,
            fair_rate: predicted.after,
        })
    };
    meeting.elephants.iter().filter_map(loser).collect()
}
