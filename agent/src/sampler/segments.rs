//! The TCP segments that this host itself sends and receives; forwarded ones are not counted.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use reweave_agent_core::counter_delta;
use reweave_agent_core::counters::texts;
use reweave_common::moment::Moment;

use crate::clock;

/// The counters of this network namespace. A reader gets the sum over the processors.
const SNMP_PATH: &str = "proc/net/snmp";
/// The kernel writes some 1500.
const MAX_TEXT_BYTES: usize = 4096;

/// How many segments were sent and received from one moment to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentDelta {
    pub from: Moment,
    pub to: Moment,
    pub segments: [u64; 2],
}

pub(super) struct Segments {
    file: File,
    last: [u64; 2],
    read: Moment,
}

impl Segments {
    /// None where the kernel does not report it.
    pub(super) fn open(root: &Path) -> Option<Self> {
        let file = File::open(root.join(SNMP_PATH)).ok()?;
        let last = read(&file)?;
        let read = clock::now();
        Some(Self { file, last, read })
    }

    pub(super) fn grown(&mut self, to: Moment) -> Option<SegmentDelta> {
        let now = read(&self.file)?;
        let last = std::mem::replace(&mut self.last, now);
        let from = std::mem::replace(&mut self.read, to);
        let grown = |way: usize| counter_delta::grown(last[way], now[way], None).unwrap_or(0);
        let segments = [0, 1].map(grown);
        Some(SegmentDelta { from, to, segments })
    }
}

fn read(file: &File) -> Option<[u64; 2]> {
    let mut text = [0; MAX_TEXT_BYTES];
    let length = file.read_at(&mut text, 0).ok()?;
    texts::segments(std::str::from_utf8(&text[..length]).ok()?)
}
