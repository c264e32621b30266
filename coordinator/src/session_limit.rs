//! Limits on sessions and connections that are open at a time: of one key, and of all keys of one group together.
//!
//! A limit that is reached refuses ([`SessionLimit::try_acquire`]) or evicts ([`SessionLimit::acquire_or_evict`]). Groups
//! are reserves: viewers that fill theirs leave that of operators as it is.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use reweave_common::ids::NodeId;
use reweave_common::lock::lock;
use reweave_common::member::{Member, Role};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// What sessions are counted by.
pub(crate) trait LimitKey: Clone + Ord {
    type Group: PartialEq;

    /// Keys of one group share [`Bounds::max_per_group`].
    fn group(&self) -> Self::Group;
}

impl LimitKey for Member {
    type Group = Role;

    fn group(&self) -> Role {
        self.role
    }
}

impl LimitKey for Role {
    type Group = ();

    fn group(&self) {}
}

impl LimitKey for NodeId {
    type Group = ();

    fn group(&self) {}
}

impl LimitKey for IpAddr {
    type Group = ();

    fn group(&self) {}
}

/// How many sessions may be open at a time; none where there is no bound.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) max_per_group: Option<usize>,
    pub(crate) max_per_key: Option<usize>,
}

impl Bounds {
    /// Sessions are counted and nothing more.
    pub(crate) const NONE: Self = Self {
        max_per_group: None,
        max_per_key: None,
    };
}

/// The bound that leaves no slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitReached {
    Group { max: usize },
    Key { max: usize },
}

/// Cheap to clone: clones share their slots.
#[derive(Debug, Clone)]
pub(crate) struct SessionLimit<K>(Arc<Mutex<Slots<K>>>);

#[derive(Debug)]
struct Slots<K> {
    bounds: Bounds,
    taken: BTreeMap<u64, Slot<K>>,
    /// A key without a slot is absent.
    counts: BTreeMap<K, usize>,
    last: u64,
}

#[derive(Debug)]
struct Slot<K> {
    key: K,
    idle_since: Instant,
    /// Dropped when another session needs the slot; absent where it is never evicted.
    evicts: Option<oneshot::Sender<()>>,
}

/// One slot, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Permit<K: LimitKey> {
    slots: Arc<Mutex<Slots<K>>>,
    number: u64,
}

/// Ready when another session needs the slot.
pub(crate) type Evicted = oneshot::Receiver<()>;

impl<K: LimitKey> SessionLimit<K> {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self(Arc::new(Mutex::new(Slots {
            bounds,
            taken: BTreeMap::new(),
            counts: BTreeMap::new(),
            last: 0,
        })))
    }

    /// A slot, or the bound that leaves none: the group's before the key's own.
    pub(crate) fn try_acquire(&self, key: K) -> Result<Permit<K>, LimitReached> {
        let mut slots = lock(&self.0);
        if let Some(max) = slots.reached_by_group(&key) {
            return Err(LimitReached::Group { max });
        }
        if let Some(max) = slots.reached_by_key(&key) {
            return Err(LimitReached::Key { max });
        }
        Ok(self.permit(slots.insert(key, None)))
    }

    /// A slot in any case. Where there is none, the session that has been idle for the longest loses its own: one of
    /// this key if that has reached its bound, so that a client that opens many evicts its own, else one of the group.
    pub(crate) fn acquire_or_evict(&self, key: K) -> (Permit<K>, Evicted) {
        let mut slots = lock(&self.0);
        if slots.reached_by_key(&key).is_some() {
            slots.evict(|other| *other == key);
        } else if slots.reached_by_group(&key).is_some() {
            slots.evict(|other| other.group() == key.group());
        }
        let (evicts, evicted) = oneshot::channel();
        (self.permit(slots.insert(key, Some(evicts))), evicted)
    }

    /// A slot beyond all bounds, for what is only counted.
    pub(crate) fn count(&self, key: K) -> Permit<K> {
        self.permit(lock(&self.0).insert(key, None))
    }

    pub(crate) fn open_by_key(&self) -> BTreeMap<K, usize> {
        lock(&self.0).counts.clone()
    }

    fn permit(&self, number: u64) -> Permit<K> {
        let slots = Arc::clone(&self.0);
        Permit { slots, number }
    }
}

impl<K: LimitKey> Slots<K> {
    fn reached_by_key(&self, key: &K) -> Option<usize> {
        let open = self.counts.get(key).copied().unwrap_or_default();
        self.bounds.max_per_key.filter(|max| open >= *max)
    }

    /// Without a limit, keys are not grouped: there are only as many as the fabric has members.
    fn reached_by_group(&self, key: &K) -> Option<usize> {
        let max = self.bounds.max_per_group?;
        let group = key.group();
        let of_group = self.counts.iter().filter(|(it, _)| it.group() == group);
        let open: usize = of_group.map(|(_, count)| count).sum();
        (open >= max).then_some(max)
    }

    fn insert(&mut self, key: K, evicts: Option<oneshot::Sender<()>>) -> u64 {
        *self.counts.entry(key.clone()).or_default() += 1;
        self.last += 1;
        let slot = Slot {
            key,
            idle_since: Instant::now(),
            evicts,
        };
        self.taken.insert(self.last, slot);
        self.last
    }

    fn evict(&mut self, may_go: impl Fn(&K) -> bool) {
        let evictable = self
            .taken
            .iter()
            .filter(|(_, slot)| slot.evicts.is_some() && may_go(&slot.key));
        let idlest = evictable.min_by_key(|(_, slot)| slot.idle_since);
        if let Some(number) = idlest.map(|(&number, _)| number) {
            self.remove(number);
        }
    }

    /// Does nothing of a slot that was evicted.
    fn remove(&mut self, number: u64) {
        let Some(slot) = self.taken.remove(&number) else {
            return;
        };
        if let Some(count) = self.counts.get_mut(&slot.key) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&slot.key);
            }
        }
    }
}

impl<K: LimitKey> Permit<K> {
    /// The session did something: it is idle from now on.
    pub(crate) fn touch(&self) {
        if let Some(slot) = lock(&self.slots).taken.get_mut(&self.number) {
            slot.idle_since = Instant::now();
        }
    }
}

impl<K: LimitKey> Drop for Permit<K> {
    fn drop(&mut self) {
        lock(&self.slots).remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot::error::TryRecvError;
    use tokio::time::advance;

    use super::*;

    const MAX_PER_GROUP: usize = 4;
    const BOUNDS: Bounds = Bounds {
        max_per_group: Some(MAX_PER_GROUP),
        max_per_key: Some(2),
    };

    impl LimitKey for usize {
        type Group = ();

        fn group(&self) {}
    }

    impl LimitKey for &'static str {
        type Group = ();

        fn group(&self) {}
    }

    fn is_evicted<K: LimitKey>((_, evicted): &mut (Permit<K>, Evicted)) -> bool {
        evicted.try_recv() == Err(TryRecvError::Closed)
    }

    #[tokio::test(start_paused = true)]
    async fn key_at_its_bound_evicts_itself() {
        let limit = SessionLimit::new(BOUNDS);
        let mut other = limit.acquire_or_evict("other");
        let mut first = limit.acquire_or_evict("one");
        advance(Duration::from_secs(1)).await;
        let mut second = limit.acquire_or_evict("one");
        let mut third = limit.acquire_or_evict("one");
        assert!(is_evicted(&mut first));
        assert!(!is_evicted(&mut second) && !is_evicted(&mut third));
        assert!(!is_evicted(&mut other), "though it came first");
    }

    #[tokio::test(start_paused = true)]
    async fn full_group_evicts_its_idlest() {
        let limit = SessionLimit::new(BOUNDS);
        let mut held: Vec<_> = (0..MAX_PER_GROUP)
            .map(|key| limit.acquire_or_evict(key))
            .collect();
        advance(Duration::from_secs(1)).await;
        held[0].0.touch();
        let _newcomer = limit.acquire_or_evict(MAX_PER_GROUP);
        assert!(!is_evicted(&mut held[0]));
        let evicted = held
            .iter_mut()
            .filter_map(|it| is_evicted(it).then_some(()));
        assert_eq!(evicted.count(), 1);
        drop(held);
        assert_eq!(lock(&limit.0).taken.len(), 1, "places are given back");
        assert_eq!(limit.open_by_key(), BTreeMap::from([(MAX_PER_GROUP, 1)]));
    }

    #[tokio::test(start_paused = true)]
    async fn full_group_evicts_no_other_group() {
        let limit = SessionLimit::new(BOUNDS);
        let member = |role, nth: usize| Member::new(role, &format!("m{nth}"));
        let mut operator = limit.acquire_or_evict(member(Role::Operator, 0));
        advance(Duration::from_secs(1)).await;
        let mut viewers: Vec<_> = (0..=MAX_PER_GROUP)
            .map(|nth| limit.acquire_or_evict(member(Role::Viewer, nth)))
            .collect();
        assert!(!is_evicted(&mut operator), "though it is idle the longest");
        assert!(is_evicted(&mut viewers[0]));
    }
}
