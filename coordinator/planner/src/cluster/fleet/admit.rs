//! Who is let in, and where.

use std::collections::BTreeSet;

use super::super::circuits::Touched;
use super::super::estimate::span;
use super::super::ground::Server;
use super::super::seating;
use super::super::shard::Shard;
use super::{Fleet, Job, Running, Step, What, moment};

impl Fleet {
    /// Why a job can never run here, however empty the cluster is.
    pub(super) fn refusal(&self, job: &Job) -> Option<String> {
        let ground = &self.forming.ground;
        if self.all_jobs().any(|it| it.name == job.name) {
            return Some("there is a job of that name already; give it another".to_owned());
        }
        let sizes = (0..ground.blocks.len()).map(|block| ground.servers_of_block(block));
        let largest = sizes.max().unwrap_or(0);
        let least = job.servers[0];
        if least > largest {
            return Some(format!(
                "it needs {least} servers that circuits can join, and no block has more than {largest}; \
                 ask for {largest}"
            ));
        }
        let everywhere: BTreeSet<_> = ground.servers().collect();
        let tried = self.sized(job, &everywhere, [least, largest.min(job.servers[1])]);
        tried.err()
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
                // Its servers are kept for it before those behind it are looked at.
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
        let found = self.sized(&job, &free, job.servers);
        // Only the first may make others give way.
        match found {
            Err(_) if nth == 0 => self.make_room(&job),
            found => found,
        }
    }

    /// A shard that was prepared, when all its servers are free.
    fn flipped(&self, nth: usize) -> Option<Shard> {
        let next = self.waiting[nth].next.as_ref()?;
        let free = self.free();
        let ready = next.servers.iter().all(|it| free.contains(it));
        next.prepared.clone().filter(|_| ready)
    }

    /// What is free and not kept for those who came before.
    fn free_for(&self, nth: usize) -> BTreeSet<Server> {
        let mut free = self.free();
        let before = self.waiting[..nth].iter().filter_map(|it| it.next.as_ref());
        for server in before.flat_map(|next| &next.servers) {
            free.remove(server);
        }
        free
    }

    /// The largest shard that free servers make for a job; else why there is none.
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
            return Err(match all < least {
                true => format!("it needs {least} servers, and {all} are free"),
                false => format!(
                    "it needs {least} servers of one block; {all} are free, and no block has more than \
                     {largest} of them"
                ),
            });
        }
        let mut why = String::new();
        for size in (least..=most.min(largest)).rev() {
            let block = seating::block(ground, free, size);
            let seats = block.and_then(|block| seating::seats(ground, free, block, size));
            let Some(seats) = seats else { continue };
            match self.forming.shard(&*job.training, &seats, &[]) {
                Ok(shard) => return Ok(shard),
                Err(unfit) => why = format!("on {size} servers {unfit}"),
            }
        }
        Err(why)
    }

    fn start(&mut self, nth: usize, shard: Shard) {
        let waiting = self.waiting.remove(nth);
        let ground = &self.forming.ground;
        let prepared = waiting.next.is_some_and(|next| next.prepared.is_some());
        let set_ms = match ground.flip_ms {
            Some(flip_ms) if prepared => flip_ms,
            _ => ground.switching.time_ms(shard.circuits.len()),
        };
        let why = format!(
            "on {} of block {} with {}{}, {}; an iteration takes {:.2} ms, {:.2} ms on an ideal switch",
            self.names(&shard.servers),
            ground.blocks[ground.block_of(shard.servers[0])].name,
            Self::count(&shard.circuits),
            if prepared { " that lay ready" } else { "" },
            moment(set_ms),
            shard.estimate.ms,
            shard.ideal_ms,
        );
        self.steps.push(Step {
            at_ms: self.now_ms,
            job: waiting.job.name.clone(),
            what: What::Starts,
            why,
            servers: shard.servers.len(),
            touched: Touched::between(&[], &shard.circuits),
            gain: None,
        });
        self.running.push(Running {
            left: waiting.job.samples().unwrap_or(0.0),
            since_ms: self.now_ms + set_ms,
            job: waiting.job,
            shard,
        });
    }

    /// Others give way: elastic jobs servers that they can do without, or jobs move elsewhere.
    fn make_room(&mut self, job: &Job) -> Result<Shard, String> {
        let free = self.free();
        let why = match self.sized(job, &free, job.servers) {
            Ok(shard) => return Ok(shard),
            Err(why) => why,
        };
        if self.shrink_for(job) || self.move_for(job) {
            return self.sized(job, &self.free(), job.servers);
        }
        Err(why)
    }

    /// When those who run have given back enough for a job, as far as the prediction goes.
    pub(super) fn wait_ms(&self, job: &Job, ends: impl Fn(&Running) -> f64) -> Option<f64> {
        let ground = &self.forming.ground;
        let mut room = seating::free_by_block(ground, &self.free());
        let mut running: Vec<_> = self.running.iter().collect();
        running.sort_by(|a, b| ends(a).total_cmp(&ends(b)));
        running.into_iter().find_map(|it| {
            let block = ground.block_of(it.shard.servers[0]);
            room[block] += it.size();
            (room[block] >= job.servers[0]).then(|| (ends(it) - self.now_ms).max(0.0))
        })
    }

    pub(super) fn say_why_it_waits(&mut self, nth: usize) {
        let waiting = &self.waiting[nth];
        let why = match &waiting.next {
            None => waiting.why.clone(),
            Some(next) => format!(
                "{}; {} from now, when {} has ended, it gets {}",
                waiting.why,
                span(next.at_ms - self.now_ms),
                next.after.join(" and "),
                self.names(&next.servers)
            ),
        };
        let name = waiting.job.name.clone();
        self.say(&name, What::Waits, why);
    }
}
