//! Several threads for work in equal pieces.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ScopedJoinHandle};

use crate::error::LabError;

/// More would only wait for the kernel's locks.
const MAX_THREADS: usize = 16;

/// Does `work` for 0, 1, .. `count` on threads of their own, and stops at the first error.
pub(crate) fn in_parallel<T: Send>(
    count: usize,
    work: impl Fn(usize) -> Result<T, LabError> + Sync,
) -> Result<Vec<T>, LabError> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(count)));
    let take_turns = || -> Result<(), LabError> {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return Ok(());
            }
            let result = work(index).inspect_err(|_| next.store(count, Ordering::Relaxed))?;
            lock(&done).push((index, result));
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.min(count).min(MAX_THREADS))
            .map(|_| scope.spawn(take_turns))
            .collect();
        workers.into_iter().try_for_each(joined)
    })?;
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

/// Locks a mutex, even if a thread panicked while holding it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the result of a thread, or resumes its panic in this one.
pub(crate) fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Does `work` on a thread of its own, to which it may do what must not happen to this one.
pub(crate) fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| joined(scope.spawn(work)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_in_parallel_keeps_its_order() {
        let doubled = in_parallel(100, |index| Ok(2 * index)).unwrap();
        assert_eq!(doubled, (0..100).map(|index| 2 * index).collect::<Vec<_>>());
    }

    #[test]
    fn parallel_work_stops_at_error() {
        let result = in_parallel(1000, |index| match index {
            7 => Err(LabError::NoLab),
            _ => Ok(index),
        });
        assert!(matches!(result, Err(LabError::NoLab)));
    }
}
