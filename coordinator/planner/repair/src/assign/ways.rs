//! The paths of a pair, contiguous in memory: code that weighs one weighs the next.

use std::ops::Index;
use std::slice::ChunksExact;

/// Paths as hops, all of the same length and at least one hop. A shared hop has the same place in all of them, because
/// its distance from the end is the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathSet {
    hops: Vec<usize>,
    length: usize,
}

impl PathSet {
    pub fn len(&self) -> usize {
        self.iter().len()
    }

    pub fn is_empty(&self) -> bool {
        self.hops.is_empty()
    }

    pub fn iter(&self) -> ChunksExact<'_, usize> {
        self.hops.chunks_exact(self.length.max(1))
    }
}

impl Index<usize> for PathSet {
    type Output = [usize];

    fn index(&self, way: usize) -> &[usize] {
        &self.hops[way * self.length..][..self.length]
    }
}

impl<W: AsRef<[usize]>> FromIterator<W> for PathSet {
    fn from_iter<T: IntoIterator<Item = W>>(ways: T) -> Self {
        let mut all = Self::default();
        for way in ways {
            let way = way.as_ref();
            debug_assert!(all.is_empty() || way.len() == all.length, "{way:?}");
            all.length = way.len();
            all.hops.extend(way);
        }
        all
    }
}
