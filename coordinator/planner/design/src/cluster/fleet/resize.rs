//! Elastic jobs that gain or lose servers while they run.

use std::collections::BTreeSet;

use super::super::circuits::{Lying, Touched};
use super::super::ground::Server;
use super::super::seating;
use super::super::shard::{Shard, hosts};
use super::super::splice;
use super::{Fleet, Job, Running, What};
use crate::gain::Gain;
use crate::topology::counted;

impl Fleet {
    /// A job asks for another range; what runs outside of it is changed at once.
    pub(super) fn ask(&mut self, name: &str, servers: [usize; 2]) {
        if let Some(waiting) = self.waiting.iter_mut().find(|it| it.job.name == name) {
            waiting.job.servers = servers;
        }
        let nth = self.running.iter().position(|it| it.job.name == name);
        let Some(nth) = nth else { return };
        self.running[nth].job.servers = servers;
        let size = self.running[nth].size();
        if size > servers[1] {
            let kept = self.running[nth].shard.servers[..servers[1]].to_vec();
            self.shrink(nth, &kept, "as it asked for fewer");
        }
    }

    /// Reports a job that requested more servers than it could get, and continues unchanged.
    pub(super) fn say_if_it_lacks(&mut self, name: &str) {
        let lacks = |it: &&Running| it.job.name == name && it.size() < it.job.servers[0];
        let Some(running) = self.running.iter().find(lacks) else {
            return;
        };
        let (least, most) = (running.job.servers[0], self.most_joined());
        let why = if least > most {
            format!("circuits join no more than {most}; request {most}")
        } else {
            match self.free().len() {
                1 => "1 more is free".to_owned(),
                free => format!("{free} more are free"),
            }
        };
        let has = counted(running.size(), "server");
        self.say(
            name,
            What::Stays,
            format!("on {has}: it asks for {least}, and {why}"),
        );
    }

    /// Takes servers from elastic jobs of one block until another job fits; whether it does now.
    pub(super) fn shrink_for(&mut self, job: &Job) -> bool {
        let ground = &self.forming.ground;
        let room = seating::free_by_block(ground, &self.free());
        let spare = |block: usize| -> usize {
            let running = self.running.iter();
            running.map(|it| self.spare(it, block)).sum()
        };
        let lack = |&block: &usize| job.servers[0].saturating_sub(room[block]);
        let fits = (0..room.len()).filter(|block| spare(*block) >= lack(block));
        let Some(block) = fits.min_by_key(lack) else {
            return false;
        };
        let mut lack = lack(&block);
        while lack > 0 {
            let Some((nth, spare)) = self.most_spare(block) else {
                return false;
            };
            let taken = spare.min(lack);
            let kept = self.kept(nth, block, taken);
            if !self.shrink(nth, &kept, &format!("so that {} fits", job.name)) {
                return false;
            }
            lack -= taken;
        }
        true
    }

    /// Returns the number of servers of a block that an elastic job can release.
    fn spare(&self, running: &Running, block: usize) -> usize {
        let servers = running.shard.servers.iter();
        let inside = servers.filter(|it| self.forming.ground.block_of(**it) == block);
        let spare = running.size().saturating_sub(running.job.servers[0]);
        if running.is_elastic() {
            spare.min(inside.count())
        } else {
            0
        }
    }

    /// The elastic job that can give most of a block.
    fn most_spare(&self, block: usize) -> Option<(usize, usize)> {
        let running = self.running.iter().enumerate();
        let spare = running.map(|(nth, it)| (nth, self.spare(it, block)));
        spare
            .filter(|(_, spare)| *spare > 0)
            .max_by_key(|&(nth, spare)| (spare, std::cmp::Reverse(nth)))
    }

    /// The servers of a job without this many of a block, the last ones.
    fn kept(&self, nth: usize, block: usize, mut taken: usize) -> Vec<Server> {
        let mut kept = self.running[nth].shard.servers.clone();
        for place in (0..kept.len()).rev() {
            if taken > 0 && self.forming.ground.block_of(kept[place]) == block {
                kept.remove(place);
                taken -= 1;
            }
        }
        kept
    }

    fn shrink(&mut self, nth: usize, kept: &[Server], because: &str) -> bool {
        let running = &self.running[nth];
        let Some((shard, way)) = self.resized(nth, kept) else {
            return false;
        };
        let mut gone = running.shard.servers.clone();
        gone.retain(|it| !kept.contains(it));
        let why = format!(
            "to {} {because}, without {}; {}",
            counted(kept.len(), "server"),
            self.names(&gone),
            way.words(&running.shard, &shard)
        );
        self.change(nth, shard, What::Shrinks, why, None);
        true
    }

    /// Gives free servers to elastic jobs, if that pays off.
    pub(super) fn grow_all(&mut self) {
        for nth in 0..self.running.len() {
            let job = &self.running[nth].job;
            let most = job.servers[1].max(job.servers[0]);
            if self.running[nth].size() < most {
                self.grow(nth, most);
            }
        }
    }

    fn grow(&mut self, nth: usize, most: usize) {
        let ground = &self.forming.ground;
        let running = &self.running[nth];
        let size = running.size();
        let blocks = ground.blocks_of(&running.shard.servers);
        let mut free: BTreeSet<Server> = self.free();
        free.retain(|&it| blocks.contains(&ground.block_of(it)));
        let room = seating::free_by_block(ground, &free);
        let room = room.into_iter().max().unwrap_or(0);
        for larger in (size + 1..=most.min(size + room)).rev() {
            let Some(more) = seating::in_one(ground, &free, larger - size) else {
                continue;
            };
            let all = [running.shard.servers.clone(), more].concat();
            let Some((shard, way)) = self.resized(nth, &all) else {
                continue;
            };
            let gain = self.gain(nth, &shard);
            let why = format!(
                "to {larger} servers; {}: {}",
                way.words(&running.shard, &shard),
                gain.reason()
            );
            if gain.pays() || size < running.job.servers[0] {
                self.change(nth, shard, What::Grows, why, Some(gain));
            } else {
                let name = running.job.name.clone();
                self.say(&name, What::Stays, format!("rather than grow {why}"));
            }
            return;
        }
    }

    pub(super) fn gain(&self, nth: usize, new: &Shard) -> Gain {
        let running = &self.running[nth];
        let left = running.left_at(self.now_ms);
        let cost_ms = self.cost_ms(&running.shard, new);
        Gain::of(&running.shard.estimate, &new.estimate, left, cost_ms)
    }

    /// The shard of a job on other servers: spliced into the wiring that there is, unless a new
    /// wiring surely saves more than it costs to touch more circuits.
    fn resized(&self, nth: usize, servers: &[Server]) -> Option<(Shard, ResizeMethod)> {
        let running = &self.running[nth];
        let is_starting = self.starting(nth).is_some();
        let lying = Lying {
            own: if is_starting {
                &[]
            } else {
                &running.shard.circuits
            },
            others: &self.others(&running.job.name),
        };
        let rewired = self.forming.shard(&*running.job.training, servers, lying);
        let rewired = rewired.ok();
        if is_starting {
            return rewired.map(|it| (it, ResizeMethod::Rewired));
        }
        let spliced = self.spliced(nth, servers);
        match (spliced, rewired) {
            (Some(spliced), Some(rewired)) => {
                let left = running.left_at(self.now_ms);
                let [more, fewer] =
                    [&rewired, &spliced].map(|new| self.cost_ms(&running.shard, new));
                let gain = Gain::of(&spliced.estimate, &rewired.estimate, left, more - fewer);
                Some(if gain.pays() {
                    (rewired, ResizeMethod::Rewired)
                } else {
                    (spliced, ResizeMethod::Spliced)
                })
            }
            (spliced, rewired) => {
                let spliced = spliced.map(|it| (it, ResizeMethod::Spliced));
                spliced.or(rewired.map(|it| (it, ResizeMethod::Rewired)))
            }
        }
    }

    /// Inserts or removes hosts one by one in the existing wiring. None if hosts have other servers, or links other
    /// numbers of circuits, than before; or if fibres between blocks are limited.
    fn spliced(&self, nth: usize, servers: &[Server]) -> Option<Shard> {
        let running = &self.running[nth];
        let shard = &running.shard;
        let [before, after] = [shard.hosts(), hosts(servers)];
        let slices = |all: &[Server], host: u32| all.iter().filter(|it| it.host == host).count();
        let same = |&&host: &&u32| slices(&shard.servers, host) == slices(servers, host);
        let stays = before.iter().filter(|host| after.contains(host));
        let blocks = |servers| self.forming.ground.blocks_of(servers).len();
        if blocks(&shard.servers).max(blocks(servers)) > 1
            || !stays.clone().all(|host| same(&host))
            || stays.count() == 0
            || before.len() < 3
        {
            return None;
        }
        let kept = running.job.training.kept_ports();
        let mut design = shard.design().clone();
        let mut order = before;
        while let Some(place) = order.iter().position(|host| !after.contains(host)) {
            design = splice::remove(&design, place as u32);
            order.remove(place);
        }
        for host in after
            .iter()
            .filter(|host| !order.contains(host))
            .collect::<Vec<_>>()
        {
            let own = servers.iter().filter(|it| it.host == *host);
            let ports: usize = own.map(|&it| self.forming.ports_that_stay(it, kept)).sum();
            design = splice::insert(&design, ports / shard.parallel);
            order.push(*host);
        }
        let lying = Lying {
            own: &shard.circuits,
            ..Lying::default()
        };
        let training = &*running.job.training;
        let made = self
            .forming
            .along(training, servers, &design, shard.parallel, lying);
        made.ok().filter(|_| order == after)
    }
}

/// How a job got its new wiring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResizeMethod {
    Spliced,
    Rewired,
}

impl ResizeMethod {
    fn words(self, old: &Shard, new: &Shard) -> String {
        let Touched { torn, set, kept } = Touched::between(&old.circuits, &new.circuits);
        let way = match self {
            Self::Spliced => "spliced into its wiring",
            Self::Rewired => "rewired",
        };
        format!(
            "{way}, {kept} circuits stay, {torn} go and {set} come; {:.2} ms an iteration, before {:.2} ms",
            new.estimate.ms, old.estimate.ms
        )
    }
}
