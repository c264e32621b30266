//! One gate for all threads: what hears the wires sets it, what sends and takes trains asks it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reweave_agent_core::trains::Gate;
use reweave_common::moment::Moment;
use reweave_common::rhythm::Rhythm;
use reweave_common::units::{Bytes, Rate};

#[derive(Debug, Clone, Default)]
pub struct SharedGate(Arc<Mutex<Gate>>);

impl SharedGate {
    pub fn handle_rhythm(&self, now: Moment, rhythm: Rhythm) {
        self.lock().handle_rhythm(now, rhythm);
    }

    pub fn handle_growth(&self, from: Moment, to: Moment, bytes: Bytes) {
        self.lock().handle_growth(from, to, bytes);
    }

    pub fn is_watched(&self) -> bool {
        self.lock().is_watched()
    }

    pub fn busiest(&self) -> Option<Rate> {
        self.lock().busiest()
    }

    pub fn open_until(&self, now: Moment) -> Option<Moment> {
        self.lock().open_until(now)
    }

    fn lock(&self) -> MutexGuard<'_, Gate> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
