//! A profiler plugin of NCCL: it reports a job's collectives, the traffic by peer, and durations to the agent of this
//! host. With a NIC that bypasses the kernel, there is no other source.
//!
//! NCCL loads it into every process of a job and calls it in the middle of its work. So a call allocates nothing,
//! waits for nothing and writes a few words of memory. A thread of the plugin sums them up a hundred times a second
//! and reports to the agent, if there is one. No failure affects the job.

pub mod abi;
mod clock;
mod events;
mod handle;
mod members;
mod names;
mod teller;
#[cfg(test)]
mod tests;
mod words;
mod works;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use reweave_common::collective::{MAX_COMMUNICATOR_NAME_BYTES, Rank};

use abi::{Arguments, Event, FAILURE, LogFunction, Profiler4, Profiler5, SUCCESS};
use handle::Handle;
use members::Members;
use teller::Teller;
use works::Works;

static WORKS: Works = Works::new();
static MEMBERS: Members = Members::new();
static TELLER: Teller = Teller::new();

/// The symbol that NCCL looks for, in the first version that both support.
pub struct Exported<T>(pub T);

#[allow(unsafe_code, reason = "its pointers are to constants")]
unsafe impl<T> Sync for Exported<T> {}

const PLUGIN_NAME: &CStr = c"Reweave";

#[allow(non_upper_case_globals, reason = "NCCL looks it up by this name")]
#[allow(unsafe_code, reason = "no other library has this name")]
#[unsafe(no_mangle)]
pub static ncclProfiler_v4: Exported<Profiler4> = Exported(Profiler4 {
    name: PLUGIN_NAME.as_ptr(),
    init: init_4,
    start: start_4,
    stop,
    record,
    finalize,
});

#[allow(non_upper_case_globals, reason = "NCCL looks it up by this name")]
#[allow(unsafe_code, reason = "no other library has this name")]
#[unsafe(no_mangle)]
pub static ncclProfiler_v5: Exported<Profiler5> = Exported(Profiler5 {
    name: PLUGIN_NAME.as_ptr(),
    init: init_5,
    start: start_5,
    stop,
    record,
    finalize,
});

#[allow(unsafe_code, reason = "NCCL hands in what its interface says")]
unsafe extern "C" fn init_4(
    context: *mut *mut c_void,
    mask: *mut c_int,
    name: *const c_char,
    communicator: u64,
    nodes: c_int,
    ranks: c_int,
    rank: c_int,
    _: LogFunction,
) -> c_int {
    unsafe { init(context, mask, name, communicator, [nodes, ranks, rank]) }
}

#[allow(unsafe_code, reason = "NCCL hands in what its interface says")]
unsafe extern "C" fn init_5(
    context: *mut *mut c_void,
    communicator: u64,
    mask: *mut c_int,
    name: *const c_char,
    nodes: c_int,
    ranks: c_int,
    rank: c_int,
    _: LogFunction,
) -> c_int {
    unsafe { init(context, mask, name, communicator, [nodes, ranks, rank]) }
}

#[allow(unsafe_code, reason = "NCCL hands in what its interface says")]
unsafe extern "C" fn start_4(
    context: *mut c_void,
    handle: *mut *mut c_void,
    event: *const Event<u8>,
) -> c_int {
    unsafe { start(context, handle, event) }
}

#[allow(unsafe_code, reason = "NCCL hands in what its interface says")]
unsafe extern "C" fn start_5(
    context: *mut c_void,
    handle: *mut *mut c_void,
    event: *const Event<u64>,
) -> c_int {
    unsafe { start(context, handle, event) }
}

/// A communicator comes into being: its nodes, its ranks, and which of them this is.
#[allow(unsafe_code, reason = "NCCL hands in what its interface says")]
unsafe fn init(
    context: *mut *mut c_void,
    mask: *mut c_int,
    name: *const c_char,
    communicator: u64,
    sizes: [c_int; 3],
) -> c_int {
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) });
    let joined = guarded(|| join(name, communicator, sizes));
    let Some(Some(member)) = joined else {
        return FAILURE;
    };
    unsafe {
        *context = members::to_context(member);
        *mask = events::REQUESTED_EVENTS as c_int;
    }
    SUCCESS
}

fn join(name: Option<&CStr>, communicator: u64, sizes: [c_int; 3]) -> Option<u8> {
    let [nodes, ranks, rank] = sizes.map(|size| u32::try_from(size).ok());
    let name = name.map(CStr::to_string_lossy).unwrap_or_default();
    let rank = Rank {
        communicator,
        name: bounded(&name),
        nodes: nodes?,
        ranks: ranks?,
        rank: rank?,
    };
    let member = MEMBERS.join(Some(rank).filter(Rank::is_possible)?)?;
    WORKS.note_process();
    clock::settle();
    TELLER.start(&WORKS, &MEMBERS);
    Some(member)
}

/// The part of the name that is reported.
fn bounded(name: &str) -> String {
    let mut end = MAX_COMMUNICATOR_NAME_BYTES.min(name.len());
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.get(..end).unwrap_or_default().to_owned()
}

#[allow(unsafe_code, reason = "NCCL hands in what its interface says")]
unsafe fn start<Kind: Copy + Into<u64>>(
    context: *mut c_void,
    handle: *mut *mut c_void,
    event: *const Event<Kind>,
) -> c_int {
    let event = unsafe { &*event };
    let kind = event.kind.into();
    let member = members::from_context(context);
    let started =
        guarded(|| unsafe { events::started(&WORKS, member?, kind, event.parent, &event.details) });
    let raw = started
        .flatten()
        .map_or(std::ptr::null_mut(), Handle::to_raw);
    unsafe { *handle = raw };
    SUCCESS
}

extern "C" fn stop(handle: *mut c_void) -> c_int {
    if let Some(handle) = Handle::from_raw(handle) {
        guarded(|| events::stopped(&WORKS, handle));
    }
    SUCCESS
}

#[allow(unsafe_code, reason = "NCCL hands in what its interface says")]
unsafe extern "C" fn record(
    handle: *mut c_void,
    state: c_int,
    arguments: *const Arguments,
) -> c_int {
    let arguments = unsafe { arguments.as_ref() };
    if let (Some(handle), Some(arguments)) = (Handle::from_raw(handle), arguments) {
        guarded(|| unsafe { events::recorded(&WORKS, handle, state, arguments) });
    }
    SUCCESS
}

/// The communicator is gone, and with it what it had not ended. After the last one NCCL unloads this library.
extern "C" fn finalize(context: *mut c_void) -> c_int {
    guarded(|| {
        MEMBERS.leave(members::from_context(context)?);
        if MEMBERS.have_all_left() {
            TELLER.stop();
        }
        // Another one may have come meanwhile.
        let is_quiet = MEMBERS.have_all_left() || TELLER.start(&WORKS, &MEMBERS);
        Some(is_quiet)
    });
    SUCCESS
}

/// A mistake in here is not to end the job.
fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}
