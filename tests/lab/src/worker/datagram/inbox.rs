//! The bytes of a stream as they come in, put in order.

use std::collections::{BTreeMap, VecDeque};

/// Maximum number of unread bytes that are accepted: a fifth of a second at 160 Mb/s.
pub(super) const WINDOW_BYTES: u64 = 4 * 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// Bytes in order that are not yet read.
    ready: VecDeque<u8>,
    /// End of `ready`: all bytes before this position have arrived.
    arrived_to: u64,
    /// Bytes that arrived too early, by position.
    early: BTreeMap<u64, Vec<u8>>,
}

impl Inbox {
    pub(super) fn arrived_to(&self) -> u64 {
        self.arrived_to
    }

    /// Returns the position of the first byte that is not accepted.
    pub(super) fn limit(&self) -> u64 {
        self.arrived_to - self.ready.len() as u64 + WINDOW_BYTES
    }

    /// Takes what stands at `position`. What is beyond the limit is dropped, as if lost.
    pub(super) fn accept(&mut self, position: u64, bytes: &[u8]) {
        if position + bytes.len() as u64 > self.limit() {
            return;
        }
        if position > self.arrived_to {
            self.keep(position, bytes);
            return;
        }
        self.append(position, bytes);
        while let Some(entry) = self.early.first_entry()
            && *entry.key() <= self.arrived_to
        {
            let (position, bytes) = entry.remove_entry();
            self.append(position, &bytes);
        }
    }

    fn keep(&mut self, position: u64, bytes: &[u8]) {
        let kept = self.early.entry(position).or_default();
        if kept.len() < bytes.len() {
            *kept = bytes.to_vec();
        }
    }

    fn append(&mut self, position: u64, bytes: &[u8]) {
        let known = (self.arrived_to - position).min(bytes.len() as u64);
        let new = &bytes[known as usize..];
        self.ready.extend(new);
        self.arrived_to += new.len() as u64;
    }

    /// Moves bytes that are in order into `buffer`, as many as fit.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> usize {
        let (front, _) = self.ready.as_slices();
        let length = front.len().min(buffer.len());
        buffer[..length].copy_from_slice(&front[..length]);
        self.ready.drain(..length);
        length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(inbox: &mut Inbox) -> Vec<u8> {
        let mut all = Vec::new();
        let mut buffer = [0; 3];
        loop {
            let length = inbox.read(&mut buffer);
            if length == 0 {
                return all;
            }
            all.extend(&buffer[..length]);
        }
    }

    #[test]
    fn overlapping_pieces_are_reassembled() {
        let mut inbox = Inbox::default();
        inbox.accept(4, b"ef");
        inbox.accept(4, b"efgh");
        inbox.accept(4, b"e");
        inbox.accept(9, b"jk");
        assert_eq!(read(&mut inbox), b"");
        inbox.accept(0, b"abc");
        inbox.accept(2, b"cde");
        assert_eq!(read(&mut inbox), b"abcdefgh");
        inbox.accept(0, b"abc");
        inbox.accept(7, b"hijkl");
        assert_eq!(read(&mut inbox), b"ijkl");
        assert_eq!(inbox.arrived_to(), 12);
    }

    #[test]
    fn inbox_respects_promised_limit() {
        let mut inbox = Inbox::default();
        inbox.accept(WINDOW_BYTES - 1, b"xy");
        assert!(inbox.early.is_empty());
        inbox.accept(0, b"0123");
        assert_eq!(inbox.limit(), WINDOW_BYTES);
        read(&mut inbox);
        assert_eq!(inbox.limit(), WINDOW_BYTES + 4);
    }
}
