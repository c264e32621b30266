//! Faults: each is one event at one moment.

use std::time::Duration;

use reweave_common::ids::NodeId;
use reweave_common::scenario::Job;

use super::World;
use super::chance::Chance;
use super::leaders::Leaders;
use super::wire::Weather;

#[derive(Debug, Clone)]
pub enum Fault {
    CoordinatorDies,
    AgentDies {
        node: NodeId,
    },
    /// The agent dies in the midst of following an instruction, after this many further steps.
    AgentDiesAfter {
        node: NodeId,
        steps: usize,
    },
    SessionBreaks {
        node: NodeId,
    },
    /// The switch's kernel takes no rules, or takes them again.
    Refuses {
        switch: NodeId,
        refuses: bool,
    },
    DiskIsFull {
        node: NodeId,
        is_full: bool,
    },
    /// Another program removes all rules of a switch; its agent puts them back.
    RulesFlushed {
        switch: NodeId,
    },
    JobStarts(Box<Job>),
    /// One of the running processes.
    JobStops {
        which: usize,
    },
    WeatherTurns(Weather),
}

impl<L: Leaders> World<L> {
    pub(super) fn strike(&mut self, fault: Fault) {
        self.note(format!("{fault:?}"));
        let now = self.now();
        match fault {
            Fault::CoordinatorDies => {
                let outputs = self.coordinator.die();
                self.carry_all_out(outputs);
            }
            Fault::AgentDies { node } => {
                if self.agent(node).is_running() {
                    self.kill_agent(node);
                }
            }
            Fault::AgentDiesAfter { node, steps } => {
                self.agent(node).life.left = Some(steps);
            }
            Fault::SessionBreaks { node } => {
                if let Some(session) = self.agent(node).session() {
                    self.lose(node, session);
                }
            }
            Fault::Refuses { switch, refuses } => self.network.refuse(switch, refuses),
            Fault::DiskIsFull { node, is_full } => self.agent(node).disk_is_full = is_full,
            Fault::RulesFlushed { switch } => {
                self.network.advance(now);
                self.network.flush(switch);
                self.traffic_changed();
            }
            Fault::JobStarts(job) => self.start(&job),
            Fault::JobStops { which } => {
                let running: Vec<_> = self.jobs.names().map(str::to_owned).collect();
                if let Some(index) = which.checked_rem(running.len()) {
                    self.stop_job(&running[index]);
                }
            }
            Fault::WeatherTurns(weather) => self.wire.weather = weather,
        }
    }

    /// Everything works again from now on.
    pub fn heal(&mut self) {
        self.note("all is well again".to_owned());
        self.wire.weather = Weather::FAIR_WEATHER;
        let switches: Vec<_> = self.network.kernels.keys().copied().collect();
        switches
            .into_iter()
            .for_each(|switch| self.network.refuse(switch, false));
        for agent in self.agents.values_mut() {
            agent.disk_is_full = false;
            agent.life.left = None;
        }
    }

    /// Whether nothing is in progress and all programs run.
    pub fn is_calm(&self) -> bool {
        let all_there = self.agents.values().all(|agent| agent.session().is_some());
        let idle = self
            .state()
            .is_some_and(|state| state.rollouts().next().is_none());
        all_there && idle
    }

    /// Heals the world, and waits until it has come to rest; then every switch holds what is in
    /// force.
    pub fn rest(&mut self) {
        self.heal();
        self.run_for(self.delays.echoes);
        self.run_until("calm", |world| world.is_calm());
        self.look_at_rest();
    }

    pub fn look_at_rest(&mut self) {
        if let Some(state) = self.coordinator.decided().1 {
            self.laws.look_at_rules(state, &self.network);
        }
        self.look();
    }
}

/// Troubles of all kinds over some time, some of which pass.
pub fn plague<L: Leaders>(world: &mut World<L>, chance: &mut Chance, span: Duration, count: usize) {
    let nodes: Vec<_> = world.agents.keys().copied().collect();
    let switches: Vec<_> = world.network.kernels.keys().copied().collect();
    for _ in 0..count {
        let at = chance.time(Duration::ZERO, span);
        let until = at + chance.time(Duration::from_millis(200), Duration::from_secs(9));
        let (node, switch) = (*chance.one_of(&nodes), *chance.one_of(&switches));
        let (fault, cure) = trouble(chance, node, switch);
        world.afflict(at, fault);
        if let Some(cure) = cure {
            world.afflict(until, cure);
        }
    }
}

fn trouble(chance: &mut Chance, node: NodeId, switch: NodeId) -> (Fault, Option<Fault>) {
    let refuses = |refuses| Fault::Refuses { switch, refuses };
    let disk = |is_full| Fault::DiskIsFull {
        node: switch,
        is_full,
    };
    match chance.below(10) {
        0 => (Fault::CoordinatorDies, None),
        1 => (Fault::AgentDies { node: switch }, None),
        2 => (Fault::AgentDies { node }, None),
        3 | 4 => {
            let steps = chance.below(8);
            (
                Fault::AgentDiesAfter {
                    node: switch,
                    steps,
                },
                None,
            )
        }
        5 => (Fault::SessionBreaks { node: switch }, None),
        6 => (refuses(true), Some(refuses(false))),
        7 => (disk(true), Some(disk(false))),
        8 => (Fault::RulesFlushed { switch }, None),
        _ => (
            Fault::JobStops {
                which: chance.below(8),
            },
            None,
        ),
    }
}
