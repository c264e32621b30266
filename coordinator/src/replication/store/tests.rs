//! A file that is truncated, damaged, or half replaced. The format has its own tests; these cover the file and its
//! folder.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::thread;

use reweave_files::{FileSystem, LocalFiles};
use reweave_replica::{Batch, Entry, EntryContent, MemberId, Members, Record, Vote};
use tempfile::TempDir;

use super::*;

struct Scratch {
    folder: TempDir,
}

impl Scratch {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn open(&self) -> Result<Opened, LogError> {
        open(&self.path(), Some(saved()))
    }

    /// The content of a log with this many entries, each written by itself.
    fn written(&self, entries: u64) -> Vec<u8> {
        let mut store = self.open().unwrap().store;
        for index in 1..=entries {
            store.persist(&batch(index)).unwrap();
        }
        fs::read(self.path()).unwrap()
    }

    fn reopened(&self, content: &[u8]) -> Result<Opened, LogError> {
        fs::write(self.path(), content).unwrap();
        self.open()
    }
}

fn saved() -> Saved {
    Saved::joining(MemberId(1), b"whose".to_vec(), Members::default())
}

fn entry(index: u64) -> Entry {
    Entry {
        term: 1,
        index,
        content: EntryContent::Proposal(format!("entry {index}").into_bytes()),
    }
}

fn batch(index: u64) -> Batch {
    let vote = Vote {
        term: 1,
        vote: 1,
        commit: index - 1,
    };
    Batch {
        records: vec![Record::Vote(vote), Record::Entry(entry(index))],
        is_whole: false,
    }
}

#[test]
fn log_is_reopened_and_continues() {
    let scratch = Scratch::new();
    scratch.written(3);
    let opened = scratch.open().unwrap();
    assert_eq!((opened.saved.entries.len(), opened.torn_bytes), (3, 0));
    let mut store = opened.store;
    store.persist(&batch(4)).unwrap();
    let entries = scratch.open().unwrap().saved.entries;
    assert_eq!(entries, (1..=4).map(entry).collect::<Vec<_>>());
}

#[test]
fn torn_write_is_dropped_and_replaced() {
    let scratch = Scratch::new();
    let content = scratch.written(3);
    let two = Scratch::new().written(2).len();
    for length in two + 1..content.len() {
        let opened = scratch.reopened(&content[..length]).unwrap();
        assert_eq!(opened.saved.entries.len(), 2, "cut to {length}");
        assert_eq!(opened.torn_bytes, (length - two) as u64);
        let mut store = opened.store;
        store.persist(&batch(3)).unwrap();
        assert_eq!(scratch.open().unwrap().saved.entries.len(), 3);
    }
}

#[test]
fn flipped_bit_names_file_untouched() {
    let scratch = Scratch::new();
    let content = scratch.written(3);
    for at in 0..content.len() {
        let mut flipped = content.clone();
        flipped[at] ^= 1 << (at % 8);
        let error = scratch.reopened(&flipped).unwrap_err();
        assert!(error.is_bad_input(), "byte {at}: {error}");
        let said = error.to_string();
        assert!(said.contains(&*scratch.path().to_string_lossy()), "{said}");
        assert!(said.contains("from a backup"), "byte {at}: {said}");
        assert_eq!(fs::read(scratch.path()).unwrap(), flipped);
    }
}

/// Which is what an operator has who put back an old copy, or a file system that lost the end.
#[test]
fn log_missing_acknowledged_entries_is_refused() {
    let scratch = Scratch::new();
    let ends = [1, 2, 3].map(|entries| Scratch::new().written(entries).len());
    scratch.written(3);
    let mut store = scratch.open().unwrap().store;
    store.acknowledge(2);
    let content = fs::read(scratch.path()).unwrap();
    for length in 0..ends[1] {
        let error = scratch.reopened(&content[..length]).unwrap_err();
        assert!(error.is_bad_input(), "cut to {length}: {error}");
        assert_eq!(fs::read(scratch.path()).unwrap(), &content[..length]);
        let is_cut_back = error.to_string().contains("entry 2 was there");
        assert!(is_cut_back || length < ends[0], "cut to {length}: {error}");
    }
    // No other member heard of the third.
    for length in ends[1]..=ends[2] {
        scratch.reopened(&content[..length]).unwrap();
    }
    fs::remove_file(scratch.path()).unwrap();
    let gone = scratch.open().unwrap_err().to_string();
    assert!(gone.contains("log is gone, and"), "{gone}");
    assert!(look(&scratch.path()).is_err());
}

/// It would vote again in a term in which it did.
#[test]
fn log_missing_last_vote_is_refused() {
    let scratch = Scratch::new();
    let before = scratch.written(1);
    let mut store = scratch.open().unwrap().store;
    let vote = Vote {
        term: 2,
        ..Vote::default()
    };
    let batch = Batch {
        records: vec![Record::Vote(vote)],
        is_whole: false,
    };
    store.persist(&batch).unwrap();
    let whole = fs::read(scratch.path()).unwrap();
    for length in before.len()..whole.len() {
        let error = scratch.reopened(&whole[..length]).unwrap_err();
        assert!(error.to_string().contains("a later vote"), "{error}");
    }
    scratch.reopened(&whole).unwrap();
}

/// Cut anywhere, or with any bit flipped, it is refused and says what to do.
#[test]
fn damaged_reached_file_is_named() {
    let scratch = Scratch::new();
    scratch.written(1);
    let reached = scratch.path().with_file_name("reached");
    let whole = fs::read(&reached).unwrap();
    for length in 0..whole.len() {
        fs::write(&reached, &whole[..length]).unwrap();
        let message = scratch.open().unwrap_err().to_string();
        assert!(message.contains("reached is damaged"), "{message}");
    }
    for at in 0..whole.len() * 8 {
        let mut flipped = whole.clone();
        flipped[at / 8] ^= 1 << (at % 8);
        fs::write(&reached, &flipped).unwrap();
        let error = scratch.open().unwrap_err();
        assert!(
            matches!(error, LogError::Unclear { .. }),
            "bit {at}: {error}"
        );
    }
    fs::remove_file(&reached).unwrap();
    scratch.open().unwrap();
    assert_eq!(fs::read(&reached).unwrap(), whole);
}

#[test]
fn empty_log_does_not_restart() {
    let scratch = Scratch::new();
    scratch.written(1);
    let error = scratch.reopened(&[]).unwrap_err();
    assert!(error.is_bad_input(), "{error}");
}

/// The old file counts until the new one has its name.
#[test]
fn unfinished_replacement_changes_nothing() {
    let scratch = Scratch::new();
    scratch.written(2);
    let new = scratch.path().with_extension("new");
    for leftover in [&b""[..], b"reweave log 8  \nhalf a", &[0; 4096]] {
        fs::write(&new, leftover).unwrap();
        assert_eq!(scratch.open().unwrap().saved.entries.len(), 2);
    }
    let mut opened = scratch.open().unwrap();
    opened.saved.entries.truncate(1);
    opened.store.persist(&opened.saved.whole()).unwrap();
    opened.store.persist(&batch(2)).unwrap();
    assert_eq!(scratch.open().unwrap().saved.entries.len(), 2);
    assert!(!new.exists());
}

/// Checks a failed append to a file that cannot be truncated.
#[test]
fn uncut_part_of_append_is_error() {
    let scratch = Scratch::new();
    let mut store = scratch.open().unwrap().store;
    *store.file_mut() = LocalFiles.open(Path::new("/dev/full")).unwrap();
    let error = store.persist(&batch(1)).unwrap_err();
    assert!(matches!(error, LogError::File { .. }), "{error}");
}

/// The whole log, with the first two entries in a snapshot.
fn shortened(mut saved: Saved) -> Batch {
    saved.snapshot.index = 2;
    saved.entries.clear();
    saved.whole()
}

fn compact(store: &mut Store) -> Result<(), LogError> {
    while !store.poll_compaction()? {
        thread::yield_now();
    }
    Ok(())
}

#[test]
fn entries_during_compaction_are_kept() {
    let scratch = Scratch::new();
    scratch.written(2);
    let Opened {
        mut store, saved, ..
    } = scratch.open().unwrap();
    store.start_compaction(shortened(saved)).unwrap();
    store.persist(&batch(3)).unwrap();
    let old = look(&scratch.path()).unwrap().unwrap();
    assert_eq!((old.snapshot.index, old.entries.len()), (0, 3));
    compact(&mut store).unwrap();
    store.persist(&batch(4)).unwrap();
    let new = scratch.open().unwrap().saved;
    assert_eq!(new.snapshot.index, 2);
    assert_eq!(new.entries, [entry(3), entry(4)]);
    assert!(!scratch.path().with_extension("new").exists());
}

/// A follower that was too far behind gets all there is from the leader.
#[test]
fn whole_log_replaces_compaction() {
    let scratch = Scratch::new();
    scratch.written(2);
    let Opened {
        mut store, saved, ..
    } = scratch.open().unwrap();
    store.start_compaction(shortened(saved.clone())).unwrap();
    let mut theirs = saved;
    theirs.snapshot.index = 9;
    theirs.entries.clear();
    store.persist(&theirs.whole()).unwrap();
    assert!(!store.poll_compaction().unwrap());
    store.persist(&batch(10)).unwrap();
    let found = scratch.open().unwrap().saved;
    assert_eq!((found.snapshot.index, found.entries), (9, vec![entry(10)]));
}

/// A full pipe: a writer waits until it is drained.
struct FullPipe(File);

impl FullPipe {
    fn at(path: &Path) -> Self {
        nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let mut opening = OpenOptions::new();
        let opening = opening.read(true).write(true);
        let mut pipe = opening
            .custom_flags(nix::libc::O_NONBLOCK)
            .open(path)
            .unwrap();
        while pipe.write(&[0; 4096]).is_ok() {}
        Self(pipe)
    }

    fn drain(&mut self) {
        while self.0.read(&mut [0; 4096]).is_ok() {}
    }
}

/// However the test ends, its writer goes on: it may still be about to open the pipe, which therefore stays open.
impl Drop for FullPipe {
    fn drop(&mut self) {
        self.drain();
        std::mem::forget(self.0.try_clone());
    }
}

#[test]
fn endless_compaction_blocks_nothing() {
    let scratch = Scratch::new();
    scratch.written(2);
    let Opened {
        mut store, saved, ..
    } = scratch.open().unwrap();
    let mut pipe = FullPipe::at(&scratch.path().with_extension("new"));
    store.start_compaction(shortened(saved)).unwrap();
    for index in 3..50 {
        store.persist(&batch(index)).unwrap();
        assert!(!store.poll_compaction().unwrap());
    }
    let old = look(&scratch.path()).unwrap().unwrap();
    assert_eq!(old.entries.len(), 49);
    pipe.drain();
    // No pipe can be synced.
    let failed = compact(&mut store).unwrap_err();
    assert!(matches!(failed, LogError::File { .. }), "{failed}");
    assert_eq!(scratch.open().unwrap().saved.entries.len(), 49);
}
