//! All flows on one path, as one: what they have, and which of them ends next.

use super::heaps::{EMPTY_HEAP, Heaps};
use super::problem::{PathIndex, Problem, TaskIndex};
use super::shares::NO_GROUP;

/// Number of links stored in the group itself: as many as fit into a cache line.
const INLINE_LINKS: usize = 4;

/// All flows on one path; a line of cache.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub(super) struct Group {
    /// Per weight; zero while it is to be found.
    pub(super) rate: i64,
    pub(super) weight: i64,
    /// When its first flow ends, by what has been served per weight since the group began.
    pub(super) goal: f64,
    /// Links of its path, or none if there are more.
    near: [u32; INLINE_LINKS],
    pub(super) path: PathIndex,
    pub(super) bottleneck: u32,
    /// The bottleneck that the present filling has found.
    pub(super) found: u32,
    /// The flow that ends first, and a heap of the others.
    first: TaskIndex,
    others: u32,
    /// Its flows have changed since the last repair.
    pub(super) changed: bool,
}

impl Group {
    pub(super) fn on(path: PathIndex, problem: &Problem) -> Self {
        let mut near = [NO_GROUP; INLINE_LINKS];
        let links = problem.path(path);
        if let Some(near) = near.get_mut(..links.len()) {
            near.copy_from_slice(links);
        }
        Self {
            rate: 0,
            weight: 0,
            goal: f64::INFINITY,
            near,
            path,
            bottleneck: NO_GROUP,
            found: NO_GROUP,
            first: NO_GROUP,
            others: EMPTY_HEAP,
            changed: false,
        }
    }

    pub(super) fn links<'g>(&'g self, problem: &'g Problem) -> &'g [u32] {
        match self.near {
            [NO_GROUP, ..] => problem.path(self.path),
            [.., NO_GROUP, NO_GROUP, NO_GROUP] => &self.near[..1],
            [.., NO_GROUP, NO_GROUP] => &self.near[..2],
            [.., NO_GROUP] => &self.near[..3],
            _ => &self.near,
        }
    }

    pub(super) fn push(&mut self, goal: f64, task: TaskIndex, heaps: &mut Heaps) {
        let (mut goal, mut task) = (goal, task);
        if (goal, task) < (self.goal, self.first) {
            std::mem::swap(&mut self.goal, &mut goal);
            std::mem::swap(&mut self.first, &mut task);
        }
        if task != NO_GROUP {
            self.others = heaps.push(self.others, goal, task);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first == NO_GROUP
    }

    /// Takes out the flow that ends first.
    pub(super) fn pop(&mut self, heaps: &mut Heaps) -> TaskIndex {
        let next = heaps.top(self.others);
        if next.is_some() {
            self.others = heaps.pop(self.others);
        }
        let (goal, task) = next.unwrap_or((f64::INFINITY, NO_GROUP));
        self.goal = goal;
        std::mem::replace(&mut self.first, task)
    }
}

/// Generation of a group's slot, and its state in the present repair. It is stored apart from the groups, because
/// filling reads it far more often than the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag(u32);

impl Tag {
    /// The group keeps its rate.
    pub(super) const STATE_AT_REST: u32 = 0;
    /// The rate of the group is being computed.
    pub(super) const STATE_RISING: u32 = 1;
    /// The present filling has found its rate.
    pub(super) const STATE_FOUND: u32 = 2;
    const STATE_COUNT: u32 = 4;

    /// Tag of the first group in a slot.
    pub(super) const FIRST_GROUP: Self = Self(0);

    /// Returns the tag of the next group in the same slot. Tags repeat after a billion groups, when the first is
    /// forgotten.
    pub(super) fn next(self) -> Self {
        Self((self.0 / Self::STATE_COUNT + 1).wrapping_mul(Self::STATE_COUNT))
    }

    pub(super) fn in_state(self, state: u32) -> Self {
        Self(self.0 / Self::STATE_COUNT * Self::STATE_COUNT + state)
    }

    /// The state of the group that had `other` while at rest; any other number when it is no more.
    pub(super) fn state_of(self, other: Self) -> u32 {
        self.0 ^ other.0
    }

    /// Whether this is still the group that had `other` while at rest.
    pub(super) fn is_of(self, other: Self) -> bool {
        self.state_of(other) < Self::STATE_COUNT
    }

    pub(super) fn is_at_rest(self) -> bool {
        self.0.is_multiple_of(Self::STATE_COUNT)
    }
}

/// Stands in the list of a link's members.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    pub(super) group: u32,
    /// Tag of the group at rest.
    pub(super) tag: Tag,
}

/// A group that a link bounds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    /// Service per weight of the link at which the group's next flow ends.
    pub(super) goal: f64,
    pub(super) group: u32,
}
