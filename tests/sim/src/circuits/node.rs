//! A node with its agent: the real fence and the real order of changes, between a simulated kernel
//! and a line to the coordinator. It takes one step at a time, and can die before any of them.

use std::collections::VecDeque;

use reweave_agent_core::fence::{Fence, FenceEffect, Record};
use reweave_agent_core::reconcile::routes::{GroupId, RouteOp, RouteTable};
use reweave_agent_core::reconcile::usable;
use reweave_common::forwarding_state::ForwardingState;
use reweave_common::ids::NodeId;
use reweave_common::instruction::{Ack, Install, Instruction};
use reweave_common::moment::Moment;

use super::actor::{Life, Step};

#[derive(Debug, Clone)]
pub struct Node {
    pub id: NodeId,
    /// Survives the process, and so does the kernel.
    pub disk: Record,
    pub kernel: RouteTable,
    pub life: Life,
    /// It remembers what it answered last.
    pub has_spoken: bool,
    process: Option<Process>,
    pub disk_is_full: bool,
    /// Its kernel takes so many more changes, and then none.
    pub patience: Option<usize>,
    /// How often it took back what was not confirmed.
    pub went_back: usize,
}

#[derive(Debug, Clone)]
struct Process {
    fence: Fence,
    /// Changes that are still to be made, and for whom.
    ops: VecDeque<RouteOp>,
    holds_for: Why,
    /// It is following an instruction, and looks at nothing else until it is done.
    is_busy: bool,
}

/// Why the kernel is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// Because nobody wants it to be otherwise.
    Keeping,
    Told,
}

impl Node {
    pub fn new(id: NodeId) -> Self {
        Self {
            id,
            disk: Record::default(),
            kernel: RouteTable::default(),
            life: Life::default(),
            has_spoken: false,
            process: None,
            disk_is_full: false,
            patience: None,
            went_back: 0,
        }
    }

    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// Its kernel is made to hold what was in force when an agent last ran here.
    pub fn start(&mut self, is_up: impl Fn(&str) -> bool) {
        self.life.begin();
        self.has_spoken = false;
        self.process = Some(Process {
            fence: Fence::new(self.disk.clone()),
            ops: VecDeque::new(),
            holds_for: Why::Keeping,
            is_busy: false,
        });
        self.keep(is_up);
    }

    /// The kernel keeps what it holds.
    pub fn die(&mut self) {
        self.process = None;
        self.life.end();
    }

    pub fn handle_instruction(&mut self, instruction: Instruction) {
        if let Some(process) = &mut self.process {
            process.fence.handle_instruction(instruction);
            process.is_busy = true;
        }
    }

    /// Takes back what was not confirmed in time.
    pub fn handle_time(&mut self, now: Moment) {
        if let Some(process) = &mut self.process
            && process.fence.handle_time(now)
        {
            process.is_busy = true;
            self.went_back += 1;
        }
    }

    /// Waits for as long as an unconfirmed install has, whatever the time elsewhere.
    pub fn expire(&mut self) {
        let timeout = self.disk.fallback.as_ref();
        let timeout_ms = timeout.map_or(0, |it| u64::from(it.confirm_timeout_ms));
        for second in 0..=timeout_ms.div_ceil(1000) {
            self.handle_time(Moment::from_micros(second * 1_000_000));
        }
    }

    /// Mends what has gone astray, when there is nothing else to do; whether nothing has.
    pub fn keep(&mut self, is_up: impl Fn(&str) -> bool) -> bool {
        let idle = |process: &&mut Process| process.ops.is_empty() && !process.is_busy;
        let Some(process) = self.process.as_mut().filter(idle) else {
            return false;
        };
        let held = self.kernel.rules();
        let wanted = usable(&process.fence.in_force().holding, is_up, &held);
        process.ops = ops(&self.kernel, &wanted);
        process.ops.is_empty()
    }

    pub fn holding(&self) -> ForwardingState {
        ForwardingState {
            rules: Vec::new(),
            routes: self.kernel.rules(),
        }
    }

    /// The next thing that the agent's shell would do.
    pub fn work(&mut self, is_up: impl Fn(&str) -> bool) -> Step<Install, Ack> {
        let Some(process) = &mut self.process else {
            return Step::Rest;
        };
        if let Some(op) = process.ops.pop_front() {
            let is_last = process.ops.is_empty();
            let changed = self.change(&op, is_up);
            if changed.is_err() || is_last {
                self.handle_held(changed);
            }
            return Step::Changed;
        }
        if process.holds_for == Why::Told {
            self.handle_held(Ok(()));
            return Step::Took;
        }
        match process.fence.poll_effect() {
            None => {
                process.is_busy = false;
                Step::Rest
            }
            Some(effect) => self.follow(effect),
        }
    }

    fn follow(&mut self, effect: FenceEffect) -> Step<Install, Ack> {
        let (kernel, is_full) = (self.kernel.clone(), self.disk_is_full);
        let Some(process) = &mut self.process else {
            return Step::Rest;
        };
        match effect {
            FenceEffect::Note(_) if is_full => {
                let error = "no space left on the disk".to_owned();
                process.fence.handle_noted(Err(error));
            }
            FenceEffect::Note(record) => {
                self.disk = record;
                process.fence.handle_noted(Ok(()));
            }
            FenceEffect::Apply(holding) => {
                process.ops = ops(&kernel, &holding);
                process.holds_for = Why::Told;
                let promised = self.disk.promised.clone();
                return match promised.filter(|it| it.holding.is_same_as(&holding)) {
                    Some(install) => Step::Acts(install),
                    None => Step::Took,
                };
            }
            FenceEffect::ReadBack => {
                let held = ForwardingState {
                    rules: Vec::new(),
                    routes: kernel.rules(),
                };
                process.fence.handle_read_back(Ok(held));
            }
            FenceEffect::Send(ack) => {
                self.has_spoken = true;
                return Step::Says(ack);
            }
        }
        Step::Took
    }

    /// What is still to be done for an instruction is nothing.
    pub fn holds_as_told(&self) -> bool {
        let mut process = self.process.iter();
        process.all(|it| it.ops.is_empty())
    }

    fn handle_held(&mut self, outcome: Result<(), String>) {
        let Some(process) = &mut self.process else {
            return;
        };
        process.ops.clear();
        if std::mem::replace(&mut process.holds_for, Why::Keeping) == Why::Told {
            process.fence.handle_applied(outcome);
        }
    }

    /// As a kernel takes it: no next hop over an interface that is down, and nothing twice.
    fn change(&mut self, op: &RouteOp, is_up: impl Fn(&str) -> bool) -> Result<(), String> {
        let takes_away = matches!(op, RouteOp::RemoveRoute(_) | RouteOp::RemoveGroup(_));
        match &mut self.patience {
            Some(0) if !takes_away => return Err("no space for more".to_owned()),
            Some(left) => *left = left.saturating_sub(1),
            None => {}
        }
        if let RouteOp::AddGroup(_, hops) | RouteOp::FlipGroup(_, hops) = op
            && let Some(hop) = hops.iter().find(|hop| !is_up(&hop.interface))
        {
            return Err(format!("interface {} is down", hop.interface));
        }
        let RouteTable { groups, routes } = &mut self.kernel;
        match op {
            RouteOp::AddGroup(group, hops) | RouteOp::FlipGroup(group, hops) => {
                groups.insert(*group, hops.clone());
            }
            RouteOp::SetRoute(destination, group) => {
                routes.insert(*destination, *group);
            }
            RouteOp::RemoveRoute(destination) => {
                routes.remove(destination);
            }
            RouteOp::RemoveGroup(group) => {
                groups.remove(group);
            }
        }
        Ok(())
    }
}

fn ops(kernel: &RouteTable, wanted: &ForwardingState) -> VecDeque<RouteOp> {
    let numbers = (0..).map(GroupId);
    let free = numbers.filter(|group| !kernel.groups.contains_key(group));
    let ops = kernel.reconcile(&wanted.routes, free);
    ops.expect("there are enough names for groups").into()
}
