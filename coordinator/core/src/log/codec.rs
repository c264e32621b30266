//! The byte format of the log: commands in entries, states in snapshots. A build refuses data that it cannot read
//! completely.

use postcard::ser_flavors::Size;
use serde::de::DeserializeOwned;

use crate::log::command::{Change, Command};
use crate::log::state::{State, TAIL_SINCE_MINOR};

/// A later build wrote the log, and this one cannot read all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnreadableLog {
    Command { index: u64, source: postcard::Error },
    State { source: postcard::Error },
    ClusterVersion { version: u16, reads: u16 },
}

impl Command {
    pub fn encode(&self) -> Result<Vec<u8>, postcard::Error> {
        postcard::to_stdvec(self)
    }

    /// Decodes the entry with this index.
    pub fn decode(index: u64, entry: &[u8]) -> Result<Self, UnreadableLog> {
        decode_exact(entry).map_err(|source| UnreadableLog::Command { index, source })
    }
}

impl Change {
    /// The size of this command in an entry of the log.
    pub(crate) fn encoded_bytes(&self) -> usize {
        // A command that cannot be encoded shares no entry with another.
        postcard::serialize_with_flavor(self, Size::default()).unwrap_or(usize::MAX)
    }
}

impl State {
    /// Encodes the state as version 1.1 does, and its tail behind it once all coordinators read that.
    pub fn encode(&self) -> Result<Vec<u8>, postcard::Error> {
        let mut bytes = postcard::to_stdvec(self)?;
        if self.has_tail() {
            bytes.extend(postcard::to_stdvec(self.tail())?);
        }
        Ok(bytes)
    }

    /// Decodes a snapshot for a build that reads entries of the minor version `reads`. Before the first decision, the
    /// snapshot is empty.
    pub fn decode(snapshot: &[u8], reads: u16) -> Result<Self, UnreadableLog> {
        if snapshot.is_empty() {
            return Ok(Self::default());
        }
        let unreadable = |source| UnreadableLog::State { source };
        let (state, tail) = postcard::take_from_bytes::<Self>(snapshot).map_err(unreadable)?;
        // The tail of a later version may be longer.
        expect_version(state.cluster_version(), reads)?;
        if state.has_tail() {
            return Ok(state.with_tail(decode_exact(tail).map_err(unreadable)?));
        }
        match tail {
            [] => Ok(state),
            _ => Err(unreadable(postcard::Error::DeserializeBadEncoding)),
        }
    }

    /// The same, for a build that is to read the entries after the snapshot and all later ones too.
    pub fn decode_before(
        entries: impl IntoIterator<Item = (u64, Vec<u8>)>,
        snapshot: &[u8],
        reads: u16,
    ) -> Result<Self, UnreadableLog> {
        let state = Self::decode(snapshot, reads)?;
        for (index, entry) in entries {
            let command = Command::decode(index, &entry)?;
            expect_version(command.change.needed_version(), reads)?;
        }
        Ok(state)
    }

    fn has_tail(&self) -> bool {
        self.cluster_version() >= TAIL_SINCE_MINOR
    }
}

pub(crate) fn expect_version(version: u16, reads: u16) -> Result<(), UnreadableLog> {
    if version > reads {
        Err(UnreadableLog::ClusterVersion { version, reads })
    } else {
        Ok(())
    }
}

fn decode_exact<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, postcard::Error> {
    match postcard::take_from_bytes(bytes)? {
        (value, []) => Ok(value),
        _ => Err(postcard::Error::DeserializeBadEncoding),
    }
}
