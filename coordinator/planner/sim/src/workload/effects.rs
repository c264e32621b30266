//! Effects that exact sharing leaves out, and the interval of an iteration time that follows.
//!
//! Exact shares assume flows that fill lanes at once and evenly. With packets, a sender starts slowly, lanes pause for
//! others (priority flow control), a hash puts two flows on one cable while another is free, many senders fill a port's
//! buffer or meet on the way, and lost packets are sent again. Each effect can be switched off. The constants are
//! fitted so that the published packet-level results for TopoOpt's task graphs lie inside the interval.

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::iteration::Iteration;
use reweave_repair::paths::ecmp::Ecmp;
use serde::Serialize;

use super::lowering::{Lowered, SimulationError, simulate_while};
use super::network::{Network, Settings, Spreading, Steps};
use crate::engine::{self, Progress, SimTime};

/// Start-up cost of each step of a collective. With 5 us, published packet-level iterations that are bound by many
/// small collectives are reproduced within 0.2 %.
pub const COLD_START_US: f64 = 5.0;
/// Slow-down of traffic between many pairs by paused lanes: the largest value needed for a published packet-level
/// iteration.
pub const HEAD_OF_LINE_FACTOR: f64 = 1.35;
/// Data in flight before a sender notices a full port: one round trip.
pub const ROUND_TRIP_US: f64 = 10.0;
/// Number of fabrics with different hashes that are simulated.
pub const HASH_SEEDS: u32 = 8;

/// Effects that increase the iteration time above that of exact shares. The defaults are the fitted values.
#[derive(Debug, Clone, PartialEq)]
pub struct Effects {
    /// Before each step of a collective and each message. Ring steps then wait for each other.
    pub cold_start: SimTime,
    /// Slow-down factor of transfers and all-to-alls; 1 is none.
    pub head_of_line: f64,
    /// Number of seeds of the switches' hash; 0 spreads traffic evenly.
    pub seeds: u32,
    /// Messages that come at once to one port wait for this long for each that is before them.
    pub incast: SimTime,
    /// Messages that share a link between switches wait for the data in flight of each earlier sender: as much as it
    /// sends in this time.
    pub uplinks: SimTime,
    /// The only place with queues; absent for all places.
    pub only: Option<Queue>,
    /// Loss of each cable, as a share of packets.
    pub loss: BTreeMap<LinkId, f64>,
}

/// Places where messages wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// Before a host.
    Port(NodeId),
    /// Before a link of the network, by its index.
    Lane(usize),
}

impl Default for Effects {
    fn default() -> Self {
        let micros = |us| SimTime::from_micros(us).unwrap_or_default();
        Self {
            cold_start: micros(COLD_START_US),
            head_of_line: HEAD_OF_LINE_FACTOR,
            seeds: HASH_SEEDS,
            incast: micros(ROUND_TRIP_US),
            uplinks: micros(ROUND_TRIP_US),
            only: None,
            loss: BTreeMap::new(),
        }
    }
}

impl Effects {
    pub const NONE: Self = Self {
        cold_start: SimTime::ZERO,
        head_of_line: 1.0,
        seeds: 0,
        incast: SimTime::ZERO,
        uplinks: SimTime::ZERO,
        only: None,
        loss: BTreeMap::new(),
    };

    /// Each of them alone, with its name.
    fn one_by_one(&self) -> [(&'static str, Self); 6] {
        let none = Self::NONE;
        let cold_start = Self {
            cold_start: self.cold_start,
            ..none.clone()
        };
        let head_of_line = Self {
            head_of_line: self.head_of_line,
            ..none.clone()
        };
        let collisions = Self {
            seeds: self.seeds,
            ..none.clone()
        };
        let incast = Self {
            incast: self.incast,
            only: self.only,
            ..none.clone()
        };
        let uplinks = Self {
            uplinks: self.uplinks,
            only: self.only,
            ..none.clone()
        };
        let loss = Self {
            loss: self.loss.clone(),
            ..none
        };
        [
            ("cold starts", cold_start),
            ("blocked lanes", head_of_line),
            ("collisions", collisions),
            ("incast", incast),
            ("uplinks", uplinks),
            ("loss", loss),
        ]
    }

    pub(super) fn only_loss_of(&self, cable: LinkId) -> Self {
        let lost = self.loss.get(&cable).map(|&lost| (cable, lost));
        Self {
            loss: lost.into_iter().collect(),
            ..Self::NONE
        }
    }

    pub(super) fn only_queue(&self, queue: Queue) -> Self {
        Self {
            incast: self.incast,
            uplinks: self.uplinks,
            only: Some(queue),
            ..Self::NONE
        }
    }

    pub(super) fn have_queue(&self, queue: Queue) -> bool {
        self.only.is_none_or(|only| only == queue)
    }

    /// Returns the rate of a cable if a lost packet is sent again with all data in flight after it, as network cards
    /// do.
    pub fn goodput(&self, fabric: &Fabric, link: LinkId) -> f64 {
        let Some(&lost) = self.loss.get(&link) else {
            return 1.0;
        };
        let rate = fabric.link(link).rate.bits_per_s() as f64;
        let behind = rate * ROUND_TRIP_US / 1e6 / JUMBO_PACKET_BITS;
        (1.0 - lost) / (1.0 - lost + lost * behind.max(1.0))
    }
}

const JUMBO_PACKET_BITS: f64 = 9000.0 * 8.0;
/// More flows are not worth their steps: their rings stay collapsed.
const MAX_STEPPED_FLOWS: u64 = 1 << 20;

/// Interval of an iteration time, in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Interval {
    /// Without headers, and with everything spread evenly.
    pub low_ms: f64,
    /// With all effects, under the worst of the hashes.
    pub high_ms: f64,
    /// Cost of each effect by itself. Effects without a cost are left out.
    pub costs: Vec<Cost>,
    /// Effects of which it is not known, as there was no work left to find out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unseparated: Vec<&'static str>,
}

/// Remaining work for simulations, in visited links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Purse {
    /// One by itself.
    pub each: u64,
    /// All that are still to come.
    pub left: u64,
}

impl Purse {
    /// Returns the result of a run and reduces the remaining work, to zero if it was not enough.
    fn pays<R>(
        &mut self,
        run: impl FnOnce(u64) -> Result<R, SimulationError>,
        work: impl FnOnce(&R) -> u64,
    ) -> Result<R, SimulationError> {
        let ran = run(self.each.min(self.left));
        match &ran {
            Ok(outcome) => self.left = self.left.saturating_sub(work(outcome)),
            Err(error) if error.is_of_work() && self.left < self.each => self.left = 0,
            Err(_) => {}
        }
        ran
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    pub effect: &'static str,
    pub ms: f64,
}

/// Says whether to go on.
pub(super) type GoOn<'g> = &'g mut dyn FnMut() -> bool;

/// A job on a fabric. Its collectives go as they do on the network, under any effects.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'s> {
    pub iteration: &'s Iteration,
    pub network: &'s Network<'s>,
}

impl Setting<'_> {
    /// Simulates once without any effect, once with each, and once with all; what the hash decides, once for each seed.
    /// Each run may take `limit` units of work; `watch` gets how many of them are done, and says whether to go on.
    pub fn interval(
        &self,
        effects: &Effects,
        limit: u64,
        watch: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Interval, SimulationError> {
        let purse = Purse {
            each: limit,
            left: u64::MAX,
        };
        self.interval_for(effects, purse, watch)
    }

    /// Same as `interval`, with limited work: the last runs separate the effects. Fails if the work is not enough for
    /// all effects together.
    pub fn interval_for(
        &self,
        effects: &Effects,
        mut purse: Purse,
        watch: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Interval, SimulationError> {
        let settings = &self.network.settings;
        let mut bare = settings.clone();
        bare.effects = Effects::NONE;
        bare.costs.wire_per_byte = 1.0;
        let mut each = effects.one_by_one().to_vec();
        each.retain(|(_, only)| *only != Effects::NONE);
        let tasks = 3 + each.len();
        let mut counted = |done| watch(Progress { done, tasks });
        let exact_ms = self.exact_ms(&mut purse, &mut || counted(0))?;
        let low_ms = self.time_ms(bare, &mut purse, &mut || counted(1))?;
        let high_ms = self.worst_ms(effects, &mut purse, &mut || counted(2))?;
        let (mut costs, mut unseparated) = (Vec::new(), Vec::new());
        for (nth, (effect, only)) in each.into_iter().enumerate() {
            match self.worst_ms(&only, &mut purse, &mut || counted(3 + nth)) {
                Ok(worst_ms) if worst_ms > exact_ms => costs.push(Cost {
                    effect,
                    ms: worst_ms - exact_ms,
                }),
                Ok(_) => {}
                Err(error) if error.is_of_work() && purse.left == 0 => unseparated.push(effect),
                Err(error) => return Err(error),
            }
        }
        Ok(Interval {
            low_ms: low_ms.min(exact_ms),
            high_ms: high_ms.max(exact_ms),
            costs,
            unseparated,
        })
    }

    pub(super) fn worst_ms(
        &self,
        effects: &Effects,
        purse: &mut Purse,
        go_on: GoOn<'_>,
    ) -> Result<f64, SimulationError> {
        let settings = &self.network.settings;
        let hashes = (0..u64::from(effects.seeds)).map(|seed| Ecmp::Mixed { seed });
        let unhashed = (effects.seeds == 0).then_some(settings.spreading);
        let mut worst_ms = 0.0f64;
        for spreading in hashes.map(Spreading::Hashed).chain(unhashed) {
            let all = Settings {
                spreading,
                steps: self.steps(settings, effects),
                effects: effects.clone(),
                ..settings.clone()
            };
            worst_ms = worst_ms.max(self.time_ms(all, purse, go_on)?);
        }
        Ok(worst_ms)
    }

    /// Must run first, because it decides the algorithms of collectives and the loads of lanes.
    pub(super) fn exact_ms(
        &self,
        purse: &mut Purse,
        go_on: GoOn<'_>,
    ) -> Result<f64, SimulationError> {
        let lowered = Lowered::of(self.iteration, self.network)?;
        let outcome = purse.pays(
            |limit| {
                engine::watched(&lowered.problem, limit, &mut |_| go_on())
                    .map_err(SimulationError::from)
            },
            |it| it.work,
        )?;
        self.network.remember(&lowered.problem, &outcome);
        Ok(lowered.timeline(self.iteration, &outcome).end.millis())
    }

    fn time_ms(
        &self,
        settings: Settings,
        purse: &mut Purse,
        go_on: GoOn<'_>,
    ) -> Result<f64, SimulationError> {
        let network = self.network.with(settings);
        let timeline = purse.pays(
            |limit| simulate_while(self.iteration, &network, limit, go_on),
            |it| it.work,
        )?;
        Ok(timeline.end.millis())
    }

    /// Returns whether to simulate steps of rings separately: if they have a cost and are not too many.
    fn steps(&self, settings: &Settings, effects: &Effects) -> Steps {
        let flows = |members: usize| 2 * (members as u64) * members as u64;
        let stepped: u64 = self.iteration.collectives().map(flows).sum();
        if effects.cold_start > SimTime::ZERO && stepped <= MAX_STEPPED_FLOWS {
            Steps::Each
        } else {
            settings.steps
        }
    }
}
