//! NCCL's profiler interface of versions 4 and 5, in C's layout.
//!
//! For the events that this plugin requests, the two versions' descriptors differ only in the width of the type.
//! Other events' descriptors are never read.

use std::ffi::{c_char, c_int, c_void};

/// What every call returns: nothing that goes wrong here may harm the job.
pub const SUCCESS: c_int = 0;
/// The return value of a failed [`Profiler4::init`]. The library then continues without this plugin.
pub const FAILURE: c_int = 3;

pub mod kind {
    pub const COLLECTIVE: u64 = 1 << 1;
    pub const MESSAGE: u64 = 1 << 2;
    pub const TRANSFER: u64 = 1 << 3;
    pub const STEP: u64 = 1 << 4;
    pub const KERNEL: u64 = 1 << 6;
}

pub mod state {
    use std::ffi::c_int;

    pub const STEP_SENT: c_int = 9;
    pub const STEP_RECEIVED: c_int = 11;
    pub const KERNEL_STOPPED: c_int = 22;
}

pub type LogFunction = *const c_void;

#[repr(C)]
pub struct Profiler4 {
    pub name: *const c_char,
    pub init: unsafe extern "C" fn(
        context: *mut *mut c_void,
        mask: *mut c_int,
        name: *const c_char,
        communicator: u64,
        nodes: c_int,
        ranks: c_int,
        rank: c_int,
        log: LogFunction,
    ) -> c_int,
    pub start: unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *const Event<u8>) -> c_int,
    pub stop: extern "C" fn(*mut c_void) -> c_int,
    pub record: unsafe extern "C" fn(*mut c_void, c_int, *const Arguments) -> c_int,
    pub finalize: extern "C" fn(*mut c_void) -> c_int,
}

#[repr(C)]
pub struct Profiler5 {
    pub name: *const c_char,
    pub init: unsafe extern "C" fn(
        context: *mut *mut c_void,
        communicator: u64,
        mask: *mut c_int,
        name: *const c_char,
        nodes: c_int,
        ranks: c_int,
        rank: c_int,
        log: LogFunction,
    ) -> c_int,
    pub start: unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *const Event<u64>) -> c_int,
    pub stop: extern "C" fn(*mut c_void) -> c_int,
    pub record: unsafe extern "C" fn(*mut c_void, c_int, *const Arguments) -> c_int,
    pub finalize: extern "C" fn(*mut c_void) -> c_int,
}

/// `Kind` is a `u8` in version 4, and a `u64` in version 5.
#[repr(C)]
pub struct Event<Kind> {
    pub kind: Kind,
    pub parent: *mut c_void,
    pub rank: c_int,
    pub details: Details,
}

/// Which of them it is, the event's kind says.
#[repr(C)]
#[derive(Clone, Copy)]
pub union Details {
    pub collective: Collective,
    pub message: Message,
    pub transfer: Transfer,
    pub kernel: Kernel,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Collective {
    pub sequence: u64,
    pub function: *const c_char,
    pub send_buffer: *const c_void,
    pub receive_buffer: *mut c_void,
    pub count: usize,
    pub root: c_int,
    pub datatype: *const c_char,
    pub channels: u8,
    pub warps: u8,
    pub algorithm: *const c_char,
    pub protocol: *const c_char,
}

/// A transfer to or from one other rank.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Message {
    pub function: *const c_char,
    pub buffer: *mut c_void,
    pub datatype: *const c_char,
    pub count: usize,
    pub peer: c_int,
    pub channels: u8,
}

/// What the library's own thread sends or receives for one channel of a collective.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Transfer {
    pub process: c_int,
    pub channel: u8,
    pub peer: c_int,
    pub steps: c_int,
    pub chunk_bytes: c_int,
    pub sends: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Kernel {
    pub channel: u8,
    pub gpu_ns: u64,
}

/// The arguments of a change of state.
#[repr(C)]
#[derive(Clone, Copy)]
pub union Arguments {
    pub step_bytes: usize,
    pub gpu_ns: u64,
}
