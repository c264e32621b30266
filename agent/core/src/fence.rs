//! Which instructions a switch follows, and in what order it does so: note down, act, read back,
//! note down that it held, acknowledge. A crash at any point leaves a record that says which pins
//! the kernel took last, so that whoever starts next can go on from there.
//!
//! A state machine: the shell carries out one [`Effect`] after the other and hands in how it went.

use std::collections::VecDeque;

use reweave_common::instruction::{Ack, Install, Refusal};
use reweave_common::plan::Generation;
use reweave_common::sample::PinRule;
use serde::{Deserialize, Serialize};

/// What must survive a crash.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The latest instruction that was taken up. Nothing earlier is followed any more.
    pub promised: Option<Install>,
    /// The pins a kernel last held as told, and shall hold until others do.
    pub in_force: Pins,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pins {
    pub generation: Generation,
    pub rules: Vec<PinRule>,
}

/// What the shell shall do next, and which method it calls then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Make this durable; then [`Fence::handle_noted`].
    Note(Record),
    /// Make the kernel hold these pins and no others; then [`Fence::handle_applied`].
    Apply(Vec<PinRule>),
    /// Ask the kernel what it holds; then [`Fence::handle_read_back`].
    ReadBack,
    Send(Ack),
}

#[derive(Debug)]
pub struct Fence {
    record: Record,
    stage: Stage,
    waiting: VecDeque<Install>,
    effects: VecDeque<Effect>,
    /// The answer to what was promised, once it is known.
    answered: Option<Ack>,
}

/// How far the instruction in hand has come.
#[derive(Debug)]
enum Stage {
    Idle,
    Promising(Install),
    Applying,
    ReadingBack,
    Settling(Vec<PinRule>),
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
        }
    }

    /// The pins the kernel shall hold.
    pub fn in_force(&self) -> &Pins {
        &self.record.in_force
    }

    /// Instructions are followed one after the other, in the order they came.
    pub fn handle_install(&mut self, mut install: Install) {
        install.rules.sort();
        install.rules.dedup();
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
                let error = format!("{refusal}; going back failed too: {error}");
                self.answer_promised(Err(Refusal::Kernel { error }));
            }
            (stage, _) => self.stage = stage,
        }
        self.take_up_next();
    }

    pub fn handle_read_back(&mut self, outcome: Result<Vec<PinRule>, String>) {
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
        let Some(promised) = &self.record.promised else {
            return Verdict::Follow;
        };
        let (held, token) = (promised.generation, promised.token);
        if install.token < token || install.generation < held {
            return Verdict::Refuse(Refusal::Older { held, token });
        }
        let same_generation = install.generation == held;
        let same_token = install.token == token;
        let same_rules = install.rules == promised.rules;
        match (same_token, same_generation) {
            (true, false) => Verdict::Refuse(Refusal::DifferentContent { held, token }),
            (_, true) if !same_rules => Verdict::Refuse(Refusal::DifferentContent { held, token }),
            (true, true) => self
                .answered
                .clone()
                .map_or(Verdict::Follow, Verdict::Repeat),
            (false, _) => Verdict::Follow,
        }
    }

    fn act(&mut self, install: Install) {
        let rules = install.rules.clone();
        self.record.promised = Some(install);
        self.answered = None;
        self.go_on(Stage::Applying, Effect::Apply(rules));
    }

    fn settle(&mut self, held: Vec<PinRule>) {
        self.record = self.record_in_force(held.clone());
        self.answer_promised(Ok(held));
    }

    fn restore(&mut self, refusal: Refusal) {
        let before = self.record.in_force.rules.clone();
        self.go_on(Stage::Restoring(refusal), Effect::Apply(before));
    }

    fn answer_promised(&mut self, outcome: Result<Vec<PinRule>, Refusal>) {
        if let Some(promised) = self.record.promised.clone() {
            self.answered = Some(ack(&promised, outcome.clone()));
            self.answer(&promised, outcome);
        }
    }

    fn answer(&mut self, install: &Install, outcome: Result<Vec<PinRule>, Refusal>) {
        self.effects.push_back(Effect::Send(ack(install, outcome)));
    }

    fn go_on(&mut self, stage: Stage, effect: Effect) {
        self.stage = stage;
        self.effects.push_back(effect);
    }

    /// What was read back, if it is what was asked for.
    fn compare(&self, mut held: Vec<PinRule>) -> Result<Vec<PinRule>, String> {
        held.sort();
        let promised = self.promised_rules();
        let lacks =
            |a: &[PinRule], b: &[PinRule]| b.iter().filter(|rule| !a.contains(rule)).count();
        if held == promised {
            return Ok(held);
        }
        let [missing, surplus] = [lacks(&held, promised), lacks(promised, &held)];
        Err(format!(
            "read back, {missing} rules were missing and {surplus} too many"
        ))
    }

    fn promised_rules(&self) -> &[PinRule] {
        let promised = self.record.promised.as_ref();
        promised.map_or(&[], |install| &install.rules)
    }

    fn record_in_force(&self, rules: Vec<PinRule>) -> Record {
        let promised = self.record.promised.clone();
        let generation = promised.as_ref().map(|install| install.generation);
        Record {
            promised,
            in_force: Pins {
                generation: generation.unwrap_or_default(),
                rules,
            },
        }
    }
}

enum Verdict {
    Follow,
    Refuse(Refusal),
    Repeat(Ack),
}

fn ack(install: &Install, outcome: Result<Vec<PinRule>, Refusal>) -> Ack {
    Ack {
        generation: install.generation,
        token: install.token,
        outcome,
    }
}

#[cfg(test)]
mod tests;
