//! Earlier allocations, read from the output of the command itself.

use std::collections::BTreeSet;
use std::path::Path;

use reweave_design::cluster::{Circuit, Fleet, Ground, Job, Lying, Server};
use reweave_design::topology::{Altered, Design, Family, Pair, Wiring};
use serde::Deserialize;

use crate::error::CliError;
use crate::json;
use crate::sim::input;

/// Fields of the output that are read.
#[derive(Debug, Deserialize)]
pub(super) struct State {
    shards: Vec<Before>,
    waiting: Vec<Queued>,
}

/// A waiting job, with its prepared circuits.
#[derive(Debug, Deserialize)]
struct Queued {
    job: String,
    why: String,
    servers: Vec<String>,
    prepared: Vec<Circuit>,
}

#[derive(Debug, Deserialize)]
struct Before {
    job: String,
    servers: Vec<String>,
    asked: [usize; 2],
    links: Vec<Pair>,
    parallel: usize,
    rings: Vec<Vec<u32>>,
    family: Family,
    altered: Altered,
    circuits: Vec<Circuit>,
    samples_left: f64,
}

impl State {
    pub(super) fn read(path: &Path) -> Result<Self, CliError> {
        let bytes = input::bytes(path)?;
        json::read_printed(path, &bytes, |source| CliError::BadShards {
            path: path.to_owned(),
            source,
        })
    }

    /// Resumes the wanted jobs. Returns the names of the others, which have ended.
    pub(super) fn resume(
        &self,
        fleet: &mut Fleet,
        jobs: &[Job],
        path: &Path,
    ) -> Result<Vec<String>, CliError> {
        let (mut ended, mut taken) = (Vec::new(), BTreeSet::new());
        for before in &self.shards {
            let Some(job) = jobs.iter().find(|job| job.name == before.job) else {
                ended.push(before.job.clone());
                continue;
            };
            let resumed = before.resume(fleet, job, &mut taken);
            resumed.map_err(|problem| CliError::StaleShards {
                path: path.to_owned(),
                job: before.job.clone(),
                problem,
            })?;
        }
        for waited in self.waiting.iter().filter(|it| !it.prepared.is_empty()) {
            let servers = waited
                .servers
                .iter()
                .map(|name| fleet.forming.ground.find(name));
            let servers = servers.collect::<Option<Vec<_>>>();
            let job = jobs.iter().find(|job| job.name == waited.job);
            if let (Some(job), Some(servers)) = (job, servers) {
                fleet.expect(job.clone(), servers, waited.why.clone());
            }
        }
        Ok(ended)
    }
}

impl Before {
    fn resume(
        &self,
        fleet: &mut Fleet,
        job: &Job,
        taken: &mut BTreeSet<Server>,
    ) -> Result<(), String> {
        let servers = self.servers(&fleet.forming.ground, taken)?;
        let mut hosts = Vec::new();
        for server in &servers {
            if !hosts.contains(&server.host) {
                hosts.push(server.host);
            }
        }
        let design = self.design(&hosts)?;
        let parallel = self.parallel.max(1);
        let lying = Lying {
            own: &self.circuits,
            others: &fleet.others(&job.name),
        };
        let training = &*job.training;
        let shard = fleet
            .forming
            .along(training, &servers, &design, parallel, lying);
        let job = Job {
            servers: self.asked,
            ..job.clone()
        };
        fleet.resume(
            job,
            shard.map_err(|unfit| unfit.to_string())?,
            self.samples_left,
        );
        Ok(())
    }

    /// Returns the design, with hosts numbered in the order of the job's servers.
    fn design(&self, hosts: &[u32]) -> Result<Design, String> {
        let number = |host: &u32| {
            let place = hosts.iter().position(|it| it == host);
            let place = place.map(|it| it as u32);
            place.ok_or_else(|| format!("a link names h{host}, where it has no server"))
        };
        let pair = |[a, b]: &Pair| Ok([number(a)?, number(b)?]);
        let ring = |ring: &Vec<u32>| ring.iter().map(number).collect();
        let pairs = self.links.iter().map(pair);
        let pairs = pairs.collect::<Result<Vec<_>, String>>()?;
        Ok(Design {
            family: self.family.clone(),
            altered: self.altered,
            wiring: Wiring::of(hosts.len(), pairs),
            rings: self.rings.iter().map(ring).collect::<Result<_, _>>()?,
            patches: Vec::new(),
        })
    }

    fn servers(
        &self,
        ground: &Ground,
        taken: &mut BTreeSet<Server>,
    ) -> Result<Vec<Server>, String> {
        let one = |name: &String| {
            let server = ground.find(name);
            let server = server.ok_or_else(|| format!("the cluster has no server {name}"))?;
            if taken.insert(server) {
                Ok(server)
            } else {
                Err(format!("{name} is allocated twice"))
            }
        };
        let servers = self
            .servers
            .iter()
            .map(one)
            .collect::<Result<Vec<_>, _>>()?;
        if servers.is_empty() || !self.samples_left.is_finite() {
            Err("it has no servers".to_owned())
        } else {
            Ok(servers)
        }
    }
}
