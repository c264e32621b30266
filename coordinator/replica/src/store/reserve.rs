//! Reserved disk space. A log that runs out of space during a write could not continue, so space is preallocated for
//! running writes and for elections, and decisions stop before the disk is full.

use reweave_files::FileHandle;

use super::error::is_lack;

/// With less free space, the disk counts as full.
pub const MIN_FREE_BYTES: u64 = 16 << 20;
/// With this much, it counts as usable again: the hysteresis prevents flapping.
const RESUME_FREE_BYTES: u64 = 2 * MIN_FREE_BYTES;
/// The space preallocated behind the end of the log, if the file system supports it.
const PREALLOCATED_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct DiskReserve {
    /// The end of the preallocated space.
    kept_until: u64,
    is_full: bool,
}

impl DiskReserve {
    pub(super) fn new() -> Self {
        Self {
            kept_until: 0,
            is_full: false,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// The rest of the preallocated space for a log that ends here.
    fn kept(&self, end: u64) -> u64 {
        self.kept_until.saturating_sub(end)
    }

    /// Whether most of the preallocated space is left.
    pub(super) fn spares_some(&self, end: u64) -> bool {
        !self.is_full || self.kept(end) >= PREALLOCATED_BYTES / 2
    }

    /// Preallocates for a log that ends here, and reads the free space.
    pub(super) fn look(
        &mut self,
        file: &mut impl FileHandle,
        end: u64,
        free_bytes: impl FnOnce() -> Option<u64>,
    ) {
        let kept = self.keep(file, end);
        let needed = if self.is_full {
            RESUME_FREE_BYTES
        } else {
            MIN_FREE_BYTES
        };
        self.is_full = !kept || free_bytes().is_some_and(|free| free < needed);
    }

    /// The same while there are two files: the free space is judged when one is gone.
    pub(super) fn look_amid_compaction(&mut self, file: &mut impl FileHandle, end: u64) {
        self.is_full |= !self.keep(file, end);
    }

    /// Preallocates again, for a new file.
    pub(super) fn forget(&mut self) {
        self.kept_until = 0;
    }

    /// Preallocates space. False if there is not enough. Some file systems cannot preallocate.
    fn keep(&mut self, file: &mut impl FileHandle, end: u64) -> bool {
        if self.kept(end) >= PREALLOCATED_BYTES {
            return true;
        }
        let ahead = 2 * PREALLOCATED_BYTES;
        match file.reserve(end, ahead) {
            Ok(()) => self.kept_until = end + ahead,
            Err(error) => return !is_lack(&error),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// A file that records the preallocated ranges. The simulated disk knows up to where a file has room, and not how often that
    /// was asked for.
    #[derive(Debug, Default)]
    struct Kept {
        ranges: Vec<[u64; 2]>,
        fails: Option<io::ErrorKind>,
    }

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl FileHandle for Kept {
        fn length(&self) -> io::Result<u64> {
            Ok(0)
        }

        fn overwrite(&mut self, _: &[u8]) -> io::Result<()> {
            Ok(())
        }

        fn truncate(&mut self, _: u64) -> io::Result<()> {
            Ok(())
        }

        fn sync_data(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn sync_all(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn reserve(&mut self, from: u64, length: u64) -> io::Result<()> {
            self.ranges.push([from, length]);
            self.fails.map_or(Ok(()), |kind| Err(kind.into()))
        }
    }

    #[test]
    fn reserve_follows_end_and_refills() {
        let (mut reserve, mut file) = (DiskReserve::new(), Kept::default());
        assert_eq!(reserve.kept(0), 0);
        for end in [100, 100 + PREALLOCATED_BYTES, 101 + PREALLOCATED_BYTES] {
            reserve.look(&mut file, end, || None);
            assert!(!reserve.is_full());
        }
        assert_eq!(
            reserve.kept(101 + PREALLOCATED_BYTES),
            2 * PREALLOCATED_BYTES
        );
        let next_ranges = [100, 101 + PREALLOCATED_BYTES].map(|end| [end, 2 * PREALLOCATED_BYTES]);
        assert_eq!(file.ranges, next_ranges);
    }

    #[test]
    fn only_missing_space_means_full() {
        let fails = |kind| Kept {
            fails: Some(kind),
            ..Kept::default()
        };
        let mut reserve = DiskReserve::new();
        reserve.look(&mut fails(io::ErrorKind::PermissionDenied), 0, || None);
        assert!(!reserve.is_full());
        reserve.look(&mut fails(io::ErrorKind::StorageFull), 0, || None);
        assert!(reserve.is_full());
    }

    /// The longer file is still there, with another one beside it.
    #[test]
    fn compaction_makes_no_room() {
        let (mut reserve, mut file) = (DiskReserve::new(), Kept::default());
        reserve.look(&mut file, 0, || Some(MIN_FREE_BYTES - 1));
        reserve.look_amid_compaction(&mut file, 0);
        assert!(reserve.is_full());
    }

    #[test]
    fn full_disk_needs_twice_as_much() {
        let (mut reserve, mut file) = (DiskReserve::new(), Kept::default());
        let frees = [
            (MIN_FREE_BYTES, false),
            (MIN_FREE_BYTES - 1, true),
            (RESUME_FREE_BYTES - 1, true),
            (RESUME_FREE_BYTES, false),
        ];
        for (free, is_full) in frees {
            reserve.look(&mut file, 0, || Some(free));
            assert_eq!(reserve.is_full(), is_full, "{free} bytes are free");
        }
    }
}
