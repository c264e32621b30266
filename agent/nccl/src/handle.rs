//! The handle that NCCL gets for an event: a number, not an address. Events may end long after their parents, and a
//! number cannot be freed too early.

use std::ffi::c_void;
use std::ptr::without_provenance_mut;

/// The kind of an event, and the work it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) part: Part,
    pub(crate) ticket: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// A collective or a message as a whole.
    Work,
    Kernel,
    Transfer(Place),
    Step(Place),
}

/// A peer of a work, and the direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) peer: u8,
    pub(crate) sends: bool,
}

const PART_BITS: u32 = 3;
const PEER_BITS: u32 = 4;
const TICKET_SHIFT: u32 = PART_BITS + PEER_BITS + 1;

impl Handle {
    pub(crate) fn to_raw(self) -> *mut c_void {
        let (part, place) = match self.part {
            Part::Work => (1, None),
            Part::Kernel => (2, None),
            Part::Transfer(place) => (3, Some(place)),
            Part::Step(place) => (4, Some(place)),
        };
        let place = place.map_or(0, |it| usize::from(it.peer) << 1 | usize::from(it.sends));
        let ticket = (self.ticket as usize) << TICKET_SHIFT;
        without_provenance_mut(ticket | place << PART_BITS | part)
    }

    /// None where this plugin did not ask for the event, or had no room for it.
    pub(crate) fn from_raw(raw: *mut c_void) -> Option<Self> {
        let bits = raw.addr();
        let peer = (bits >> (PART_BITS + 1)) & ((1 << PEER_BITS) - 1);
        let place = Place {
            peer: peer as u8,
            sends: bits >> PART_BITS & 1 == 1,
        };
        let part = match bits & ((1 << PART_BITS) - 1) {
            1 => Part::Work,
            2 => Part::Kernel,
            3 => Part::Transfer(place),
            4 => Part::Step(place),
            _ => return None,
        };
        let ticket = (bits >> TICKET_SHIFT) as u64;
        Some(Self { part, ticket })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handle_roundtrips() {
        let place = |peer, sends| Place { peer, sends };
        let parts = [
            Part::Work,
            Part::Kernel,
            Part::Transfer(place(7, true)),
            Part::Step(place(0, false)),
        ];
        for part in parts {
            let handle = Handle {
                part,
                ticket: (1 << 40) + 3,
            };
            assert_eq!(Handle::from_raw(handle.to_raw()), Some(handle));
        }
        assert_eq!(Handle::from_raw(std::ptr::null_mut()), None);
    }
}
