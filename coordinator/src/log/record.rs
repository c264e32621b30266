//! How entries lie in the file, and how a file is told that ends early from one that is damaged.
//!
//! An entry is the length of its payload, a checksum of that length, a checksum of the payload, each
//! four bytes, little-endian, and the payload. The length has a checksum of its own, or one flipped
//! bit in it could make all that follows look like the unfinished end of the file.

use std::ops::Range;

/// What the file begins with.
pub(super) const MAGIC: &[u8] = b"reweave log 1\n";

const HEADER_BYTES: usize = 12;
/// What disks write as a whole.
const SECTOR_BYTES: usize = 512;

/// What a file holds: where the payload of each entry lies, and how the file ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Scan {
    pub(super) entries: Vec<Range<usize>>,
    pub(super) tail: Tail,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    Whole,
    /// The last write was cut short: what begins at `at` was never completed.
    Torn {
        at: usize,
    },
    /// What begins at `at` is not what was written there.
    Damaged {
        at: usize,
    },
}

pub(super) fn encode(payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_le_bytes();
    let sum = |bytes: &[u8]| crc32fast::hash(bytes).to_le_bytes();
    [&length[..], &sum(&length), &sum(payload), payload].concat()
}

pub(super) fn scan(content: &[u8]) -> Scan {
    let mut entries = Vec::new();
    let begun = content.len().min(MAGIC.len());
    if content[..begun] != MAGIC[..begun] {
        let tail = judge(content, 0);
        return Scan { entries, tail };
    }
    if begun < MAGIC.len() {
        let tail = Tail::Torn { at: 0 };
        return Scan { entries, tail };
    }
    let mut at = MAGIC.len();
    let tail = loop {
        match next(content, at) {
            Next::Entry(payload) => {
                at = payload.end;
                entries.push(payload);
            }
            Next::End => break Tail::Whole,
            Next::Unfinished => break Tail::Torn { at },
            Next::Wrong => break judge(content, at),
        }
    };
    Scan { entries, tail }
}

enum Next {
    Entry(Range<usize>),
    End,
    /// The file ends inside it, and all that is there is right.
    Unfinished,
    Wrong,
}

fn next(content: &[u8], at: usize) -> Next {
    let rest = &content[at..];
    if rest.is_empty() {
        return Next::End;
    }
    let Some((header, payload)) = rest.split_first_chunk::<HEADER_BYTES>() else {
        return Next::Unfinished;
    };
    let [length, length_sum, payload_sum] = [0, 4, 8].map(|field| word(header, field));
    if crc32fast::hash(&header[..4]) != length_sum {
        return Next::Wrong;
    }
    match payload.get(..length as usize) {
        None => Next::Unfinished,
        Some(payload) if crc32fast::hash(payload) == payload_sum => {
            let begin = at + HEADER_BYTES;
            Next::Entry(begin..begin + payload.len())
        }
        Some(_) => Next::Wrong,
    }
}

fn word(header: &[u8; HEADER_BYTES], at: usize) -> u32 {
    let bytes = [0, 1, 2, 3].map(|index| header[at + index]);
    u32::from_le_bytes(bytes)
}

/// A write that a loss of power cut short leaves sectors unwritten, which read as zeros; nothing
/// that was written whole is one sector of zeros.
fn judge(content: &[u8], at: usize) -> Tail {
    let first_end = (at / SECTOR_BYTES + 1) * SECTOR_BYTES;
    let (first, others) = content[at..].split_at((first_end - at).min(content.len() - at));
    let is_unwritten = |sector: &[u8]| sector.iter().all(|&byte| byte == 0);
    let unwritten = is_unwritten(first) || others.chunks(SECTOR_BYTES).any(is_unwritten);
    if unwritten {
        Tail::Torn { at }
    } else {
        Tail::Damaged { at }
    }
}
