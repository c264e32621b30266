//! Long work on a thread outside the runtime: one job at a time, and no longer than its caller waits for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

/// How long a caller waits for the job before it.
const ADMISSION_TIMEOUT: Duration = Duration::from_secs(5);

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct ExclusiveJob {
    place: Arc<Semaphore>,
    longest: Duration,
}

#[derive(Debug)]
pub(crate) enum Undone {
    Busy,
    Died,
}

impl ExclusiveJob {
    /// Creates the lock for work that may take this long.
    pub(crate) fn new(longest: Duration) -> Self {
        Self {
            place: Arc::new(Semaphore::new(1)),
            longest,
        }
    }

    /// The work gets a check whether to go on: the next job starts only after it has ended.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(GoesOn) -> T + Send + 'static,
    ) -> Result<T, Undone> {
        let place = timeout(ADMISSION_TIMEOUT, Arc::clone(&self.place).acquire_owned());
        let place = place.await.map_err(|_| Undone::Busy)?;
        let waits = Arc::new(());
        let (waited_for, began, longest) = (Arc::downgrade(&waits), Instant::now(), self.longest);
        let goes_on = move || waited_for.strong_count() > 0 && began.elapsed() < longest;
        let working = spawn_blocking(move || {
            let _place = place;
            work(Box::new(goes_on))
        });
        let done = working.await.map_err(|_| Undone::Died);
        drop(waits);
        done
    }
}

pub(crate) type GoesOn = Box<dyn Fn() -> bool + Send>;

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[tokio::test]
    async fn abandoned_job_ends_and_frees_slot() {
        let exclusive_job = ExclusiveJob::new(Duration::from_hours(1));
        let (begins, begun) = channel();
        let (goes, may_go) = channel::<()>();
        let (ends, ended) = channel();
        let other = exclusive_job.clone();
        let working = tokio::spawn(async move {
            let work = other.work(move |goes_on| {
                begins.send(goes_on()).unwrap();
                may_go.recv().unwrap();
                ends.send(goes_on()).unwrap();
            });
            work.await
        });
        let begun = spawn_blocking(move || begun.recv());
        assert!(begun.await.unwrap().unwrap(), "a caller waits");
        working.abort();
        assert!(working.await.unwrap_err().is_cancelled());
        goes.send(()).unwrap();
        let ended = spawn_blocking(move || ended.recv());
        assert!(!ended.await.unwrap().unwrap(), "no caller does");
        assert!(exclusive_job.work(|goes_on| goes_on()).await.unwrap());
    }

    #[tokio::test]
    async fn overlong_job_is_stopped() {
        let exclusive_job = ExclusiveJob::new(Duration::ZERO);
        assert!(!exclusive_job.work(|goes_on| goes_on()).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn long_wait_for_slot_is_refused() {
        let exclusive_job = ExclusiveJob::new(Duration::from_hours(1));
        let _held = exclusive_job.place.acquire().await.unwrap();
        assert!(matches!(exclusive_job.work(drop).await, Err(Undone::Busy)));
    }
}
