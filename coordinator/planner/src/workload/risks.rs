//! What single links may cost an iteration: what they lose, and what queues up before hosts.

use std::collections::BTreeMap;

use reweave_common::ids::{LinkId, NodeId};
use serde::Serialize;

use super::effects::{Effects, Setting};
use super::evaluation::LaneLoad;
use super::lowering::SimulationError;
use crate::sim::Progress;

/// What a link may cost, by itself.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Risk {
    /// The part of packets that its cable loses.
    pub lost: f64,
    /// What it costs the iteration that they are sent again.
    pub loss_ms: f64,
    /// What it costs that messages wait for each other at the host that it leads to; nothing is said
    /// where it leads to none, or where others queue up longer.
    pub queue_ms: Option<f64>,
}

/// Of so many hosts it is said what their queues cost: each takes a simulation.
const MOST_PORTS: usize = 8;

impl Setting<'_> {
    /// Says of each lane what it may cost: one simulation for each cable that loses packets, and for
    /// each of the hosts with the longest queues.
    pub fn weigh(
        &self,
        lanes: &mut [LaneLoad],
        effects: &Effects,
        limit: u64,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(), SimulationError> {
        let exact_ms = self.time_ms(self.network.settings.clone(), limit)?;
        let (cables, ports) = (self.lossy(lanes, effects), self.crowded(lanes, effects));
        let tasks = 1 + cables.len() + ports.len();
        let mut done = 0;
        let mut cost_ms = |only: Effects| -> Result<f64, SimulationError> {
            done += 1;
            watch(Progress { done, tasks });
            let ms = self.worst_ms(&only, limit)? - exact_ms;
            Ok(ms.max(0.0))
        };
        let mut loss_ms = BTreeMap::new();
        for cable in cables {
            loss_ms.insert(cable, cost_ms(effects.only_loss_of(cable))?);
        }
        let mut queue_ms = BTreeMap::new();
        for port in ports {
            queue_ms.insert(port, cost_ms(effects.only_queues_at(port))?);
        }
        for lane in lanes {
            let cable = self.network.cable(lane.index);
            let of_cable = |all: &BTreeMap<LinkId, f64>| all.get(&cable?).copied();
            let port = self.network.port(lane.index);
            lane.risk = Some(Risk {
                lost: of_cable(&effects.loss).unwrap_or(0.0),
                loss_ms: of_cable(&loss_ms).unwrap_or(0.0),
                queue_ms: port.and_then(|port| queue_ms.get(&port).copied()),
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

    /// The hosts at which most messages meet.
    fn crowded(&self, lanes: &[LaneLoad], effects: &Effects) -> Vec<NodeId> {
        if effects.incast == Effects::NONE.incast {
            return Vec::new();
        }
        let mut most: BTreeMap<NodeId, u32> = BTreeMap::new();
        for lane in lanes.iter().filter(|it| it.flows_at_once > 1) {
            if let Some(port) = self.network.port(lane.index) {
                let known = most.entry(port).or_default();
                *known = lane.flows_at_once.max(*known);
            }
        }
        let mut ports: Vec<_> = most.into_iter().collect();
        ports.sort_by_key(|&(_, flows)| std::cmp::Reverse(flows));
        ports.truncate(MOST_PORTS);
        ports.into_iter().map(|(port, _)| port).collect()
    }
}
