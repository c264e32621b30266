//! What the replica has gone through since the start, for machines that watch machines.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reweave_common::lock::lock;

/// Writes are sorted by these, in seconds; slower ones come last.
pub(crate) const WRITES_S: [f64; 12] = [
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0,
];

#[derive(Debug, Clone, Default)]
pub(crate) struct Pulse {
    /// By how long they took.
    pub(crate) writes: [u64; WRITES_S.len() + 1],
    /// All of them together.
    pub(crate) writing: Duration,
    pub(crate) snapshots: u64,
    pub(crate) elections: u64,
    /// The last that was noted.
    term: Option<u64>,
}

/// Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wrist(Arc<Mutex<Pulse>>);

impl Wrist {
    pub(crate) fn pulse(&self) -> Pulse {
        lock(&self.0).clone()
    }

    pub(super) fn note_write(&self, took: Duration) {
        let mut pulse = lock(&self.0);
        let slower = |most: &&f64| took.as_secs_f64() > **most;
        pulse.writes[WRITES_S.iter().take_while(slower).count()] += 1;
        pulse.writing += took;
    }

    pub(super) fn note_snapshot(&self) {
        lock(&self.0).snapshots += 1;
    }

    /// Each election begins a term.
    pub(super) fn note_term(&self, term: u64) {
        let mut pulse = lock(&self.0);
        let before = pulse.term.replace(term).unwrap_or(term);
        pulse.elections += term.saturating_sub(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_sorted_by_what_they_took() {
        let wrist = Wrist::default();
        for took_ms in [1, 2, 3, 2001] {
            wrist.note_write(Duration::from_millis(took_ms));
        }
        wrist.note_snapshot();
        let pulse = wrist.pulse();
        assert_eq!(pulse.writes, [0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(pulse.writing, Duration::from_millis(2007));
        assert_eq!(pulse.snapshots, 1);
    }

    /// The first term is the one there was before the start.
    #[test]
    fn terms_that_begin_are_elections() {
        let wrist = Wrist::default();
        for term in [7, 7, 9, 9, 10] {
            wrist.note_term(term);
        }
        assert_eq!(wrist.pulse().elections, 3);
    }
}
