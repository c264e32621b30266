//! Links that were found for pairs of nodes, and are asked for again and again.

use std::sync::Arc;

use hashbrown::HashTable;
use reweave_common::ids::{LinkId, NodeId};

/// Maximum number of cached pairs.
const MAX_PAIRS: usize = 1 << 16;

#[derive(Default)]
pub(super) struct Remembered {
    found: HashTable<CachedLinks>,
}

struct CachedLinks {
    of: [NodeId; 2],
    links: Arc<[LinkId]>,
}

impl Remembered {
    pub(super) fn of(&self, pair: [NodeId; 2]) -> Option<Arc<[LinkId]>> {
        let found = self.found.find(hash(pair), |it| it.of == pair)?;
        Some(Arc::clone(&found.links))
    }

    /// Adds an entry that is not cached yet.
    pub(super) fn insert(&mut self, of: [NodeId; 2], links: Arc<[LinkId]>) {
        if self.found.len() == MAX_PAIRS {
            self.found.clear();
        }
        let found = CachedLinks { of, links };
        self.found.insert_unique(hash(of), found, |it| hash(it.of));
    }
}

/// The same on every run. The table looks at the lowest and at the highest bits.
fn hash([at, door]: [NodeId; 2]) -> u64 {
    let both = (at.index() as u64) << 32 | door.index() as u64;
    let spread = both.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    spread ^ spread >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_cache_evicts_without_mixups() {
        let mut remembered = Remembered::default();
        let node = NodeId::from_index;
        let links = |nth: usize| Arc::from([LinkId::from_index(nth)]);
        for nth in 0..MAX_PAIRS + 2 {
            remembered.insert([node(nth / 256), node(nth % 256)], links(nth));
        }
        assert_eq!(remembered.of([node(0), node(1)]), None);
        assert_eq!(remembered.of([node(256), node(0)]), Some(links(MAX_PAIRS)));
        assert_eq!(
            remembered.of([node(256), node(1)]),
            Some(links(MAX_PAIRS + 1))
        );
        assert_eq!(remembered.of([node(0), node(256)]), None);
    }
}
