//! Iterations out of what recorders wrote down of a job.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use reweave_common::ids::Rank;
use reweave_common::iteration::{
    Iteration, IterationBuilder, IterationError, Operation, TaskId, TaskWork,
};
use reweave_common::recorded_exchange::{ExchangeKind, RecordedExchange};
use reweave_common::units::Bytes;

/// Reason why records do not form an iteration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordedError {
    Unlike {
        group: String,
        nth: usize,
        rank: Rank,
    },
    Iteration(IterationError),
}

impl fmt::Display for RecordedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlike { group, nth, rank } => write!(
                f,
                "the ranks disagree on what the {nth}. collective of group {group:?} was: rank {} has another one",
                rank.index()
            ),
            Self::Iteration(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RecordedError {}

/// Puts together what the ranks recorded, each in its own order. The n-th collective of a group is
/// the same on all its members; the n-th message between two is the one that was received n-th, and
/// one that only one end recorded counts as well. Between two records, a rank computes as long as it
/// did not wait.
pub fn iteration(ranks: usize, records: &[RecordedExchange]) -> Result<Iteration, RecordedError> {
    let mut joining = Joining {
        builder: IterationBuilder::new(ranks),
        tails: BTreeMap::new(),
        free_ns: BTreeMap::new(),
        counts: BTreeMap::new(),
        met: BTreeMap::new(),
    };
    for record in records {
        joining.add(record)?;
    }
    joining.builder.build().map_err(RecordedError::Iteration)
}

/// Key that all participants of an exchange share: its group, and its number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Group {
        name: String,
        members: Vec<Rank>,
        nth: usize,
    },
    Pair {
        from: Rank,
        to: Rank,
        nth: usize,
    },
}

struct Joining {
    builder: IterationBuilder,
    tails: BTreeMap<Rank, TaskId>,
    /// Time at which each rank had no exchange in progress, on its own clock.
    free_ns: BTreeMap<Rank, u64>,
    /// Number of equal records of each rank.
    counts: BTreeMap<(Rank, Key), usize>,
    met: BTreeMap<Key, (TaskId, Option<Operation>, Bytes)>,
}

impl Joining {
    fn add(&mut self, record: &RecordedExchange) -> Result<(), RecordedError> {
        self.compute_until(record);
        let (task, rank) = (self.exchange(record)?, record.rank);
        if let Some(before) = self.tails.insert(rank, task) {
            self.builder.then(before, task);
        }
        if let Some(asked_ns) = record.asked_ns {
            let took = record.took.unwrap_or_default().as_nanos();
            let took = u64::try_from(took).unwrap_or(u64::MAX);
            self.free_ns.insert(rank, asked_ns.saturating_add(took));
        }
        Ok(())
    }

    fn compute_until(&mut self, record: &RecordedExchange) {
        let free_ns = self.free_ns.get(&record.rank).copied();
        let gap = free_ns.zip(record.asked_ns);
        let gap = gap.map_or(0, |(free, asked)| asked.saturating_sub(free));
        if gap == 0 {
            return;
        }
        let name = self.builder.name("compute");
        let work = TaskWork::Compute {
            rank: record.rank,
            time: Duration::from_nanos(gap),
        };
        let task = self.builder.add(name, work);
        if let Some(before) = self.tails.insert(record.rank, task) {
            self.builder.then(before, task);
        }
    }

    fn exchange(&mut self, record: &RecordedExchange) -> Result<TaskId, RecordedError> {
        let key = self.key(record);
        let operation = match &record.what {
            ExchangeKind::Collective { operation, .. } => Some(*operation),
            _ => None,
        };
        if let Some(&(task, known, bytes)) = self.met.get(&key) {
            return match (&key, (known, bytes) == (operation, record.bytes)) {
                (Key::Group { name, nth, .. }, false) => Err(RecordedError::Unlike {
                    group: name.clone(),
                    nth: nth + 1,
                    rank: record.rank,
                }),
                _ => Ok(task),
            };
        }
        let (name, work) = self.work(record);
        let name = self.builder.name(&name);
        let task = self.builder.add(name, work);
        self.met.insert(key, (task, operation, record.bytes));
        Ok(task)
    }

    /// Counted by rank, so that the second of a kind on one rank meets the second on the others.
    fn key(&mut self, record: &RecordedExchange) -> Key {
        let first = match &record.what {
            ExchangeKind::Collective { name, group, .. } => Key::Group {
                name: name.clone(),
                members: group.clone(),
                nth: 0,
            },
            ExchangeKind::Sent { to } => Key::Pair {
                from: record.rank,
                to: *to,
                nth: 0,
            },
            ExchangeKind::Received { from } => Key::Pair {
                from: *from,
                to: record.rank,
                nth: 0,
            },
        };
        let count = self.counts.entry((record.rank, first.clone())).or_default();
        let mut key = first;
        let (Key::Group { nth, .. } | Key::Pair { nth, .. }) = &mut key;
        *nth = *count;
        *count += 1;
        key
    }

    fn work(&mut self, record: &RecordedExchange) -> (String, TaskWork) {
        let bytes = record.bytes;
        let transfer = |from, to| ("message".to_owned(), TaskWork::Transfer { from, to, bytes });
        match &record.what {
            ExchangeKind::Sent { to } => transfer(record.rank, *to),
            ExchangeKind::Received { from } => transfer(*from, record.rank),
            ExchangeKind::Collective {
                operation,
                group,
                name,
            } => {
                let work = TaskWork::Collective {
                    operation: *operation,
                    group: self.builder.group(group),
                    bytes,
                    local: Duration::ZERO,
                };
                (format!("{} of {name}", operation.name()), work)
            }
        }
    }
}
