//! The durable log: what was decided, in order, each entry on disk before anything follows from it.
//!
//! One file that only grows. What a crash cut short at its end was never acknowledged to anybody and
//! is cut off; anything else that is not as it was written means that the file cannot be believed,
//! and nothing is started on it.

mod record;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use reweave_core::Command;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::data::Belonging;
use record::{Scan, Tail};

#[derive(Debug, Error)]
pub(crate) enum LogError {
    #[error("cannot {what} {}", path.display())]
    File {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error(
        "{} is damaged at byte {at}: it is not what was written there. Restore it from a copy; \
         a coordinator that went on without what is lost could break what agents hold",
        path.display()
    )]
    Damaged { path: PathBuf, at: u64 },
    #[error("{} was written by another version: entry {entry} cannot be read", path.display())]
    Foreign {
        path: PathBuf,
        entry: usize,
        source: postcard::Error,
    },
    #[error("an entry for {} cannot be written", path.display())]
    Unwritable {
        path: PathBuf,
        source: postcard::Error,
    },
}

#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    file: File,
}

/// A log and all that was in it.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) log: Log,
    pub(crate) belonging: Belonging,
    pub(crate) commands: Vec<Command>,
    /// Bytes of an entry that was never completed, and are gone now.
    pub(crate) torn_bytes: u64,
}

impl Log {
    /// Opens the log, or begins one that belongs to `ours`.
    pub(crate) fn open(path: &Path, ours: &Belonging) -> Result<Opened, LogError> {
        let mut log = Self::at(path)?;
        let content = log.content()?;
        let Scan { entries, tail } = record::scan(&content);
        let whole = match tail {
            Tail::Whole => content.len(),
            Tail::Torn { at } => at,
            Tail::Damaged { at } => return Err(log.damaged(at)),
        };
        log.cut_to(whole)?;
        let torn_bytes = (content.len() - whole) as u64;
        let entries: Vec<_> = entries
            .iter()
            .map(|range| &content[range.clone()])
            .collect();
        let Some((head, commands)) = entries.split_first() else {
            return log.begin(ours, torn_bytes);
        };
        let commands = commands.iter().zip(1..);
        let commands = commands.map(|(entry, number)| log.read_entry(number, entry));
        Ok(Opened {
            belonging: log.read_entry(0, head)?,
            commands: commands.collect::<Result<_, _>>()?,
            log,
            torn_bytes,
        })
    }

    /// When this returns, the command survives a loss of power.
    pub(crate) fn append(&mut self, command: &Command) -> Result<(), LogError> {
        self.write(command)
    }

    /// From now on nothing can be written.
    #[cfg(test)]
    pub(crate) fn break_down(&mut self) {
        self.file = File::open(&self.path).unwrap();
    }

    fn at(path: &Path) -> Result<Self, LogError> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false);
        Ok(Self {
            file: file.open(path).map_err(failed("open", path))?,
            path: path.to_owned(),
        })
    }

    fn content(&mut self) -> Result<Vec<u8>, LogError> {
        let mut content = Vec::new();
        let read = self.file.read_to_end(&mut content);
        read.map_err(failed("read", &self.path))?;
        Ok(content)
    }

    fn begin(mut self, ours: &Belonging, torn_bytes: u64) -> Result<Opened, LogError> {
        self.cut_to(0)?;
        let magic = self.file.write_all(record::MAGIC);
        magic.map_err(failed("write", &self.path))?;
        self.write(ours)?;
        self.make_name_durable()?;
        Ok(Opened {
            belonging: ours.clone(),
            commands: Vec::new(),
            log: self,
            torn_bytes,
        })
    }

    /// The file's name is an entry of its folder, which has to reach the disk too.
    fn make_name_durable(&self) -> Result<(), LogError> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(failed("make durable", &self.path))
    }

    fn cut_to(&mut self, length: usize) -> Result<(), LogError> {
        let length = length as u64;
        let mut cut = || -> io::Result<()> {
            self.file.set_len(length)?;
            self.file.seek(SeekFrom::Start(length))?;
            self.file.sync_all()
        };
        cut().map_err(failed("cut", &self.path))
    }

    fn write(&mut self, entry: &impl Serialize) -> Result<(), LogError> {
        let payload = postcard::to_stdvec(entry).map_err(|source| LogError::Unwritable {
            path: self.path.clone(),
            source,
        })?;
        let record = record::encode(&payload);
        let mut write = || -> io::Result<()> {
            self.file.write_all(&record)?;
            self.file.sync_data()
        };
        write().map_err(failed("write", &self.path))
    }

    fn read_entry<T: DeserializeOwned>(&self, entry: usize, bytes: &[u8]) -> Result<T, LogError> {
        postcard::from_bytes(bytes).map_err(|source| LogError::Foreign {
            path: self.path.clone(),
            entry,
            source,
        })
    }

    fn damaged(&self, at: usize) -> LogError {
        LogError::Damaged {
            path: self.path.clone(),
            at: at as u64,
        }
    }
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LogError {
    let path = path.to_owned();
    move |source| LogError::File { what, path, source }
}

#[cfg(test)]
mod tests;
