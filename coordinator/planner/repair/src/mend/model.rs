//! The planner's model of the cluster: flows with their paths, and capacities of hops. Flows share hops max-min fairly.

use std::collections::BTreeMap;

use reweave_common::flow::FlowKey;
use reweave_common::snapshot::{FlowState, Hop, Snapshot};
use reweave_common::units::Rate;

use super::beats::DutyCycles;
use super::best::Detours;
use super::observed::Observed;
use crate::Policy;
use crate::maxmin::{Demand, Share, max_min};
use crate::paths::{Atlas, HopIndex};

/// Bytes on the wire per byte of payload: the headers of TCP, IP and Ethernet in full packets of 1500 bytes, rounded
/// up, so that headers do not count as traffic of other flows.
pub(super) const WIRE_PER_PAYLOAD: f64 = 1.05;

pub(super) struct Model<'s> {
    pub(super) observed: Observed<'s>,
    /// Sorted by key.
    pub(super) flows: Vec<Flow<'s>>,
    /// Capacity of each hop for the flows of the model.
    pub(super) capacities: Vec<Rate>,
    carried: Carried<'s>,
}

pub(super) struct Flow<'s> {
    pub(super) state: &'s FlowState,
    pub(super) path: &'s [Hop],
    pub(super) elephant: bool,
    hops: Vec<HopIndex>,
    /// Maximum rate of the flow, even with free capacity.
    pub(super) most: Option<Rate>,
}

impl Flow<'_> {
    pub(super) fn crosses(&self, hop: Hop) -> bool {
        self.path.contains(&hop)
    }

    /// The same of a hop by its place among the capacities.
    pub(super) fn crosses_place(&self, place: HopIndex) -> bool {
        self.hops.contains(&place)
    }
}

impl<'s> Model<'s> {
    pub(super) fn new(snapshot: &'s Snapshot, policy: &'s Policy) -> Self {
        let observed = Observed { snapshot, policy };
        let atlas = Atlas::new(observed.fabric());
        let known = observed.flows();
        let carried = Carried::new(observed, &known);
        let flow = |(state, path): &(&'s FlowState, &'s [Hop])| carried.flow(state, path, &atlas);
        let hops = (0..atlas.hops()).map(|index| atlas.hop(index));
        Self {
            flows: known.iter().map(flow).collect(),
            capacities: hops.map(|hop| carried.capacity(hop)).collect(),
            observed,
            carried,
        }
    }

    /// Returns load divided by capacity, while the periodic flows send.
    pub(super) fn utilization(&self, hop: Hop) -> Option<f64> {
        self.carried.utilization(hop)
    }

    pub(super) fn is_full(&self, hop: Hop) -> bool {
        self.carried.is_full(hop)
    }

    /// Returns the rate of a flow while its job sends.
    pub(super) fn while_sending(&self, state: &FlowState) -> Rate {
        self.carried.beats.while_sending(state)
    }

    /// Returns the share of the time of the flow's readings in which its job rested.
    pub(super) fn rests(&self, flow: usize) -> f64 {
        self.carried.beats.rests(self.flows[flow].state)
    }

    pub(super) fn policy(&self) -> &'s Policy {
        self.observed.policy
    }

    pub(super) fn find(&self, flow: FlowKey) -> Option<usize> {
        self.flows
            .binary_search_by_key(&flow, |known| known.state.flow)
            .ok()
    }

    /// Returns the rate of each flow with these detours.
    pub(super) fn shares(&self, detours: &Detours) -> Vec<Share> {
        self.shares_while(detours, |_| false)
    }

    /// The same while some of them send as much as they get.
    pub(super) fn shares_while(
        &self,
        detours: &Detours,
        is_sending: impl Fn(usize) -> bool,
    ) -> Vec<Share> {
        let flows = self.flows.iter().enumerate();
        let demands = flows.map(|(index, flow)| Demand {
            hops: detours.get(&index).map_or(&flow.hops, |it| &it.hops),
            most: flow.most.filter(|_| !is_sending(index)),
        });
        max_min(&self.capacities, &demands.collect::<Vec<_>>())
    }

    /// Returns the rate that each flow would have without contention at switches: as its ends and its own limit allow.
    pub(super) fn appetites(&self, atlas: &Atlas<'_>) -> Vec<Rate> {
        let ends = self.flows.iter().map(|flow| flow.ends(atlas));
        let ends: Vec<Vec<_>> = ends.collect();
        let demands = self.flows.iter().zip(&ends).map(|(flow, hops)| Demand {
            hops,
            most: flow.most,
        });
        let shares = max_min(&self.capacities, &demands.collect::<Vec<_>>());
        let least = |(flow, share): (&Flow<'_>, Share)| {
            let widths = flow.path.iter().map(|&hop| self.observed.nominal(hop));
            widths.fold(share.rate, Rate::min)
        };
        self.flows.iter().zip(shares).map(least).collect()
    }
}

impl Flow<'_> {
    /// Returns the hops that it crosses on any path: from its sender, and to its receiver if only one switch leads
    /// there.
    fn ends(&self, atlas: &Atlas<'_>) -> Vec<HopIndex> {
        let arrives_alone = atlas.door(self.state) != self.state.to;
        let last = self.hops.last().filter(|_| arrives_alone);
        let mut ends: Vec<_> = self.hops.first().into_iter().chain(last).copied().collect();
        ends.dedup();
        ends
    }
}

/// Load of the flows on the hops.
struct Carried<'s> {
    observed: Observed<'s>,
    on: BTreeMap<Hop, Load>,
    beats: DutyCycles,
}

#[derive(Default)]
struct Load {
    sum: u64,
    /// Rate of the largest flow while it sends.
    largest: u64,
}

impl<'s> Carried<'s> {
    fn new(observed: Observed<'s>, flows: &[(&FlowState, &[Hop])]) -> Self {
        let beats = DutyCycles::new(observed.snapshot, flows);
        let mut on: BTreeMap<_, Load> = BTreeMap::new();
        for (state, path) in flows {
            let sending = beats.while_sending(state).bits_per_s();
            for &hop in *path {
                let load = on.entry(hop).or_default();
                load.sum = load.sum.saturating_add(state.rate.bits_per_s());
                load.largest = load.largest.max(sending);
            }
        }
        Self {
            observed,
            on,
            beats,
        }
    }

    fn utilization(&self, hop: Hop) -> Option<f64> {
        let capacity = self.observed.fabric().link(hop.link).rate;
        let load = self
            .beats
            .load_while_sending(hop, self.observed.load(hop)?)
            .min(capacity);
        Some(load.bits_per_s() as f64 / capacity.bits_per_s() as f64)
    }

    fn is_full(&self, hop: Hop) -> bool {
        self.utilization(hop)
            .is_some_and(|share| share >= self.observed.policy.full_at)
    }

    fn flow(&self, state: &'s FlowState, path: &'s [Hop], atlas: &Atlas<'_>) -> Flow<'s> {
        let greedy = self.is_greedy(state, path);
        Flow {
            state,
            path,
            elephant: self.is_elephant(state, path, greedy),
            hops: path.iter().map(|&hop| atlas.index(hop)).collect(),
            // A flow that no full hop limits is limited by itself, or outside the network: its rate is the same on
            // every path.
            most: (!greedy).then_some(state.rate),
        }
    }

    /// The rate of a flow on a full hop does not show its size: the more flows meet there, the less each has.
    fn is_elephant(&self, state: &FlowState, path: &[Hop], greedy: bool) -> bool {
        let policy = self.observed.policy;
        let least_share = if greedy {
            policy.throttled_share()
        } else {
            policy.elephant_share
        };
        let narrowest = path.iter().map(|&hop| self.observed.nominal(hop)).min();
        let least = narrowest.map(|rate| rate.bits_per_s() as f64 * least_share);
        let sending = self.beats.while_sending(state).bits_per_s();
        least.is_some_and(|least| sending as f64 >= least)
    }

    /// Whether it would take more if it could: on a hop that is full it gets about as much as the
    /// largest flow there.
    fn is_greedy(&self, state: &FlowState, path: &[Hop]) -> bool {
        let rate = self.beats.while_sending(state).bits_per_s() as f64;
        let holds_back = |hop: &Hop| {
            let largest = self.on.get(hop).map_or(0, |load| load.largest) as f64;
            self.is_full(*hop) && rate >= largest * self.observed.policy.greedy_share
        };
        path.iter().any(holds_back)
    }

    /// The nominal capacity without what was measured on the hop and no flow here accounts for:
    /// mice, strangers, and flows whose path is not known stay where they are.
    fn capacity(&self, hop: Hop) -> Rate {
        let nominal = self.observed.nominal(hop).bits_per_s();
        let load = self.observed.load(hop).map_or(0, Rate::bits_per_s);
        let known = self.on.get(&hop).map_or(0, |load| load.sum);
        let explained = (known as f64 * WIRE_PER_PAYLOAD) as u64;
        Rate::from_bits_per_s(nominal - load.min(nominal).saturating_sub(explained))
    }
}
