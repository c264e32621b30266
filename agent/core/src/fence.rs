//! Which instructions a switch follows, and the steps of each: record, apply, read back, record the result,
//! acknowledge. A crash at any point leaves a record of the last state of the kernel, from which the next start
//! continues.
//!
//! An unconfirmed instruction (RFC 6241, section 8.4) is rolled back automatically once its timeout has passed.
//!
//! ```text
//! received -> in force, unconfirmed -> confirmed by a later token
//!                       |
//!                       +-> timeout -> previous state
//! ```
//!
//! A state machine: the shell executes one [`FenceEffect`] after the other and hands in the result.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use reweave_common::forwarding_state::ForwardingState;
use reweave_common::instruction::{Ack, Install, InstallRefusal, Instruction, Token, Unconfirmed};
use reweave_common::moment::Moment;
use reweave_common::plan::Generation;
use serde::{Deserialize, Serialize};

/// What must survive a crash.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The latest accepted instruction. Older ones are refused.
    pub promised: Option<Install>,
    /// The last installed state, which stays in force until the next instruction.
    pub in_force: InForce,
    /// Present while the state in force is unconfirmed.
    #[serde(default)]
    pub fallback: Option<Fallback>,
}

impl Record {
    /// The record after the timeout.
    fn without_unconfirmed(self) -> Self {
        match self.fallback {
            Some(Fallback { in_force, .. }) => Self {
                in_force,
                fallback: None,
                promised: self.promised,
            },
            None => self,
        }
    }
}

/// The state that returns unless the state in force is confirmed in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fallback {
    pub in_force: InForce,
    pub confirm_timeout_ms: u32,
}

/// Time in which the process was stopped or the machine suspended counts at most this much.
const MAX_WAIT_PER_CHECK: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InForce {
    pub generation: Generation,
    pub holding: ForwardingState,
}

/// The next action of the shell, and the method for its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FenceEffect {
    /// Make this durable; then [`Fence::handle_noted`].
    Note(Record),
    /// Install exactly this in the kernel, without entries over interfaces that are down; then
    /// [`Fence::handle_applied`].
    Apply(ForwardingState),
    /// Read the kernel's state; then [`Fence::handle_read_back`].
    ReadBack,
    Send(Ack),
}

#[derive(Debug, Clone)]
pub struct Fence {
    record: Record,
    stage: InstallStage,
    waiting: VecDeque<InstallOrder>,
    effects: VecDeque<FenceEffect>,
    /// The ack of the accepted instruction, once it is known.
    answered: Option<Ack>,
    /// The latest instruction that could not be recorded. Older ones stay refused, because its sender may have rolled
    /// them back.
    unnoted: Option<(Generation, Token)>,
    /// Whether the node forwards packets. A node that does not pins no flows of others.
    forwards: bool,
    /// How long the state in force has been unconfirmed, and when that was last checked.
    unconfirmed_for: Duration,
    looked: Option<Moment>,
}

#[derive(Debug, Clone)]
struct InstallOrder {
    install: Install,
    confirm_timeout_ms: Option<u32>,
}

/// The progress of an instruction, or of the rollback of an unconfirmed one.
#[derive(Debug, Clone)]
enum InstallStage {
    /// A start that rolls back an unconfirmed state: nothing is accepted until that is recorded, because its result
    /// would be taken for that of the new instruction.
    Starting,
    Idle,
    Promising(InstallOrder),
    Applying(Option<Fallback>),
    ReadingBack(Option<Fallback>),
    Settling(Record),
    Restoring(InstallRefusal),
    Expiring(Record),
    Reverting,
}

impl Fence {
    /// Starts from a record. An unconfirmed state in it is rolled back.
    pub fn new(record: Record) -> Self {
        let is_unconfirmed = record.fallback.is_some();
        let record = record.without_unconfirmed();
        let mut fence = Self {
            record: record.clone(),
            stage: InstallStage::Idle,
            waiting: VecDeque::new(),
            effects: VecDeque::new(),
            answered: None,
            unnoted: None,
            forwards: true,
            unconfirmed_for: Duration::ZERO,
            looked: None,
        };
        if is_unconfirmed {
            fence.go_on(InstallStage::Starting, FenceEffect::Note(record));
        }
        fence
    }

    /// The same for a host that forwards nothing.
    pub fn of_host(record: Record) -> Self {
        Self {
            forwards: false,
            ..Self::new(record)
        }
    }

    /// The desired state of the kernel.
    pub fn in_force(&self) -> &InForce {
        &self.record.in_force
    }

    /// Whether it ever got an instruction.
    pub fn has_instruction(&self) -> bool {
        self.record.promised.is_some()
    }

    pub fn is_unconfirmed(&self) -> bool {
        self.record.fallback.is_some()
    }

    /// Handles an instruction; they are followed in the order of their arrival.
    pub fn handle_install(&mut self, install: Install) {
        self.handle_order(install, None);
    }

    /// The same for one that must be confirmed before its timeout.
    pub fn handle_unconfirmed(&mut self, unconfirmed: Unconfirmed) {
        let confirm_timeout_ms = Some(unconfirmed.confirm_timeout_ms);
        self.handle_order(unconfirmed.install, confirm_timeout_ms);
    }

    /// Handles either kind of instruction.
    pub fn handle_instruction(&mut self, instruction: Instruction) {
        match instruction {
            Instruction::Install(install) => self.handle_install(install),
            Instruction::Unconfirmed(unconfirmed) => self.handle_unconfirmed(unconfirmed),
            Instruction::Watch(_) | Instruction::Probe(_) | Instruction::Closely(_) => {}
        }
    }

    fn handle_order(&mut self, mut install: Install, confirm_timeout_ms: Option<u32>) {
        install.holding = install.holding.in_order();
        self.waiting.push_back(InstallOrder {
            install,
            confirm_timeout_ms,
        });
        self.take_up_next();
    }

    /// To be called several times a second while the state [is unconfirmed](Self::is_unconfirmed). Returns whether its
    /// rollback begins now.
    pub fn handle_time(&mut self, now: Moment) -> bool {
        let Some(fallback) = self.record.fallback.clone() else {
            self.looked = None;
            return false;
        };
        let since = self
            .looked
            .replace(now)
            .map_or(Duration::ZERO, |last| now.since(last));
        self.unconfirmed_for += since.min(MAX_WAIT_PER_CHECK);
        let timeout = Duration::from_millis(fallback.confirm_timeout_ms.into());
        let expires = self.unconfirmed_for >= timeout && matches!(self.stage, InstallStage::Idle);
        if expires {
            let record = self.record.clone().without_unconfirmed();
            self.go_on(
                InstallStage::Expiring(record.clone()),
                FenceEffect::Note(record),
            );
        }
        expires
    }

    pub fn poll_effect(&mut self) -> Option<FenceEffect> {
        self.effects.pop_front()
    }

    pub fn handle_noted(&mut self, outcome: Result<(), String>) {
        match (
            std::mem::replace(&mut self.stage, InstallStage::Idle),
            outcome,
        ) {
            (InstallStage::Promising(order), Ok(())) => self.act(order),
            (InstallStage::Promising(InstallOrder { install, .. }), Err(error)) => {
                self.unnoted = Some((install.generation, install.token));
                let refusal = InstallRefusal::NotDurable { error };
                self.answer(&install, Err(refusal));
            }
            (InstallStage::Settling(record), Ok(())) => self.settle(record),
            (InstallStage::Settling(_), Err(error)) => {
                self.restore(InstallRefusal::NotDurable { error });
            }
            // If it cannot be recorded, the next start rolls back again.
            (InstallStage::Starting, _) => {}
            (InstallStage::Expiring(record), _) => self.revert(record),
            (stage, _) => self.stage = stage,
        }
        self.take_up_next();
    }

    pub fn handle_applied(&mut self, outcome: Result<(), String>) {
        match (
            std::mem::replace(&mut self.stage, InstallStage::Idle),
            outcome,
        ) {
            (InstallStage::Applying(fallback), Ok(())) => {
                self.go_on(InstallStage::ReadingBack(fallback), FenceEffect::ReadBack);
            }
            (InstallStage::Applying(_), Err(error)) => {
                self.restore(InstallRefusal::Kernel { error });
            }
            (InstallStage::Restoring(refusal), Ok(())) => self.answer_promised(Err(refusal)),
            (InstallStage::Restoring(refusal), Err(error)) => {
                let error = format!("{refusal}, then: {error}");
                self.answer_promised(Err(InstallRefusal::RestoreFailed { error }));
            }
            (InstallStage::Reverting, _) => {}
            (stage, _) => self.stage = stage,
        }
        self.take_up_next();
    }

    pub fn handle_read_back(&mut self, outcome: Result<ForwardingState, String>) {
        self.handle_read_back_without(outcome, &BTreeSet::new());
    }

    /// The same where these interfaces are down: entries over them may be missing. They stay part of the state in
    /// force, and are installed once the interfaces are up.
    pub fn handle_read_back_without(
        &mut self,
        outcome: Result<ForwardingState, String>,
        down: &BTreeSet<String>,
    ) {
        let InstallStage::ReadingBack(fallback) = &self.stage else {
            return;
        };
        let fallback = fallback.clone();
        match outcome.and_then(|held| self.compare(held, down)) {
            Ok(instructed) => {
                let record = self.record_in_force(instructed, fallback);
                self.go_on(
                    InstallStage::Settling(record.clone()),
                    FenceEffect::Note(record),
                );
            }
            Err(error) => self.restore(InstallRefusal::Kernel { error }),
        }
    }

    fn take_up_next(&mut self) {
        while matches!(self.stage, InstallStage::Idle) {
            let Some(order) = self.waiting.pop_front() else {
                return;
            };
            self.take_up(order);
        }
    }

    fn take_up(&mut self, order: InstallOrder) {
        match self.judge(&order.install) {
            FenceVerdict::Refuse(refusal) => self.answer(&order.install, Err(refusal)),
            FenceVerdict::Repeat(ack) => self.effects.push_back(FenceEffect::Send(ack)),
            FenceVerdict::Follow => {
                let record = Record {
                    promised: Some(order.install.clone()),
                    ..self.record.clone()
                };
                self.go_on(InstallStage::Promising(order), FenceEffect::Note(record));
            }
        }
    }

    fn judge(&self, install: &Install) -> FenceVerdict {
        let is_newer = |&(held, token): &(Generation, Token)| is_older(install, held, token);
        if let Some((held, token)) = self.unnoted.filter(is_newer) {
            return FenceVerdict::Refuse(InstallRefusal::Older { held, token });
        }
        let Some(promised) = &self.record.promised else {
            return FenceVerdict::Follow;
        };
        let (held, token) = (promised.generation, promised.token);
        if is_older(install, held, token) {
            return FenceVerdict::Refuse(InstallRefusal::Older { held, token });
        }
        let same_generation = install.generation == held;
        let same_token = install.token == token;
        let same_content = install.holding == promised.holding;
        match (same_token, same_generation) {
            (true, false) => FenceVerdict::Refuse(InstallRefusal::DifferentContent { held, token }),
            (_, true) if !same_content => {
                FenceVerdict::Refuse(InstallRefusal::DifferentContent { held, token })
            }
            (true, true) => self
                .answered
                .clone()
                .map_or(FenceVerdict::Follow, FenceVerdict::Repeat),
            (false, _) => FenceVerdict::Follow,
        }
    }

    fn act(&mut self, order: InstallOrder) {
        let holding = order.install.holding.clone();
        self.record.promised = Some(order.install);
        if !self.forwards && !holding.rules.is_empty() {
            return self.answer_promised(Err(InstallRefusal::NotASwitch));
        }
        let fallback = order.confirm_timeout_ms.map(|ms| self.fallback(ms));
        self.go_on(
            InstallStage::Applying(fallback),
            FenceEffect::Apply(holding),
        );
    }

    /// The last confirmed state.
    fn fallback(&self, confirm_timeout_ms: u32) -> Fallback {
        let confirmed = self.record.fallback.as_ref().map(|it| &it.in_force);
        Fallback {
            in_force: confirmed.unwrap_or(&self.record.in_force).clone(),
            confirm_timeout_ms,
        }
    }

    fn settle(&mut self, record: Record) {
        let held = record.in_force.holding.clone();
        self.record = record;
        (self.unconfirmed_for, self.looked) = (Duration::ZERO, None);
        self.answer_promised(Ok(held));
    }

    /// Rolls back. The earlier ack is void. If the kernel refuses, the state is repaired later, as after any drift.
    fn revert(&mut self, record: Record) {
        let before = record.in_force.holding.clone();
        self.record = record;
        self.answered = None;
        self.go_on(InstallStage::Reverting, FenceEffect::Apply(before));
    }

    fn restore(&mut self, refusal: InstallRefusal) {
        let before = self.record.in_force.holding.clone();
        self.go_on(InstallStage::Restoring(refusal), FenceEffect::Apply(before));
    }

    fn answer_promised(&mut self, outcome: Result<ForwardingState, InstallRefusal>) {
        if let Some(promised) = self.record.promised.clone() {
            self.answered = Some(ack(&promised, outcome.clone()));
            self.answer(&promised, outcome);
        }
    }

    fn answer(&mut self, install: &Install, outcome: Result<ForwardingState, InstallRefusal>) {
        self.effects
            .push_back(FenceEffect::Send(ack(install, outcome)));
    }

    fn go_on(&mut self, stage: InstallStage, effect: FenceEffect) {
        self.stage = stage;
        self.effects.push_back(effect);
    }

    /// The instructed state, if it was read back as far as interfaces are up.
    fn compare(
        &self,
        held: ForwardingState,
        down: &BTreeSet<String>,
    ) -> Result<ForwardingState, String> {
        let held = held.in_order();
        let expected = self.promised_holding();
        let left_out = held.left_out_of(&expected);
        if left_out.is_some_and(|interfaces| interfaces.is_subset(down)) {
            return Ok(expected);
        }
        let lacks = [
            lack("rules", &held.rules, &expected.rules),
            lack("routes", &held.routes, &expected.routes),
        ];
        let lacks: Vec<_> = lacks.into_iter().flatten().collect();
        Err(format!("read back, {}", lacks.join(" and ")))
    }

    fn promised_holding(&self) -> ForwardingState {
        let promised = self.record.promised.as_ref();
        promised.map_or_else(ForwardingState::default, |install| install.holding.clone())
    }

    fn record_in_force(&self, holding: ForwardingState, fallback: Option<Fallback>) -> Record {
        let promised = self.record.promised.clone();
        let generation = promised.as_ref().map(|install| install.generation);
        Record {
            promised,
            in_force: InForce {
                generation: generation.unwrap_or_default(),
                holding,
            },
            fallback,
        }
    }
}

fn is_older(install: &Install, held: Generation, token: Token) -> bool {
    install.token < token || install.generation < held
}

/// How many entries are missing and how many are surplus, if any.
fn lack<T: PartialEq>(what: &str, held: &[T], desired: &[T]) -> Option<String> {
    let lacking = |a: &[T], b: &[T]| b.iter().filter(|it| !a.contains(it)).count();
    let [missing, surplus] = [lacking(held, desired), lacking(desired, held)];
    let words = || format!("{missing} {what} were missing and {surplus} too many");
    (missing + surplus > 0).then(words)
}

enum FenceVerdict {
    Follow,
    Refuse(InstallRefusal),
    Repeat(Ack),
}

fn ack(install: &Install, outcome: Result<ForwardingState, InstallRefusal>) -> Ack {
    Ack {
        generation: install.generation,
        token: install.token,
        outcome,
    }
}

#[cfg(test)]
mod tests;
