//! Raft metrics since the start.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reweave_common::lock::lock;

/// Writes are sorted by these, in seconds; slower ones come last.
pub(crate) const WRITE_BUCKETS_S: [f64; 12] = [
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0,
];

#[derive(Debug, Clone, Default)]
pub(crate) struct RaftCounts {
    /// The number of writes, by their duration.
    pub(crate) writes: [u64; WRITE_BUCKETS_S.len() + 1],
    /// The sum of all durations.
    pub(crate) writing: Duration,
    pub(crate) snapshots: u64,
    pub(crate) elections: u64,
    /// The last that was noted.
    term: Option<u64>,
}

/// Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct RaftMetrics(Arc<Mutex<RaftCounts>>);

impl RaftMetrics {
    pub(crate) fn counts(&self) -> RaftCounts {
        lock(&self.0).clone()
    }

    pub(super) fn note_write(&self, took: Duration) {
        let mut counts = lock(&self.0);
        let slower = |most: &&f64| took.as_secs_f64() > **most;
        counts.writes[WRITE_BUCKETS_S.iter().take_while(slower).count()] += 1;
        counts.writing += took;
    }

    pub(super) fn note_snapshot(&self) {
        lock(&self.0).snapshots += 1;
    }

    /// Counts an election, because each election begins a term.
    pub(super) fn note_term(&self, term: u64) {
        let mut counts = lock(&self.0);
        let before = counts.term.replace(term).unwrap_or(term);
        counts.elections += term.saturating_sub(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_counted_by_duration() {
        let raft_metrics = RaftMetrics::default();
        for took_ms in [1, 2, 3, 2001] {
            raft_metrics.note_write(Duration::from_millis(took_ms));
        }
        raft_metrics.note_snapshot();
        let counts = raft_metrics.counts();
        assert_eq!(counts.writes, [0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(counts.writing, Duration::from_millis(2007));
        assert_eq!(counts.snapshots, 1);
    }

    /// The first term is the one there was before the start.
    #[test]
    fn terms_that_begin_are_elections() {
        let raft_metrics = RaftMetrics::default();
        for term in [7, 7, 9, 9, 10] {
            raft_metrics.note_term(term);
        }
        assert_eq!(raft_metrics.counts().elections, 3);
    }
}
