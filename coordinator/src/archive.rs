//! Reads the history while the cluster runs.

use std::sync::Arc;
use std::time::Duration;

use reweave_history::{Past, PastError};
use thiserror::Error;

use crate::config::HistoryConfig;
use crate::exclusive_job::{ExclusiveJob, Undone};

/// A store far away that answers slowly does not hold up all others.
const QUERY_TIMEOUT: Duration = Duration::from_secs(20);
/// Some hundred megabytes.
const MAX_ROWS: usize = 500_000;

#[derive(Debug, Error)]
pub(crate) enum Unread {
    #[error("history is off on this coordinator: its settings have [history] on = false")]
    NotKept,
    #[error("another request is reading the history: try again")]
    Busy,
    #[error("the history cannot be read: {0}")]
    Failed(#[from] PastError),
    #[error("the history reader has died")]
    Died,
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Archive {
    url: Option<Arc<str>>,
    exclusive_job: ExclusiveJob,
}

impl Archive {
    pub(crate) fn of(config: Option<&HistoryConfig>) -> Self {
        Self {
            url: config.map(|history| history.url.as_str().into()),
            exclusive_job: ExclusiveJob::new(QUERY_TIMEOUT),
        }
    }

    /// It ends early when its caller no longer waits.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Past) -> Result<T, PastError> + Send + 'static,
    ) -> Result<T, Unread> {
        let url = self.url.clone().ok_or(Unread::NotKept)?;
        let read = self.exclusive_job.work(move |goes_on| {
            let past = Past::open(&url).map_err(PastError::Shelf)?;
            work(&past.within(MAX_ROWS, goes_on))
        });
        match read.await {
            Ok(outcome) => Ok(outcome?),
            Err(Undone::Busy) => Err(Unread::Busy),
            Err(Undone::Died) => Err(Unread::Died),
        }
    }
}

#[cfg(test)]
mod tests {
    use reweave_history::{Kind, Rules};

    use super::*;

    #[tokio::test]
    async fn archive_reads_only_kept_history() {
        let read = Archive::of(None).read(|past| past.kept(Kind::Links)).await;
        assert!(matches!(read, Err(Unread::NotKept)), "{read:?}");
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::of(Some(&HistoryConfig {
            url: folder.path().display().to_string(),
            rules: Rules::default(),
        }));
        let read = archive.read(|past| past.kept(Kind::Links)).await;
        assert_eq!(read.unwrap(), []);
    }
}
