//! The storage of a log: its files, and the compaction that runs in the background.

use std::fmt::Debug;
use std::io;
use std::path::Path;

use reweave_files::FileSystem;

use crate::journal::Batch;
use crate::store::{LogError, Written};

/// A [`FileSystem`] for the log, and background compaction. [`Store`](crate::Store) reaches its files by [`FileSystem`] alone.
/// Compaction runs on a thread of a process, or between the events of a simulation.
pub trait LogStorage: Debug {
    type Files: FileSystem;
    type Compaction: Compaction<File = <Self::Files as FileSystem>::File>;

    fn files(&self) -> &Self::Files;

    /// Starts [`write_compacted`](crate::write_compacted) in the background.
    fn compact(&self, path: &Path, whole: Batch) -> io::Result<Self::Compaction>;
}

/// The open file of a log on this storage.
pub type LogFile<D> = <<D as LogStorage>::Files as FileSystem>::File;

/// A compacted log that is being written. Dropping it removes the incomplete file.
pub trait Compaction: Debug {
    type File;

    /// Whether [`finish`](Self::finish) has nothing to wait for.
    fn is_written(&self) -> bool;

    fn finish(self) -> Result<Written<Self::File>, LogError>;
}
