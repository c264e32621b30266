//! Problems of this coordinator alone, for its status and its metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reweave_common::lock::lock;

/// People would hardly notice less.
const MAX_CLOCK_AHEAD: Duration = Duration::from_secs(5);

/// Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct LocalHealth(Arc<LocalHealthState>);

#[derive(Debug, Default)]
struct LocalHealthState {
    ahead_ms: AtomicU64,
    history: Mutex<Option<String>>,
}

impl LocalHealth {
    /// Its moments are ahead of the machine's clock by this much.
    pub(crate) fn note_ahead(&self, ahead: Duration) {
        let ahead_ms = ahead.as_millis().try_into().unwrap_or(u64::MAX);
        self.0.ahead_ms.store(ahead_ms, Ordering::Relaxed);
    }

    pub(crate) fn ahead(&self) -> Duration {
        Duration::from_millis(self.0.ahead_ms.load(Ordering::Relaxed))
    }

    /// Why the history is not kept just now, if it is not.
    pub(crate) fn note_history(&self, failing: Option<String>) {
        *lock(&self.0.history) = failing;
    }

    pub(crate) fn history(&self) -> Option<String> {
        lock(&self.0.history).clone()
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        let history = self
            .history()
            .map(|why| format!("the history is not written: {why}"));
        let ahead = self.ahead();
        let ahead = (ahead > MAX_CLOCK_AHEAD).then(|| {
            format!(
                "the log's time is {} s ahead of this machine's clock: it was set back, or a \
                 coordinator's clock was wrong; tokens and plans on offer expire by the log's time",
                ahead.as_secs()
            )
        });
        history.into_iter().chain(ahead).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolved_problem_is_not_reported() {
        let local_health = LocalHealth::default();
        local_health.note_ahead(Duration::from_millis(40));
        assert_eq!(local_health.warnings(), [""; 0]);
        local_health.note_history(Some("the disk is gone".to_owned()));
        local_health.note_ahead(Duration::from_mins(50));
        let [history, ahead] = &local_health.warnings()[..] else {
            panic!("{:?}", local_health.warnings())
        };
        assert_eq!(history, "the history is not written: the disk is gone");
        assert!(ahead.contains("3000 s ahead"), "{ahead}");
        local_health.note_history(None);
        local_health.note_ahead(Duration::ZERO);
        assert_eq!(local_health.warnings(), [""; 0]);
    }
}
