//! The file format of batches, and how a truncated batch is distinguished from a damaged one.
//!
//! A batch is the length of its payload, a checksum of that length, a checksum of the payload, each four bytes,
//! little-endian, and the payload. The length has a checksum of its own, since a flipped bit in it could make all
//! that follows look like the unfinished end of the file. Both checksums begin with the offset of the batch in the
//! file, which is not stored. Otherwise a write that a disk misdirects onto an older batch of the same length would
//! pass for that. Payloads are whitened and padded to whole words: no part of a written sector reads as zeros, and no
//! flipped bit makes it do so.

use std::ops::Range;

use super::JournalError;

/// The header of the file; all versions have the first part.
pub(super) const MAGIC: &[u8] = b"reweave log 8  \n";
const HEADER_PREFIX: &[u8] = b"reweave log ";

const HEADER_BYTES: usize = 12;
/// Disks write sectors as a whole.
const SECTOR_BYTES: usize = 512;
/// Batches are aligned to this, so no sector holds less of one.
const ALIGNMENT_BYTES: usize = 8;

pub(super) struct Scan {
    pub(super) payloads: Vec<Vec<u8>>,
    pub(super) tail: Tail,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    Whole,
    /// The last write was cut short: the batch at `at` is incomplete.
    Torn {
        at: usize,
    },
    /// The batch at `at` differs from what was written.
    Damaged {
        at: usize,
    },
}

/// Appends the batch for this offset of its file.
pub(super) fn append(bytes: &mut Vec<u8>, place: u64, mut payload: Vec<u8>) {
    fill_up(&mut payload);
    whiten(&mut payload);
    let length = (payload.len() as u32).to_le_bytes();
    let length_sum = checksum(place, &length).to_le_bytes();
    let payload_sum = checksum(place, &payload).to_le_bytes();
    for part in [&length, &length_sum, &payload_sum] {
        bytes.extend_from_slice(part);
    }
    bytes.extend_from_slice(&payload);
}

fn checksum(place: u64, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&place.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

/// Pads the payload to a whole word; the last byte is the number of added bytes.
fn fill_up(payload: &mut Vec<u8>) {
    let missing = ALIGNMENT_BYTES - (HEADER_BYTES + payload.len()) % ALIGNMENT_BYTES;
    payload.resize(payload.len() + missing, missing as u8);
}

/// The payload without its padding. None if there is none.
fn without_filling(mut payload: Vec<u8>) -> Option<Vec<u8>> {
    let filled = usize::from(*payload.last()?);
    payload.truncate(payload.len().checked_sub(filled)?);
    Some(payload)
}

/// Applied twice, it restores the payload.
fn whiten(payload: &mut [u8]) {
    for (chunk, count) in payload.chunks_mut(8).zip(1_u64..) {
        let mask = count.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        for (byte, mask) in chunk.iter_mut().zip(mask.to_le_bytes()) {
            *byte ^= mask;
        }
    }
}

pub(super) fn scan(content: &[u8]) -> Result<Scan, JournalError> {
    if !content.starts_with(MAGIC) {
        return Err(not_ours(content));
    }
    let mut payloads = Vec::new();
    let mut at = MAGIC.len();
    let tail = loop {
        match next(content, at, at) {
            Next::Batch(range) => {
                let mut payload = content[range.clone()].to_vec();
                whiten(&mut payload);
                match without_filling(payload) {
                    Some(payload) => payloads.push(payload),
                    None => break Tail::Damaged { at },
                }
                at = range.end;
            }
            Next::End => break Tail::Whole,
            Next::Unfinished if holds_batch_behind(content, at) => break Tail::Damaged { at },
            Next::Unfinished => break Tail::Torn { at },
            Next::Wrong => break Tail::Damaged { at },
        }
    };
    Ok(Scan { payloads, tail })
}

/// The error for a file without a valid header. A new file replaces the old one as a whole, so its header was written.
/// A header that no version writes is damage.
fn not_ours(content: &[u8]) -> JournalError {
    let family = content.get(..HEADER_PREFIX.len()) == Some(HEADER_PREFIX);
    let line = content.split(|&byte| byte == b'\n').next();
    let line = line.filter(|line| line.len() + 1 == MAGIC.len() && line.len() < content.len());
    match line.filter(|line| family && is_number(line[HEADER_PREFIX.len()..].trim_ascii_end())) {
        Some(line) => JournalError::OtherVersion {
            begins: String::from_utf8_lossy(line).into_owned(),
        },
        None => JournalError::Damaged { at: 0 },
    }
}

fn is_number(digits: &[u8]) -> bool {
    let leads = digits.first().is_some_and(|digit| *digit != b'0');
    leads && digits.iter().all(u8::is_ascii_digit)
}

enum Next {
    Batch(Range<usize>),
    End,
    /// An incomplete batch.
    Unfinished,
    Wrong,
}

/// The batch at `at`, if it was written for this offset.
fn next(content: &[u8], at: usize, place: usize) -> Next {
    let place = place as u64;
    let rest = &content[at..];
    if rest.is_empty() {
        return Next::End;
    }
    let Some(header) = rest.first_chunk::<HEADER_BYTES>() else {
        return Next::Unfinished;
    };
    let Some(length) = length_in(header, place) else {
        return if has_unwritten(content, at..at + HEADER_BYTES) {
            Next::Unfinished
        } else {
            Next::Wrong
        };
    };
    let payload = at + HEADER_BYTES..at + HEADER_BYTES + length;
    match content.get(payload.clone()) {
        None => Next::Unfinished,
        Some(bytes) if checksum(place, bytes) == word(header, 8) => Next::Batch(payload),
        Some(_) if has_unwritten(content, at..payload.end) => Next::Unfinished,
        Some(_) => Next::Wrong,
    }
}

/// The length in a batch header. None if it is damaged.
fn length_in(header: &[u8; HEADER_BYTES], place: u64) -> Option<usize> {
    let length = word(header, 0);
    (checksum(place, &header[..4]) == word(header, 4)).then_some(length as usize)
}

fn word(header: &[u8; HEADER_BYTES], at: usize) -> u32 {
    let bytes = [0, 1, 2, 3].map(|index| header[at + index]);
    u32::from_le_bytes(bytes)
}

/// Whether a sector is unwritten: after a power loss, such sectors read as zeros.
fn has_unwritten(content: &[u8], range: Range<usize>) -> bool {
    let mut at = range.start;
    while at < range.end {
        let end = ((at / SECTOR_BYTES + 1) * SECTOR_BYTES).min(range.end);
        if content[at..end].iter().all(|&byte| byte == 0) {
            return true;
        }
        at = end;
    }
    false
}

/// Whether a complete batch follows. Batches are written in order, so everything before a complete one was complete. A
/// complete batch that was written for the offset of the incomplete one was misdirected.
fn holds_batch_behind(content: &[u8], unfinished: usize) -> bool {
    let ends = content.len().saturating_sub(HEADER_BYTES);
    (unfinished + 1..ends).any(|at| {
        let mut places = [at, unfinished].into_iter();
        places.any(|place| is_batch(content, at, place))
    })
}

/// Whether a batch for this offset is here. There are no batches without a payload.
fn is_batch(content: &[u8], at: usize, place: usize) -> bool {
    let header = content[at..].first_chunk::<HEADER_BYTES>();
    let length = header.and_then(|header| length_in(header, place as u64));
    length.is_some_and(|length| length > 0) && matches!(next(content, at, place), Next::Batch(_))
}

#[cfg(test)]
mod tests;
