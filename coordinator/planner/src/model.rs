//! The planner's picture of the cluster: flows, the ways each could take, and what the hops have
//! for them. Flows share hops max-min fairly.

use std::collections::BTreeMap;

use reweave_common::fabric::Role;
use reweave_common::flow::FlowKey;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::routes::Routes;
use reweave_common::snapshot::{FlowState, Hop, Snapshot};
use reweave_common::units::Rate;

use crate::Policy;
use crate::maxmin::{Demand, Share, max_min};
use crate::observed::Observed;
use crate::ways::{Way, alternatives};

/// Bytes on the wire per byte of payload: the headers of TCP, IP and Ethernet in full packets of
/// 1500 bytes, rounded up, so that they are not taken for the traffic of strangers.
const WIRE_PER_PAYLOAD: f64 = 1.05;

mod ceiling;

pub(crate) struct Model<'s> {
    pub(crate) observed: Observed<'s>,
    /// In the order of their keys.
    pub(crate) flows: Vec<Flow<'s>>,
    routes: Routes,
    /// By place: what a hop has for the flows of the model.
    capacities: Vec<Rate>,
}

pub(crate) struct Flow<'s> {
    pub(crate) state: &'s FlowState,
    /// The present way, and then those it could be moved to.
    pub(crate) ways: Vec<Way>,
    pub(crate) elephant: bool,
    /// By way: the places of its hops among the capacities.
    places: Vec<Vec<usize>>,
    /// What it takes even where there is more.
    most: Option<Rate>,
}

impl Flow<'_> {
    pub(crate) fn present(&self) -> &Way {
        &self.ways[0]
    }

    pub(crate) fn crosses(&self, hop: Hop) -> bool {
        self.present().hops.contains(&hop)
    }

    /// The same of a hop by its place among the capacities.
    pub(crate) fn crosses_place(&self, place: usize) -> bool {
        self.places[0].contains(&place)
    }

    /// Its other ways that lead over this hop.
    pub(crate) fn ways_over(&self, hop: Hop) -> impl Iterator<Item = usize> {
        let ways = self.ways.iter().enumerate().skip(1);
        let over = ways.filter(move |(_, way)| way.hops.contains(&hop));
        over.map(|(index, _)| index)
    }

    fn demand<'a>(&self, hops: &'a [usize]) -> Demand<'a> {
        Demand {
            hops,
            most: self.most,
        }
    }
}

impl<'s> Model<'s> {
    pub(crate) fn new(snapshot: &'s Snapshot, policy: &'s Policy) -> Self {
        let observed = Observed { snapshot, policy };
        let routes = Routes::shortest(&snapshot.fabric);
        let known = observed.flows();
        let mut workshop = Workshop::new(observed, &routes, &known);
        let flows = known
            .iter()
            .map(|(state, path)| workshop.flow(state, path))
            .collect();
        let capacities = workshop.capacities;
        Self {
            observed,
            flows,
            routes,
            capacities,
        }
    }

    pub(crate) fn policy(&self) -> &'s Policy {
        self.observed.policy
    }

    pub(crate) fn find(&self, flow: FlowKey) -> Option<usize> {
        self.flows
            .binary_search_by_key(&flow, |known| known.state.flow)
            .ok()
    }

    /// The links among which a switch may choose for a destination, without those that are down.
    /// None where there is no switch.
    pub(crate) fn choices(&self, at: NodeId, to: NodeId) -> Vec<LinkId> {
        if self.observed.fabric().node(at).role != Role::Switch {
            return Vec::new();
        }
        let links = self.routes.next_hops(at, to).iter().copied();
        links.filter(|&link| !self.observed.is_down(link)).collect()
    }

    /// What each flow gets when each takes the way chosen for it.
    pub(crate) fn shares(&self, choice: &[usize]) -> Vec<Share> {
        let chosen = self.flows.iter().zip(choice);
        let demands = chosen.map(|(flow, &way)| flow.demand(&flow.places[way]));
        let demands: Vec<_> = demands.collect();
        max_min(&self.capacities, &demands)
    }
}

/// What the flows bring onto one hop.
#[derive(Default)]
struct Carried {
    sum: u64,
    largest: u64,
}

/// Builds the flows of a model and the capacities they share.
struct Workshop<'s, 'r> {
    observed: Observed<'s>,
    routes: &'r Routes,
    carried: BTreeMap<Hop, Carried>,
    places: BTreeMap<Hop, usize>,
    capacities: Vec<Rate>,
}

impl<'s, 'r> Workshop<'s, 'r> {
    fn new(observed: Observed<'s>, routes: &'r Routes, flows: &[(&FlowState, &[Hop])]) -> Self {
        let mut carried: BTreeMap<_, Carried> = BTreeMap::new();
        for (state, path) in flows {
            let rate = state.rate.bits_per_s();
            for &hop in *path {
                let on_hop = carried.entry(hop).or_default();
                on_hop.sum += rate;
                on_hop.largest = on_hop.largest.max(rate);
            }
        }
        Self {
            observed,
            routes,
            carried,
            places: BTreeMap::new(),
            capacities: Vec::new(),
        }
    }

    fn flow(&mut self, state: &'s FlowState, path: &[Hop]) -> Flow<'s> {
        let greedy = self.is_greedy(state, path);
        let elephant = self.is_elephant(state, path, greedy);
        let mut ways = vec![Way::present(path)];
        if elephant {
            let others = alternatives(self.observed.fabric(), self.routes, state, path);
            let usable = |way: &Way| way.new_hops(path).all(|hop| self.observed.is_usable(hop));
            ways.extend(others.into_iter().filter(usable));
        }
        let places = ways.iter().map(|way| self.places_of(&way.hops)).collect();
        // What no full hop holds back is held back by itself, or by something outside the network:
        // it will take as much as now wherever it goes.
        let most = (!greedy).then_some(state.rate);
        Flow {
            state,
            ways,
            elephant,
            places,
            most,
        }
    }

    /// The size of what a full hop holds back is not to be told by its rate: the more meet there,
    /// the less each has.
    fn is_elephant(&self, state: &FlowState, path: &[Hop], greedy: bool) -> bool {
        let least_share = match greedy {
            true => self.policy().throttled_share(),
            false => self.policy().elephant_share,
        };
        let narrowest = path.iter().map(|&hop| self.observed.nominal(hop)).min();
        let least = narrowest.map(|rate| rate.bits_per_s() as f64 * least_share);
        least.is_some_and(|least| state.rate.bits_per_s() as f64 >= least)
    }

    /// Whether it would take more if it could: on a hop that is full it gets about as much as the
    /// largest flow there.
    fn is_greedy(&self, state: &FlowState, path: &[Hop]) -> bool {
        let rate = state.rate.bits_per_s() as f64;
        let holds_back = |hop: &Hop| {
            let largest = self.carried.get(hop).map_or(0, |carried| carried.largest) as f64;
            self.observed.is_full(*hop) && rate >= largest * self.policy().greedy_share
        };
        path.iter().any(holds_back)
    }

    fn places_of(&mut self, hops: &[Hop]) -> Vec<usize> {
        hops.iter().map(|&hop| self.place(hop)).collect()
    }

    fn place(&mut self, hop: Hop) -> usize {
        if let Some(&place) = self.places.get(&hop) {
            return place;
        }
        let place = self.capacities.len();
        self.capacities.push(self.capacity(hop));
        self.places.insert(hop, place);
        place
    }

    /// The nominal capacity without what was measured on the hop and no flow here accounts for:
    /// mice, strangers, and flows whose path is not known stay where they are.
    fn capacity(&self, hop: Hop) -> Rate {
        let nominal = self.observed.nominal(hop).bits_per_s();
        let load = self.observed.load(hop).map_or(0, Rate::bits_per_s);
        let known = self.carried.get(&hop).map_or(0, |carried| carried.sum);
        let explained = (known as f64 * WIRE_PER_PAYLOAD) as u64;
        Rate::from_bits_per_s(nominal - load.min(nominal).saturating_sub(explained))
    }

    fn policy(&self) -> &'s Policy {
        self.observed.policy
    }
}
