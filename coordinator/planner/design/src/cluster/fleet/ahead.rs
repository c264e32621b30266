//! Circuits that are prepared for waiting jobs.

use std::collections::BTreeSet;

use super::super::circuits::{Lying, Touched};
use super::super::ground::Server;
use super::super::seating;
use super::{Fleet, Next, Step, What};
use crate::gain::span;
use crate::topology::counted;

impl Fleet {
    /// When a job that waits gets which servers, as those before it leave it. Where ports have a second
    /// plane, its circuits are laid there while others still run.
    pub(super) fn look_ahead(&mut self, nth: usize, why: String) {
        let before = self.waiting[..nth].iter().filter_map(|it| it.next.as_ref());
        let kept = before
            .flat_map(|next| next.servers.iter().copied())
            .collect();
        let next = self.next_for(nth, &kept);
        let servers = |next: &Option<Next>| next.as_ref().map(|next| next.servers.clone());
        let known = self.waiting[nth].next.take();
        let same = servers(&known) == servers(&next);
        let is_first = !std::mem::replace(&mut self.waiting[nth].why, why).is_empty();
        self.waiting[nth].next = match known {
            Some(known) if same => next.map(|next| Next {
                prepared: known.prepared,
                ..next
            }),
            _ => next,
        };
        if !(same && is_first) {
            self.say_why_it_waits(nth);
        }
        if !same {
            self.prepare(nth);
        }
    }

    /// The first time at which enough servers of one block are free, when jobs end as predicted; of
    /// several blocks where none is large enough.
    fn next_for(&self, nth: usize, kept: &BTreeSet<Server>) -> Option<Next> {
        let ground = &self.forming.ground;
        let least = self.waiting[nth].job.servers[0];
        let mut free = &self.free() - kept;
        let mut running: Vec<_> = self.running.iter().collect();
        running.sort_by(|a, b| a.ends_ms().total_cmp(&b.ends_ms()));
        let is_wide = ground.largest_block() < least;
        let mut ended = Vec::new();
        for it in running {
            free.extend(it.shard.servers.iter().filter(|it| !kept.contains(it)));
            ended.push(it);
            let servers = if is_wide {
                seating::across(ground, &free, least)
            } else {
                seating::in_one(ground, &free, least)
            };
            let Some(servers) = servers else { continue };
            let gives =
                |it: &&&super::Running| it.shard.servers.iter().any(|own| servers.contains(own));
            let after = ended.iter().filter(gives).map(|it| it.job.name.clone());
            return Some(Next {
                after: after.collect(),
                at_ms: it.ends_ms(),
                servers,
                prepared: None,
            });
        }
        None
    }

    fn prepare(&mut self, nth: usize) {
        let ground = &self.forming.ground;
        let waiting = &self.waiting[nth];
        let (Some(flip_ms), Some(next)) = (ground.flip_ms, &waiting.next) else {
            return;
        };
        let lying = Lying {
            others: &self.others(&waiting.job.name),
            ..Lying::default()
        };
        let shard = self
            .forming
            .shard(&*waiting.job.training, &next.servers, lying);
        // A job alone has nothing to prepare.
        let Some(shard) = shard.ok().filter(|it| !it.circuits.is_empty()) else {
            return;
        };
        let set_ms = ground.switching.time_ms(shard.circuits.len());
        let lie = if shard.circuits.len() == 1 {
            "lies"
        } else {
            "lie"
        };
        let step = Step {
            at_ms: self.now_ms,
            job: waiting.job.name.clone(),
            what: What::Prepared,
            why: format!(
                "{} {lie} on the second plane of {}; when its turn comes it begins after {} instead of {}",
                counted(shard.circuits.len(), "circuit"),
                self.names(&shard.servers),
                span(flip_ms),
                span(set_ms)
            ),
            servers: shard.servers.len(),
            touched: Touched::between(&[], &shard.circuits),
            gain: None,
        };
        self.steps.push(step);
        if let Some(next) = &mut self.waiting[nth].next {
            next.prepared = Some(shard);
        }
    }
}
