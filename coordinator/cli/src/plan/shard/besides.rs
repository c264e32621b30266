//! Further facts about jobs: experts, comparison with fat trees, and shared links.

use std::path::Path;

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_design::cluster::phases::{Player, Together, together};
use reweave_design::cluster::regional::{self, Advice, Region};
use reweave_design::cluster::{
    Circuit, Degree, Fleet, JobEntry, Room, Running, Server, Spread, Unfit, lay,
};
use reweave_design::topology::{Pair, counted, pair};
use serde::Serialize;

use crate::error::CliError;
use crate::sim::{MAX_SIMULATION_WORK, input};

/// A job whose expert traffic changes in every iteration.
#[derive(Debug, Serialize)]
pub(super) struct Experts {
    pub(super) job: String,
    /// Absent if too few iterations were counted, or no circuits are available.
    advice: Option<Advice>,
    /// Reason for the advice, or for its absence.
    pub(super) why: String,
    /// Circuits for the next iteration, from the last counts, on the reserved ports.
    circuits: Vec<Circuit>,
    /// Pairs of hosts without ports on a common switch.
    unlaid: Vec<Pair>,
}

impl Experts {
    /// Returns experts without circuits.
    fn without(running: &Running, why: String) -> Self {
        Self {
            job: running.job.name.clone(),
            advice: None,
            why,
            circuits: Vec::new(),
            unlaid: Vec::new(),
        }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Beside {
    pub(super) job: String,
    pub(super) degree: Degree,
}

/// Jobs that share links, and the gain of shifting them in time.
#[derive(Debug, Serialize)]
pub(super) struct Sharing {
    pub(super) jobs: Vec<String>,
    pub(super) together: Together,
}

impl Sharing {
    pub(super) fn why(&self) -> String {
        let Together { shared, phases, .. } = &self.together;
        match phases {
            _ if shared.is_empty() => "they share no link".to_owned(),
            None => "their iteration periods differ: they drift, so no shift lasts".to_owned(),
            Some(_) if !self.is_worth_it() => "no shift helps: leave them unchanged".to_owned(),
            Some(phases) => format!(
                "per {:.1} ms, excess demand is {:.0} Mbit on {} if all start at once, {:.0} Mbit \
                 if shifted",
                phases.circle_us as f64 / 1e3,
                phases.excess_before_mbit,
                counted(shared.len(), "shared link"),
                phases.excess_after_mbit
            ),
        }
    }

    /// Whether any job is worth shifting.
    pub(super) fn is_worth_it(&self) -> bool {
        let sum = |all: &[f64]| all.iter().sum::<f64>();
        let Together {
            at_once_ms,
            shifted_ms,
            ..
        } = &self.together;
        sum(shifted_ms) < sum(at_once_ms) * MAX_WORTHWHILE_RATIO
    }
}

/// A gain below 1 % is within the error of the prediction.
const MAX_WORTHWHILE_RATIO: f64 = 0.99;

pub(super) struct Besides<'b> {
    pub(super) fleet: &'b Fleet,
    pub(super) entries: &'b [JobEntry],
    pub(super) folder: &'b Path,
}

impl Besides<'_> {
    fn running(&self, name: &str) -> Option<&Running> {
        self.fleet.running.iter().find(|it| it.job.name == name)
    }

    pub(super) fn experts(&self) -> Result<Vec<Experts>, CliError> {
        let mut all = Vec::new();
        for entry in self.entries {
            if let (Some(gates), Some(running)) = (&entry.gates, self.running(&entry.name)) {
                all.push(self.of_gates(&self.folder.join(gates), running)?);
            }
        }
        Ok(all)
    }

    fn of_gates(&self, path: &Path, running: &Running) -> Result<Experts, CliError> {
        let ground = &self.fleet.forming.ground;
        let hosts = running.shard.hosts();
        let past = regional::parse(
            &path.display().to_string(),
            &input::text(path)?,
            hosts.len(),
        );
        let past = past.map_err(CliError::Input)?;
        let room = self.kept_room(running);
        let region = match self.region(running, &room) {
            Ok(region) => region,
            Err(why) => return Ok(Experts::without(running, why)),
        };
        let advice = region.advice(&past, |moved| ground.switching.time_ms(moved), 0.0);
        let named = |[a, b]: Pair| pair(hosts[a as usize], hosts[b as usize]);
        let pairs = past.last().map(|last| region.circuits(last).pairs());
        let pairs: Vec<_> = pairs.into_iter().flatten().map(named).collect();
        let laid = lay(&room, &pairs, &[]);
        let too_few = || {
            let counted = counted(past.len(), "iteration");
            format!(
                "{} iterations or more are needed to decide whether new circuits pay off; its \
                 gates count {counted}",
                regional::MIN_ITERATIONS
            )
        };
        Ok(Experts {
            why: advice.as_ref().map_or_else(too_few, |it| it.why.clone()),
            advice,
            circuits: laid.circuits,
            unlaid: laid.unlaid,
            ..Experts::without(running, String::new())
        })
    }

    /// Returns the hosts of a job's experts, or the reason why circuits cannot follow its gates.
    fn region(&self, running: &Running, room: &Room) -> Result<Region, String> {
        let ground = &self.fleet.forming.ground;
        let ports = room.ports.values().map(Vec::len).min().unwrap_or(0);
        let block = &ground.blocks[ground.block_of(running.shard.servers[0])];
        match (block.switched, ports) {
            (None, _) => Err(format!(
                "demand without a circuit needs packet switches, and block {} has none \
                 (switched_gbps)",
                block.name
            )),
            (_, 0) => Err("its gates leave no ports for circuits".to_owned()),
            (Some(switched), _) => Ok(Region {
                ports,
                circuit_gbps: ground.rate.gbps(),
                switched_gbps: switched.gbps(),
            }),
        }
    }

    /// Returns reserved ports without a permanent circuit, and free fibres.
    fn kept_room(&self, running: &Running) -> Room {
        let forming = &self.fleet.forming;
        let servers = &running.shard.servers;
        // No job has the empty name, so these are the circuits of all jobs.
        let lying = self.fleet.others("");
        let block = |server: &Server| (server.host, forming.ground.block_of(*server));
        Room {
            ports: forming.kept_ports(&*running.job.training, servers),
            block: servers.iter().map(block).collect(),
            fibres: forming.ground.free_fibres(&lying),
        }
    }

    /// Compares jobs of several hosts with fat trees.
    pub(super) fn degrees(&self) -> Vec<Beside> {
        let running = self
            .fleet
            .running
            .iter()
            .filter(|it| !it.shard.circuits.is_empty());
        let degree = |it: &Running| {
            let degree = self.fleet.forming.degree(&*it.job.training, &it.shard);
            degree.ok().map(|degree| Beside {
                job: it.job.name.clone(),
                degree,
            })
        };
        running.filter_map(degree).collect()
    }

    /// Returns the jobs that share links of a fabric with the same host names.
    pub(super) fn together(&self, path: &Path) -> Result<Vec<Sharing>, CliError> {
        let fabric = input::lit(path)?;
        let mut players = Vec::new();
        for running in &self.fleet.running {
            let spread = running.job.training.on(running.shard.servers.len());
            let spread = spread.map_err(|Unfit(problem)| CliError::Unfit {
                job: running.job.name.clone(),
                problem,
            })?;
            players.push((running, self.places(&fabric, running, &spread)?, spread));
        }
        let Some((_, _, first)) = players.first() else {
            return Ok(Vec::new());
        };
        let all: Vec<_> = players
            .iter()
            .map(|(_, placement, spread)| Player {
                iteration: &spread.iteration,
                placement,
            })
            .collect();
        let together = together(&fabric, &all, &first.settings, MAX_SIMULATION_WORK);
        Ok(vec![Sharing {
            jobs: players.iter().map(|(it, ..)| it.job.name.clone()).collect(),
            together: together.map_err(CliError::Simulation)?,
        }])
    }

    fn places(
        &self,
        fabric: &Fabric,
        running: &Running,
        spread: &Spread,
    ) -> Result<Vec<NodeId>, CliError> {
        let node = |&server: &u32| {
            let name = format!("h{}", running.shard.servers[server as usize].host);
            fabric.find(&name).ok_or(CliError::NotOver { name })
        };
        spread.server.iter().map(node).collect()
    }
}
