//! A switch whose agent follows instructions, or fails as a test wants.

use std::collections::BTreeMap;

use reweave_common::forwarding_state::{ForwardingState, RouteRule};
use reweave_common::instruction::{Ack, Install, InstallRefusal, Instruction, Token};
use reweave_common::plan::Generation;
use reweave_common::sample::{PinRule, Reading};

#[derive(Debug, Clone, Default)]
pub(crate) struct Switch {
    pub(crate) rules: Vec<PinRule>,
    pub(crate) routes: Vec<RouteRule>,
    generation: Generation,
    token: Token,
    answers: BTreeMap<Token, Ack>,
    pub(crate) mood: Mood,
    /// The number of received instructions.
    pub(crate) install_count: usize,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum Mood {
    #[default]
    Obeys,
    /// Refuses, and does nothing.
    Refuses,
    /// Refuses once it has applied an instruction permanently.
    RefusesLater,
    /// Applies instructions, and does not acknowledge them.
    Mute,
    /// Receives no instructions.
    Deaf,
    /// Applies something else.
    Careless,
    /// Applies instructions, and then reports a failure.
    Botches,
}

impl Switch {
    pub(crate) fn follow(&mut self, instruction: &Instruction) -> Option<Ack> {
        let install = instruction.install()?.clone();
        let is_for_good = matches!(instruction, Instruction::Install(_));
        if self.mood == Mood::Deaf {
            return None;
        }
        self.install_count += 1;
        let (generation, token) = (install.generation, install.token);
        let ack = match self.answers.get(&token) {
            Some(ack) => ack.clone(),
            None => Ack {
                generation,
                token,
                outcome: self.act(install, is_for_good),
            },
        };
        self.answers.insert(token, ack.clone());
        (self.mood != Mood::Mute).then_some(ack)
    }

    fn holding(&self) -> ForwardingState {
        ForwardingState {
            rules: self.rules.clone(),
            routes: self.routes.clone(),
        }
    }

    fn act(
        &mut self,
        install: Install,
        is_for_good: bool,
    ) -> Result<ForwardingState, InstallRefusal> {
        let (held, token) = (self.generation, self.token);
        if install.token < token || install.generation < held {
            return Err(InstallRefusal::Older { held, token });
        }
        if install.generation == held && install.holding != self.holding() {
            return Err(InstallRefusal::DifferentContent { held, token });
        }
        self.token = install.token;
        match self.mood {
            Mood::Refuses => {
                return Err(InstallRefusal::Kernel {
                    error: "no space".to_owned(),
                });
            }
            Mood::RefusesLater if is_for_good => self.mood = Mood::Refuses,
            _ => {}
        }
        self.generation = install.generation;
        ForwardingState {
            rules: self.rules,
            routes: self.routes,
        } = install.holding;
        if self.mood == Mood::Botches {
            let error = "no space, then: no space".to_owned();
            return Err(InstallRefusal::RestoreFailed { error });
        }
        if self.mood == Mood::Careless {
            self.rules.clear();
        }
        Ok(self.holding())
    }

    /// The agent restarts and has no ack to repeat.
    pub(crate) fn forget(&mut self) {
        self.answers.clear();
        (self.generation, self.token) = (Generation(0), Token(0));
    }

    /// It has applied an instruction that the log has lost.
    pub(crate) fn followed(&mut self, generation: u64, token: u64) {
        (self.generation, self.token) = (Generation(generation), Token(token));
    }

    pub(crate) fn read_back(&self) -> Reading {
        Reading::Holds {
            generation: self.generation,
            holding: self.holding(),
        }
    }
}
