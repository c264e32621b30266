//! The communicators of this process, by the numbers that NCCL gets for them.

use std::ffi::c_void;
use std::ptr::without_provenance_mut;
use std::sync::Mutex;

use reweave_common::collective::Rank;
use reweave_common::lock::lock;

/// The maximum number of communicators, far more than frameworks create.
const MAX_MEMBERS: usize = 256;

pub(crate) struct Members {
    places: Mutex<Vec<Option<Member>>>,
}

#[derive(Debug, Clone)]
struct Member {
    rank: Rank,
    /// The number of reports since it left.
    left: Option<u64>,
}

impl Members {
    pub(crate) const fn new() -> Self {
        Self {
            places: Mutex::new(vec![]),
        }
    }

    /// Registers a communicator, and returns its number. None if there are too many.
    pub(crate) fn join(&self, rank: Rank) -> Option<u8> {
        let mut places = lock(&self.places);
        let free = places.iter().position(Option::is_none);
        let number = free.unwrap_or(places.len());
        if number == MAX_MEMBERS {
            return None;
        }
        if free.is_none() {
            places.push(None);
        }
        *places.get_mut(number)? = Some(Member { rank, left: None });
        Some(number as u8)
    }

    /// Unregisters a communicator. Its last work is still reported.
    pub(crate) fn leave(&self, number: u8) {
        if let Some(Some(member)) = lock(&self.places).get_mut(usize::from(number)) {
            member.left = Some(0);
        }
    }

    pub(crate) fn have_all_left(&self) -> bool {
        let places = lock(&self.places);
        places.iter().flatten().all(|member| member.left.is_some())
    }

    pub(crate) fn all(&self) -> Vec<(u8, Rank)> {
        let places = lock(&self.places);
        let numbered = (0..=u8::MAX).zip(places.iter());
        let there = numbered.filter_map(|(number, it)| Some((number, it.as_ref()?.rank.clone())));
        there.collect()
    }

    /// Handles a sent report. Forgets the communicators that left this number of reports ago, and returns their
    /// numbers.
    pub(crate) fn handle_sent(&self, times: u64) -> Vec<u8> {
        let mut places = lock(&self.places);
        let numbered = (0..=u8::MAX).zip(places.iter_mut());
        let gone = numbered.filter_map(|(number, place)| {
            let left = place.as_mut()?.left.as_mut()?;
            *left += 1;
            let is_over = *left >= times;
            is_over.then(|| *place = None).map(|()| number)
        });
        gone.collect()
    }
}

/// Converts a number to a context, which is never null.
pub(crate) fn to_context(member: u8) -> *mut c_void {
    without_provenance_mut(usize::from(member) + 1)
}

pub(crate) fn from_context(context: *mut c_void) -> Option<u8> {
    u8::try_from(context.addr().checked_sub(1)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn left_members_free_their_slots() {
        let members = Members::new();
        let rank = |communicator| Rank {
            communicator,
            name: String::new(),
            nodes: 1,
            ranks: 1,
            rank: 0,
        };
        for communicator in 0..MAX_MEMBERS as u64 {
            let number = members.join(rank(communicator)).unwrap();
            assert_eq!(from_context(to_context(number)), Some(number));
        }
        assert_eq!(members.join(rank(999)), None);
        members.leave(7);
        assert_eq!(members.handle_sent(2), [0; 0]);
        assert_eq!(
            members.join(rank(999)),
            None,
            "something may still be reported"
        );
        assert_eq!(members.handle_sent(2), [7]);
        assert_eq!(members.join(rank(999)), Some(7));
        assert_eq!(members.all()[7].1.communicator, 999);
        for number in 0..=u8::MAX {
            assert!(!members.have_all_left());
            members.leave(number);
        }
        assert!(members.have_all_left());
        assert_eq!(members.handle_sent(1).len(), MAX_MEMBERS);
        assert!(members.all().is_empty());
        assert_eq!(from_context(std::ptr::null_mut()), None);
    }
}
