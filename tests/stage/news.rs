//! What a stage says of itself wakes those who wait for it: each line of `reweave watch` and of jobs is news.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Of all stages of this process: a wake-up by another's news costs one more look.
static NEWS: News = News {
    count: Mutex::new(0),
    changed: Condvar::new(),
};

struct News {
    /// How much has come so far.
    count: Mutex<u64>,
    changed: Condvar,
}

pub(crate) fn count() -> u64 {
    *NEWS.count.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for news after the first `count`, and no longer than `at_most`.
pub(crate) fn wait_beyond(count: u64, at_most: Duration) {
    let now = NEWS.count.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = NEWS
        .changed
        .wait_timeout_while(now, at_most, |now| *now <= count);
    drop(waited.unwrap_or_else(PoisonError::into_inner));
}

pub(crate) fn announce() {
    *NEWS.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    NEWS.changed.notify_all();
}

/// Hands on each line that a program prints, until it ends; each is news.
pub(crate) fn read_lines(
    from: impl Read + Send + 'static,
    mut hear: impl FnMut(String) + Send + 'static,
) {
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            hear(line);
            announce();
        }
        // Its end is news, too.
        announce();
    });
}
