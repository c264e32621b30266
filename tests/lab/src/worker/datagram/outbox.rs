//! The outgoing bytes of a stream: new ones, lost ones, and acknowledged ones.

use std::collections::VecDeque;
use std::ops::Range;

use super::ranges::Ranges;

/// Maximum number of bytes that wait to be sent; more are refused.
const MAX_BACKLOG_BYTES: u64 = 256 * 1024;

#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Bytes that have not arrived, or follow such bytes.
    bytes: VecDeque<u8>,
    /// Start of `bytes`: all bytes before this position have arrived.
    base: u64,
    /// Position of the first byte that was never sent.
    fresh: u64,
    arrived: Ranges,
    lost: Ranges,
    /// The receiver takes none from here on.
    limit: u64,
}

impl Outbox {
    pub(super) fn new(limit: u64) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Takes as many of `bytes` as there is room for.
    pub(super) fn write(&mut self, bytes: &[u8]) -> usize {
        let room = MAX_BACKLOG_BYTES.saturating_sub(self.end() - self.fresh);
        let taken = bytes.len().min(room as usize);
        self.bytes.extend(&bytes[..taken]);
        taken
    }

    /// Returns the range of the next `most` bytes or fewer, lost ones first.
    pub(super) fn next(&self, most: usize) -> Option<Range<u64>> {
        let end = self.end().min(self.limit);
        let all = self.lost.first().unwrap_or(self.fresh..end);
        let next = all.start..all.end.min(all.start + most as u64);
        (!next.is_empty()).then_some(next)
    }

    /// Appends the bytes at `range`, which have not all arrived.
    pub(super) fn copy(&self, range: &Range<u64>, into: &mut Vec<u8>) {
        let [start, end] = [range.start, range.end].map(|at| (at - self.base) as usize);
        let (front, back) = self.bytes.as_slices();
        let middle = front.len();
        into.extend(&front[start.min(middle)..end.min(middle)]);
        into.extend(&back[start.max(middle) - middle..end.max(middle) - middle]);
    }

    /// Notes that what stands at `range` was sent; says whether that was a repetition.
    pub(super) fn note_sent(&mut self, range: &Range<u64>) -> bool {
        let again = range.start < self.fresh;
        self.lost.remove(range);
        self.fresh = self.fresh.max(range.end);
        again
    }

    pub(super) fn note_lost(&mut self, range: &Range<u64>) {
        self.lost.insert(range.clone());
        for arrived in self.arrived.iter() {
            self.lost.remove(&arrived);
        }
    }

    /// Marks bytes as arrived. Bytes that were never sent are ignored, whatever the receiver reports.
    pub(super) fn note_arrived(&mut self, range: Range<u64>) {
        let range = range.start..range.end.min(self.fresh);
        self.lost.remove(&range);
        self.arrived.insert(range);
        let base = self.arrived.first().filter(|first| first.start == 0);
        let base = base.map_or(0, |first| first.end);
        self.bytes.drain(..(base - self.base) as usize);
        self.base = base;
    }

    /// Says whether the limit has risen.
    pub(super) fn raise_limit(&mut self, limit: u64) -> bool {
        let rises = limit > self.limit;
        self.limit = self.limit.max(limit);
        rises
    }

    pub(super) fn all_arrived(&self) -> bool {
        self.bytes.is_empty()
    }

    fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outbox() -> Outbox {
        let mut outbox = Outbox::new(1 << 20);
        let bytes: Vec<_> = (0..100).collect();
        assert_eq!(outbox.write(&bytes), 100);
        outbox
    }

    fn send(outbox: &mut Outbox, most: usize) -> Option<(Range<u64>, bool)> {
        let next = outbox.next(most)?;
        let mut copied = Vec::new();
        outbox.copy(&next, &mut copied);
        assert!(copied.iter().map(|&byte| u64::from(byte)).eq(next.clone()));
        let again = outbox.note_sent(&next);
        Some((next, again))
    }

    #[test]
    fn lost_bytes_are_resent_first() {
        let mut outbox = outbox();
        assert_eq!(send(&mut outbox, 40), Some((0..40, false)));
        assert_eq!(send(&mut outbox, 40), Some((40..80, false)));
        outbox.note_lost(&(0..40));
        assert_eq!(send(&mut outbox, 30), Some((0..30, true)));
        assert_eq!(send(&mut outbox, 30), Some((30..40, true)));
        assert_eq!(send(&mut outbox, 40), Some((80..100, false)));
        assert_eq!(send(&mut outbox, 40), None);
    }

    #[test]
    fn arrived_bytes_are_not_resent() {
        let mut outbox = outbox();
        while send(&mut outbox, 10).is_some() {}
        outbox.note_arrived(10..30);
        outbox.note_lost(&(0..40));
        outbox.note_arrived(35..38);
        assert_eq!(send(&mut outbox, 90), Some((0..10, true)));
        assert_eq!(send(&mut outbox, 90), Some((30..35, true)));
        assert_eq!(send(&mut outbox, 90), Some((38..40, true)));
        outbox.note_arrived(0..100);
        assert!(outbox.all_arrived());
    }

    #[test]
    fn sender_respects_receiver_limit() {
        let mut outbox = Outbox::new(5);
        outbox.write(&[0; 20]);
        assert_eq!(send_blindly(&mut outbox), Some(0..5));
        assert_eq!(send_blindly(&mut outbox), None);
        outbox.raise_limit(12);
        outbox.raise_limit(8);
        assert_eq!(send_blindly(&mut outbox), Some(5..12));
    }

    fn send_blindly(outbox: &mut Outbox) -> Option<Range<u64>> {
        let next = outbox.next(1000)?;
        outbox.note_sent(&next);
        Some(next)
    }

    #[test]
    fn backlog_is_bounded() {
        let mut outbox = Outbox::new(0);
        let bytes = vec![0; MAX_BACKLOG_BYTES as usize + 5];
        assert_eq!(outbox.write(&bytes) as u64, MAX_BACKLOG_BYTES);
        assert_eq!(outbox.write(&bytes), 0);
    }

    #[test]
    fn false_acknowledgement_is_ignored() {
        let mut outbox = outbox();
        outbox.note_arrived(0..1000);
        assert!(!outbox.all_arrived());
        assert_eq!(outbox.next(1000), Some(0..100));
    }
}
