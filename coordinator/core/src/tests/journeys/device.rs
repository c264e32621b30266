//! An optical switch with its driver, and what ails it.

use reweave_common::circuit::{CircuitSet, NotSwitched, Readback, Switchover};
use reweave_common::instruction::Token;

/// An optical switch and its driver, which survive everything.
#[derive(Debug, Clone, Default)]
pub(super) struct Device {
    pub(super) circuits: CircuitSet,
    pub(super) highest: Token,
    pub(super) cached: Option<Readback>,
    pub(super) ails: Ailment,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) enum Ailment {
    #[default]
    None,
    /// It does not answer, and may have moved.
    TimesOut,
    /// It moves nothing and says so.
    Refuses,
    /// Only what goes dark is done.
    MovesHalf,
}

impl Device {
    pub(super) fn follow(&mut self, told: &Switchover) -> Option<Readback> {
        let held = told.generation;
        let outcome = if told.token < self.highest {
            Err(NotSwitched::Older {
                held,
                token: self.highest,
            })
        } else if let Some(cached) = self.cached.clone().filter(|it| it.token == told.token) {
            return Some(cached);
        } else {
            self.highest = told.token;
            self.act(told)
        };
        let readback = Readback {
            generation: told.generation,
            token: told.token,
            outcome,
        };
        if told.token == self.highest {
            self.cached = Some(readback.clone());
        }
        Some(readback)
    }

    fn act(&mut self, told: &Switchover) -> Result<CircuitSet, NotSwitched> {
        if self.circuits == told.desired {
            return Ok(self.circuits.clone());
        }
        if self.circuits != told.expected {
            let found = self.circuits.clone();
            return Err(NotSwitched::Mismatch { found });
        }
        match self.ails {
            Ailment::Refuses => {
                let (error, found) = ("busy".to_owned(), self.circuits.clone());
                return Err(NotSwitched::Device { error, found });
            }
            Ailment::MovesHalf => {
                let kept = self.circuits.iter().filter(|&it| told.desired.contains(it));
                self.circuits = kept.collect();
            }
            Ailment::None | Ailment::TimesOut => self.circuits.clone_from(&told.desired),
        }
        match self.ails {
            Ailment::TimesOut => Err(NotSwitched::TimedOut),
            _ => Ok(self.circuits.clone()),
        }
    }
}
