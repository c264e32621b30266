//! Jobs that move to other blocks so that one that waits fits.

use super::super::circuits::Lying;
use super::super::packing::{Packed, pack};
use super::super::seating;
use super::super::shard::Shard;
use super::{Fleet, Job, Running, What};
use crate::gain::{Gain, span};

impl Fleet {
    /// Moves jobs, if the server time surely saved for the waiting job exceeds the loss of the moved jobs. Returns
    /// whether it did.
    pub(super) fn move_for(&mut self, job: &Job) -> bool {
        let Some((packed, shards)) = self.moves_for(job) else {
            return false;
        };
        let waits = self.wait_ms(job, Running::ends_ms).unwrap_or(f64::INFINITY);
        let surely = self.wait_ms(job, Running::ends_surely_not_before_ms);
        let servers = job.servers[0] as f64;
        let lost = shards.iter().map(|(nth, shard)| {
            let old = &self.running[*nth];
            self.cost_ms(&old.shard, shard) * old.size() as f64
        });
        let gain = Gain {
            saved_ms: waits * servers,
            surely_saved_ms: surely.unwrap_or(f64::INFINITY) * servers,
            cost_ms: lost.sum(),
        };
        if !gain.pays() {
            let why = format!(
                "moving {} servers would let it in {} earlier, and those would stand still for longer in all",
                packed.servers,
                span(waits)
            );
            self.say(&job.name, What::Stays, why);
            return false;
        }
        for (nth, shard) in shards {
            let why = format!(
                "to {}, so that {} fits into block {} now and not {} later",
                self.names(&shard.servers),
                job.name,
                self.forming.ground.blocks[packed.block].name,
                span(waits)
            );
            self.change(nth, shard, What::Moves, why, None);
        }
        true
    }

    /// The fewest servers that must move, and their shards afterwards.
    fn moves_for(&self, job: &Job) -> Option<(Packed, Vec<(usize, Shard)>)> {
        let ground = &self.forming.ground;
        let mut free = self.free();
        let room = seating::free_by_block(ground, &free);
        let block = |it: &Running| ground.block_of(it.shard.servers[0]);
        // Jobs that span several blocks stay, because a job can only move to a single block.
        let (numbers, jobs): (Vec<_>, Vec<_>) = (0..)
            .zip(&self.running)
            .filter(|(_, it)| !self.is_scattered(it))
            .map(|(nth, it)| (nth, (block(it), it.size())))
            .unzip();
        let mut packed = pack(&room, &jobs, job.servers[0])?;
        packed
            .moves
            .iter_mut()
            .for_each(|(nth, _)| *nth = numbers[*nth]);
        for &(nth, _) in &packed.moves {
            free.extend(self.running[nth].shard.servers.iter().copied());
        }
        let mut shards = Vec::new();
        for &(nth, block) in &packed.moves {
            let it = &self.running[nth];
            let seats = seating::seats(ground, &free, block, it.size())?;
            seats.iter().for_each(|seat| {
                free.remove(seat);
            });
            let training = &*it.job.training;
            let shard = self.forming.shard(training, &seats, Lying::default());
            shards.push((nth, shard.ok()?));
        }
        Some((packed, shards))
    }

    fn is_scattered(&self, running: &Running) -> bool {
        let ground = &self.forming.ground;
        ground.blocks_of(&running.shard.servers).len() > 1
    }

    /// Moves each job that is spread over several blocks into one block, if that pays off.
    pub(super) fn gather_all(&mut self) {
        for nth in 0..self.running.len() {
            if self.is_scattered(&self.running[nth]) {
                self.gather(nth);
            }
        }
    }

    fn gather(&mut self, nth: usize) {
        let (ground, running) = (&self.forming.ground, &self.running[nth]);
        let mut free = self.free();
        free.extend(running.shard.servers.iter().copied());
        let Some(seats) = seating::in_one(ground, &free, running.size()) else {
            return;
        };
        let lying = Lying {
            own: &running.shard.circuits,
            ..Lying::default()
        };
        let shard = self.forming.shard(&*running.job.training, &seats, lying);
        let Ok(shard) = shard else { return };
        let gain = self.gain(nth, &shard);
        let why = format!(
            "to {} of block {} alone; {:.2} ms an iteration, before {:.2} ms: {}",
            self.names(&shard.servers),
            ground.block_names(&shard.servers),
            shard.estimate.ms,
            running.shard.estimate.ms,
            gain.reason()
        );
        if gain.pays() {
            self.change(nth, shard, What::Moves, why, Some(gain));
        } else {
            let name = running.job.name.clone();
            self.say(&name, What::Stays, format!("rather than move {why}"));
        }
    }
}
