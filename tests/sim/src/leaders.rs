//! The leaders of a world's agents: one coordinator alone, or several that agree.

use reweave_common::moment::Moment;
use reweave_core::{Command, State};

use super::actor::Report;
use super::coordinator::{Guest, Output};
use super::wire::SessionId;

pub trait Leaders {
    /// When something happens among them by itself.
    fn next_due(&self) -> Option<Moment>;

    /// Lets that happen.
    fn go_on(&mut self) -> Vec<Output>;

    /// Returns all decisions so far, and the resulting state if a coordinator runs.
    fn decided(&self) -> (&[Command], Option<&State>);

    /// Whether any coordinator takes a session.
    fn is_there(&self) -> bool;

    /// The leader dies.
    fn die(&mut self) -> Vec<Output>;

    /// Restarts after it [died](Output::Died).
    fn come_back(&mut self);

    fn tick(&mut self, now: Moment) -> Vec<Output>;

    fn seat(&mut self, now: Moment, guest: Guest, session: SessionId) -> Vec<Output>;

    fn left(&mut self, now: Moment, guest: Guest, session: SessionId) -> Vec<Output>;

    /// Handles a report. One by a session that is not open is ignored.
    fn report(&mut self, now: Moment, session: SessionId, report: Report) -> Vec<Output>;
}
