//! Completion queues of a NIC.

use std::ffi::CStr;
use std::mem;
use std::ptr;
use std::rc::Rc;

use rdma_sys::{
    ibv_cq, ibv_cq_ex, ibv_cq_ex_to_cq, ibv_cq_init_attr_ex, ibv_create_cq, ibv_create_cq_ex,
    ibv_create_cq_wc_flags, ibv_destroy_cq, ibv_end_poll, ibv_poll_cq, ibv_poll_cq_attr,
    ibv_start_poll, ibv_wc, ibv_wc_read_completion_ts, ibv_wc_status, ibv_wc_status_str,
};

use super::{Context, failed};
use crate::clock::{NicClock, Stamp};
use crate::error::RdmaError;

/// Stamps by the NIC take a queue of the newer kind, which not all drivers have.
enum Raw {
    Plain(*mut ibv_cq),
    Stamped(*mut ibv_cq_ex, NicClock),
}

pub(crate) struct Queue {
    raw: Raw,
    _context: Rc<Context>,
}

pub(crate) struct Completion {
    pub(crate) done: Done,
    pub(crate) stamp: Stamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Done {
    Sent,
    /// Into this slot.
    Received(usize),
}

/// Requests bear numbers; that of what is to receive into slot n is n below this.
pub(super) const SENT_ID: u64 = u64::MAX;

#[allow(
    unsafe_code,
    reason = "the device is open as long as the queue lives, and the library fills in what it is handed"
)]
impl Queue {
    /// Creates a queue. Completions are stamped by the NIC where it can.
    pub(super) fn new(context: &Rc<Context>, entries: u32) -> Result<Self, RdmaError> {
        let stamped = context.clock()?.and_then(|clock| {
            let raw = stamped(context, entries)?;
            Some(Raw::Stamped(raw, clock))
        });
        let raw = match stamped {
            Some(raw) => raw,
            None => Raw::Plain(plain(context, entries)?),
        };
        Ok(Self {
            raw,
            _context: Rc::clone(context),
        })
    }

    pub(crate) fn clock(&self) -> Option<NicClock> {
        match self.raw {
            Raw::Plain(_) => None,
            Raw::Stamped(_, clock) => Some(clock),
        }
    }

    pub(super) fn raw(&self) -> *mut ibv_cq {
        match self.raw {
            Raw::Plain(raw) => raw,
            Raw::Stamped(raw, _) => unsafe { ibv_cq_ex_to_cq(raw) },
        }
    }

    /// The next thing that was done, if there is one.
    pub(crate) fn poll(&self) -> Result<Option<Completion>, RdmaError> {
        match self.raw {
            Raw::Plain(raw) => poll_plain(raw),
            Raw::Stamped(raw, _) => poll_stamped(raw),
        }
    }
}

#[allow(unsafe_code, reason = "no queue pair that uses it is left")]
impl Drop for Queue {
    fn drop(&mut self) {
        unsafe { ibv_destroy_cq(self.raw()) };
    }
}

#[allow(unsafe_code, reason = "the device is open")]
fn plain(context: &Context, entries: u32) -> Result<*mut ibv_cq, RdmaError> {
    let (none, entries) = (ptr::null_mut(), i32::try_from(entries).unwrap_or(i32::MAX));
    let raw = unsafe { ibv_create_cq(context.raw(), entries, ptr::null_mut(), none, 0) };
    if raw.is_null() {
        return Err(failed("make a completion queue"));
    }
    Ok(raw)
}

/// None where the driver has none.
#[allow(unsafe_code, reason = "the device is open, and zero is a setting")]
fn stamped(context: &Context, entries: u32) -> Option<*mut ibv_cq_ex> {
    let mut settings: ibv_cq_init_attr_ex = unsafe { mem::zeroed() };
    settings.cqe = entries;
    let stamps = ibv_create_cq_wc_flags::IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
    settings.wc_flags = u64::from(stamps.0);
    let raw = unsafe { ibv_create_cq_ex(context.raw(), &mut settings) };
    raw.filter(|raw| !raw.is_null())
}

#[allow(
    unsafe_code,
    reason = "the queue lives, and the library fills in the entry"
)]
fn poll_plain(raw: *mut ibv_cq) -> Result<Option<Completion>, RdmaError> {
    let mut entry: ibv_wc = unsafe { mem::zeroed() };
    match unsafe { ibv_poll_cq(raw, 1, &mut entry) } {
        0 => Ok(None),
        count if count < 0 => Err(failed("poll a completion queue")),
        _ => completion(entry.wr_id, entry.status, Stamp::now()).map(Some),
    }
}

#[allow(
    unsafe_code,
    reason = "the queue lives, and is read between the start and the end of polling only"
)]
fn poll_stamped(raw: *mut ibv_cq_ex) -> Result<Option<Completion>, RdmaError> {
    const NO_COMPLETION: i32 = 2; // ENOENT
    let mut settings: ibv_poll_cq_attr = unsafe { mem::zeroed() };
    match unsafe { ibv_start_poll(raw, &mut settings) } {
        0 => {}
        NO_COMPLETION => return Ok(None),
        _ => return Err(failed("poll a completion queue")),
    }
    let (number, status) = unsafe { ((*raw).wr_id, (*raw).status) };
    // A failed completion has no other valid field.
    let stamp = match status {
        ibv_wc_status::IBV_WC_SUCCESS => Stamp::Nic {
            ticks: unsafe { ibv_wc_read_completion_ts(raw) },
        },
        _ => Stamp::now(),
    };
    unsafe { ibv_end_poll(raw) };
    completion(number, status, stamp).map(Some)
}

fn completion(
    number: u64,
    status: ibv_wc_status::Type,
    stamp: Stamp,
) -> Result<Completion, RdmaError> {
    if status != ibv_wc_status::IBV_WC_SUCCESS {
        return Err(RdmaError::Work {
            status: words(status),
        });
    }
    let done = match number {
        SENT_ID => Done::Sent,
        slot => Done::Received(usize::try_from(slot).unwrap_or(usize::MAX)),
    };
    Ok(Completion { done, stamp })
}

#[allow(
    unsafe_code,
    reason = "the library's words live as long as the program"
)]
fn words(status: ibv_wc_status::Type) -> String {
    let words = unsafe { CStr::from_ptr(ibv_wc_status_str(status)) };
    words.to_string_lossy().into_owned()
}
