//! Routes without cyclic buffer dependencies.
//!
//! On a lossless fabric a full buffer stops the previous one. If these dependencies form a cycle, nothing moves. Hosts
//! are put in an order, so each hop goes up or down. Paths that never go up after going down cannot form a cycle. A
//! path that does so moves to the next priority class, which has buffers of its own: within a class all paths go up
//! first and then down, and the class only rises.

use std::collections::VecDeque;

use crate::topology::Wiring;

use super::lanes::Lanes;
use super::splits::Routes;

/// Hosts from the middle of the wiring outwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    places: Vec<u32>,
}

impl Order {
    /// Breadth-first from the first of the hosts with the most neighbours.
    pub fn of(wiring: &Wiring) -> Self {
        let hosts = wiring.hosts() as u32;
        let mut places = vec![u32::MAX; wiring.hosts()];
        let mut roots: Vec<_> = (0..hosts).collect();
        roots.sort_by_key(|&host| (wiring.hosts() - wiring.degree(host), host));
        let mut place = 0;
        for root in roots {
            let mut line = VecDeque::from([root]);
            while let Some(host) = line.pop_front() {
                if places[host as usize] == u32::MAX {
                    places[host as usize] = place;
                    place += 1;
                    line.extend(wiring.neighbours(host));
                }
            }
        }
        Self { places }
    }

    pub fn is_up(&self, from: u32, to: u32) -> bool {
        self.places[to as usize] < self.places[from as usize]
    }

    /// Whether traffic over these three hosts moves to the next class.
    pub fn raises(&self, from: u32, at: u32, to: u32) -> bool {
        !self.is_up(from, at) && self.is_up(at, to)
    }

    /// Returns the number of priority classes that the routes need to exclude cyclic buffer dependencies.
    pub fn classes(&self, routes: &Routes) -> u32 {
        let hosts = 0..routes.lanes().hosts() as u32;
        hosts
            .map(|to| self.classes_towards(routes, to))
            .max()
            .unwrap_or(0)
            + 1
    }

    /// Returns the maximum number of class changes on a path to this destination.
    fn classes_towards(&self, routes: &Routes, to: u32) -> u32 {
        // By host: the highest class of incoming traffic, from below and from above.
        let mut come = vec![[0u32, 0]; routes.lanes().hosts()];
        let mut from_above = vec![false; come.len()];
        for at in routes.farthest_first(to) {
            let [up, down] = come[at as usize];
            for (lane, _) in routes.next(at, to) {
                let next = routes.lanes().end(lane);
                let rises = self.is_up(at, next);
                let raised = u32::from(rises && from_above[at as usize]);
                let class = up.max(down + raised);
                let slot = &mut come[next as usize][usize::from(!rises)];
                *slot = (*slot).max(class);
                from_above[next as usize] |= !rises;
            }
        }
        let [up, down] = come[to as usize];
        up.max(down)
    }
}

/// The shortest routes that go up first and then down. They need a single class.
pub fn up_and_down(wiring: &Wiring, order: &Order) -> Routes {
    let mut routes = Routes::new(Lanes::of(wiring));
    for to in 0..wiring.hosts() as u32 {
        let towards = Towards::of(wiring, order, to);
        for at in (0..wiring.hosts() as u32).filter(|&at| at != to) {
            let lanes = routes.lanes();
            let ends = lanes.from(at).map(|lane| lanes.end(lane));
            let amounts: Vec<_> = ends
                .map(|next| f64::from(u8::from(towards.leads(order, at, next))))
                .collect();
            routes.split(at, to, &amounts);
        }
    }
    routes
}

/// Hops to a host, going down only, and going up before that.
struct Towards {
    down: Vec<u32>,
    any: Vec<u32>,
}

const UNREACHABLE: u32 = u32::MAX;

impl Towards {
    fn of(wiring: &Wiring, order: &Order, to: u32) -> Self {
        let mut down = vec![UNREACHABLE; wiring.hosts()];
        down[to as usize] = 0;
        let mut line = VecDeque::from([to]);
        while let Some(at) = line.pop_front() {
            for &above in wiring
                .neighbours(at)
                .iter()
                .filter(|&&it| order.is_up(at, it))
            {
                if down[above as usize] == UNREACHABLE {
                    down[above as usize] = down[at as usize] + 1;
                    line.push_back(above);
                }
            }
        }
        let mut any = down.clone();
        let mut hosts: Vec<_> = (0..wiring.hosts()).collect();
        hosts.sort_by_key(|&host| order.places[host]);
        for host in hosts.into_iter().filter(|&host| down[host] == UNREACHABLE) {
            let above = wiring
                .neighbours(host as u32)
                .iter()
                .filter(|&&it| order.is_up(host as u32, it));
            let nearest = above
                .map(|&it| any[it as usize])
                .min()
                .unwrap_or(UNREACHABLE);
            any[host] = nearest.saturating_add(1);
        }
        Self { down, any }
    }

    /// Whether the path continues over this host. A host that can lead down does, so traffic that came down never goes
    /// up again.
    fn leads(&self, order: &Order, at: u32, next: u32) -> bool {
        let [at_place, next_place] = [at as usize, next as usize];
        if self.down[at_place] != UNREACHABLE {
            return !order.is_up(at, next)
                && self.down[next_place].saturating_add(1) == self.down[at_place];
        }
        order.is_up(at, next) && self.any[next_place].saturating_add(1) == self.any[at_place]
    }
}
