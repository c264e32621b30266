//! Possible cost of single links for an iteration: their losses, and queues before hosts.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use reweave_common::ids::LinkId;
use serde::Serialize;

use super::effects::{Effects, Purse, Queue, Setting};
use super::evaluation::LaneLoad;
use super::lowering::SimulationError;
use crate::engine::{Progress, SimTime};

/// Possible cost of a link by itself.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Risk {
    /// The part of packets that its cable loses.
    pub lost: f64,
    /// Cost of retransmissions.
    pub loss_ms: f64,
    /// Cost of messages that wait for each other before the link or at its host; absent for a host's own sending link,
    /// and if other queues are longer.
    pub queue_ms: Option<f64>,
}

/// Maximum number of hosts, and of links between switches, whose queues are evaluated: each takes a simulation.
const MAX_QUEUES: usize = 8;

impl Setting<'_> {
    /// Says of each lane what it may cost: one simulation for each cable that loses packets, and for
    /// each of the longest queues.
    pub fn weigh(
        &self,
        lanes: &mut [LaneLoad],
        effects: &Effects,
        limit: u64,
        watch: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(), SimulationError> {
        let (cables, queues) = (self.lossy(lanes, effects), self.crowded(lanes, effects));
        let tasks = 1 + cables.len() + queues.len();
        let mut done = 0;
        let mut purse = Purse {
            each: limit,
            left: u64::MAX,
        };
        let exact_ms = self.exact_ms(&mut purse, &mut || watch(Progress { done, tasks }))?;
        let mut cost_ms = |only: Effects| -> Result<f64, SimulationError> {
            done += 1;
            let go_on = &mut || watch(Progress { done, tasks });
            let ms = self.worst_ms(&only, &mut purse, go_on)? - exact_ms;
            Ok(ms.max(0.0))
        };
        let mut loss_ms = BTreeMap::new();
        for cable in cables {
            loss_ms.insert(cable, cost_ms(effects.only_loss_of(cable))?);
        }
        let mut queue_ms = Vec::new();
        for queue in queues {
            queue_ms.push((queue, cost_ms(effects.only_queue(queue))?));
        }
        for lane in lanes {
            let cable = self.network.cable(lane.index);
            let of_cable = |all: &BTreeMap<LinkId, f64>| all.get(&cable?).copied();
            let queue = self.queue(lane.index);
            let known = queue_ms.iter().find(|(of, _)| Some(*of) == queue);
            lane.risk = Some(Risk {
                lost: of_cable(&effects.loss).unwrap_or(0.0),
                loss_ms: of_cable(&loss_ms).unwrap_or(0.0),
                queue_ms: known.map(|&(_, ms)| ms),
            });
        }
        Ok(())
    }

    /// The cables that carry something and lose some of it.
    fn lossy(&self, lanes: &[LaneLoad], effects: &Effects) -> Vec<LinkId> {
        let used = lanes.iter().filter_map(|it| self.network.cable(it.index));
        let loses = |it: &LinkId| effects.loss.get(it).is_some_and(|&lost| lost > 0.0);
        let mut cables: Vec<_> = used.filter(loses).collect();
        cables.sort_unstable();
        cables.dedup();
        cables
    }

    /// Returns the most crowded places: before hosts, and on the links between switches.
    fn crowded(&self, lanes: &[LaneLoad], effects: &Effects) -> Vec<Queue> {
        let mut most: Vec<(Queue, u32)> = Vec::new();
        for lane in lanes.iter().filter(|it| it.flows_at_once > 1) {
            let Some(queue) = self.queue(lane.index) else {
                continue;
            };
            match most.iter_mut().find(|(of, _)| *of == queue) {
                Some((_, known)) => *known = lane.flows_at_once.max(*known),
                None => most.push((queue, lane.flows_at_once)),
            }
        }
        most.sort_by_key(|&(_, flows)| Reverse(flows));
        let is_port = |queue: &Queue| matches!(queue, Queue::Port(_));
        let queues = most.into_iter().map(|(queue, _)| queue);
        let (mut ports, mut links): (Vec<_>, Vec<_>) = queues.partition(is_port);
        ports.truncate(if effects.incast > SimTime::ZERO {
            MAX_QUEUES
        } else {
            0
        });
        links.truncate(if effects.uplinks > SimTime::ZERO {
            MAX_QUEUES
        } else {
            0
        });
        ports.append(&mut links);
        ports
    }

    /// Returns the queue of a lane; none for a host's own sending link.
    fn queue(&self, lane: usize) -> Option<Queue> {
        let cable = self.network.cable(lane)?;
        match self.network.port(lane) {
            Some(port) => Some(Queue::Port(port)),
            None => self.network.is_between(cable).then_some(Queue::Lane(lane)),
        }
    }
}
