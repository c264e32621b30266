//! Crashes and bit flips, at every byte.

use proptest::prelude::*;

use crate::Members;
use crate::journal::{Batch, Journal, JournalError, Record, Saved};
use crate::wire::{Entry, EntryContent, MemberId, Vote};

fn begun() -> Saved {
    Saved::joining(MemberId(1), b"whose".to_vec(), Members::default())
}

fn entry(index: u64, length: usize) -> Record {
    Record::Entry(Entry {
        term: 1,
        index,
        // Zeros look like an unwritten sector.
        content: EntryContent::Proposal(vec![0; length]),
    })
}

/// A batch for the end of a file.
fn batch(index: u64, length: usize, end: usize) -> Vec<u8> {
    let vote = Vote {
        term: 1,
        vote: 1,
        commit: 0,
    };
    let batch = Batch {
        records: vec![Record::Vote(vote), entry(index, length)],
        is_whole: false,
    };
    batch.encode(end as u64).unwrap()
}

/// A file with these batches, and the end of each.
fn file(lengths: &[usize]) -> (Vec<u8>, Vec<usize>) {
    let mut content = begun().whole().encode(0).unwrap();
    let mut ends = vec![content.len()];
    for (&length, index) in lengths.iter().zip(1..) {
        content.extend(batch(index, length, content.len()));
        ends.push(content.len());
    }
    (content, ends)
}

fn entries(content: &[u8]) -> usize {
    Journal::read(content).unwrap().saved.entries.len()
}

#[test]
fn truncated_last_batch_is_dropped() {
    let (content, ends) = file(&[3, 700, 1500]);
    for length in ends[2]..content.len() {
        let read = Journal::read(&content[..length]).unwrap();
        assert_eq!(
            (entries(&content[..length]), read.whole_bytes),
            (2, ends[2])
        );
    }
    assert_eq!(entries(&content), 3);
}

#[test]
fn flipped_bit_is_damage() {
    let (content, _) = file(&[3, 700, 1500, 40]);
    for at in 0..content.len() {
        let mut flipped = content.clone();
        flipped[at] ^= 1 << (at % 8);
        let read = Journal::read(&flipped);
        let noticed = matches!(
            read,
            Err(JournalError::Damaged { .. } | JournalError::OtherVersion { .. })
        );
        assert!(noticed, "byte {at}: {read:?}");
    }
}

/// Checked for every position of the last batch relative to sectors, and for its first and last bits.
#[test]
fn flipped_bit_is_never_unwritten_sector() {
    for before in 0..512 {
        // For the last batch, every length up to a sector.
        let (content, ends) = file(&[before, 511 - before]);
        let (begin, end) = (ends[1], ends[2]);
        for at in (begin..begin + 20).chain(end - 20..end) {
            for bit in 0..8 {
                let mut flipped = content.clone();
                flipped[at] ^= 1 << bit;
                let read = Journal::read(&flipped);
                let noticed = matches!(read, Err(JournalError::Damaged { .. }));
                assert!(noticed, "{before}: bit {bit} of {}: {read:?}", at - begin);
            }
        }
    }
}

/// The file may have grown before its content was written, and sectors arrive in any order.
#[test]
fn unwritten_last_sectors_are_no_damage() {
    let (content, ends) = file(&[3, 4000]);
    let sectors = content.len().div_ceil(512);
    for sector in ends[1] / 512..sectors {
        let mut holed = content.clone();
        let begin = (sector * 512).max(ends[1]);
        let end = ((sector + 1) * 512).min(content.len());
        holed[begin..end].fill(0);
        assert_eq!(entries(&holed), 1, "sector {sector}");
    }
}

#[test]
fn earlier_damage_outranks_torn_end() {
    let (content, ends) = file(&[40, 40, 4000]);
    let mut torn = content.clone();
    torn[ends[2] + 600..].fill(0);
    assert_eq!(entries(&torn), 2);
    for at in ends[0]..ends[1] {
        let mut both = torn.clone();
        both[at] ^= 0x10;
        let read = Journal::read(&both);
        assert!(
            matches!(read, Err(JournalError::Damaged { .. })),
            "byte {at}"
        );
    }
}

#[test]
fn hole_before_whole_batches_is_damage() {
    let (content, ends) = file(&[1500, 40]);
    let mut holed = content.clone();
    holed[ends[0]..ends[0] + 1024].fill(0);
    let read = Journal::read(&holed);
    assert!(
        matches!(read, Err(JournalError::Damaged { .. })),
        "{read:?}"
    );
}

fn is_damaged(content: &[u8]) -> bool {
    matches!(Journal::read(content), Err(JournalError::Damaged { .. }))
}

/// A disk may misdirect a whole batch, or the part in one sector: the length with its checksum, or the payload with
/// its checksum.
#[test]
fn batch_onto_equal_batch_is_damage() {
    let (content, ends) = file(&[40; 5]);
    let (begins, bytes) = (&ends[..5], ends[1] - ends[0]);
    for part in [0..bytes, 0..8, 8..bytes] {
        for from in begins {
            let written = &content[from + part.start..from + part.end];
            for to in begins {
                let mut moved = content.clone();
                moved[to + part.start..to + part.end].copy_from_slice(written);
                let is_moved = from != to;
                assert_eq!(is_damaged(&moved), is_moved, "{part:?} of {from} at {to}");
            }
        }
    }
}

/// Checked for the last batch over earlier ones and behind the end.
#[test]
fn misplaced_batch_is_damage() {
    let (content, ends) = file(&[40, 700, 40]);
    let (begins, last) = (ends[2], &content[ends[2]..]);
    for place in (super::MAGIC.len()..begins + 1500).filter(|place| *place != begins) {
        let mut moved = content[..begins].to_vec();
        moved.resize(begins.max(place + last.len()), 0);
        moved[place..place + last.len()].copy_from_slice(last);
        assert!(is_damaged(&moved), "at {place}, and not at {begins}");
    }
}

/// The length of a longer batch would make the last one look incomplete.
#[test]
fn length_of_another_batch_is_damage() {
    let (content, ends) = file(&[700, 40]);
    let mut moved = content.clone();
    moved[ends[1]..ends[1] + 8].copy_from_slice(&content[ends[0]..ends[0] + 8]);
    assert!(is_damaged(&moved));
}

/// The first batch was written with the file, so it is never incomplete.
#[test]
fn missing_first_batch_is_damage() {
    let (content, ends) = file(&[]);
    for length in 0..ends[0] {
        let read = Journal::read(&content[..length]);
        let refused = matches!(
            read,
            Err(JournalError::Damaged { .. } | JournalError::Headless)
        );
        assert!(refused, "cut to {length}: {read:?}");
    }
}

#[test]
fn foreign_files_differ_from_other_versions() {
    let read = |content: &[u8]| Journal::read(content).unwrap_err();
    let theirs = read(b"# My shopping list\nbread\n");
    assert_eq!(theirs, JournalError::Damaged { at: 0 });
    for (line, version) in [
        ("reweave log 1  \n", "reweave log 1  "),
        ("reweave log 12 \n", "reweave log 12 "),
        ("reweave log 123\n", "reweave log 123"),
    ] {
        let begins = version.to_owned();
        let claimed = JournalError::OtherVersion { begins };
        assert_eq!(read(line.as_bytes()), claimed);
    }
}

/// Only a complete header with a number counts as another version: an operator would otherwise look for a version that
/// does not exist.
#[test]
fn damaged_header_is_no_other_version() {
    let (content, _) = file(&[3]);
    // The numbers 9 and 80.
    let numbers = [(12, 0), (13, 4)];
    for at in 0..super::MAGIC.len() {
        for bit in 0..8 {
            let mut flipped = content.clone();
            flipped[at] ^= 1 << bit;
            let read = Journal::read(&flipped).unwrap_err();
            let is_claimed = matches!(read, JournalError::OtherVersion { .. });
            let is_number = numbers.contains(&(at, bit));
            assert_eq!(is_claimed, is_number, "byte {at}, bit {bit}: {read}");
        }
        let cut = Journal::read(&content[..at]).unwrap_err();
        assert_eq!(cut, JournalError::Damaged { at: 0 }, "cut to {at}");
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_read_or_refused(bytes: Vec<u8>) {
        let content = [super::MAGIC, &bytes].concat();
        let _ = Journal::read(&content);
    }

    #[test]
    fn journal_roundtrips(lengths in prop::collection::vec(0_usize..2000, 0..6)) {
        let (content, _) = file(&lengths);
        prop_assert_eq!(entries(&content), lengths.len());
    }
}
