//! A replica with its log on a disk: a single one, or one of three.

use std::collections::BTreeSet;
use std::path::Path;

use reweave_files::FileSystem;

use super::disk::{Lack, MemoryDisk};
use super::room::{member, timing};
use crate::{
    DurableReplica, Effect, Founding, Kind, MemberId, Message, Persisted, RequestId, Saved, Store,
};

const LOG_NAME: &str = "log";

fn first_of(members: u64, disk: &MemoryDisk) -> DurableReplica<MemoryDisk> {
    let founding = Founding {
        members: (1..=members).map(|id| (MemberId(id), member(id))).collect(),
        state: Vec::new(),
    };
    let saved = Saved::founding(MemberId(1), Vec::new(), founding);
    let opened = Store::open(disk.clone(), Path::new(LOG_NAME), Some(saved)).unwrap();
    DurableReplica::new(&opened.saved, timing(), opened.store).unwrap()
}

struct Alone {
    durable: DurableReplica<MemoryDisk>,
    proposed: u64,
}

impl Alone {
    fn on(disk: &MemoryDisk) -> Self {
        let mut alone = Self {
            durable: first_of(1, disk),
            proposed: 0,
        };
        alone.settle();
        alone
    }

    /// Executes all effects. Returns whether a compaction failed.
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
                    let replica = self.durable.replica_mut();
                    replica.handle_snapshot(index, Vec::new()).unwrap();
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

/// What a start would read.
fn found(disk: &MemoryDisk) -> Saved {
    let found = Store::look(disk, Path::new(LOG_NAME)).unwrap();
    found.expect("there is a log")
}

/// The log grows meanwhile.
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

/// The owner appends to the log between two reads.
#[test]
fn look_accepts_growing_log() {
    let owned = MemoryDisk::default();
    let mut alone = Alone::on(&owned);
    let disk = owned.copy();
    alone.propose();
    disk.goes_on_as(&owned);
    assert_eq!(found(&disk).last(), alone.last());
}

/// It could decide nothing, and would only hand over to another.
#[test]
fn full_disk_refuses_leadership() {
    for (free_bytes, shall_stand) in [(0, false), (1 << 30, true)] {
        let disk = MemoryDisk::default();
        disk.leaves(free_bytes);
        let mut durable = first_of(3, &disk);
        durable.look_at_disk(&BTreeSet::new());
        let term = durable.replica().term();
        let asked = Message::new(Kind::TimeoutNow, [MemberId(2), MemberId(1)], term);
        durable.handle_message(asked).unwrap();
        let stands = durable.replica().term() > term;
        assert_eq!(stands, shall_stand, "{free_bytes} bytes are free");
    }
}
