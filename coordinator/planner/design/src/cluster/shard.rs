//! The part of a cluster that is a job's own: its servers, the circuits between them, the routes.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

use reweave_common::explicit_paths::ExplicitPaths;
use reweave_common::ids::NodeId;
use reweave_common::iteration::Iteration;
use reweave_common::units::Rate;
use reweave_sim::workload::job::Losses;
use reweave_sim::workload::{Network, Settings, simulate};

use super::circuits::{Circuit, Lying, Ports, Room, lay};
use super::ground::{Ground, Server};
use super::seating;
use crate::gain::Estimate;
use crate::topology::{
    self, Altered, Blocks, Design, Failed, Family, Job, Limits, Pair, Panel, Proposal, Request,
    TopologyError, Wiring, ideal_switch, pair,
};

/// A job on some number of servers.
#[derive(Debug, Clone)]
pub struct Spread {
    pub iteration: Iteration,
    /// Server of each rank.
    pub server: Vec<u32>,
    pub settings: Settings,
    /// Samples per iteration.
    pub samples: f64,
}

/// A job that can run on different numbers of servers.
pub trait Training: fmt::Debug {
    /// Jobs of the same key do the same.
    fn key(&self) -> &str;

    fn on(&self, servers: usize) -> Result<Spread, Unfit>;

    /// Returns what is lost when some of this number of servers fail, if known.
    fn losses(&self, _servers: usize, _dead: &BTreeSet<u32>) -> Option<Losses> {
        None
    }

    /// Returns the number of ports per server that are reserved for circuits of experts.
    fn kept_ports(&self) -> usize {
        0
    }
}

/// Reason why a job cannot run on some servers, and the nearest alternative.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit(pub String);

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<TopologyError> for Unfit {
    fn from(error: TopologyError) -> Self {
        Self(error.to_string())
    }
}

#[derive(Debug, Clone)]
pub struct Shard {
    /// In rank order.
    pub servers: Vec<Server>,
    /// The wiring of their hosts, which are counted in the order in which the servers name them, and
    /// all that is known of it.
    pub proposal: Rc<Proposal>,
    pub circuits: Vec<Circuit>,
    /// Number of parallel circuits per link of the wiring.
    pub parallel: usize,
    pub estimate: Estimate,
    /// On one switch that gives each host all its ports' rates at once.
    pub ideal_ms: f64,
}

impl Shard {
    /// Returns the number of a server's host in the wiring.
    pub fn number(&self, server: &Server) -> u32 {
        let place = self.hosts().iter().position(|&it| it == server.host);
        place.unwrap_or(0) as u32
    }

    pub fn design(&self) -> &Design {
        &self.proposal.design
    }

    /// Returns the numbers of the hosts in the wiring.
    pub fn hosts(&self) -> Vec<u32> {
        hosts(&self.servers)
    }
}

/// Each host once, in the order of its first server.
pub(super) fn hosts(servers: &[Server]) -> Vec<u32> {
    let mut hosts = Vec::new();
    for server in servers {
        if !hosts.contains(&server.host) {
            hosts.push(server.host);
        }
    }
    hosts
}

/// Returns the servers after hosts exchange places as `order` says.
fn reseated(servers: &[Server], hosts: &[u32], order: &[u32]) -> Vec<Server> {
    let of_host = |host: u32| servers.iter().filter(move |it| it.host == host);
    let mut left: BTreeMap<u32, Vec<Server>> = order
        .iter()
        .map(|&host| (host, of_host(host).rev().copied().collect()))
        .collect();
    let next = |server: &Server| {
        let place = hosts.iter().position(|&host| host == server.host)?;
        left.get_mut(&order[place])?.pop()
    };
    servers.iter().filter_map(next).collect()
}

/// Makes shards.
#[derive(Debug)]
pub struct Forming {
    pub ground: Ground,
    pub seed: u64,
    /// Units of work that one simulation may take.
    pub work: u64,
    /// Cache: equal jobs on equal hosts get the same wiring.
    known: RefCell<BTreeMap<Alike, Rc<Formed>>>,
}

/// Inputs that determine a job's wiring.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Alike {
    /// Key of the job.
    key: String,
    /// Number of each server's host.
    hosts: Vec<usize>,
    kinds: Vec<Kind>,
    /// Maximum number of cables between two blocks.
    between: BTreeMap<[usize; 2], usize>,
}

/// Hosts of one kind can take each other's places.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    /// The index of the block among the blocks that the shard has hosts of.
    block: usize,
    /// Switches of its ports.
    switches: Vec<u32>,
}

/// A wiring that was planned or measured, whichever hosts it is for.
#[derive(Debug)]
struct Formed {
    parallel: usize,
    proposal: Rc<Proposal>,
    estimate: Estimate,
}

/// A job on certain servers, still without circuits.
struct Bare<'b> {
    forming: &'b Forming,
    spread: Spread,
    servers: Vec<Server>,
    hosts: Vec<u32>,
    /// Host number of each rank.
    place: Vec<u32>,
    /// Ports of the shard, and the fibres between its blocks that other jobs leave free.
    room: Room,
}

impl Forming {
    pub fn new(ground: Ground, seed: u64, work: u64) -> Self {
        Self {
            ground,
            seed,
            work,
            known: RefCell::default(),
        }
    }

    /// The best shard that is known for a job on these servers, with as many of its own circuits in
    /// it as may be: which server has which place in it is open.
    pub fn shard(
        &self,
        training: &dyn Training,
        servers: &[Server],
        lying: Lying<'_>,
    ) -> Result<Shard, Unfit> {
        let bare = self.bare(training, servers.to_vec(), lying)?;
        let formed = self.formed(training, &bare)?;
        let links: Vec<_> = lying.own.iter().map(Circuit::hosts).collect();
        let order = seating::order(
            &formed.proposal.design.wiring,
            &bare.hosts,
            &bare.kinds(),
            &links,
        );
        if order == bare.hosts {
            return bare.laid(&formed, lying.own);
        }
        let servers = reseated(&bare.servers, &bare.hosts, &order);
        self.bare(training, servers, lying)?
            .laid(&formed, lying.own)
    }

    /// The shard that a wiring of these servers' hosts makes, with this many circuits for each
    /// link.
    pub fn along(
        &self,
        training: &dyn Training,
        servers: &[Server],
        design: &Design,
        parallel: usize,
        lying: Lying<'_>,
    ) -> Result<Shard, Unfit> {
        let bare = self.bare(training, servers.to_vec(), lying)?;
        let formed = bare.measured(design, parallel, &[])?;
        bare.laid(&formed, lying.own)
    }

    /// Calls `then` with the job of a shard, in its distribution over servers.
    pub fn with_job<T>(
        &self,
        training: &dyn Training,
        shard: &Shard,
        ask: impl FnOnce(&Job<'_>, &Request) -> T,
    ) -> Result<T, Unfit> {
        let bare = self.bare(training, shard.servers.clone(), Lying::default())?;
        Ok(ask(&bare.job(), &bare.request(shard.parallel)))
    }

    /// Returns the iteration time on one switch that gives each host this rate.
    pub(super) fn on_a_switch_ms(
        &self,
        training: &dyn Training,
        servers: &[Server],
        rate: Rate,
    ) -> Result<f64, Unfit> {
        let bare = self.bare(training, servers.to_vec(), Lying::default());
        bare?.on_a_switch_ms(rate)
    }

    fn bare(
        &self,
        training: &dyn Training,
        servers: Vec<Server>,
        lying: Lying<'_>,
    ) -> Result<Bare<'_>, Unfit> {
        let spread = training.on(servers.len())?;
        let hosts = hosts(&servers);
        let place = spread.server.iter().map(|&server| {
            let host = servers[server as usize].host;
            hosts.iter().position(|&it| it == host).unwrap_or(0) as u32
        });
        let place = place.collect();
        let block = |&host: &u32| (host, self.ground.hosts[host as usize].block);
        let room = Room {
            ports: self.ports(&servers, training.kept_ports()),
            block: hosts.iter().map(block).collect(),
            fibres: self.ground.free_fibres(lying.others),
        };
        Ok(Bare {
            forming: self,
            spread,
            place,
            room,
            hosts,
            servers,
        })
    }

    /// The ports of circuits that stay.
    fn ports(&self, servers: &[Server], kept: usize) -> Ports {
        self.chosen_ports(servers, |server, nth| {
            nth < self.ports_that_stay(server, kept)
        })
    }

    /// Returns the number of a server's ports with permanent circuits.
    pub(super) fn ports_that_stay(&self, server: Server, kept: usize) -> usize {
        self.ground.ports(server).count().saturating_sub(kept)
    }

    /// The ports that the training keeps for circuits that change with every iteration.
    pub fn kept_ports(&self, training: &dyn Training, servers: &[Server]) -> Ports {
        let kept = training.kept_ports();
        self.chosen_ports(servers, |server, nth| {
            nth >= self.ports_that_stay(server, kept)
        })
    }

    fn chosen_ports(&self, servers: &[Server], is_it: impl Fn(Server, usize) -> bool) -> Ports {
        let mut ports = Ports::new();
        for &server in servers {
            let own = self.ground.ports(server).enumerate();
            let own = own.filter(|(nth, _)| is_it(server, *nth));
            let own = own.map(|(_, port)| (port, self.ground.switch(server.host, port)));
            ports.entry(server.host).or_default().extend(own);
        }
        ports.values_mut().for_each(|list| list.sort_unstable());
        ports
    }

    fn formed(&self, training: &dyn Training, bare: &Bare<'_>) -> Result<Rc<Formed>, Unfit> {
        let number = |server: &Server| bare.hosts.iter().position(|&it| it == server.host);
        let alike = Alike {
            key: training.key().to_owned(),
            hosts: bare.servers.iter().filter_map(number).collect(),
            kinds: bare.kinds(),
            between: bare.between(),
        };
        if let Some(known) = self.known.borrow().get(&alike) {
            return Ok(Rc::clone(known));
        }
        let formed = Rc::new(match bare.hosts.len() {
            1 => bare.measured(&alone(), 1, &[])?,
            _ => bare.planned()?,
        });
        self.known.borrow_mut().insert(alike, Rc::clone(&formed));
        Ok(formed)
    }
}

fn alone() -> Design {
    Design {
        family: Family::Random,
        altered: Altered::default(),
        wiring: Wiring::new(1),
        rings: Vec::new(),
        patches: Vec::new(),
    }
}

impl Bare<'_> {
    fn job(&self) -> Job<'_> {
        Job {
            iteration: &self.spread.iteration,
            place: &self.place,
            settings: &self.spread.settings,
        }
    }

    /// Returns the kind of each host.
    fn kinds(&self) -> Vec<Kind> {
        let kind = |host: &u32| {
            let ports = &self.room.ports[host];
            let mut switches: Vec<_> = ports.iter().map(|&(_, it)| it).collect();
            switches.sort_unstable();
            Kind {
                block: self.number(self.room.block[host]),
                switches,
            }
        };
        self.hosts.iter().map(kind).collect()
    }

    /// The index of a block among the blocks that have hosts.
    fn number(&self, block: usize) -> usize {
        let blocks: BTreeSet<_> = self.room.block.values().collect();
        blocks.into_iter().take_while(|it| **it < block).count()
    }

    /// Between the blocks that hosts are of, how many circuits there may be.
    fn between(&self) -> BTreeMap<[usize; 2], usize> {
        let blocks: BTreeSet<_> = self.room.block.values().collect();
        let own = |(between, _): &(&[usize; 2], _)| between.iter().all(|it| blocks.contains(it));
        let fibres = self.room.fibres.iter().filter(own);
        fibres
            .map(|(between, free)| (between.map(|it| self.number(it)), free.len()))
            .collect()
    }

    /// Returns the rate of a link.
    fn rate(&self, parallel: usize) -> Rate {
        Rate::from_bits_per_s(self.forming.ground.rate.bits_per_s() * parallel as u64)
    }

    fn limits(&self, parallel: usize) -> Limits {
        let most = self.hosts.len() - 1;
        let kinds = self.kinds();
        let links = |kind: &Kind| (kind.switches.len() / parallel).min(most);
        Limits {
            ports: kinds.iter().map(links).collect(),
            panels: panels(&kinds),
            blocks: self.blocks(&kinds, parallel),
            ..Limits::default()
        }
    }

    fn blocks(&self, kinds: &[Kind], parallel: usize) -> Option<Blocks> {
        let of: Vec<_> = kinds.iter().map(|kind| kind.block).collect();
        let several = of.iter().any(|&block| block > 0);
        let cables = |(between, circuits)| (between, circuits / parallel);
        several.then(|| Blocks {
            of,
            between: self.between().into_iter().map(cables).collect(),
        })
    }

    /// Few hosts have more ports than others to talk to. Then links have several circuits each: as
    /// few as that takes, or one more where that leaves fewer ports dark.
    fn planned(&self) -> Result<Formed, Unfit> {
        let (others, fewest) = (self.hosts.len() - 1, self.fewest_ports());
        let least = (fewest / others).max(1);
        let used = |parallel: usize| parallel * (fewest / parallel).min(others);
        let lit = |parallel: usize| {
            (fewest / parallel > 1 || others == 1) && used(parallel) > used(least)
        };
        let first = self.planned_with(least)?;
        let second = Some(least + 1).filter(|&more| lit(more));
        let second = second.and_then(|more| self.planned_with(more).ok());
        Ok(match second {
            Some(second) if second.estimate.ms < first.estimate.ms => second,
            _ => first,
        })
    }

    fn fewest_ports(&self) -> usize {
        self.room.ports.values().map(Vec::len).min().unwrap_or(0)
    }

    fn planned_with(&self, parallel: usize) -> Result<Formed, Unfit> {
        let proposal = topology::plan(&self.job(), &self.request(parallel))?;
        Ok(self.formed(parallel, proposal))
    }

    fn request(&self, parallel: usize) -> Request {
        let limits = self.limits(parallel);
        Request {
            degree: limits.most_ports().max(1),
            limits,
            rate: self.rate(parallel),
            seed: self.forming.seed,
            work: self.forming.work,
            relay: None,
            interval: true,
        }
    }

    fn formed(&self, parallel: usize, proposal: Proposal) -> Formed {
        let estimate = Estimate {
            samples: self.spread.samples,
            ..proposal.estimate()
        };
        Formed {
            parallel,
            estimate,
            proposal: Rc::new(proposal),
        }
    }

    /// A wiring without some of its links, with the routes that it then needs.
    fn measured(
        &self,
        design: &Design,
        parallel: usize,
        missing: &[Pair],
    ) -> Result<Formed, Unfit> {
        let (job, request) = (self.job(), self.request(parallel));
        let failed: Vec<_> = missing.iter().map(|&ends| Failed::Cable(ends)).collect();
        let repaired = topology::repair(design, None, &job, &request, &failed)?;
        // Missing links find no matching ports: those ports work and stay dark.
        let proposal = Proposal {
            ports: request.limits.ports.clone(),
            ..repaired.proposal(&job, &request)?
        };
        Ok(self.formed(parallel, proposal))
    }

    /// Puts the wiring on ports.
    fn laid(self, formed: &Formed, old: &[Circuit]) -> Result<Shard, Unfit> {
        let real = |[a, b]: Pair| pair(self.hosts[a as usize], self.hosts[b as usize]);
        let pairs = formed.proposal.design.wiring.pairs();
        let each = |&ends: &Pair| std::iter::repeat_n(real(ends), formed.parallel);
        let links: Vec<_> = pairs.iter().flat_map(each).collect();
        let mut laid = lay(&self.room, &links, old);
        if laid.unlaid.is_empty() {
            return self.shard(formed, laid.circuits);
        }
        // A link that has not all of its circuits is none.
        let missing = |ends: &Pair| laid.unlaid.contains(&real(*ends));
        let missing: Vec<_> = pairs.into_iter().filter(missing).collect();
        laid.circuits
            .retain(|circuit| !laid.unlaid.contains(&circuit.hosts()));
        let less = self.measured(&formed.proposal.design, formed.parallel, &missing)?;
        self.shard(&less, laid.circuits)
    }

    fn shard(&self, formed: &Formed, circuits: Vec<Circuit>) -> Result<Shard, Unfit> {
        Ok(Shard {
            servers: self.servers.clone(),
            proposal: Rc::clone(&formed.proposal),
            circuits,
            parallel: formed.parallel,
            estimate: formed.estimate,
            ideal_ms: self.ideal_ms()?,
        })
    }

    fn ideal_ms(&self) -> Result<f64, Unfit> {
        let ports = self.room.ports.values().map(Vec::len).max().unwrap_or(1);
        let rate = self.forming.ground.rate.bits_per_s() * ports as u64;
        self.on_a_switch_ms(Rate::from_bits_per_s(rate))
    }

    /// On one switch that gives each host this rate.
    fn on_a_switch_ms(&self, rate: Rate) -> Result<f64, Unfit> {
        let switch = ideal_switch(self.hosts.len(), rate);
        let switch = switch.map_err(TopologyError::from)?;
        let placement: Vec<_> = self.place.iter().map(|&host| node(host + 1)).collect();
        let (carriage, settings) = (ExplicitPaths::default(), self.spread.settings.clone());
        let network = Network::new(&switch, &placement, &carriage, settings);
        let timeline = simulate(&self.spread.iteration, &network, self.forming.work);
        Ok(timeline.map_err(TopologyError::from)?.end.millis())
    }
}

fn node(host: u32) -> NodeId {
    NodeId::from_index(host as usize)
}

/// Returns panels that limit which hosts can be joined, if not every host has a port on every switch.
fn panels(kinds: &[Kind]) -> Vec<Panel> {
    let all = kinds.iter().flat_map(|kind| &kind.switches);
    let all = all.max().map_or(0, |most| most + 1);
    let panel = |switch: u32| {
        let counts = kinds.iter().map(|kind| {
            let ports = kind.switches.iter();
            ports.filter(|it| **it == switch).count()
        });
        let counts: Vec<_> = counts.collect();
        Panel::numbered(format!("switch {switch}"), &counts)
    };
    let panels: Vec<_> = (0..all).map(panel).collect();
    if panels
        .iter()
        .all(|panel| panel.ports.iter().all(|ports| !ports.is_empty()))
    {
        Vec::new()
    } else {
        panels
    }
}
