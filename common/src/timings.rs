//! How long the operators of a model take, as somebody measured it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::units::Bytes;

/// One measurement of an operator whose batch is split over some servers: what one of them does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    pub forward: Duration,
    pub backward: Duration,
    /// What it takes of a server's memory.
    pub memory: Bytes,
}

/// Timings by kind of operator, and by the number of servers that its batch is split over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timings {
    kinds: BTreeMap<String, BTreeMap<u32, Timing>>,
}

impl Timings {
    /// Whether this was new; a second timing of the same split is not taken.
    pub fn insert(&mut self, kind: &str, split: u32, timing: Timing) -> bool {
        let splits = self.kinds.entry(kind.to_owned()).or_default();
        let new = !splits.contains_key(&split);
        splits.entry(split).or_insert(timing);
        new
    }

    pub fn get(&self, kind: &str, split: u32) -> Option<Timing> {
        self.kinds.get(kind)?.get(&split).copied()
    }

    /// The splits that were measured, the smallest first.
    pub fn splits(&self, kind: &str) -> impl DoubleEndedIterator<Item = (u32, Timing)> {
        let splits = self.kinds.get(kind).into_iter().flatten();
        splits.map(|(&split, &timing)| (split, timing))
    }

    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.kinds.keys().map(String::as_str)
    }
}
