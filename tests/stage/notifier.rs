//! A condition variable with a counter: waiters wake when an event was counted since they last looked.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Events of all clusters of this process, as `reweave watch` prints them. An event of another cluster costs a waiter
/// one more attempt.
pub(crate) static CLUSTER_EVENTS: Notifier = Notifier::new();

#[derive(Debug)]
pub(crate) struct Notifier {
    events: Mutex<u64>,
    changed: Condvar,
}

impl Notifier {
    pub(crate) const fn new() -> Self {
        Self {
            events: Mutex::new(0),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn event_count(&self) -> u64 {
        *self.lock()
    }

    pub(crate) fn notify(&self) {
        *self.lock() += 1;
        self.changed.notify_all();
    }

    /// Waits until more than `count` events were counted, at most for `timeout`.
    pub(crate) fn wait_past(&self, count: u64, timeout: Duration) {
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), timeout, |events| *events <= count);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls `on_line` for each line of a program's output, until the program ends.
pub(crate) fn read_lines(
    output: impl Read + Send + 'static,
    mut on_line: impl FnMut(String) + Send + 'static,
) {
    thread::spawn(move || {
        let lines = BufReader::new(output).lines();
        lines.map_while(Result::ok).for_each(&mut on_line);
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use super::*;

    const ENDLESS_TIMEOUT: Duration = Duration::from_secs(3600);

    #[test]
    fn event_before_wait_is_not_lost() {
        let notifier = Notifier::new();
        let count = notifier.event_count();
        notifier.notify();
        notifier.wait_past(count, ENDLESS_TIMEOUT);
    }

    #[test]
    fn event_during_wait_wakes() {
        let notifier = Arc::new(Notifier::new());
        let (count, other) = (notifier.event_count(), Arc::clone(&notifier));
        let notifying = thread::spawn(move || other.notify());
        notifier.wait_past(count, ENDLESS_TIMEOUT);
        notifying.join().unwrap();
    }

    #[test]
    fn wait_without_event_times_out() {
        let (notifier, began) = (Notifier::new(), Instant::now());
        notifier.wait_past(0, Duration::from_millis(5));
        assert!(began.elapsed() >= Duration::from_millis(5));
    }
}
