//! The log's disk on this machine: a shorter log is written on a thread of its own.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use reweave_files::LocalFiles;
use reweave_replica::{
    Batch, Compaction, LogError, LogStorage, Written, discard_compacted, write_compacted,
};

#[derive(Debug, Clone, Copy)]
pub(crate) struct LocalDisk;

impl LogStorage for LocalDisk {
    type Files = LocalFiles;
    type Compaction = LocalCompaction;

    fn files(&self) -> &LocalFiles {
        &LocalFiles
    }

    fn compact(&self, path: &Path, whole: Batch) -> io::Result<LocalCompaction> {
        let log = path.to_owned();
        let thread = thread::Builder::new().name("log-compact".to_owned());
        let write = move || write_compacted(&LocalFiles, &log, &whole);
        Ok(LocalCompaction {
            thread: Some(thread.spawn(write)?),
            log: path.to_owned(),
        })
    }
}

#[derive(Debug)]
pub(crate) struct LocalCompaction {
    log: PathBuf,
    /// Gone once it was waited for.
    thread: Option<JoinHandle<Result<Written<File>, LogError>>>,
}

impl Compaction for LocalCompaction {
    type File = File;

    fn is_written(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn finish(mut self) -> Result<Written<File>, LogError> {
        let written = self.thread.take().and_then(|thread| thread.join().ok());
        written.unwrap_or_else(|| {
            Err(LogError::File {
                what: "compact",
                path: self.log.clone(),
                source: io::Error::other("the thread died"),
            })
        })
    }
}

impl Drop for LocalCompaction {
    /// Waits until nothing is written in the folder any longer, and leaves no temporary file there.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
            discard_compacted(&LocalFiles, &self.log);
        }
    }
}
