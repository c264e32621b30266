//! Balanced routes, by multiplicative weights.
//!
//! In each round, all demand takes the cheapest paths. The cost of a lane grows exponentially with its load so far. The
//! mean of all rounds then loads the fullest lane little above the optimum.

use std::collections::BTreeMap;

use crate::crew::{InTime, NO_DEADLINE};
use crate::topology::{Distances, Wiring};

use super::lanes::Lanes;
use super::splits::Routes;

/// Work limits for balancing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effort {
    pub rounds: u32,
    /// Whether paths may be longer than the shortest, as long as no hop increases the distance.
    pub sideways: bool,
    /// Maximum forwarding rate of a host in lanes; unlimited if unknown.
    pub relay: Option<f64>,
}

impl Default for Effort {
    fn default() -> Self {
        Self {
            rounds: MAX_ROUNDS,
            sideways: true,
            relay: None,
        }
    }
}

const MAX_ROUNDS: u32 = 48;
/// Hosts times lanes that are looked at in all rounds together.
const MAX_LANE_VISITS: usize = 16 << 20;
/// Above this product of hosts and lanes, loads are not recorded: all lanes that lead closer get equal shares.
const MAX_BALANCED_LANES: usize = 1 << 25;

impl Effort {
    /// Fewer rounds where each is much work.
    pub fn for_size(wiring: &Wiring) -> Self {
        let each = wiring.hosts() * wiring.cables() * 2;
        let rounds = (MAX_LANE_VISITS / each.max(1)).clamp(6, MAX_ROUNDS as usize) as u32;
        Self {
            rounds: if each > MAX_BALANCED_LANES { 0 } else { rounds },
            ..Self::default()
        }
    }
}

/// Steepness of the exponential cost: an empty lane costs e^-24 of the fullest one.
const PRICE_STEEPNESS: f64 = 24.0;
/// Constant cost per hop, so that no flow takes a long path without a benefit.
const PRICE_PER_HOP: f64 = 1e-3;

/// Returns routes for this demand; hosts without demand get shortest paths.
pub fn balanced(wiring: &Wiring, demand: &BTreeMap<(u32, u32), f64>, effort: Effort) -> Routes {
    balanced_until(wiring, &Distances::of(wiring), demand, effort, NO_DEADLINE)
}

/// Same as `balanced` with known distances, and as balanced as possible by the deadline: after one round at least.
pub fn balanced_until(
    wiring: &Wiring,
    distances: &Distances,
    demand: &BTreeMap<(u32, u32), f64>,
    effort: Effort,
    in_time: InTime<'_>,
) -> Routes {
    let lanes = Lanes::of(wiring);
    let mut towards = match effort.rounds {
        0 => BTreeMap::new(),
        _ => towards_all(&lanes, distances, demand, effort.sideways),
    };
    let mut filling = Filling::new(&lanes);
    for round in 0..effort.rounds {
        if round > 0 && !in_time() {
            break;
        }
        for towards in towards.values_mut() {
            filling.choose(&lanes, towards);
            filling.send(&lanes, towards);
        }
        filling.price(effort.relay);
    }
    routes(&lanes, distances, &towards)
}

fn towards_all(
    lanes: &Lanes,
    distances: &Distances,
    demand: &BTreeMap<(u32, u32), f64>,
    sideways: bool,
) -> BTreeMap<u32, Towards> {
    let mut all = BTreeMap::new();
    for (&(from, to), &amount) in demand {
        let new = || Towards::new(lanes, distances.row(to), to, sideways);
        let towards: &mut Towards = all.entry(to).or_insert_with(new);
        towards.sent.push((from, amount));
    }
    all
}

/// Lanes that lead to a destination with demand, and their traffic so far.
struct Towards {
    to: u32,
    /// Senders with their demands.
    sent: Vec<(u32, f64)>,
    /// Hosts with a path, closest first, without the destination.
    order: Vec<u32>,
    /// The lanes that lead on, host by host in that order, and where those of each end.
    leading: Vec<u32>,
    ends: Vec<u32>,
    /// Traffic of each lane so far.
    carried: Vec<f32>,
}

impl Towards {
    fn new(lanes: &Lanes, row: &[u16], to: u32, sideways: bool) -> Self {
        let order = order(row).split_off(1);
        let (mut leading, mut ends) = (Vec::new(), Vec::with_capacity(order.len()));
        for &at in &order {
            let onwards = lanes
                .from(at)
                .filter(|&lane| leads_on(row, at, lanes.end(lane), sideways));
            leading.extend(onwards.map(|lane| lane as u32));
            ends.push(leading.len() as u32);
        }
        Self {
            to,
            sent: Vec::new(),
            order,
            carried: vec![0.0; leading.len()],
            leading,
            ends,
        }
    }
}

/// Loads of lanes and hosts, and the resulting costs.
struct Filling {
    loads: Vec<f64>,
    forwarded: Vec<f64>,
    /// Cost of each lane and host.
    costs: Vec<f64>,
    tolls: Vec<f64>,
    amounts: Vec<f64>,
    /// Cost of the path from each host, including its own.
    values: Vec<f64>,
    /// Index of each host's cheapest lane among those that lead on.
    choice: Vec<u32>,
}

impl Filling {
    fn new(lanes: &Lanes) -> Self {
        let hosts = lanes.hosts();
        Self {
            loads: vec![0.0; lanes.count()],
            forwarded: vec![0.0; hosts],
            costs: vec![1.0; lanes.count()],
            tolls: vec![0.0; hosts],
            amounts: vec![0.0; hosts],
            values: vec![0.0; hosts],
            choice: vec![0; hosts],
        }
    }

    /// The cheapest lane of each host, those closest to the destination first.
    fn choose(&mut self, lanes: &Lanes, towards: &Towards) {
        self.values[towards.to as usize] = 0.0;
        let mut begin = 0;
        for (&at, &end) in towards.order.iter().zip(&towards.ends) {
            let mut best = (f64::INFINITY, begin);
            for nth in begin..end {
                let lane = towards.leading[nth as usize] as usize;
                let cost = self.costs[lane] + self.values[lanes.end(lane) as usize];
                if cost < best.0 {
                    best = (cost, nth);
                }
            }
            self.values[at as usize] = best.0 + self.tolls[at as usize];
            self.choice[at as usize] = best.1;
            begin = end;
        }
    }

    fn send(&mut self, lanes: &Lanes, towards: &mut Towards) {
        self.amounts.fill(0.0);
        for &(from, amount) in &towards.sent {
            self.amounts[from as usize] += amount;
        }
        for &at in towards.order.iter().rev() {
            let amount = self.amounts[at as usize];
            if amount == 0.0 {
                continue;
            }
            let nth = self.choice[at as usize] as usize;
            let lane = towards.leading[nth] as usize;
            self.loads[lane] += amount;
            self.forwarded[at as usize] += amount;
            towards.carried[nth] += amount as f32;
            self.amounts[lanes.end(lane) as usize] += amount;
        }
        for &(from, amount) in &towards.sent {
            self.forwarded[from as usize] -= amount;
        }
    }

    /// Computes costs: the highest load costs most.
    fn price(&mut self, relay: Option<f64>) {
        let fullest = self.loads.iter().copied().fold(0.0, f64::max);
        let busiest = self.forwarded.iter().copied().fold(0.0, f64::max);
        let busiest = busiest / relay.unwrap_or(f64::INFINITY);
        let most = fullest.max(busiest).max(f64::MIN_POSITIVE);
        let price = |load: f64| libm::exp(PRICE_STEEPNESS * (load / most - 1.0));
        for (cost, &load) in self.costs.iter_mut().zip(&self.loads) {
            *cost = price(load) + PRICE_PER_HOP;
        }
        let Some(relay) = relay else {
            return;
        };
        for (toll, &load) in self.tolls.iter_mut().zip(&self.forwarded) {
            *toll = price(load / relay);
        }
    }
}

/// Each host splits as its lanes have carried; where nothing went, over all that lead closer.
fn routes(lanes: &Lanes, distances: &Distances, towards: &BTreeMap<u32, Towards>) -> Routes {
    let hosts = lanes.hosts() as u32;
    let mut carried = vec![0.0; lanes.count()];
    let mut routes = Routes::new(lanes.clone());
    for to in 0..hosts {
        let row = distances.row(to);
        carried.fill(0.0);
        if let Some(towards) = towards.get(&to) {
            for (&lane, &amount) in towards.leading.iter().zip(&towards.carried) {
                carried[lane as usize] = f64::from(amount);
            }
        }
        for at in (0..hosts).filter(|&at| at != to) {
            let own = lanes.from(at);
            let amounts = &mut carried[own.clone()];
            if amounts.iter().all(|&amount| amount == 0.0) {
                for (amount, lane) in amounts.iter_mut().zip(own) {
                    let is_nearer = row[lanes.end(lane) as usize] < row[at as usize];
                    *amount = f64::from(u8::from(is_nearer));
                }
            }
            routes.split(at, to, amounts);
        }
    }
    routes
}

/// Hosts that have a path, the closest first. Equally far hosts come in the order of their numbers.
pub(super) fn order(row: &[u16]) -> Vec<u32> {
    let reached = || (0..).zip(row).filter(|(_, hops)| **hops != u16::MAX);
    let farthest = reached().map(|(_, hops)| *hops).max().unwrap_or(0);
    let mut starts = vec![0; usize::from(farthest) + 2];
    reached().for_each(|(_, hops)| starts[usize::from(*hops) + 1] += 1);
    for hops in 1..starts.len() {
        starts[hops] += starts[hops - 1];
    }
    let mut order = vec![0; starts[starts.len() - 1]];
    for (host, hops) in reached() {
        let place = &mut starts[usize::from(*hops)];
        order[*place] = host;
        *place += 1;
    }
    order
}

/// Whether a hop decreases the distance, or keeps it if `sideways`.
fn leads_on(row: &[u16], at: u32, next: u32, sideways: bool) -> bool {
    let [here, there] = [at, next].map(|host| row[host as usize]);
    there < here || (sideways && there == here && next < at)
}
