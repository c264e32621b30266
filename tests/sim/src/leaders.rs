//! Whoever leads the agents of a world: one coordinator alone, or several that agree.

use reweave_common::ids::NodeId;
use reweave_common::instruction::Ack;
use reweave_common::moment::Moment;
use reweave_common::sample::Sample;
use reweave_core::{Command, State};

use super::coordinator::{Coordinator, Guest, Output};
use super::wire::SessionId;

pub trait Leaders {
    /// When something happens among them by itself.
    fn next_due(&self) -> Option<Moment>;

    /// Lets that happen.
    fn go_on(&mut self) -> Vec<Output>;

    /// All that was decided so far, and what that led to, while somebody is there who knows.
    fn decided(&self) -> (&[Command], Option<&State>);

    /// Whether anybody takes a session.
    fn is_there(&self) -> bool;

    /// Whoever leads dies.
    fn die(&mut self) -> Vec<Output>;

    /// Comes back after it [died](Output::Died).
    fn come_back(&mut self);

    fn tick(&mut self, now: Moment) -> Vec<Output>;

    fn seat(&mut self, now: Moment, guest: Guest, session: SessionId) -> Vec<Output>;

    fn left(&mut self, now: Moment, guest: Guest, session: SessionId) -> Vec<Output>;

    fn sample(&mut self, now: Moment, from: (NodeId, SessionId), sample: Sample) -> Vec<Output>;

    fn ack(&mut self, now: Moment, from: (NodeId, SessionId), ack: Ack) -> Vec<Output>;
}

/// It does nothing of itself: its world calls it.
impl Leaders for Coordinator {
    fn next_due(&self) -> Option<Moment> {
        None
    }

    fn go_on(&mut self) -> Vec<Output> {
        Vec::new()
    }

    fn decided(&self) -> (&[Command], Option<&State>) {
        (self.log(), self.core().map(reweave_core::Core::state))
    }

    fn is_there(&self) -> bool {
        self.is_running()
    }

    fn die(&mut self) -> Vec<Output> {
        let dies = self.is_running();
        self.die();
        dies.then_some(Output::Died).into_iter().collect()
    }

    fn come_back(&mut self) {
        self.start();
    }

    fn tick(&mut self, now: Moment) -> Vec<Output> {
        self.tick(now)
    }

    fn seat(&mut self, now: Moment, guest: Guest, session: SessionId) -> Vec<Output> {
        self.seat(now, guest, session)
    }

    fn left(&mut self, now: Moment, guest: Guest, session: SessionId) -> Vec<Output> {
        self.left(now, guest, session)
    }

    fn sample(&mut self, now: Moment, from: (NodeId, SessionId), sample: Sample) -> Vec<Output> {
        self.sample(now, from, sample)
    }

    fn ack(&mut self, now: Moment, from: (NodeId, SessionId), ack: Ack) -> Vec<Output> {
        self.ack(now, from, ack)
    }
}
