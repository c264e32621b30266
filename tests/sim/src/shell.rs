//! The shell around the fence of an agent, on a simulated kernel: it notes, changes the kernel by one operation at a time,
//! reads it back and answers. An agent decides when it does the next of these, and may die before any.

use std::collections::{BTreeSet, VecDeque};

use reweave_agent_core::fence::{Fence, FenceEffect, Record};
use reweave_agent_core::reconcile::usable;
use reweave_common::forwarding_state::ForwardingState;
use reweave_common::instruction::{Ack, Instruction};
use reweave_common::moment::Moment;

use crate::actor::Step;

/// A simulated kernel.
pub trait Holds {
    /// One change, as it takes them.
    type Op;

    /// Returns the operations, in order, after which it holds exactly this state.
    fn ops_to_hold(&self, desired: &ForwardingState) -> VecDeque<Self::Op>;

    fn held(&self) -> ForwardingState;
}

#[derive(Debug, Clone)]
pub struct Shell<Op> {
    fence: Fence,
    /// Changes that are still to be made, and why.
    ops: VecDeque<Op>,
    holds_for: Why,
    /// Interfaces that were down when the last instruction was taken up.
    left_out: BTreeSet<String>,
    /// It is following an instruction, and handles nothing else until that ends.
    is_busy: bool,
}

/// Reason of a change of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// The kernel differs from the state in force.
    Drift,
    Instruction,
}

#[derive(Debug)]
pub enum Task<Op> {
    /// Change the kernel; then call [`Shell::handle_changed`].
    Change(Op),
    /// None: the kernel holds already what an instruction wants.
    Held,
    /// Then [`Shell::follow`].
    Follow(FenceEffect),
}

impl<Op> Shell<Op> {
    pub fn new(fence: Fence) -> Self {
        Self {
            fence,
            ops: VecDeque::new(),
            holds_for: Why::Drift,
            left_out: BTreeSet::new(),
            is_busy: false,
        }
    }

    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    pub fn is_idle(&self) -> bool {
        self.ops.is_empty() && !self.is_busy
    }

    /// No change is left to be made.
    pub fn holds_instruction(&self) -> bool {
        self.ops.is_empty()
    }

    pub fn handle_instruction(&mut self, instruction: Instruction) {
        self.fence.handle_instruction(instruction);
        self.is_busy = true;
    }

    /// Takes back what was not confirmed in time. Gives whether there was anything.
    pub fn handle_time(&mut self, now: Moment) -> bool {
        let goes_back = self.fence.handle_time(now);
        self.is_busy |= goes_back;
        goes_back
    }

    /// Repairs drift.
    pub fn keep(&mut self, ops: VecDeque<Op>) {
        self.ops = ops;
    }

    /// The next thing to do.
    pub fn poll_task(&mut self) -> Option<Task<Op>> {
        if let Some(op) = self.ops.pop_front() {
            return Some(Task::Change(op));
        }
        if self.holds_for == Why::Instruction {
            self.handle_held(Ok(()));
            return Some(Task::Held);
        }
        let effect = self.fence.poll_effect();
        self.is_busy &= effect.is_some();
        effect.map(Task::Follow)
    }

    pub fn handle_changed(&mut self, changed: Result<(), String>) {
        if changed.is_err() || self.ops.is_empty() {
            self.handle_held(changed);
        }
    }

    /// Gives what it is about to make the kernel hold, or what it answers.
    pub fn follow(
        &mut self,
        effect: FenceEffect,
        kernel: &impl Holds<Op = Op>,
        disk: &mut Record,
        disk_is_full: bool,
        is_up: impl Fn(&str) -> bool,
    ) -> Step<ForwardingState, Ack> {
        match effect {
            FenceEffect::Note(_) if disk_is_full => {
                let error = "no space left on the disk".to_owned();
                self.fence.handle_noted(Err(error));
            }
            FenceEffect::Note(record) => {
                *disk = record;
                self.fence.handle_noted(Ok(()));
            }
            FenceEffect::Apply(holding) => {
                let wanted = usable(&holding, is_up, &kernel.held().routes);
                self.left_out = wanted.left_out_of(&holding).unwrap_or_default();
                self.ops = kernel.ops_to_hold(&wanted);
                self.holds_for = Why::Instruction;
                return Step::Acts(holding);
            }
            FenceEffect::ReadBack => {
                let left_out = std::mem::take(&mut self.left_out);
                let held = Ok(kernel.held());
                self.fence.handle_read_back_without(held, &left_out);
            }
            FenceEffect::Send(ack) => return Step::Says(ack),
        }
        Step::Took
    }

    fn handle_held(&mut self, outcome: Result<(), String>) {
        self.ops.clear();
        if std::mem::replace(&mut self.holds_for, Why::Drift) == Why::Instruction {
            self.fence.handle_applied(outcome);
        }
    }
}
