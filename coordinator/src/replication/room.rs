//! Room on the disk. A log that found none in the middle of a write could not go on; so some is kept
//! ahead of it, for what is under way and for elections, and nothing more is decided once there is
//! little left for anybody.

use std::fs::File;
use std::io;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::statvfs::statvfs;

/// With less there is no room.
const LEAST_BYTES: u64 = 16 << 20;
/// With so much there is room again: not now some and then none.
const ENOUGH_BYTES: u64 = 2 * LEAST_BYTES;
/// Always kept behind the end of the log, where the file system can do that.
const KEPT_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Room {
    /// The log may grow so far, whatever happens to the disk.
    kept_until: u64,
    is_full: bool,
}

impl Room {
    pub(crate) fn new() -> Self {
        Self {
            kept_until: 0,
            is_full: false,
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Of what is kept, so much is left for a log that ends here.
    pub(crate) fn kept(&self, end: u64) -> u64 {
        self.kept_until.saturating_sub(end)
    }

    /// Whether most of what is kept is still there.
    pub(crate) fn spares_some(&self, end: u64) -> bool {
        !self.is_full || self.kept(end) >= KEPT_BYTES / 2
    }

    /// Looks how much there is, and keeps enough of it for a log that ends here.
    pub(crate) fn look(&mut self, path: &Path, file: &File, end: u64) {
        let kept = self.keep(file, end);
        let needed = if self.is_full {
            ENOUGH_BYTES
        } else {
            LEAST_BYTES
        };
        self.is_full = !kept || free_bytes(path).is_some_and(|free| free < needed);
    }

    /// The same while there are two files: how much there is will be seen when one is gone.
    pub(crate) fn look_amid_compaction(&mut self, file: &File, end: u64) {
        self.is_full |= !self.keep(file, end);
    }

    /// Anew, for a file that took the place of the one before.
    pub(crate) fn forget(&mut self) {
        self.kept_until = 0;
    }

    /// False where there is not enough. Some file systems keep nothing for anybody.
    fn keep(&mut self, file: &File, end: u64) -> bool {
        if self.kept(end) >= KEPT_BYTES {
            return true;
        }
        let ahead = 2 * KEPT_BYTES;
        let [from, length] = [end, ahead].map(|it| i64::try_from(it).unwrap_or(i64::MAX));
        match fallocate(file, FallocateFlags::FALLOC_FL_KEEP_SIZE, from, length) {
            Ok(()) => self.kept_until = end + ahead,
            Err(error) => return !is_lack(&error.into()),
        }
        true
    }
}

/// For those who are no administrators.
fn free_bytes(path: &Path) -> Option<u64> {
    let found = statvfs(path).ok()?;
    Some(
        found
            .blocks_available()
            .saturating_mul(found.fragment_size()),
    )
}

/// Whether it only wants room.
pub(crate) fn is_lack(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::ENOSPC | Errno::EDQUOT)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_lies_behind_the_end_and_is_kept_anew_when_half_is_used() {
        let mut room = Room::new();
        let log = tempfile::NamedTempFile::new().unwrap();
        let (path, file) = (log.path(), log.as_file());
        assert_eq!(room.kept(0), 0);
        room.look(path, file, 100);
        assert!(!room.is_full());
        assert_eq!(room.kept(100), 2 * KEPT_BYTES);
        assert_eq!(
            file.metadata().unwrap().len(),
            0,
            "it is no part of the log"
        );
        room.look(path, file, 100 + KEPT_BYTES);
        assert_eq!(room.kept(100), 2 * KEPT_BYTES);
        room.look(path, file, 101 + KEPT_BYTES);
        assert_eq!(room.kept(101 + KEPT_BYTES), 2 * KEPT_BYTES);
    }

    #[test]
    fn a_log_that_cannot_be_written_to_at_all_is_not_called_full() {
        let mut room = Room::new();
        let log = tempfile::NamedTempFile::new().unwrap();
        let readable = File::open(log.path()).unwrap();
        room.look(log.path(), &readable, 0);
        assert!(!room.is_full());
    }
}
