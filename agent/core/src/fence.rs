//! Which instructions a switch follows, and in what order it does so: note down, act, read back,
//! note down that it held, acknowledge. A crash at any point leaves a record that says what
//! the kernel took last, so that whoever starts next can go on from there.
//!
//! A state machine: the shell carries out one [`Effect`] after the other and hands in how it went.

use std::collections::VecDeque;

use reweave_common::holding::Holding;
use reweave_common::instruction::{Ack, Install, Refusal, Token};
use reweave_common::plan::Generation;
use serde::{Deserialize, Serialize};

/// What must survive a crash.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The latest instruction that was taken up. Nothing earlier is followed any more.
    pub promised: Option<Install>,
    /// What a kernel last held as told, and shall hold until something else is told.
    pub in_force: InForce,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InForce {
    pub generation: Generation,
    pub holding: Holding,
}

/// What the shell shall do next, and which method it calls then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Make this durable; then [`Fence::handle_noted`].
    Note(Record),
    /// Make the kernel hold this and nothing else; then [`Fence::handle_applied`].
    Apply(Holding),
    /// Ask the kernel what it holds; then [`Fence::handle_read_back`].
    ReadBack,
    Send(Ack),
}

#[derive(Debug, Clone)]
pub struct Fence {
    record: Record,
    stage: Stage,
    waiting: VecDeque<Install>,
    effects: VecDeque<Effect>,
    /// The answer to what was promised, once it is known.
    answered: Option<Ack>,
    /// The latest that could not be noted down, as long as this process knows: whoever told it may have
    /// taken back by now what came before.
    unnoted: Option<(Generation, Token)>,
    /// A node that forwards nothing pins no flows of others.
    forwards: bool,
}

/// How far the instruction in hand has come.
#[derive(Debug, Clone)]
enum Stage {
    Idle,
    Promising(Install),
    Applying,
    ReadingBack,
    Settling(Holding),
    Restoring(Refusal),
}

impl Fence {
    pub fn new(record: Record) -> Self {
        Self {
            record,
            stage: Stage::Idle,
            waiting: VecDeque::new(),
            effects: VecDeque::new(),
            answered: None,
            unnoted: None,
            forwards: true,
        }
    }

    /// Of a host that forwards nothing.
    pub fn of_host(record: Record) -> Self {
        Self {
            forwards: false,
            ..Self::new(record)
        }
    }

    /// What the kernel shall hold.
    pub fn in_force(&self) -> &InForce {
        &self.record.in_force
    }

    /// Instructions are followed one after the other, in the order they came.
    pub fn handle_install(&mut self, mut install: Install) {
        install.holding = install.holding.in_order();
        self.waiting.push_back(install);
        self.take_up_next();
    }

    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    pub fn handle_noted(&mut self, outcome: Result<(), String>) {
        match (std::mem::replace(&mut self.stage, Stage::Idle), outcome) {
            (Stage::Promising(install), Ok(())) => self.act(install),
            (Stage::Promising(install), Err(error)) => {
                self.unnoted = Some((install.generation, install.token));
                let refusal = Refusal::NotDurable { error };
                self.answer(&install, Err(refusal));
            }
            (Stage::Settling(held), Ok(())) => self.settle(held),
            (Stage::Settling(_), Err(error)) => self.restore(Refusal::NotDurable { error }),
            (stage, _) => self.stage = stage,
        }
        self.take_up_next();
    }

    pub fn handle_applied(&mut self, outcome: Result<(), String>) {
        match (std::mem::replace(&mut self.stage, Stage::Idle), outcome) {
            (Stage::Applying, Ok(())) => self.go_on(Stage::ReadingBack, Effect::ReadBack),
            (Stage::Applying, Err(error)) => self.restore(Refusal::Kernel { error }),
            (Stage::Restoring(refusal), Ok(())) => self.answer_promised(Err(refusal)),
            (Stage::Restoring(refusal), Err(error)) => {
                let error = format!("{refusal}, then: {error}");
                self.answer_promised(Err(Refusal::RestoreFailed { error }));
            }
            (stage, _) => self.stage = stage,
        }
        self.take_up_next();
    }

    pub fn handle_read_back(&mut self, outcome: Result<Holding, String>) {
        if !matches!(self.stage, Stage::ReadingBack) {
            return;
        }
        match outcome.and_then(|held| self.compare(held)) {
            Ok(held) => {
                let record = self.record_in_force(held.clone());
                self.go_on(Stage::Settling(held), Effect::Note(record));
            }
            Err(error) => self.restore(Refusal::Kernel { error }),
        }
    }

    fn take_up_next(&mut self) {
        while matches!(self.stage, Stage::Idle) {
            let Some(install) = self.waiting.pop_front() else {
                return;
            };
            self.take_up(install);
        }
    }

    fn take_up(&mut self, install: Install) {
        match self.judge(&install) {
            Verdict::Refuse(refusal) => self.answer(&install, Err(refusal)),
            Verdict::Repeat(ack) => self.effects.push_back(Effect::Send(ack)),
            Verdict::Follow => {
                let record = Record {
                    promised: Some(install.clone()),
                    ..self.record.clone()
                };
                self.go_on(Stage::Promising(install), Effect::Note(record));
            }
        }
    }

    fn judge(&self, install: &Install) -> Verdict {
        if let Some((held, token)) = self.unnoted.filter(|&newer| is_older(install, newer)) {
            return Verdict::Refuse(Refusal::Older { held, token });
        }
        let Some(promised) = &self.record.promised else {
            return Verdict::Follow;
        };
        let (held, token) = (promised.generation, promised.token);
        if is_older(install, (held, token)) {
            return Verdict::Refuse(Refusal::Older { held, token });
        }
        let same_generation = install.generation == held;
        let same_token = install.token == token;
        let same_content = install.holding == promised.holding;
        match (same_token, same_generation) {
            (true, false) => Verdict::Refuse(Refusal::DifferentContent { held, token }),
            (_, true) if !same_content => {
                Verdict::Refuse(Refusal::DifferentContent { held, token })
            }
            (true, true) => self
                .answered
                .clone()
                .map_or(Verdict::Follow, Verdict::Repeat),
            (false, _) => Verdict::Follow,
        }
    }

    fn act(&mut self, install: Install) {
        let holding = install.holding.clone();
        self.record.promised = Some(install);
        if !self.forwards && !holding.rules.is_empty() {
            return self.answer_promised(Err(Refusal::NotASwitch));
        }
        self.go_on(Stage::Applying, Effect::Apply(holding));
    }

    fn settle(&mut self, held: Holding) {
        self.record = self.record_in_force(held.clone());
        self.answer_promised(Ok(held));
    }

    fn restore(&mut self, refusal: Refusal) {
        let before = self.record.in_force.holding.clone();
        self.go_on(Stage::Restoring(refusal), Effect::Apply(before));
    }

    fn answer_promised(&mut self, outcome: Result<Holding, Refusal>) {
        if let Some(promised) = self.record.promised.clone() {
            self.answered = Some(ack(&promised, outcome.clone()));
            self.answer(&promised, outcome);
        }
    }

    fn answer(&mut self, install: &Install, outcome: Result<Holding, Refusal>) {
        self.effects.push_back(Effect::Send(ack(install, outcome)));
    }

    fn go_on(&mut self, stage: Stage, effect: Effect) {
        self.stage = stage;
        self.effects.push_back(effect);
    }

    /// What was read back, if it is what was asked for.
    fn compare(&self, held: Holding) -> Result<Holding, String> {
        let held = held.in_order();
        let told = self.promised_holding();
        if held == told {
            return Ok(held);
        }
        let lacks = [
            lack("rules", &held.rules, &told.rules),
            lack("routes", &held.routes, &told.routes),
        ];
        let lacks: Vec<_> = lacks.into_iter().flatten().collect();
        Err(format!("read back, {}", lacks.join(" and ")))
    }

    fn promised_holding(&self) -> Holding {
        let promised = self.record.promised.as_ref();
        promised.map_or_else(Holding::default, |install| install.holding.clone())
    }

    fn record_in_force(&self, holding: Holding) -> Record {
        let promised = self.record.promised.clone();
        let generation = promised.as_ref().map(|install| install.generation);
        Record {
            promised,
            in_force: InForce {
                generation: generation.unwrap_or_default(),
                holding,
            },
        }
    }
}

fn is_older(install: &Install, (held, token): (Generation, Token)) -> bool {
    install.token < token || install.generation < held
}

/// How many are missing and how many too many, unless it is none.
fn lack<T: PartialEq>(what: &str, held: &[T], told: &[T]) -> Option<String> {
    let lacking = |a: &[T], b: &[T]| b.iter().filter(|it| !a.contains(it)).count();
    let [missing, surplus] = [lacking(held, told), lacking(told, held)];
    let words = || format!("{missing} {what} were missing and {surplus} too many");
    (missing + surplus > 0).then(words)
}

enum Verdict {
    Follow,
    Refuse(Refusal),
    Repeat(Ack),
}

fn ack(install: &Install, outcome: Result<Holding, Refusal>) -> Ack {
    Ack {
        generation: install.generation,
        token: install.token,
        outcome,
    }
}

#[cfg(test)]
mod tests;
