//! Locks of state that threads share.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks it even if another thread panicked meanwhile: only for what is whole after each statement.
pub fn lock<T: ?Sized>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
