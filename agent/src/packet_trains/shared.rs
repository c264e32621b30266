//! One gate for all threads: the sampler sets it, and senders and receivers of trains ask it.

use std::sync::{Arc, Mutex};

use reweave_agent_core::packet_trains::IdleGate;
use reweave_common::lock::lock;
use reweave_common::moment::Moment;
use reweave_common::periodicity::Periodicity;
use reweave_common::units::{Bytes, Rate};

#[derive(Debug, Clone, Default)]
pub struct SharedGate(Arc<Mutex<IdleGate>>);

impl SharedGate {
    pub fn handle_rhythm(&self, now: Moment, rhythm: Periodicity) {
        lock(&self.0).handle_rhythm(now, rhythm);
    }

    pub fn handle_growth(&self, from: Moment, to: Moment, bytes: Bytes) {
        lock(&self.0).handle_growth(from, to, bytes);
    }

    pub fn is_quiet(&self) -> bool {
        lock(&self.0).is_quiet()
    }

    pub fn is_watched(&self) -> bool {
        lock(&self.0).is_watched()
    }

    pub fn busiest(&self) -> Option<Rate> {
        lock(&self.0).busiest()
    }

    pub fn open_until(&self, now: Moment) -> Option<Moment> {
        lock(&self.0).open_until(now)
    }
}
