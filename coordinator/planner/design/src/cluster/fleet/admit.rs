//! Admission of jobs, and choice of their servers.

use std::collections::BTreeSet;

use super::super::circuits::{Circuit, Lying, Touched};
use super::super::ground::{Ground, Server};
use super::super::seating;
use super::super::shard::Shard;
use super::{Fleet, Job, Next, Running, Step, Waiting, What};
use crate::gain::span;
use crate::topology::counted;

impl Fleet {
    /// Returns the reason why a job can never run here, even on an empty cluster.
    pub(super) fn refusal(&self, job: &Job) -> Option<String> {
        let ground = &self.forming.ground;
        if self.all_jobs().any(|it| it.name == job.name) {
            return Some("there is a job of that name already; give it another".to_owned());
        }
        let largest = self.most_joined();
        let least = job.servers[0];
        if least > largest {
            return Some(format!(
                "it needs {least} servers that circuits can join, and they join no more than \
                 {largest}; request {largest}"
            ));
        }
        let everywhere: BTreeSet<_> = ground.servers().collect();
        let most = largest.min(job.servers[1]);
        let tried = if least > ground.largest_block() {
            self.across(job, &everywhere, &[])
        } else {
            self.sized(job, &everywhere, [least, most])
        };
        tried.err()
    }

    /// Returns the maximum number of servers in one shard.
    pub(super) fn most_joined(&self) -> usize {
        let ground = &self.forming.ground;
        let joined = |block| -> usize {
            let blocks = ground.joined_to(block).into_iter();
            blocks.map(|it| ground.servers_of_block(it)).sum()
        };
        (0..ground.blocks.len()).map(joined).max().unwrap_or(0)
    }

    fn all_jobs(&self) -> impl Iterator<Item = &Job> {
        let running = self.running.iter().map(|it| &it.job);
        running.chain(self.waiting.iter().map(|it| &it.job))
    }

    pub(super) fn admit_all(&mut self) {
        let mut nth = 0;
        while nth < self.waiting.len() {
            match self.admit(nth) {
                Ok(shard) => self.start(nth, shard),
                // The job reserves its servers before later jobs are considered.
                Err(why) => {
                    self.look_ahead(nth, why);
                    nth += 1;
                }
            }
        }
    }

    fn admit(&mut self, nth: usize) -> Result<Shard, String> {
        if let Some(shard) = self.flipped(nth) {
            return Ok(shard);
        }
        let job = self.waiting[nth].job.clone();
        let free = self.free_for(nth);
        let others = self.others(&job.name);
        let found = self.sized(&job, &free, job.servers);
        match found.or_else(|why| self.sooner_across(&job, &free, &others, why)) {
            // Only the first waiting job may displace others.
            Err(why) if nth == 0 => self.make_room(&job).ok_or(why),
            found => found,
        }
    }

    /// The fewest servers that a job can do with, over several blocks.
    fn across(
        &self,
        job: &Job,
        free: &BTreeSet<Server>,
        others: &[Circuit],
    ) -> Result<Shard, String> {
        let (ground, least) = (&self.forming.ground, job.servers[0]);
        let lying = Lying { own: &[], others };
        let Some(seats) = seating::across(ground, free, least) else {
            return Err(format!("it needs {least} servers that circuits can join"));
        };
        let shard = self.forming.shard(&*job.training, &seats, lying);
        shard.map_err(|unfit| format!("over blocks {} {unfit}", ground.block_names(&seats)))
    }

    /// The same, unless it would be done sooner in one block that is free later; else `why` it waits.
    fn sooner_across(
        &self,
        job: &Job,
        free: &BTreeSet<Server>,
        others: &[Circuit],
        why: String,
    ) -> Result<Shard, String> {
        let Ok(shard) = self.across(job, free, others) else {
            return Err(why);
        };
        let waits_ms = self.wait_ms(job, Running::ends_ms);
        let samples = job.samples().unwrap_or(0.0);
        let takes_ms = |ms: f64| ms / shard.estimate.samples * samples;
        let gains_ms = takes_ms(shard.estimate.ms) - takes_ms(shard.ideal_ms);
        if waits_ms.is_some_and(|waits_ms| waits_ms < gains_ms) {
            Err(format!(
                "{why}; over blocks {} an iteration would take {:.2} ms, so that it is done sooner in one",
                self.forming.ground.block_names(&shard.servers),
                shard.estimate.ms
            ))
        } else {
            Ok(shard)
        }
    }

    /// A shard that was prepared, when all its servers are free.
    fn flipped(&self, nth: usize) -> Option<Shard> {
        let next = self.waiting[nth].next.as_ref()?;
        let free = self.free();
        let ready = next.servers.iter().all(|it| free.contains(it));
        next.prepared.clone().filter(|_| ready)
    }

    /// Returns the servers that are free and not reserved by earlier jobs.
    fn free_for(&self, nth: usize) -> BTreeSet<Server> {
        let mut free = self.free();
        let before = self.waiting[..nth].iter().filter_map(|it| it.next.as_ref());
        for server in before.flat_map(|next| &next.servers) {
            free.remove(server);
        }
        free
    }

    /// Returns the largest shard that free servers allow for a job, or the reason why there is none.
    pub(super) fn sized(
        &self,
        job: &Job,
        free: &BTreeSet<Server>,
        [least, most]: [usize; 2],
    ) -> Result<Shard, String> {
        let ground = &self.forming.ground;
        let room = seating::free_by_block(ground, free);
        let largest = room.iter().copied().max().unwrap_or(0);
        if largest < least {
            let all: usize = room.iter().sum();
            return Err(if all < least {
                format!("it needs {least} servers, and {all} are free")
            } else {
                format!(
                    "it needs {least} servers of one block; {all} are free, and no block has more than \
                     {largest} of them"
                )
            });
        }
        let mut why = String::new();
        for size in (least..=most.min(largest)).rev() {
            let Some(seats) = seating::in_one(ground, free, size) else {
                continue;
            };
            let shard = self.forming.shard(&*job.training, &seats, Lying::default());
            match shard {
                Ok(shard) => return Ok(shard),
                Err(unfit) => why = format!("on {size} servers {unfit}"),
            }
        }
        Err(why)
    }

    fn start(&mut self, nth: usize, shard: Shard) {
        let waiting = self.waiting.remove(nth);
        let prepared = waiting.next.is_some_and(|next| next.prepared.is_some());
        let set_ms = self.set_ms(&shard, prepared);
        let step = self.start_of(&waiting.job.name, &shard, prepared);
        self.steps.push(step);
        self.running.push(Running {
            left: waiting.job.samples().unwrap_or(0.0),
            since_ms: self.now_ms + set_ms,
            job: waiting.job,
            shard,
        });
    }

    /// A job that starts at this very moment starts with another shard instead: no circuit of the first
    /// has been laid. Whether it is one.
    pub(super) fn start_instead(&mut self, nth: usize, shard: &Shard) -> bool {
        let Some(step) = self.starting(nth) else {
            return false;
        };
        let job = &self.running[nth].job;
        let since_ms = self.now_ms + self.set_ms(shard, false);
        self.steps[step] = self.start_of(&job.name, shard, false);
        let running = &mut self.running[nth];
        (running.shard, running.since_ms) = (shard.clone(), since_ms);
        true
    }

    /// The step with which a job starts now.
    pub(super) fn starting(&self, nth: usize) -> Option<usize> {
        let name = &self.running[nth].job.name;
        let starts = |step: &Step| step.what == What::Starts && step.job == *name;
        self.steps.iter().position(starts)
    }

    fn set_ms(&self, shard: &Shard, prepared: bool) -> f64 {
        let ground = &self.forming.ground;
        match ground.flip_ms {
            Some(flip_ms) if prepared => flip_ms,
            _ => ground.switching.time_ms(shard.circuits.len()),
        }
    }

    fn start_of(&self, job: &str, shard: &Shard, prepared: bool) -> Step {
        let why = format!(
            "on {} of {} with {}; an iteration takes {:.2} ms, {:.2} ms on an ideal switch",
            self.names(&shard.servers),
            blocks(&self.forming.ground, &shard.servers),
            self.circuits_and_time(shard, prepared),
            shard.estimate.ms,
            shard.ideal_ms,
        );
        Step {
            at_ms: self.now_ms,
            job: job.to_owned(),
            what: What::Starts,
            why,
            servers: shard.servers.len(),
            touched: Touched::between(&[], &shard.circuits),
            gain: None,
        }
    }

    /// Formats `8 circuits, in 10.0 ms`. A job on one host needs no circuits.
    fn circuits_and_time(&self, shard: &Shard, prepared: bool) -> String {
        let circuits = counted(shard.circuits.len(), "circuit");
        let ready = if prepared { " that lay ready" } else { "" };
        if shard.circuits.is_empty() {
            "no circuits".to_owned()
        } else {
            format!(
                "{circuits}{ready}, in {}",
                span(self.set_ms(shard, prepared))
            )
        }
    }

    /// Makes room for a job: elastic jobs release servers, or jobs move elsewhere.
    fn make_room(&mut self, job: &Job) -> Option<Shard> {
        let made = self.shrink_for(job) || self.move_for(job);
        let free = made.then(|| self.free());
        free.and_then(|free| self.sized(job, &free, job.servers).ok())
    }

    /// Returns the predicted time until running jobs have released enough servers of one block.
    pub(super) fn wait_ms(&self, job: &Job, ends: impl Fn(&Running) -> f64) -> Option<f64> {
        let ground = &self.forming.ground;
        let mut room = seating::free_by_block(ground, &self.free());
        let mut running: Vec<_> = self.running.iter().collect();
        running.sort_by(|a, b| ends(a).total_cmp(&ends(b)));
        running.into_iter().find_map(|it| {
            for &server in &it.shard.servers {
                room[ground.block_of(server)] += 1;
            }
            let fits = room.iter().any(|&room| room >= job.servers[0]);
            fits.then(|| (ends(it) - self.now_ms).max(0.0))
        })
    }

    pub(super) fn say_why_it_waits(&mut self, nth: usize) {
        let waiting = &self.waiting[nth];
        let (name, why) = (waiting.job.name.clone(), self.why_it_waits(waiting));
        self.say(&name, What::Waits, why);
    }

    /// Describes what the job waits for, with the predicted time and servers.
    pub fn why_it_waits(&self, waiting: &Waiting) -> String {
        match &waiting.next {
            None => waiting.why.clone(),
            Some(next) => format!(
                "{}; {}, it gets {}",
                waiting.why,
                self.when(next),
                self.names(&next.servers)
            ),
        }
    }

    /// Formats the predicted time. A job that exceeds its prediction can end at any time.
    fn when(&self, next: &Next) -> String {
        let (names, have) = match &next.after[..] {
            [one] => (one.clone(), "has"),
            all => (all.join(" and "), "have"),
        };
        match next.at_ms - self.now_ms {
            0.0.. => {
                let from_now = span(next.at_ms - self.now_ms);
                format!("{from_now} from now, when {names} {have} ended")
            }
            late_ms => format!(
                "when {names} {have} ended, which was to be {} ago",
                span(-late_ms)
            ),
        }
    }
}

/// `block a`, or `blocks a and b`.
fn blocks(ground: &Ground, servers: &[Server]) -> String {
    let names = ground.block_names(servers);
    match ground.blocks_of(servers).len() {
        1 => format!("block {names}"),
        _ => format!("blocks {names}"),
    }
}
