//! A replica that leads alone, with its log on a disk.

use std::collections::BTreeSet;
use std::path::Path;

use super::disk::{Lack, MemoryDisk};
use super::room::{member, timing};
use crate::{Disk, DurableReplica, Effect, Founding, MemberId, Persisted, RequestId, Saved, Store};

const LOG_NAME: &str = "log";

struct Alone {
    durable: DurableReplica<MemoryDisk>,
    proposed: u64,
}

impl Alone {
    fn on(disk: &MemoryDisk) -> Self {
        let id = MemberId(1);
        let founding = Founding {
            members: [(id, member(1))].into(),
            state: Vec::new(),
        };
        let saved = Saved::founding(id, Vec::new(), founding);
        let opened = Store::open(disk.clone(), Path::new(LOG_NAME), Some(saved)).unwrap();
        let durable = DurableReplica::new(&opened.saved, timing(), opened.store).unwrap();
        let mut alone = Self {
            durable,
            proposed: 0,
        };
        alone.settle();
        alone
    }

    /// Whether a shorter log was denied.
    fn settle(&mut self) -> bool {
        let mut is_denied = false;
        while let Some(effect) = self.durable.poll_effect() {
            match effect {
                Effect::Persist(batch) => {
                    let persisted = self.durable.persist(batch).unwrap();
                    assert!(matches!(persisted, Persisted::Written), "{persisted:?}");
                }
                Effect::Compact(whole) => is_denied |= self.durable.compact(whole).is_err(),
                Effect::TakeSnapshot { index } => {
                    let state = Vec::new();
                    self.durable.replica_mut().handle_snapshot(index, state);
                }
                _ => {}
            }
        }
        is_denied || self.durable.poll_compaction().is_err()
    }

    fn propose(&mut self) -> bool {
        self.proposed += 1;
        let request = RequestId {
            client: 7,
            number: self.proposed,
        };
        let replica = self.durable.replica_mut();
        replica.propose(request, vec![0; 100]).unwrap();
        self.settle()
    }

    fn tick(&mut self, count: usize) {
        for _ in 0..count {
            self.durable.handle_tick(BTreeSet::new);
            self.settle();
        }
    }

    fn last(&self) -> u64 {
        self.durable.replica().last().0
    }
}

/// What a start would take.
fn found(disk: &MemoryDisk) -> Saved {
    let found = Store::look(disk, Path::new(LOG_NAME)).unwrap();
    found.expect("there is a log")
}

/// The log that is there grows on meanwhile.
#[test]
fn denied_compaction_is_tried_again() {
    for lack in [Lack::Thread, Lack::Room] {
        let disk = MemoryDisk::default();
        let mut alone = Alone::on(&disk);
        disk.lacks(lack);
        let mut proposals = 0..=timing().entries_per_snapshot;
        assert!(proposals.any(|_| alone.propose()), "{lack:?}");
        let long = disk.read(Path::new(LOG_NAME)).unwrap().len();
        disk.lacks(Lack::Nothing);
        alone.tick(timing().compaction_retry_ticks);
        let short = disk.read(Path::new(LOG_NAME)).unwrap().len();
        assert!(short < long, "{lack:?}: {short} bytes after {long}");
        assert_eq!(found(&disk).last(), alone.last(), "{lack:?}");
    }
}

/// Its owner appends to it between one read and the next.
#[test]
fn look_accepts_growing_log() {
    let owned = MemoryDisk::default();
    let mut alone = Alone::on(&owned);
    let disk = owned.copy();
    alone.propose();
    disk.goes_on_as(&owned);
    assert_eq!(found(&disk).last(), alone.last());
}
