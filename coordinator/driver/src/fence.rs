//! Which instructions to one optical switch are followed, and the steps of each: record, read, move, read again,
//! record, answer. After any failure in between, the state of the device decides, never the request.
//!
//! A state machine: the shell executes one [`Effect`] after the other and hands in the result.

use std::collections::VecDeque;

use reweave_common::circuit::{CircuitSet, NotSwitched, Readback, Switchover};
use serde::{Deserialize, Serialize};

use crate::moves::{Moves, impossible, is_between};

/// What must survive a crash.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The latest instruction that was taken up. Nothing earlier is followed any longer.
    pub promised: Option<Switchover>,
    pub answered: Option<Readback>,
}

impl Record {
    /// From where to where the device has to go to be as it was before the last instruction moved
    /// it, if that is known to have moved it.
    pub fn way_back(self) -> Option<(CircuitSet, CircuitSet)> {
        let found = match self.answered?.outcome {
            Ok(found) | Err(NotSwitched::Device { found, .. }) => found,
            Err(_) => return None,
        };
        Some((found, self.promised?.expected))
    }
}

impl Record {
    /// Whether the last answer said that the device holds what it held, or what it should. Its receiver may have gone
    /// on from there, so nothing is moved any longer under that token.
    fn is_settled(&self) -> bool {
        let (Some(report), Some(answer)) = (&self.promised, &self.answered) else {
            return false;
        };
        let found = match &answer.outcome {
            Ok(found)
            | Err(NotSwitched::Mismatch { found } | NotSwitched::Device { found, .. }) => found,
            Err(_) => return false,
        };
        [&report.expected, &report.desired].contains(&found)
    }

    /// Whether the device may have got a request with an unknown result.
    fn may_be_unanswered(&self) -> bool {
        let outcome = self.answered.as_ref().map(|answer| &answer.outcome);
        let is_open = matches!(
            outcome,
            None | Some(Err(NotSwitched::TimedOut | NotSwitched::Unclear { .. }))
        );
        self.promised.is_some() && is_open
    }

    /// Whether the last instruction asked for the same, and may have been carried out by halves.
    fn left_off(&self, switchover: &Switchover) -> bool {
        let Some(last) = &self.promised else {
            return false;
        };
        let may_have_moved = match self.answered.as_ref().map(|answer| &answer.outcome) {
            None
            | Some(Err(
                NotSwitched::TimedOut | NotSwitched::Unclear { .. } | NotSwitched::Device { .. },
            )) => true,
            Some(Ok(found)) => *found != last.desired,
            Some(Err(_)) => false,
        };
        may_have_moved
            && (&last.expected, &last.desired) == (&switchover.expected, &switchover.desired)
    }
}

/// What the shell should do next, and which method it calls then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Make this durable; then [`Fence::handle_noted`].
    Note(Record),
    /// Ask the device for its circuits; for a while again and again, if it should come to hold
    /// some; then [`Fence::handle_read`].
    Read {
        until: Option<CircuitSet>,
    },
    /// Make the device do this; then [`Fence::handle_moved`].
    Move(Moves),
    Send(Readback),
}

/// A device's reaction to an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moved {
    Done,
    /// It did not say so in time. It may have moved, or still move.
    Late,
    Refused(String),
}

#[derive(Debug, Clone)]
pub struct Fence {
    record: Record,
    ports: u16,
    stage: Stage,
    waiting: VecDeque<Switchover>,
    effects: VecDeque<Effect>,
    /// A request to the device has not been answered, and may be done in any moment. As devices do one thing after the
    /// other, that ends with the next that they say is done.
    unanswered: bool,
}

/// How far the instruction in hand has come.
#[derive(Debug, Clone)]
enum Stage {
    Idle,
    Promising(Switchover, Why),
    Looking(Why),
    Moving,
    LookingBack(Moved),
    Settling(Readback),
}

/// Why the device is looked at, which decides what may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// It should move, if it is as expected.
    Fresh,
    /// It should, and may have been stopped on the way.
    Unfinished,
    /// It has answered before what came of it: a repeated request is answered with how it is now.
    Done,
}

impl Fence {
    /// Of a device with this many ports.
    pub fn new(record: Record, ports: u16) -> Self {
        Self {
            unanswered: record.may_be_unanswered(),
            record,
            ports,
            stage: Stage::Idle,
            waiting: VecDeque::new(),
            effects: VecDeque::new(),
        }
    }

    /// Instructions are followed one after the other, in the order they came.
    pub fn handle_switchover(&mut self, switchover: Switchover) {
        self.waiting.push_back(switchover);
        self.take_up_next();
    }

    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    pub fn handle_noted(&mut self, outcome: Result<(), String>) {
        match (std::mem::replace(&mut self.stage, Stage::Idle), outcome) {
            (Stage::Promising(report, why), Ok(())) => {
                self.record = promise(report);
                self.look(why);
            }
            (Stage::Promising(report, _), Err(error)) => {
                self.refuse(&report, NotSwitched::NotDurable { error });
            }
            // An answer that is forgotten is found again by looking.
            (Stage::Settling(answer), _) => self.effects.push_back(Effect::Send(answer)),
            (stage, _) => self.stage = stage,
        }
        self.take_up_next();
    }

    /// The circuits, or none if the device did not tell.
    pub fn handle_read(&mut self, found: Option<CircuitSet>) {
        match (std::mem::replace(&mut self.stage, Stage::Idle), found) {
            (Stage::Looking(_), None) => self.answer(Err(NotSwitched::TimedOut)),
            (Stage::LookingBack(moved), None) => {
                self.unanswered |= moved == Moved::Late;
                self.answer(Err(NotSwitched::TimedOut));
            }
            (Stage::Looking(Why::Done), Some(found)) => self.answer(Ok(found)),
            (Stage::Looking(why), Some(found)) => self.begin(why, found),
            (Stage::LookingBack(moved), Some(found)) => self.end(moved, found),
            (stage, _) => self.stage = stage,
        }
    }

    pub fn handle_moved(&mut self, moved: Moved) {
        if !matches!(self.stage, Stage::Moving) {
            return;
        }
        let desired = || self.record.promised.as_ref().map(|it| it.desired.clone());
        let until = match moved {
            Moved::Done | Moved::Refused(_) => None,
            Moved::Late => desired(),
        };
        self.go_on(Stage::LookingBack(moved), Effect::Read { until });
    }

    fn take_up_next(&mut self) {
        while matches!(self.stage, Stage::Idle) {
            let Some(switchover) = self.waiting.pop_front() else {
                return;
            };
            self.take_up(switchover);
        }
    }

    fn take_up(&mut self, switchover: Switchover) {
        match self.judge(&switchover) {
            Verdict::Refuse(why) => self.refuse(&switchover, why),
            Verdict::LookAgain(why) => self.look(why),
            Verdict::Follow => {
                let why = if self.record.left_off(&switchover) {
                    Why::Unfinished
                } else {
                    Why::Fresh
                };
                let note = Effect::Note(promise(switchover.clone()));
                self.go_on(Stage::Promising(switchover, why), note);
            }
        }
    }

    fn look(&mut self, why: Why) {
        self.go_on(Stage::Looking(why), Effect::Read { until: None });
    }

    fn judge(&self, switchover: &Switchover) -> Verdict {
        if let Some(error) = impossible(&switchover.desired, self.ports) {
            return Verdict::Refuse(NotSwitched::Impossible { error });
        }
        let Some(promised) = &self.record.promised else {
            return Verdict::Follow;
        };
        let (held, token) = (promised.generation, promised.token);
        if switchover.token < token || switchover.generation < held {
            return Verdict::Refuse(NotSwitched::Older { held, token });
        }
        if switchover.token > token {
            return Verdict::Follow;
        }
        if switchover != promised {
            return Verdict::Refuse(NotSwitched::DifferentContent { held, token });
        }
        if self.record.is_settled() {
            Verdict::LookAgain(Why::Done)
        } else {
            Verdict::LookAgain(Why::Unfinished)
        }
    }

    fn begin(&mut self, why: Why, found: CircuitSet) {
        let Some(promised) = &self.record.promised else {
            return;
        };
        let (expected, desired) = (&promised.expected, &promised.desired);
        let on_the_way = || why == Why::Unfinished && is_between(&found, expected, desired);
        let is_expected = found == *expected || on_the_way();
        if found == *desired {
            self.unanswered = false;
            self.answer(Ok(found));
        } else if is_expected {
            let moves = Moves::between(&found, desired);
            self.go_on(Stage::Moving, Effect::Move(moves));
        } else {
            self.answer(Err(NotSwitched::Mismatch { found }));
        }
    }

    /// A device that has neither answered nor moved may still do so after anything that is read now, and after it has
    /// refused something else.
    fn end(&mut self, moved: Moved, found: CircuitSet) {
        let desired = self.record.promised.as_ref().map(|report| &report.desired);
        let is_there = desired == Some(&found);
        self.unanswered = match moved {
            Moved::Done => false,
            Moved::Late => !is_there,
            Moved::Refused(_) => self.unanswered && !is_there,
        };
        self.answer(match moved {
            _ if is_there => Ok(found),
            Moved::Done => Ok(found),
            Moved::Late => Err(NotSwitched::TimedOut),
            Moved::Refused(error) if self.unanswered => Err(NotSwitched::Unclear { error }),
            Moved::Refused(error) => Err(NotSwitched::Device { error, found }),
        });
    }

    fn refuse(&mut self, switchover: &Switchover, why: NotSwitched) {
        let answer = answer_to(switchover, Err(why));
        self.effects.push_back(Effect::Send(answer));
    }

    fn answer(&mut self, outcome: Result<CircuitSet, NotSwitched>) {
        let Some(promised) = &self.record.promised else {
            return;
        };
        let answer = answer_to(promised, outcome);
        self.record.answered = Some(answer.clone());
        let note = Effect::Note(self.record.clone());
        self.go_on(Stage::Settling(answer), note);
    }

    fn go_on(&mut self, stage: Stage, effect: Effect) {
        self.stage = stage;
        self.effects.push_back(effect);
    }
}

enum Verdict {
    Follow,
    /// It was promised already.
    LookAgain(Why),
    Refuse(NotSwitched),
}

fn promise(switchover: Switchover) -> Record {
    Record {
        promised: Some(switchover),
        answered: None,
    }
}

fn answer_to(switchover: &Switchover, outcome: Result<CircuitSet, NotSwitched>) -> Readback {
    Readback {
        generation: switchover.generation,
        token: switchover.token,
        outcome,
    }
}

#[cfg(test)]
mod tests;
