//! A job file as a job that can run on any number of servers.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

use reweave_common::ids::NodeId;
use reweave_common::units::{Bytes, Rate};
use reweave_design::cluster::{Ground, Spread, Training, Unfit};
use reweave_design::parallel::together::{self, Dealing};
use reweave_design::parallel::{Help, operators, presets};
use reweave_design::topology::{Limits, Request};
use reweave_sim::workload::Settings;
use reweave_sim::workload::job::preset::Batch;
use reweave_sim::workload::job::{Losses, PresetJob};

use crate::error::CliError;
use crate::plan::crew::Cores;
use crate::plan::topology::{hosts, place};
use crate::sim::MAX_SIMULATION_WORK;
use crate::work::{Deal, Kind, Source};

/// Resources of a server.
#[derive(Debug, Clone, Copy)]
struct Offer {
    ports: usize,
    rate: Rate,
    /// Memory of a GPU.
    memory: Option<Bytes>,
    seed: u64,
}

#[derive(Debug)]
pub(super) struct Trained {
    key: String,
    source: Source,
    offer: Offer,
    /// Number of ports reserved for experts.
    kept: usize,
    /// Cache: distribution of the job by number of servers.
    known: RefCell<BTreeMap<usize, Rc<Deal>>>,
}

impl Trained {
    /// Reads a job file. `kept` of all ports are reserved for experts.
    pub(super) fn read(
        file: &Path,
        ground: &Ground,
        kept: impl FnOnce(usize) -> usize,
        seed: u64,
    ) -> Result<Self, CliError> {
        let ports = ground.servers().map(|server| ground.ports(server).count());
        let ports = ports.max().unwrap_or(1);
        let kept = kept(ports);
        Ok(Self {
            key: format!("{} {kept}", file.display()),
            source: Source::read(file)?,
            kept,
            offer: Offer {
                ports: ports.saturating_sub(kept).max(1),
                rate: ground.rate,
                memory: ground.memory,
                seed,
            },
            known: RefCell::default(),
        })
    }

    /// Returns the best known distribution over this number of servers, before a topology exists.
    fn deal(&self, servers: usize) -> Result<Rc<Deal>, Unfit> {
        if let Some(known) = self.known.borrow().get(&servers) {
            return Ok(Rc::clone(known));
        }
        let deal = Rc::new(self.searched(servers)?);
        self.known.borrow_mut().insert(servers, Rc::clone(&deal));
        Ok(deal)
    }

    fn searched(&self, servers: usize) -> Result<Deal, Unfit> {
        let (offer, settings) = (&self.offer, self.source.settings());
        match &self.source.kind {
            Kind::Operators { model, timings, .. } => {
                let search = operators::Search {
                    model,
                    timings,
                    servers,
                    memory: offer.memory,
                    seed: offer.seed,
                    tries: None,
                };
                let start = model.data_parallel(timings, servers);
                let start = start.map_err(|error| Unfit(error.to_string()))?;
                let start = search.with_room(start);
                let start = start.map_err(|crowded| Unfit(crowded.to_string()))?;
                let best = offer.best(&search, start, &settings, servers)?;
                Ok(Deal::Splits(best))
            }
            Kind::Preset(job) => {
                let own = Bytes::new(job.preset.gpu.memory_gb * 1_000_000_000);
                let memory = Some(offer.memory.unwrap_or(own));
                let search = presets::Search::new(&job.preset, servers, memory);
                let start = search.start()?;
                let best = offer.best(&search, start, &settings, servers)?;
                Ok(Deal::Spread(best))
            }
        }
    }
}

impl Offer {
    /// Searches parallelism and topology in turn, as for dedicated servers. The topology is then made for the servers
    /// that the job gets.
    fn best<M: Dealing>(
        &self,
        model: &M,
        start: M::Deal,
        settings: &Settings,
        servers: usize,
    ) -> Result<M::Deal, Unfit> {
        let degree = self.ports.min(servers - 1);
        let least = if servers > 2 { 2 } else { 1 };
        if degree < least {
            return Ok(start);
        }
        let parallel = (self.ports / degree) as u64;
        let request = Request {
            limits: Limits::plain(servers, degree),
            degree,
            rate: Rate::from_bits_per_s(self.rate.bits_per_s() * parallel),
            seed: self.seed,
            work: MAX_SIMULATION_WORK,
            relay: None,
            interval: false,
        };
        let help = Help {
            crew: &Cores,
            go_on: &|_| true,
            in_time: &|| true,
        };
        Ok(together::search(model, start, settings, &request, help)?.deal)
    }
}

impl Training for Trained {
    fn key(&self) -> &str {
        &self.key
    }

    fn on(&self, servers: usize) -> Result<Spread, Unfit> {
        if servers == 0 {
            return Err(Unfit("it needs a server: request 1".to_owned()));
        }
        let deal = self.deal(servers)?;
        let work = self.source.dealt(hosts(servers), &deal);
        let work = work.map_err(|error| Unfit(error.error_chain()))?;
        let ranks = work.iteration.ranks();
        let used = work.placement[..ranks]
            .last()
            .map_or(0, |host: &NodeId| host.index() + 1);
        if used < servers {
            return Err(Unfit(format!(
                "it has work for {used} servers only: request {used}"
            )));
        }
        let samples = match &self.source.kind {
            Kind::Operators { model, .. } => model.batch as f64,
            Kind::Preset(job) => samples(job, servers),
        };
        Ok(Spread {
            server: place(&work),
            iteration: work.iteration,
            settings: work.settings,
            samples,
        })
    }

    fn kept_ports(&self) -> usize {
        self.kept
    }

    fn losses(&self, servers: usize, dead: &BTreeSet<u32>) -> Option<Losses> {
        let deal = self.deal(servers).ok()?;
        self.source.losses(servers, &deal, dead).ok()
    }
}

/// Returns the samples per iteration over all replicas, which is the batch of the file.
fn samples(job: &PresetJob, servers: usize) -> f64 {
    match presets::Search::new(&job.preset, servers, None).batch() {
        Batch::Whole(batch) | Batch::PerReplica(batch) => batch as f64,
    }
}
