//! Predicted effect of a requested plan on flows and jobs.
//!
//! If the plan leaves a switch one path for a flow, the flow takes it. If it leaves several and the choice is unknown,
//! all choices are weighed, or a random sample: the prediction covers them all.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reweave_common::fabric::{Circuits, Fabric};
use reweave_common::flow::FlowKey;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::migration_plan::Tables;
use reweave_common::plan::{Iteration, Pin, Plan, Prediction};
use reweave_common::routes::Routes;
use reweave_common::snapshot::{FlowState, Hop, Snapshot};
use reweave_common::split_mix::SplitMix64;
use reweave_common::time_span::TimeSpan;
use reweave_common::units::Rate;

use super::atlas;
use super::best::{Detours, Weighed};
use super::detour::Detour;
use super::iterations::{MEASUREMENT_VARIATION, predicted};
use super::model::{Flow, Model};
use super::predict::Oracle;
use crate::Policy;
use crate::paths::Atlas;

/// Maximum number of paths per flow.
const MAX_PATHS_PER_FLOW: usize = 16;
/// Maximum length of a path; a longer one is a loop.
const MAX_HOPS: usize = 32;
/// Maximum number of weighed choices, of all flows together.
const MAX_CHOICES: usize = 64;
const MAX_FLOWS: usize = 65_536;

/// Predicted effect.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Promise {
    pub predictions: Vec<Prediction>,
    pub iterations: Vec<Iteration>,
}

/// Returns predictions for all flows with known paths whose rate may change.
pub fn promised(snapshot: &Snapshot, plan: &Plan, policy: &Policy) -> Promise {
    let model = Model::new(snapshot, policy);
    let ways = ForwardingChange::new(&model, plan);
    let open: Vec<_> = model.flows.iter().map(|flow| ways.of(flow)).collect();
    let atlas = atlas(&model.observed);
    let present = Weighed {
        shares: model.shares(&Detours::new()),
        detours: Detours::new(),
    };
    let choices = choices(&open, plan.generation.0);
    let weighed = choices.iter().map(|choice| {
        let detours = detours(&model, &atlas, &open, choice);
        Weighed {
            shares: model.shares_while(&detours, |flow| is_freed(&model, &detours, flow)),
            detours,
        }
    });
    let weighed: Vec<_> = weighed.collect();
    Promise {
        predictions: predictions(&model, &present, &weighed),
        iterations: iterations(&model, &present, &weighed),
    }
}

/// Whether a flow leaves lossy links: its rate without losses is unknown.
fn is_freed(model: &Model<'_>, detours: &Detours, flow: usize) -> bool {
    let loses = |hop: &Hop| model.observed.snapshot.lossy.contains_key(&hop.link);
    let lost = model.flows[flow].path.iter().any(loses);
    let detour = detours.get(&flow).filter(|_| lost);
    detour.is_some_and(|detour| !detour.path.iter().any(loses))
}

/// Next hops of a node, before and after.
struct ForwardingChange<'m> {
    model: &'m Model<'m>,
    before: Led<'m>,
    after: Led<'m>,
}

struct Led<'m> {
    fabric: &'m Fabric,
    own: Routes,
    tables: &'m Tables,
    pins: BTreeMap<(FlowKey, NodeId), LinkId>,
}

impl<'m> Led<'m> {
    fn new(
        closed: &BTreeSet<LinkId>,
        model: &'m Model<'_>,
        tables: &'m Tables,
        pins: &[Pin],
    ) -> Self {
        let pins = pins.iter().map(|pin| ((pin.flow, pin.at), pin.link));
        let fabric = model.observed.fabric();
        let destinations = fabric.endpoints().chain(fabric.leaf_destinations());
        Self {
            fabric,
            own: Routes::to_each(fabric, closed, destinations),
            tables,
            pins: pins.collect(),
        }
    }

    /// The links of which it may choose one.
    fn links(&self, state: &FlowState, at: NodeId) -> Vec<LinkId> {
        if let Some(&pinned) = self.pins.get(&(state.flow, at)) {
            return vec![pinned];
        }
        let to = state.to;
        let nic = state.nic.or_else(|| self.only_nic(to));
        let leaf = nic.map(|link| self.fabric.link(link).far(to).node);
        let table = self.tables.get(&at).map(|table| &table.towards);
        let of_leaf = || table?.get(&leaf?);
        let report = table.and_then(|table| table.get(&to)).or_else(of_leaf);
        match (report, state.nic) {
            (Some(hops), _) => hops.iter().map(|hop| hop.link).collect(),
            (None, Some(nic)) if leaf == Some(at) => vec![nic],
            (None, Some(_)) => self.own.next_hops(at, leaf.unwrap_or(to)).to_vec(),
            (None, None) => self.own.next_hops(at, to).to_vec(),
        }
    }

    /// The link of a host's only NIC.
    fn only_nic(&self, to: NodeId) -> Option<LinkId> {
        match self.fabric.nics_of(to) {
            [only] => Some(self.fabric.nic(*only).link),
            _ => None,
        }
    }
}

impl<'m> ForwardingChange<'m> {
    fn new(model: &'m Model<'m>, plan: &'m Plan) -> Self {
        let Snapshot {
            tables,
            circuits,
            pins,
            ..
        } = model.observed.snapshot;
        let fabric = model.observed.fabric();
        let links = fabric.links().map(|(link, _)| link);
        let down: BTreeSet<_> = links.filter(|it| model.observed.is_down(*it)).collect();
        let closed = |lit: &Circuits| down.union(&fabric.dark(lit)).copied().collect();
        let mut then = circuits.clone();
        then.extend(plan.circuits.clone());
        let before = Led::new(&closed(circuits), model, tables, pins);
        let after = Led::new(&closed(&then), model, &plan.tables, &plan.pins);
        Self {
            model,
            before,
            after,
        }
    }

    /// All that it may take; the present one alone where nothing changes on it.
    fn of(&self, flow: &Flow<'_>) -> Vec<Vec<Hop>> {
        let (mut done, mut open) = (Vec::new(), vec![Vec::new()]);
        while let Some(way) = open.pop() {
            let at = self.end_of(flow, &way);
            if at == flow.state.to {
                done.push(way);
            } else if way.len() < MAX_HOPS && done.len() + open.len() < MAX_PATHS_PER_FLOW {
                let links = self.next(flow, &way, at).into_iter();
                open.extend(links.map(|link| {
                    let hop = Hop { from: at, link };
                    way.iter().copied().chain([hop]).collect()
                }));
            }
        }
        done
    }

    fn end_of(&self, flow: &Flow<'_>, way: &[Hop]) -> NodeId {
        let fabric = self.model.observed.fabric();
        way.last().map_or(flow.state.from, |hop| {
            fabric.link(hop.link).far(hop.from).node
        })
    }

    /// A switch that chooses among the same links as before chooses as before.
    fn next(&self, flow: &Flow<'_>, way: &[Hop], at: NodeId) -> Vec<LinkId> {
        let links = self.after.links(flow.state, at);
        let present = flow.path.get(way.len()).filter(|hop| hop.from == at);
        let before = || self.before.links(flow.state, at);
        let as_before = present.filter(|hop| links.contains(&hop.link) && links == before());
        as_before.map_or(links, |hop| vec![hop.link])
    }
}

/// Index of each flow's path.
type Choice = Vec<usize>;

/// Returns all choices if they are few, else a random sample.
fn choices(open: &[Vec<Vec<Hop>>], seed: u64) -> Vec<Choice> {
    let most = (MAX_FLOWS / open.len().max(1)).clamp(4, MAX_CHOICES);
    let counts: Vec<_> = open.iter().map(|ways| ways.len().max(1)).collect();
    let all = counts.iter().try_fold(1_usize, |all, count| {
        all.checked_mul(*count).filter(|all| *all <= most)
    });
    let mut rng = SplitMix64::new(seed);
    match all {
        Some(all) => (0..all).map(|number| numbered(number, &counts)).collect(),
        None => (0..most).map(|_| drawn(&mut rng, &counts)).collect(),
    }
}

fn numbered(mut number: usize, counts: &[usize]) -> Choice {
    let place = |count: &usize| {
        let place = number % count;
        number /= count;
        place
    };
    counts.iter().map(place).collect()
}

fn drawn(rng: &mut SplitMix64, counts: &[usize]) -> Choice {
    counts.iter().map(|count| rng.below(*count)).collect()
}

/// A flow without any path keeps the present one: such a plan is unsound, and the plan check reports that.
fn detours(
    model: &Model<'_>,
    atlas: &Atlas<'_>,
    open: &[Vec<Vec<Hop>>],
    choice: &Choice,
) -> Detours {
    let flows = model.flows.iter().zip(open).zip(choice).enumerate();
    let detours = flows.filter_map(|(index, ((flow, ways), place))| {
        let way = ways.get(*place)?.clone();
        let detour = Detour::along(flow.state.flow, flow.path, way, atlas)?;
        Some((index, detour))
    });
    detours.collect()
}

fn predictions(model: &Model<'_>, present: &Weighed, weighed: &[Weighed]) -> Vec<Prediction> {
    let oracle = Oracle::new(model, present);
    let concerned = weighed
        .iter()
        .flat_map(|after| oracle.concerned(&BTreeSet::new(), after));
    let concerned: BTreeSet<_> = concerned.collect();
    let predicted = concerned.into_iter().map(|flow| {
        let all: Vec<_> = weighed
            .iter()
            .map(|after| prediction_of(model, &oracle, flow, after))
            .collect();
        together(&all)
    });
    predicted.collect()
}

/// A flow that leaves a lossy link may keep its rate or reach its maximum.
fn prediction_of(
    model: &Model<'_>,
    oracle: &Oracle<'_>,
    flow: usize,
    after: &Weighed,
) -> Prediction {
    let predicted = oracle.predict(flow, after);
    if !is_freed(model, &after.detours, flow) {
        return predicted;
    }
    let [least, most] = [predicted.before, after.shares[flow].rate];
    Prediction {
        low: predicted.low.min(least),
        high: predicted.high.max(most),
        ..predicted
    }
}

fn together(all: &[Prediction]) -> Prediction {
    let mean = all
        .iter()
        .map(|it| it.after.bits_per_s() as f64)
        .sum::<f64>()
        / all.len() as f64;
    let first = &all[0];
    Prediction {
        flow: first.flow,
        before: first.before,
        after: Rate::from_bits_per_s(mean as u64),
        low: all.iter().map(|it| it.low).min().unwrap_or(first.low),
        high: all.iter().map(|it| it.high).max().unwrap_or(first.high),
    }
}

/// One choice may slow down a job that another leaves unchanged.
fn iterations(model: &Model<'_>, present: &Weighed, weighed: &[Weighed]) -> Vec<Iteration> {
    let mut by_job: BTreeMap<String, Vec<Iteration>> = BTreeMap::new();
    for after in weighed {
        for predicted in predicted(model, present, after) {
            by_job
                .entry(predicted.job.clone())
                .or_default()
                .push(predicted);
        }
    }
    let all = by_job.into_values();
    all.map(|all| held_by(&all, weighed.len())).collect()
}

fn held_by(some: &[Iteration], of: usize) -> Iteration {
    let first = &some[0];
    let same = of - some.len();
    let sum: Duration = some.iter().map(|it| *it.after).sum();
    let stays = (same > 0).then_some(first.before);
    let low = stays.map(|it| it.scaled(1.0 - MEASUREMENT_VARIATION));
    let high = stays.map(|it| it.scaled(1.0 + MEASUREMENT_VARIATION));
    Iteration {
        after: TimeSpan::new((sum + *first.before * same as u32) / of as u32),
        low: some
            .iter()
            .map(|it| it.low)
            .chain(low)
            .min()
            .unwrap_or(first.low),
        high: some
            .iter()
            .map(|it| it.high)
            .chain(high)
            .max()
            .unwrap_or(first.high),
        ..first.clone()
    }
}
