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

use crate::actor::{Life, Step};
use crate::shell::{Holds, Shell, Task};

#[derive(Debug, Clone)]
pub struct Node {
    pub id: NodeId,
    /// Survives the process, and so does the kernel.
    pub disk: Record,
    pub kernel: RouteTable,
    pub life: Life,
    /// Whether it remembers its last answer.
    pub has_spoken: bool,
    /// While its agent runs.
    shell: Option<Shell<RouteOp>>,
    pub disk_is_full: bool,
    /// Number of further changes that its kernel accepts.
    pub patience: Option<usize>,
    /// Number of rollbacks of unconfirmed changes.
    pub went_back: usize,
}

impl Node {
    pub fn new(id: NodeId) -> Self {
        Self {
            id,
            disk: Record::default(),
            kernel: RouteTable::default(),
            life: Life::default(),
            has_spoken: false,
            shell: None,
            disk_is_full: false,
            patience: None,
            went_back: 0,
        }
    }

    pub fn is_running(&self) -> bool {
        self.shell.is_some()
    }

    /// Starts the agent. Its kernel is set to the state that was in force when an agent last ran here.
    pub fn start(&mut self, is_up: impl Fn(&str) -> bool) {
        self.life.begin();
        self.has_spoken = false;
        self.shell = Some(Shell::new(Fence::new(self.disk.clone())));
        self.keep(is_up);
    }

    /// The kernel keeps what it holds.
    pub fn die(&mut self) {
        self.shell = None;
        self.life.end();
    }

    pub fn handle_instruction(&mut self, instruction: Instruction) {
        if let Some(shell) = &mut self.shell {
            shell.handle_instruction(instruction);
        }
    }

    /// Takes back what was not confirmed in time.
    pub fn handle_time(&mut self, now: Moment) {
        if let Some(shell) = &mut self.shell
            && shell.handle_time(now)
        {
            self.went_back += 1;
        }
    }

    /// Advances the clock to the expiry of an unconfirmed install.
    pub fn expire(&mut self) {
        let timeout = self.disk.fallback.as_ref();
        let timeout_ms = timeout.map_or(0, |it| u64::from(it.confirm_timeout_ms));
        for second in 0..=timeout_ms.div_ceil(1000) {
            self.handle_time(Moment::from_micros(second * 1_000_000));
        }
    }

    /// Repairs what has gone astray, when there is nothing else to do; whether nothing has.
    pub fn keep(&mut self, is_up: impl Fn(&str) -> bool) -> bool {
        let Some(shell) = self.shell.as_mut().filter(|shell| shell.is_idle()) else {
            return false;
        };
        let held = self.kernel.rules();
        let wanted = usable(&shell.fence().in_force().holding, is_up, &held);
        let ops = self.kernel.ops_to_hold(&wanted);
        let is_held = ops.is_empty();
        shell.keep(ops);
        is_held
    }

    pub fn holding(&self) -> ForwardingState {
        self.kernel.held()
    }

    /// The next thing that the agent's shell would do.
    pub fn work(&mut self, is_up: impl Fn(&str) -> bool) -> Step<Install, Ack> {
        match self.shell.as_mut().and_then(Shell::poll_task) {
            None => Step::Rest,
            Some(Task::Held) => Step::Took,
            Some(Task::Change(op)) => {
                let changed = self.change(&op, is_up);
                if let Some(shell) = &mut self.shell {
                    shell.handle_changed(changed);
                }
                Step::Changed
            }
            Some(Task::Follow(effect)) => self.follow(effect, is_up),
        }
    }

    fn follow(&mut self, effect: FenceEffect, is_up: impl Fn(&str) -> bool) -> Step<Install, Ack> {
        let Some(shell) = &mut self.shell else {
            return Step::Rest;
        };
        let disk = &mut self.disk;
        match shell.follow(effect, &self.kernel, disk, self.disk_is_full, is_up) {
            Step::Acts(holding) => {
                let promised = self.disk.promised.clone();
                let reports = promised.filter(|it| it.holding.is_same_as(&holding));
                reports.map_or(Step::Took, Step::Acts)
            }
            Step::Says(ack) => {
                self.has_spoken = true;
                Step::Says(ack)
            }
            Step::Rest | Step::Took | Step::Changed => Step::Took,
        }
    }

    /// No change is left to be made.
    pub fn holds_instruction(&self) -> bool {
        self.shell.iter().all(Shell::holds_instruction)
    }

    /// Applies a change as a kernel does: no next hop over an interface that is down, and no duplicates.
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

impl Holds for RouteTable {
    type Op = RouteOp;

    fn ops_to_hold(&self, desired: &ForwardingState) -> VecDeque<RouteOp> {
        let numbers = (0..).map(GroupId);
        let free = numbers.filter(|group| !self.groups.contains_key(group));
        let ops = self.reconcile(&desired.routes, free);
        ops.expect("there are enough names for groups").into()
    }

    fn held(&self) -> ForwardingState {
        ForwardingState {
            rules: Vec::new(),
            routes: self.rules(),
        }
    }
}
