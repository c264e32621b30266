//! Balanced routes: by multiplicative weights.
//!
//! Round after round, all demand takes the cheapest ways, where a lane costs the more, exponentially,
//! the fuller it has been so far. The mean of all rounds then fills the fullest lane hardly more
//! than must be.

use std::collections::BTreeMap;

use crate::topology::{Distances, Wiring};

use super::lanes::Lanes;
use super::splits::Routes;

/// How much may be spent on balance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effort {
    pub rounds: u32,
    /// Whether ways may be longer than the shortest, as long as no hop leads away.
    pub sideways: bool,
    /// How many lanes' worth a host can forward for others; no limit where there is no figure.
    pub relay: Option<f64>,
}

impl Default for Effort {
    fn default() -> Self {
        Self {
            rounds: MOST_ROUNDS,
            sideways: true,
            relay: None,
        }
    }
}

const MOST_ROUNDS: u32 = 48;
/// Hosts times lanes that are looked at in all rounds together.
const WORK: usize = 16 << 20;
/// Where there are more hosts times lanes than these, what each carries is not written down: all
/// that lead closer share alike.
const MOST_BALANCED: usize = 1 << 25;

impl Effort {
    /// Fewer rounds where each is much work.
    pub fn for_size(wiring: &Wiring) -> Self {
        let each = wiring.hosts() * wiring.cables() * 2;
        let rounds = (WORK / each.max(1)).clamp(6, MOST_ROUNDS as usize) as u32;
        Self {
            rounds: if each > MOST_BALANCED { 0 } else { rounds },
            ..Self::default()
        }
    }
}

/// How steeply a full lane costs more than an empty one.
const STEEPNESS: f64 = 24.0;
/// What a hop costs besides, so that nobody goes far for nothing.
const OF_A_HOP: f64 = 1e-3;

/// Routes for this demand; hosts that have nothing to send get shortest ways.
pub fn balanced(wiring: &Wiring, demand: &BTreeMap<(u32, u32), f64>, effort: Effort) -> Routes {
    balanced_by(wiring, &Distances::of(wiring), demand, effort)
}

/// The same, when the distances are known.
pub fn balanced_by(
    wiring: &Wiring,
    distances: &Distances,
    demand: &BTreeMap<(u32, u32), f64>,
    effort: Effort,
) -> Routes {
    let lanes = Lanes::of(wiring);
    let mut balancing = Balancing::new(&lanes, distances, demand, effort);
    for _ in 0..effort.rounds {
        balancing.round();
    }
    balancing.routes()
}

struct Balancing<'b> {
    lanes: &'b Lanes,
    distances: &'b Distances,
    effort: Effort,
    /// By destination: who sends how much.
    sent: Vec<Vec<(u32, f64)>>,
    /// By destination with demand: who has a way there, the closest first.
    orders: Vec<Vec<u32>>,
    /// By destination with demand: what each lane has carried so far.
    carried: Vec<Vec<f32>>,
    loads: Vec<f64>,
    forwarded: Vec<f64>,
    /// By lane and by host, what it costs to use it.
    costs: Vec<f64>,
    tolls: Vec<f64>,
    amounts: Vec<f64>,
    values: Vec<f64>,
    choice: Vec<u32>,
}

impl<'b> Balancing<'b> {
    fn new(
        lanes: &'b Lanes,
        distances: &'b Distances,
        demand: &BTreeMap<(u32, u32), f64>,
        effort: Effort,
    ) -> Self {
        let hosts = lanes.hosts();
        let mut sent = vec![Vec::new(); hosts];
        for (&(from, to), &amount) in demand {
            sent[to as usize].push((from, amount));
        }
        let is_balanced = |sent: &Vec<_>| !sent.is_empty() && effort.rounds > 0;
        let carried = |sent: &Vec<_>| match is_balanced(sent) {
            true => vec![0.0; lanes.count()],
            false => Vec::new(),
        };
        let order_to = |(to, sent): (u32, &Vec<_>)| match is_balanced(sent) {
            true => order(distances.row(to)),
            false => Vec::new(),
        };
        Self {
            lanes,
            distances,
            effort,
            orders: (0..).zip(&sent).map(order_to).collect(),
            carried: sent.iter().map(carried).collect(),
            sent,
            loads: vec![0.0; lanes.count()],
            forwarded: vec![0.0; hosts],
            costs: vec![1.0; lanes.count()],
            tolls: vec![0.0; hosts],
            amounts: vec![0.0; hosts],
            values: vec![0.0; hosts],
            choice: vec![0; hosts],
        }
    }

    fn round(&mut self) {
        for to in 0..self.lanes.hosts() as u32 {
            let order = std::mem::take(&mut self.orders[to as usize]);
            if !order.is_empty() {
                self.choose(to, &order);
                self.send(to, &order);
            }
            self.orders[to as usize] = order;
        }
        self.price();
    }

    /// The cheapest lane of each host, those closest to the destination first.
    fn choose(&mut self, to: u32, order: &[u32]) {
        let row = self.distances.row(to);
        self.values[to as usize] = 0.0;
        for &at in &order[1..] {
            let mut best = (f64::INFINITY, u32::MAX);
            for lane in self.lanes.from(at) {
                let next = self.lanes.end(lane);
                if !leads_on(row, at, next, self.effort.sideways) {
                    continue;
                }
                let toll = if next == to {
                    0.0
                } else {
                    self.tolls[next as usize]
                };
                let cost = self.costs[lane] + toll + self.values[next as usize];
                if cost < best.0 {
                    best = (cost, lane as u32);
                }
            }
            (self.values[at as usize], self.choice[at as usize]) = best;
        }
    }

    fn send(&mut self, to: u32, order: &[u32]) {
        self.amounts.fill(0.0);
        for &(from, amount) in &self.sent[to as usize] {
            self.amounts[from as usize] += amount;
        }
        let carried = &mut self.carried[to as usize];
        let mut own = self.sent[to as usize]
            .iter()
            .map(|&(from, amount)| (from, amount));
        for &at in order[1..].iter().rev() {
            let amount = self.amounts[at as usize];
            if amount == 0.0 {
                continue;
            }
            let lane = self.choice[at as usize] as usize;
            self.loads[lane] += amount;
            self.forwarded[at as usize] += amount;
            carried[lane] += amount as f32;
            self.amounts[self.lanes.end(lane) as usize] += amount;
        }
        own.by_ref()
            .for_each(|(from, amount)| self.forwarded[from as usize] -= amount);
    }

    /// What has been fullest so far costs most.
    fn price(&mut self) {
        let relay = self.effort.relay.unwrap_or(f64::INFINITY);
        let fullest = self.loads.iter().copied().fold(0.0, f64::max);
        let busiest = self.forwarded.iter().copied().fold(0.0, f64::max) / relay;
        let most = fullest.max(busiest).max(f64::MIN_POSITIVE);
        let price = |load: f64| libm::exp(STEEPNESS * (load / most - 1.0));
        for (cost, &load) in self.costs.iter_mut().zip(&self.loads) {
            *cost = price(load) + OF_A_HOP;
        }
        if self.effort.relay.is_some() {
            for (toll, &load) in self.tolls.iter_mut().zip(&self.forwarded) {
                *toll = price(load / relay);
            }
        }
    }

    fn routes(self) -> Routes {
        let mut routes = Routes::new(self.lanes.clone());
        let mut amounts = Vec::new();
        for to in 0..self.lanes.hosts() as u32 {
            let row = self.distances.row(to);
            let carried = &self.carried[to as usize];
            for at in (0..self.lanes.hosts() as u32).filter(|&at| at != to) {
                let own = self.lanes.from(at);
                amounts.clear();
                if !carried.is_empty() {
                    amounts.extend(carried[own.clone()].iter().map(|&it| f64::from(it)));
                }
                if amounts.iter().all(|&amount| amount == 0.0) {
                    let is_nearer = |lane| row[self.lanes.end(lane) as usize] < row[at as usize];
                    amounts.clear();
                    amounts.extend(own.map(|lane| f64::from(u8::from(is_nearer(lane)))));
                }
                routes.split(at, to, &amounts);
            }
        }
        routes
    }
}

/// Hosts that have a way, the closest first; of those that are equally far, the smaller number.
fn order(row: &[u16]) -> Vec<u32> {
    let reached = (0..row.len() as u32).filter(|&host| row[host as usize] != u16::MAX);
    let mut order: Vec<_> = reached.collect();
    order.sort_by_key(|&host| row[host as usize]);
    order
}

/// Whether a hop goes down in that order.
fn leads_on(row: &[u16], at: u32, next: u32, sideways: bool) -> bool {
    let [here, there] = [at, next].map(|host| row[host as usize]);
    there < here || (sideways && there == here && next < at)
}
