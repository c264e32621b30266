//! Counts what a piece of code has allocated at its worst, thread by thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LIVE_BYTES: Cell<isize> = const { Cell::new(0) };
    static PEAK_BYTES: Cell<isize> = const { Cell::new(0) };
}

#[global_allocator]
static COUNTING_ALLOCATOR: Counting = Counting;

struct Counting;

fn count(change_bytes: isize) {
    let live = LIVE_BYTES.get() + change_bytes;
    LIVE_BYTES.set(live);
    PEAK_BYTES.set(PEAK_BYTES.get().max(live));
}

#[allow(
    unsafe_code,
    reason = "allocators are unsafe; all is left to the system's"
)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        unsafe { System.dealloc(place, layout) }
    }
}

/// The most bytes that `run` held at once, beyond what was held before.
pub(super) fn peak_bytes(run: impl FnOnce()) -> usize {
    let before = LIVE_BYTES.get();
    PEAK_BYTES.set(before);
    run();
    (PEAK_BYTES.get() - before) as usize
}

/// The bytes that are held by what `run` leaves behind.
pub(super) fn held_bytes<T>(run: impl FnOnce() -> T) -> usize {
    let before = LIVE_BYTES.get();
    let left = run();
    let held = LIVE_BYTES.get() - before;
    drop(left);
    held as usize
}

#[test]
fn peak_counts_bytes_held_at_once() {
    let peak = peak_bytes(|| {
        drop(std::hint::black_box(vec![0_u8; 5000]));
        drop(std::hint::black_box(vec![0_u8; 3000]));
    });
    assert_eq!(peak, 5000);
}
