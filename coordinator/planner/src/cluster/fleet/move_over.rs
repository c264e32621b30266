//! Jobs that move to other blocks so that one that waits fits.

use super::super::estimate::{Gain, span};
use super::super::packing::{Packed, pack};
use super::super::seating;
use super::super::shard::Shard;
use super::{Fleet, Job, Running, What};

impl Fleet {
    /// Whether jobs were moved. The server time that the waiting job surely saves must be more than
    /// what those that move lose.
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
        let place = |it: &Running| (ground.block_of(it.shard.servers[0]), it.size());
        let jobs: Vec<_> = self.running.iter().map(place).collect();
        let packed = pack(&room, &jobs, job.servers[0])?;
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
            let shard = self.forming.shard(&*it.job.training, &seats, &[]);
            shards.push((nth, shard.ok()?));
        }
        Some((packed, shards))
    }
}
