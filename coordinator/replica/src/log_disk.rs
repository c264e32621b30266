//! The disk of a log: its files, and what writes a compacted log.

use std::fmt::Debug;
use std::io;
use std::path::Path;

use reweave_files::FileSystem;

use crate::journal::Batch;
use crate::store::{LogError, Written};

/// [`Store`](crate::Store) reaches its files by [`FileSystem`] alone. Compaction is the owner's besides: it goes on beside
/// everything else, on a thread of a process and between the events of a simulation.
pub trait LogDisk: Debug {
    type Files: FileSystem;
    type Compaction: Compaction<File = <Self::Files as FileSystem>::File>;

    fn files(&self) -> &Self::Files;

    /// Starts [`write_compacted`](crate::write_compacted) beside everything else.
    fn compact(&self, path: &Path, whole: Batch) -> io::Result<Self::Compaction>;
}

/// What a log on this disk is written to.
pub type LogFile<D> = <<D as LogDisk>::Files as FileSystem>::File;

/// A shorter log on its way. One that is dropped leaves nothing behind.
pub trait Compaction: Debug {
    type File;

    /// Whether [`finish`](Self::finish) has nothing to wait for.
    fn is_written(&self) -> bool;

    fn finish(self) -> Result<Written<Self::File>, LogError>;
}
