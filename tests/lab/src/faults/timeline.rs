//! When faults begin and end, and what that changes. Pure: no clock, no cluster.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::time::Duration;

use reweave_common::scenario::{FaultKind, Scenario};

use super::conditions::{Change, Conditions, Victim};

/// The moments at which something begins or ends, in order; without end when a flap has none.
#[derive(Debug)]
pub(super) struct Timeline<'s> {
    scenario: &'s Scenario,
    edges: BinaryHeap<Reverse<(Duration, usize, Edge)>>,
    /// The faults that hold, by their place in the scenario.
    active: BTreeSet<usize>,
    conditions: Conditions,
}

/// All changes at one time. Two faults of the same element may cancel out.
#[derive(Debug, PartialEq)]
pub(super) struct Moment {
    pub(super) at: Duration,
    pub(super) changes: Vec<Change>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    Begin,
    End,
}

impl<'s> Timeline<'s> {
    pub(super) fn new(scenario: &'s Scenario) -> Self {
        Self::of(scenario, 0..scenario.faults.len())
    }

    /// Returns the timeline of these faults alone.
    pub(super) fn of(scenario: &'s Scenario, faults: impl IntoIterator<Item = usize>) -> Self {
        let begin = |index: usize| Reverse((scenario.faults[index].at, index, Edge::Begin));
        Self {
            scenario,
            edges: faults.into_iter().map(begin).collect(),
            active: BTreeSet::new(),
            conditions: Conditions::default(),
        }
    }

    /// Begins or ends a fault. Returns the kills that it causes.
    fn pass(&mut self, at: Duration, index: usize, edge: Edge) -> Option<Change> {
        match edge {
            Edge::End => {
                self.active.remove(&index);
                None
            }
            Edge::Begin => {
                self.active.insert(index);
                self.plan_after(at, index);
                self.death(index)
            }
        }
    }

    /// A fault that has begun will end, and a flap will fall again.
    fn plan_after(&mut self, at: Duration, index: usize) {
        let fault = &self.scenario.faults[index];
        let end = fault.lasts.map(|lasts| fault.at + lasts);
        let is_before_end = |time: &Duration| end.is_none_or(|end| *time < end);
        let (up, again) = match fault.kind {
            FaultKind::LinkFlap { period, .. } => (Some(at + period / 2), Some(at + period)),
            _ => (None, None),
        };
        let off = up.filter(is_before_end).or(end);
        self.plan(off, index, Edge::End);
        self.plan(again.filter(is_before_end), index, Edge::Begin);
    }

    fn plan(&mut self, at: Option<Duration>, index: usize, edge: Edge) {
        self.edges.extend(at.map(|at| Reverse((at, index, edge))));
    }

    fn death(&self, index: usize) -> Option<Change> {
        match self.scenario.faults[index].kind {
            FaultKind::HostKill { host } => Some(Change::Kill(Victim::Host(host))),
            FaultKind::ProcessKill { job, rank } => Some(Change::Kill(Victim::Process(job, rank))),
            _ => None,
        }
    }
}

impl Iterator for Timeline<'_> {
    type Item = Moment;

    fn next(&mut self) -> Option<Moment> {
        let &Reverse((at, ..)) = self.edges.peek()?;
        let mut changes = Vec::new();
        while let Some(&Reverse((_, index, edge))) =
            self.edges.peek().filter(|Reverse((next, ..))| *next == at)
        {
            self.edges.pop();
            changes.extend(self.pass(at, index, edge));
        }
        let faults = self
            .active
            .iter()
            .map(|index| &self.scenario.faults[*index]);
        let next = Conditions::of(faults, self.scenario);
        changes.extend(self.conditions.changes_to(&next, self.scenario));
        self.conditions = next;
        Some(Moment { at, changes })
    }
}
