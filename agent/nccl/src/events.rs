//! NCCL's events, as calls of [`Works`].

use std::ffi::{c_int, c_void};

use crate::abi::{Arguments, Collective, Details, Message, Transfer, kind, state};
use crate::clock::ticks;
use crate::handle::{Handle, Part};
use crate::names::{ALGORITHMS, COLLECTIVE_KINDS, PROTOCOLS, bytes_of, number};
use crate::works::{Work, Works};

/// The events that this plugin asks for.
pub(crate) const REQUESTED_EVENTS: u64 =
    kind::COLLECTIVE | kind::MESSAGE | kind::TRANSFER | kind::STEP | kind::KERNEL;

/// # Safety
/// `details` are those of an event of this kind, and their texts are texts.
#[allow(unsafe_code, reason = "which of the details it is, its kind says")]
pub(crate) unsafe fn started(
    works: &Works,
    member: u8,
    kind: u64,
    parent: *mut c_void,
    details: &Details,
) -> Option<Handle> {
    let parent = Handle::from_raw(parent);
    match kind {
        kind::COLLECTIVE => {
            let work = unsafe { collective(member, &details.collective) };
            begun(works.begin(work)?)
        }
        kind::MESSAGE => {
            let work = unsafe { message(member, &details.message) };
            begun(works.begin(work)?)
        }
        kind::KERNEL => {
            let ticket = parent?.ticket;
            works.kernel_began(ticket, unsafe { details.kernel.gpu_ns });
            Some(Handle {
                part: Part::Kernel,
                ticket,
            })
        }
        kind::TRANSFER => transfer(works, member, parent, unsafe { &details.transfer }),
        kind::STEP => step(parent?),
        _ => None,
    }
}

pub(crate) fn stopped(works: &Works, handle: Handle) {
    match handle.part {
        Part::Work => works.stop(handle.ticket),
        Part::Transfer(place) => works.transfer_ended(handle.ticket, place, ticks()),
        Part::Kernel | Part::Step(_) => {}
    }
}

/// # Safety
/// `arguments` are those of this state.
#[allow(unsafe_code, reason = "which of the arguments it is, the state says")]
pub(crate) unsafe fn recorded(works: &Works, handle: Handle, state: c_int, arguments: &Arguments) {
    match (handle.part, state) {
        (Part::Step(place), state::STEP_SENT) if place.sends => {
            works.moved(handle.ticket, place, unsafe { arguments.step_bytes } as u64);
        }
        (Part::Step(place), state::STEP_RECEIVED) if !place.sends => {
            works.moved(handle.ticket, place, unsafe { arguments.step_bytes } as u64);
        }
        (Part::Kernel, state::KERNEL_STOPPED) => {
            works.kernel_ended(handle.ticket, unsafe { arguments.gpu_ns });
        }
        _ => {}
    }
}

fn begun(ticket: u64) -> Option<Handle> {
    Some(Handle {
        part: Part::Work,
        ticket,
    })
}

#[allow(unsafe_code, reason = "the caller vouches for the texts")]
unsafe fn collective(member: u8, it: &Collective) -> Work {
    let bytes = unsafe { bytes_of(it.datatype) }.saturating_mul(it.count as u64);
    Work {
        member,
        kind: unsafe { number(COLLECTIVE_KINDS, it.function) },
        algorithm: unsafe { number(ALGORITHMS, it.algorithm) },
        protocol: unsafe { number(PROTOCOLS, it.protocol) },
        channels: it.channels,
        bytes,
    }
}

#[allow(unsafe_code, reason = "the caller vouches for the texts")]
unsafe fn message(member: u8, it: &Message) -> Work {
    let bytes = unsafe { bytes_of(it.datatype) }.saturating_mul(it.count as u64);
    Work {
        member,
        kind: unsafe { number(COLLECTIVE_KINDS, it.function) },
        // Messages have neither.
        algorithm: u8::MAX,
        protocol: u8::MAX,
        channels: it.channels,
        bytes,
    }
}

/// What one process sends for another names a work that only the other knows.
fn transfer(works: &Works, member: u8, parent: Option<Handle>, it: &Transfer) -> Option<Handle> {
    let rank = u32::try_from(it.peer).ok();
    let is_ours = u32::try_from(it.process) == Ok(works.process());
    let (Some(parent), Some(rank), true) = (parent, rank, is_ours) else {
        works.miss(member);
        return None;
    };
    let place = works.transfer_began(parent.ticket, rank, it.sends != 0, ticks())?;
    Some(Handle {
        part: Part::Transfer(place),
        ticket: parent.ticket,
    })
}

fn step(parent: Handle) -> Option<Handle> {
    let Part::Transfer(place) = parent.part else {
        return None;
    };
    Some(Handle {
        part: Part::Step(place),
        ticket: parent.ticket,
    })
}
