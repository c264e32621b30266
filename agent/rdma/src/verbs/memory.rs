//! Memory that a NIC reads and writes itself.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr;
use std::rc::Rc;

use rdma_sys::{
    ibv_access_flags, ibv_alloc_pd, ibv_dealloc_pd, ibv_dereg_mr, ibv_mr, ibv_pd, ibv_reg_mr,
    ibv_sge,
};

use super::{Context, done, failed};
use crate::error::RdmaError;
use crate::meeting::Region;

const PAGE_BYTES: usize = 4096;

/// What belongs together: only queue pairs of a domain reach its memory.
pub(super) struct Domain {
    raw: *mut ibv_pd,
    _context: Rc<Context>,
}

/// No reference points into it: the NIC may write at any time.
pub(super) struct Memory {
    first: *mut u8,
    layout: Layout,
    region: *mut ibv_mr,
    _domain: Rc<Domain>,
}

#[allow(unsafe_code, reason = "the device is open as long as the domain lives")]
impl Domain {
    pub(super) fn new(context: &Rc<Context>) -> Result<Rc<Self>, RdmaError> {
        let raw = unsafe { ibv_alloc_pd(context.raw()) };
        if raw.is_null() {
            return Err(failed("make a protection domain"));
        }
        let _context = Rc::clone(context);
        Ok(Rc::new(Self { raw, _context }))
    }

    pub(super) fn raw(&self) -> *mut ibv_pd {
        self.raw
    }
}

#[allow(unsafe_code, reason = "nothing that was made from it is left")]
impl Drop for Domain {
    fn drop(&mut self) {
        unsafe { ibv_dealloc_pd(self.raw) };
    }
}

#[allow(
    unsafe_code,
    reason = "all is copied within the bounds of the allocation, which lives as long as its registration"
)]
impl Memory {
    /// Zeroed. `remote`: a peer that knows its key may write to it.
    pub(super) fn new(domain: &Rc<Domain>, bytes: usize, remote: bool) -> Result<Self, RdmaError> {
        let layout = Layout::from_size_align(
            bytes.next_multiple_of(PAGE_BYTES).max(PAGE_BYTES),
            PAGE_BYTES,
        );
        let layout = layout.unwrap_or(Layout::new::<[u8; PAGE_BYTES]>());
        let first = unsafe { alloc_zeroed(layout) };
        if first.is_null() {
            handle_alloc_error(layout);
        }
        let mut access = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE;
        if remote {
            access |= ibv_access_flags::IBV_ACCESS_REMOTE_WRITE;
        }
        let access = access.0.cast_signed();
        let region = unsafe { ibv_reg_mr(domain.raw, first.cast(), layout.size(), access) };
        if region.is_null() {
            let error = failed("register memory (is ulimit -l too low?)");
            unsafe { dealloc(first, layout) };
            return Err(error);
        }
        Ok(Self {
            first,
            layout,
            region,
            _domain: Rc::clone(domain),
        })
    }

    pub(super) fn region(&self) -> Region {
        Region {
            address: self.first as u64,
            key: unsafe { (*self.region).rkey },
            bytes: self.layout.size() as u64,
        }
    }

    /// A part of the memory, in the form in which a request names it.
    pub(super) fn part(&self, at: usize, bytes: usize) -> ibv_sge {
        assert!(at + bytes <= self.layout.size(), "beyond the memory");
        ibv_sge {
            addr: self.first as u64 + at as u64,
            length: u32::try_from(bytes).unwrap_or(u32::MAX),
            lkey: unsafe { (*self.region).lkey },
        }
    }

    pub(super) fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.layout.size(), "beyond the memory");
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.first.add(at), bytes.len()) };
    }

    pub(super) fn read<const N: usize>(&self, at: usize) -> [u8; N] {
        assert!(at + N <= self.layout.size(), "beyond the memory");
        let mut bytes = [0; N];
        unsafe { ptr::copy_nonoverlapping(self.first.add(at), bytes.as_mut_ptr(), N) };
        bytes
    }
}

#[allow(
    unsafe_code,
    reason = "no queue pair that could write to it is left; what cannot be taken from the NIC is not freed"
)]
impl Drop for Memory {
    fn drop(&mut self) {
        let taken = done("take memory back", unsafe { ibv_dereg_mr(self.region) });
        if taken.is_ok() {
            unsafe { dealloc(self.first, self.layout) };
        }
    }
}
