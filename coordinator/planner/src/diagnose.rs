//! What is wrong: full hops whose flows would gain if they were spread.
//!
//! A collision is a full hop on which elephants meet, though there are others of the same cost, and
//! at least one of them would surely gain if they were spread. The others may be full too: what
//! counts is who would get more. Where the switch of the full hop has a choice of its own, its
//! equal-cost hops are what counts. Where it has none, as on the way down, the choice was made
//! before; then the hops in the same place on the flows' other ways count.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::Role;
use reweave_common::finding::{Collision, Finding, Loser};
use reweave_common::ids::LinkId;
use reweave_common::snapshot::{Hop, Snapshot};

use crate::Policy;
use crate::fim::imbalance_over;
use crate::model::{Flow, Model};
use crate::predict::Oracle;
use crate::search::{Answer, Weighed, search};

/// So many single moves are tried to tell whether a hop has room.
const MOST_TRIALS: usize = 64;

/// All collisions, in the order of their hops. A stale, partial or doubtful picture yields none.
pub fn diagnose(snapshot: &Snapshot, policy: &Policy) -> Vec<Finding> {
    let model = Model::new(snapshot, policy);
    let full_hops = full_hops(&model).into_iter();
    let mut meetings = different(full_hops.flat_map(|hop| meetings(&model, hop)).collect());
    meetings.retain(|meeting| has_choice(&model, meeting));
    if meetings.is_empty() {
        return Vec::new();
    }
    let all = meetings
        .iter()
        .flat_map(|meeting| &meeting.elephants)
        .copied()
        .collect();
    let answer = search(&model, &all);
    let collisions = meetings
        .iter()
        .filter_map(|meeting| collision(&model, meeting, &answer));
    let mut collisions: Vec<_> = collisions.collect();
    collisions.sort_by_key(|collision| collision.hop);
    collisions.into_iter().map(Finding::EcmpCollision).collect()
}

/// Elephants that cross one full hop.
struct Meeting {
    hop: Hop,
    elephants: BTreeSet<usize>,
    /// Hops that could stand for this one, and itself.
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
    let is_full = |hop: &Hop| observed.is_usable(*hop) && observed.is_full(*hop);
    let hops = observed.snapshot.links.keys().copied();
    hops.filter(is_switch).filter(is_full).collect()
}

/// Those who meet on a hop, by the choice that led them there.
fn meetings(model: &Model<'_>, hop: Hop) -> Vec<Meeting> {
    let mut by_choice: BTreeMap<Vec<LinkId>, BTreeSet<usize>> = BTreeMap::new();
    for (index, flow) in model.flows.iter().enumerate() {
        if flow.elephant && flow.crosses(hop) {
            let choice = choice(model, flow, hop);
            by_choice.entry(choice).or_default().insert(index);
        }
    }
    by_choice.retain(|_, elephants| elephants.len() >= 2);
    let meeting = |(choice, elephants): (Vec<LinkId>, _)| Meeting {
        hop,
        peers: peers(model, hop, &choice, &elephants),
        elephants,
        chosen_here: !choice.is_empty(),
    };
    by_choice.into_iter().map(meeting).collect()
}

fn peers(model: &Model<'_>, hop: Hop, choice: &[LinkId], elephants: &BTreeSet<usize>) -> Vec<Hop> {
    if choice.is_empty() {
        return in_same_place(model, elephants, hop);
    }
    let chosen = |&link: &LinkId| Hop { link, ..hop };
    choice.iter().map(chosen).collect()
}

/// The links among which the switch of `hop` chose for this flow; none when it had no choice.
fn choice(model: &Model<'_>, flow: &Flow<'_>, hop: Hop) -> Vec<LinkId> {
    let links = model.choices(hop.from, flow.state.to);
    if links.len() > 1 && links.contains(&hop.link) {
        links
    } else {
        Vec::new()
    }
}

/// `hop` and the hops that the flows' other ways have in its place.
fn in_same_place(model: &Model<'_>, flows: &BTreeSet<usize>, hop: Hop) -> Vec<Hop> {
    let of_flow = |&index: &usize| {
        let flow = &model.flows[index];
        let place = flow.present().hops.iter().position(|&on_it| on_it == hop);
        let ways = flow.ways.iter();
        ways.filter_map(move |way| way.hops.get(place?).copied())
    };
    let peers: BTreeSet<_> = flows.iter().flat_map(of_flow).collect();
    peers.into_iter().collect()
}

fn has_choice(model: &Model<'_>, meeting: &Meeting) -> bool {
    let other = |hop: &&Hop| **hop != meeting.hop && model.observed.is_usable(**hop);
    meeting.peers.iter().any(|hop| other(&hop))
}

/// The hops on which one of the losers would get more than here, if it alone moved.
fn with_room(
    model: &Model<'_>,
    meeting: &Meeting,
    losers: &[Loser],
    present: &Weighed,
) -> Vec<Hop> {
    let losers: Vec<_> = losers.iter().filter_map(|l| model.find(l.flow)).collect();
    let gains_on = |hop: &&Hop| {
        let moves = losers.iter().flat_map(|&flow| {
            let over = model.flows[flow].ways_over(**hop);
            over.map(move |way| (flow, way))
        });
        let mut moves = moves.take(MOST_TRIALS);
        **hop != meeting.hop && moves.any(|(flow, way)| gains_alone(model, present, flow, way))
    };
    meeting.peers.iter().filter(gains_on).copied().collect()
}

fn gains_alone(model: &Model<'_>, present: &Weighed, flow: usize, way: usize) -> bool {
    let mut choice = present.choice.clone();
    choice[flow] = way;
    let [before, after] = [&present.shares, &model.shares(&choice)]
        .map(|shares| shares[flow].rate.bits_per_s() as f64);
    after > before * (1.0 + model.policy().least_gain)
}

/// A meeting is a collision if somebody loses by it.
fn collision(model: &Model<'_>, meeting: &Meeting, spread: &Answer) -> Option<Collision> {
    let losers = losers(model, meeting, spread);
    if losers.is_empty() {
        return None;
    }
    Some(Collision {
        hop: meeting.hop,
        utilization: model.observed.utilization(meeting.hop)?,
        with_room: with_room(model, meeting, &losers, &spread.present),
        losers,
        imbalance: imbalance_over(model, &meeting.peers)?,
    })
}

/// Those who would surely gain if flows were spread in the way that is best for all who meet.
fn losers(model: &Model<'_>, meeting: &Meeting, spread: &Answer) -> Vec<Loser> {
    let oracle = Oracle::new(model, &spread.present);
    let loser = |&flow: &usize| {
        let foretold = oracle.predict(flow, &spread.best);
        oracle.is_gain(flow, &foretold).then_some(Loser {
            flow: foretold.flow,
            rate: foretold.before,
            fair_rate: foretold.after,
        })
    };
    meeting.elephants.iter().filter_map(loser).collect()
}

#[cfg(test)]
mod tests;
