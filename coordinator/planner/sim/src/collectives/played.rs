//! Schedules on a network.

use std::collections::BTreeMap;

use reweave_common::ids::NodeId;
use reweave_repair::paths::ecmp::{Ecmp, Fields};

use super::schedule::{Round, Schedule, Send};
use super::{Collective, CollectiveError};
use crate::engine::network::{Compass, Network, NetworkPath};
use crate::engine::{self, Outcome, PathIndex, Problem, Progress, SimError, SimTime, TaskIndex};

/// Schedules of more sends than this do not fit into memory.
const MAX_SENDS: usize = 1 << 26;

/// Gets how far a simulation is, and says whether to go on.
pub type Watch<'w> = &'w mut dyn FnMut(Progress) -> bool;

/// Simulated times of a schedule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Played {
    pub time: SimTime,
    pub events: u64,
    pub work: u64,
}

/// The time that a schedule takes. More than `limit` units of work are an error; `watch` gets now and then how far it
/// is.
pub fn play(
    collective: &Collective<'_>,
    schedule: &Schedule,
    network: &Network,
    ecmp: &Ecmp,
    limit: u64,
    watch: Watch<'_>,
) -> Result<Played, CollectiveError> {
    let mut stage = Stage {
        collective,
        hosts: collective.hosts()?,
        network,
        ecmp,
        compass: Compass::default(),
        limit,
        watch,
    };
    match schedule {
        Schedule::Rounds(lanes) => stage.rounds(lanes),
        Schedule::Graph { sends, waits } => stage.graph(sends, waits),
    }
}

struct Stage<'a> {
    collective: &'a Collective<'a>,
    hosts: Vec<NodeId>,
    network: &'a Network,
    ecmp: &'a Ecmp,
    compass: Compass,
    limit: u64,
    watch: Watch<'a>,
}

impl Stage<'_> {
    /// If all sends of a round end at the same time and all hosts take part, the next round begins at once, and
    /// repeated rounds take a multiple of the time: a ring in step needs as much work as one round.
    fn rounds(&mut self, lanes: &[Vec<Round>]) -> Result<Played, CollectiveError> {
        match self.in_step(lanes)? {
            Some(played) => Ok(played),
            None => self.unrolled(lanes),
        }
    }

    /// Nothing when some end before others.
    fn in_step(&mut self, lanes: &[Vec<Round>]) -> Result<Option<Played>, CollectiveError> {
        let longest = lanes.iter().map(Vec::len).max().unwrap_or(0);
        let mut whole = Played {
            time: SimTime::ZERO,
            events: 0,
            work: 0,
        };
        for nth in 0..longest {
            let rounds: Option<Vec<_>> = lanes.iter().map(|lane| lane.get(nth)).collect();
            let Some(rounds) = rounds else {
                return Ok(None);
            };
            let times = rounds[0].times;
            let sends = rounds.iter().flat_map(|round| &round.sends);
            let is_last = nth + 1 == longest;
            let in_step = |round: &&Round| {
                round.times == times && (is_last || round.members().len() == self.hosts.len())
            };
            let alike = rounds.iter().all(in_step);
            if !alike {
                return Ok(None);
            }
            let outcome = self.simulate(sends, &[])?;
            let ends = &outcome.finishes;
            if ends.iter().any(|end| *end != ends[0]) {
                return Ok(None);
            }
            let time = outcome.makespan().ticks().checked_mul(times as u64);
            let time = time.and_then(|ticks| whole.time.checked_add(SimTime::from_ticks(ticks)));
            whole.time = time.ok_or(SimError::TooLong)?;
            whole.events += outcome.events;
            whole.work += outcome.work;
        }
        Ok(Some(whole))
    }

    /// Every send of every round by itself.
    fn unrolled(&mut self, lanes: &[Vec<Round>]) -> Result<Played, CollectiveError> {
        let sends = lanes
            .iter()
            .flatten()
            .map(|round| round.sends.len().saturating_mul(round.times));
        if sends.fold(0usize, usize::saturating_add) > MAX_SENDS {
            return Err(CollectiveError::TooMuchWork { limit: self.limit });
        }
        let mut sends = Vec::new();
        let mut waits = Vec::new();
        for lane in lanes {
            unroll(lane, self.hosts.len(), &mut sends, &mut waits);
        }
        let outcome = self.simulate(sends.iter().copied(), &waits)?;
        Ok(Played::from(&outcome))
    }

    fn graph(&mut self, sends: &[Send], waits: &[[u32; 2]]) -> Result<Played, CollectiveError> {
        let outcome = self.simulate(sends.iter(), waits)?;
        Ok(Played::from(&outcome))
    }

    fn simulate<'s>(
        &mut self,
        sends: impl Iterator<Item = &'s Send>,
        waits: &[[TaskIndex; 2]],
    ) -> Result<Outcome, CollectiveError> {
        let mut problem = self.network.problem()?;
        let mut paths = BTreeMap::new();
        for send in sends {
            let (path, delay) = self.path(send, &mut problem, &mut paths)?;
            let task = problem.add_transfer(path, self.network.bits(send.bytes), delay)?;
            problem.set_weight(task, send.weight)?;
        }
        for &[before, after] in waits {
            problem.add_wait(before, after)?;
        }
        Ok(engine::watched(&problem, self.limit, self.watch)?)
    }

    fn path<'s>(
        &mut self,
        send: &'s Send,
        problem: &mut Problem,
        paths: &mut BTreeMap<(usize, usize, &'s [NodeId]), (PathIndex, SimTime)>,
    ) -> Result<(PathIndex, SimTime), CollectiveError> {
        let key = (send.from, send.to, &send.along[..]);
        if let Some(&known) = paths.get(&key) {
            return Ok(known);
        }
        let way = self.way(send).ok_or_else(|| {
            let name = |host: usize| self.collective.fabric.name(self.hosts[host]).to_owned();
            CollectiveError::NoWay {
                from: name(send.from),
                to: name(send.to),
            }
        })?;
        let path = problem.add_path(&way.links)?;
        paths.insert(key, (path, way.delay));
        Ok((path, way.delay))
    }

    fn way(&mut self, send: &Send) -> Option<NetworkPath> {
        let [from, to] = [send.from, send.to].map(|host| self.hosts[host]);
        let label = self.ecmp.label(Fields {
            source: from.index() as u32,
            destination: to.index() as u32,
            source_port: 0,
            destination_port: 4791,
            protocol: 17,
        });
        if !send.along.is_empty() {
            return self.network.along(&send.along, self.ecmp, label);
        }
        let towards = self.compass.towards(self.network, to);
        self.network.way(from, &towards, self.ecmp, label)
    }
}

impl Played {
    /// Appends a schedule that starts when this one has ended.
    pub(super) fn then(self, next: &Self) -> Self {
        Self {
            time: SimTime::from_ticks(self.time.ticks().saturating_add(next.time.ticks())),
            events: self.events + next.events,
            work: self.work + next.work,
        }
    }
}

impl From<&Outcome> for Played {
    fn from(outcome: &Outcome) -> Self {
        Self {
            time: outcome.makespan(),
            events: outcome.events,
            work: outcome.work,
        }
    }
}

/// The sends of a lane one after the other. Those of a host wait for what it sent and received in
/// its last round.
fn unroll<'s>(
    lane: &'s [Round],
    hosts: usize,
    sends: &mut Vec<&'s Send>,
    waits: &mut Vec<[TaskIndex; 2]>,
) {
    let mut last: Vec<Vec<TaskIndex>> = vec![Vec::new(); hosts];
    for round in lane {
        for _ in 0..round.times {
            let first = sends.len() as TaskIndex;
            for (task, send) in (first..).zip(&round.sends) {
                waits.extend(last[send.from].iter().map(|&before| [before, task]));
                sends.push(send);
            }
            for send in &round.sends {
                last[send.from].clear();
                last[send.to].clear();
            }
            for (task, send) in (first..).zip(&round.sends) {
                last[send.from].push(task);
                last[send.to].push(task);
            }
        }
    }
}
