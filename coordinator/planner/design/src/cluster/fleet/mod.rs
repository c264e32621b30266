//! The jobs of a cluster, and the reaction when a job arrives, changes or ends.
//!
//! A [`Fleet`] takes [`Event`]s and returns [`Step`]s: the actions with their reasons, or the reason for no action.
//! Waiting jobs are admitted in order: on free servers, else after elastic jobs have been shrunk, else after other jobs
//! have been moved. Circuits are prepared for the jobs that still wait. When no job waits, elastic jobs get the free
//! servers.

mod admit;
mod ahead;
mod move_over;
mod resize;

use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;

use serde::Serialize;

use super::circuits::{Circuit, Lying, Touched};
use super::ground::Server;
use super::shard::{Forming, Shard, Training, Unfit};
use crate::gain::Gain;
use crate::topology::counted;

/// A job that is to run.
#[derive(Debug, Clone)]
pub struct Job {
    pub name: String,
    pub training: Rc<dyn Training>,
    /// The fewest it can do with, and the most it can use.
    pub servers: [usize; 2],
    /// On the fewest servers; on more it learns as much in fewer.
    pub iterations: u64,
}

impl Job {
    /// Returns the samples per iteration.
    fn samples(&self) -> Result<f64, Unfit> {
        let spread = self.training.on(self.servers[0])?;
        Ok(spread.samples * self.iterations as f64)
    }
}

#[derive(Debug, Clone)]
pub struct Running {
    pub job: Job,
    pub shard: Shard,
    /// Samples that were still to be learned from at that time.
    pub left: f64,
    pub since_ms: f64,
}

impl Running {
    fn is_elastic(&self) -> bool {
        self.job.servers[1] > self.job.servers[0]
    }

    fn size(&self) -> usize {
        self.shard.servers.len()
    }

    /// Samples that are still to be learned from.
    pub fn left_at(&self, now_ms: f64) -> f64 {
        let learned = (now_ms - self.since_ms).max(0.0) / self.shard.estimate.ms_per_sample();
        (self.left - learned).max(0.0)
    }

    pub fn ends_ms(&self) -> f64 {
        self.since_ms + self.shard.estimate.time_ms(self.left)
    }

    /// At the earliest, as far as the prediction is sure.
    fn ends_surely_not_before_ms(&self) -> f64 {
        let estimate = &self.shard.estimate;
        self.since_ms + estimate.low_ms / estimate.samples * self.left
    }
}

/// A job without servers.
#[derive(Debug, Clone)]
pub struct Waiting {
    pub job: Job,
    pub why: String,
    pub next: Option<Next>,
}

/// Predicted start of a waiting job: time and servers.
#[derive(Debug, Clone)]
pub struct Next {
    pub servers: Vec<Server>,
    pub at_ms: f64,
    /// Jobs that must end before.
    pub after: Vec<String>,
    /// Its shard with circuits on the second plane, if there is one.
    pub prepared: Option<Shard>,
}

/// An event in a fleet.
#[derive(Debug, Clone)]
pub enum Event {
    Arrive(Job),
    /// An elastic job asks for another range of servers.
    Resize {
        job: String,
        servers: [usize; 2],
    },
    End(String),
}

/// An action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The job gets servers and circuits now.
    Starts,
    Waits,
    /// The job can never run here.
    Refused,
    /// The circuits of the job are set on the second plane.
    Prepared,
    Grows,
    Shrinks,
    Moves,
    /// A change of the job is possible but does not pay off.
    Stays,
    Ends,
}

/// One thing that is done, or left.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    pub at_ms: f64,
    pub job: String,
    pub what: What,
    pub why: String,
    pub servers: usize,
    pub touched: Touched,
    pub gain: Option<Gain>,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            What::Starts => "starts",
            What::Waits => "waits",
            What::Refused => "is refused",
            What::Prepared => "is prepared",
            What::Grows => "grows",
            What::Shrinks => "shrinks",
            What::Moves => "moves",
            What::Stays => "stays",
            What::Ends => "ends",
        };
        write!(f, "{} {what}: {}", self.job, self.why)
    }
}

/// The jobs of a cluster.
#[derive(Debug)]
pub struct Fleet {
    pub forming: Forming,
    pub running: Vec<Running>,
    pub waiting: Vec<Waiting>,
    pub now_ms: f64,
    steps: Vec<Step>,
}

impl Fleet {
    pub fn new(forming: Forming) -> Self {
        Self {
            forming,
            running: Vec::new(),
            waiting: Vec::new(),
            now_ms: 0.0,
            steps: Vec::new(),
        }
    }

    /// Takes up what ran already.
    pub fn resume(&mut self, job: Job, shard: Shard, left: f64) {
        let since_ms = self.now_ms;
        self.running.push(Running {
            job,
            shard,
            left,
            since_ms,
        });
    }

    /// Takes up what was prepared already for a job that waits, and the reason that it was given.
    pub fn expect(&mut self, job: Job, servers: Vec<Server>, why: String) {
        let lying = Lying {
            others: &self.others(&job.name),
            ..Lying::default()
        };
        let prepared = self.forming.shard(&*job.training, &servers, lying).ok();
        let next = Next {
            servers,
            at_ms: self.now_ms,
            after: Vec::new(),
            prepared,
        };
        self.waiting.push(Waiting {
            job,
            why,
            next: Some(next),
        });
    }

    /// Handles an event. Times must not decrease.
    pub fn handle(&mut self, at_ms: f64, event: Event) -> Vec<Step> {
        self.handle_all(at_ms, vec![event])
    }

    /// Handles simultaneous events.
    pub fn handle_all(&mut self, at_ms: f64, events: Vec<Event>) -> Vec<Step> {
        self.now_ms = self.now_ms.max(at_ms);
        let mut asked = Vec::new();
        for event in events {
            match event {
                Event::Arrive(job) => self.arrive(job),
                Event::Resize { job, servers } => {
                    self.ask(&job, servers);
                    asked.push(job);
                }
                Event::End(name) => self.end(&name),
            }
        }
        self.admit_all();
        if self.waiting.is_empty() {
            self.gather_all();
            self.grow_all();
        }
        asked.iter().for_each(|name| self.say_if_it_lacks(name));
        std::mem::take(&mut self.steps)
    }

    fn arrive(&mut self, job: Job) {
        let unfit = self.refusal(&job);
        match unfit {
            Some(why) => self.say(&job.name, What::Refused, why),
            None => self.waiting.push(Waiting {
                job,
                why: String::new(),
                next: None,
            }),
        }
    }

    fn end(&mut self, name: &str) {
        self.waiting.retain(|waiting| waiting.job.name != name);
        let nth = self.running.iter().position(|it| it.job.name == name);
        let Some(nth) = nth else { return };
        let ended = self.running.remove(nth);
        let [servers, circuits] = [
            counted(ended.size(), "server"),
            counted(ended.shard.circuits.len(), "circuit"),
        ];
        let why = format!("{servers} and {circuits} are free");
        self.say(name, What::Ends, why);
    }

    /// Servers that no job has.
    pub fn free(&self) -> BTreeSet<Server> {
        let mut free: BTreeSet<_> = self.forming.ground.servers().collect();
        for server in self.running.iter().flat_map(|it| &it.shard.servers) {
            free.remove(server);
        }
        free
    }

    /// The circuits of all jobs but this one, those included that were prepared.
    pub fn others(&self, job: &str) -> Vec<Circuit> {
        let running = self.running.iter().map(|it| (&it.job, &it.shard));
        let prepared = self.waiting.iter().filter_map(|it| {
            let next = it.next.as_ref()?;
            Some((&it.job, next.prepared.as_ref()?))
        });
        let others = running.chain(prepared).filter(|(it, _)| it.name != job);
        let circuits = others.flat_map(|(_, shard)| &shard.circuits);
        circuits.copied().collect()
    }

    fn say(&mut self, job: &str, what: What, why: String) {
        self.steps.push(Step {
            at_ms: self.now_ms,
            job: job.to_owned(),
            what,
            why,
            servers: 0,
            touched: Touched::default(),
            gain: None,
        });
    }

    /// Changes the shard of a running job, which stands still for this long.
    fn change(&mut self, nth: usize, shard: Shard, what: What, why: String, gain: Option<Gain>) {
        if self.start_instead(nth, &shard) {
            return;
        }
        let cost_ms = gain.map_or_else(
            || self.cost_ms(&self.running[nth].shard, &shard),
            |it| it.cost_ms,
        );
        let now_ms = self.now_ms;
        let running = &mut self.running[nth];
        let touched = Touched::between(&running.shard.circuits, &shard.circuits);
        running.left = running.left_at(now_ms);
        running.since_ms = now_ms.max(running.since_ms) + cost_ms;
        running.shard = shard;
        self.steps.push(Step {
            at_ms: now_ms,
            job: self.running[nth].job.name.clone(),
            what,
            why,
            servers: self.running[nth].size(),
            touched,
            gain,
        });
    }

    /// Returns how long a job stops for a change of servers and circuits.
    fn cost_ms(&self, old: &Shard, new: &Shard) -> f64 {
        let ground = &self.forming.ground;
        let touched = Touched::between(&old.circuits, &new.circuits);
        ground.switching.time_ms(touched.moved()) + ground.restart_ms
    }

    /// `h0 h1 h2`, or `12 servers, h0 to h8 and h12 to h14` where there are many.
    fn names(&self, servers: &[Server]) -> String {
        let ground = &self.forming.ground;
        let name = |it: &Server| ground.name(*it);
        if servers.len() <= MAX_NAMED_SERVERS {
            return servers.iter().map(name).collect::<Vec<_>>().join(" ");
        }
        let all: Vec<_> = ground.servers().collect();
        let runs = all.split(|it| !servers.contains(it));
        let runs: Vec<_> = runs
            .filter_map(|run| match run {
                [] => None,
                [one] => Some(name(one)),
                [first, .., last] => Some(format!("{} to {}", name(first), name(last))),
            })
            .collect();
        format!("{} servers, {}", servers.len(), runs.join(" and "))
    }
}

const MAX_NAMED_SERVERS: usize = 8;
