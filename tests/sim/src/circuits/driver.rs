//! The driver of an optical switch: the real fence, between a simulated device and a line to the
//! coordinator. It takes one step at a time, and can die before any of them.

use std::collections::VecDeque;

use reweave_common::circuit::{Circuit, CircuitSet, Readback, Switchover};
use reweave_common::instruction::Token;
use reweave_common::plan::Generation;
use reweave_driver::fence::{Effect, Fence, Moved, Record};
use reweave_driver::moves::Moves;

use super::device::Device;
use crate::actor::{Life, Step};

/// A device that has not moved yet is looked at this often.
const MAX_POLLS: usize = 3;

#[derive(Debug, Clone)]
pub struct Driver {
    /// Survives the process, and so does the device.
    pub disk: Record,
    pub device: Device,
    pub life: Life,
    process: Option<Process>,
    pub disk_is_full: bool,
}

#[derive(Debug, Clone)]
struct Process {
    fence: Fence,
    at_hand: Option<Work>,
}

/// Work of more than one step.
#[derive(Debug, Clone)]
enum Work {
    Read {
        until: Option<CircuitSet>,
        looks_left: usize,
    },
    Move(Moving),
}

/// All disconnects come first; if one is not confirmed, the device is read.
#[derive(Debug, Clone)]
struct Moving {
    moves: Moves,
    gone: VecDeque<Circuit>,
    come: VecDeque<Circuit>,
    moved: Moved,
    /// Number of remaining reads: nothing is connected before the device is seen to have disconnected.
    looks_left: usize,
}

impl Driver {
    pub fn new(device: Device) -> Self {
        Self {
            disk: Record::default(),
            device,
            life: Life::default(),
            process: None,
            disk_is_full: false,
        }
    }

    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// Whether it is in the midst of nothing that takes more than a step.
    pub fn is_idle(&self) -> bool {
        let at_hand = self.process.as_ref().and_then(|it| it.at_hand.as_ref());
        at_hand.is_none()
    }

    pub fn start(&mut self) {
        self.life.begin();
        self.process = Some(Process {
            fence: Fence::new(self.disk.clone(), self.device.ports()),
            at_hand: None,
        });
    }

    /// Under this token it has done something that no other knows of any longer.
    pub fn has_followed(&mut self, token: Token) {
        let circuits = self.device.circuits.clone();
        let followed = Switchover {
            generation: Generation(1),
            token,
            optical: String::new(),
            expected: circuits.clone(),
            desired: circuits.clone(),
        };
        self.disk.answered = Some(Readback {
            generation: followed.generation,
            token,
            outcome: Ok(circuits),
        });
        self.disk.promised = Some(followed);
        self.start();
    }

    /// The device keeps what it holds.
    pub fn die(&mut self) {
        self.process = None;
        self.life.end();
    }

    pub fn handle_switchover(&mut self, switchover: Switchover) {
        if let Some(process) = &mut self.process {
            process.fence.handle_switchover(switchover);
        }
    }

    /// Returns what the driver reports of its device between two instructions.
    pub fn report(&self) -> Option<Readback> {
        let is_between = self.is_running() && self.is_idle();
        let found = self.device.read().filter(|_| is_between)?;
        Some(Readback::unordered(found))
    }

    /// Returns the moves that are about to begin.
    pub fn about_to_move(&self) -> Option<&Moves> {
        match self.process.as_ref()?.at_hand.as_ref()? {
            Work::Move(moving) => Some(&moving.moves),
            Work::Read { .. } => None,
        }
    }

    /// The next thing that the driver's shell would do.
    pub fn work(&mut self) -> Step<Switchover, Readback> {
        let Some(process) = &mut self.process else {
            return Step::Rest;
        };
        match process.at_hand.take() {
            Some(Work::Read { until, looks_left }) => self.read(until, looks_left),
            Some(Work::Move(moving)) => self.go_on_moving(moving),
            None => match process.fence.poll_effect() {
                None => Step::Rest,
                Some(effect) => self.follow(effect),
            },
        }
    }

    fn follow(&mut self, effect: Effect) -> Step<Switchover, Readback> {
        let promised = self.disk.promised.clone();
        let is_full = self.disk_is_full;
        let Some(process) = &mut self.process else {
            return Step::Rest;
        };
        match effect {
            Effect::Note(_) if is_full => {
                let error = "no space left on the disk".to_owned();
                process.fence.handle_noted(Err(error));
            }
            Effect::Note(record) => {
                self.disk = record;
                process.fence.handle_noted(Ok(()));
            }
            Effect::Read { until } => {
                let looks_left = if until.is_some() { MAX_POLLS } else { 1 };
                process.at_hand = Some(Work::Read { until, looks_left });
            }
            Effect::Move(moves) => {
                process.at_hand = Some(Work::Move(Moving {
                    gone: moves.disconnect.iter().copied().collect(),
                    come: moves.connect.iter().copied().collect(),
                    moved: Moved::Done,
                    looks_left: MAX_POLLS,
                    moves,
                }));
                return promised.map_or(Step::Took, Step::Acts);
            }
            Effect::Send(readback) => return Step::Says(readback),
        }
        Step::Took
    }

    fn read(&mut self, until: Option<CircuitSet>, looks_left: usize) -> Step<Switchover, Readback> {
        let found = self.device.read();
        let Some(process) = &mut self.process else {
            return Step::Rest;
        };
        if looks_left > 1 && found != until {
            let looks_left = looks_left - 1;
            process.at_hand = Some(Work::Read { until, looks_left });
        } else {
            process.fence.handle_read(found);
        }
        Step::Took
    }

    fn go_on_moving(&mut self, mut moving: Moving) -> Step<Switchover, Readback> {
        let connects_nothing_yet = moving.come.len() == moving.moves.connect.len();
        let is_sure = moving.moved != Moved::Late || self.has_let_go(&moving.moves);
        let is_refused = matches!(moving.moved, Moved::Refused(_));
        let is_in_vain = is_refused || !is_sure && moving.looks_left == 0;
        if let Some(circuit) = moving.gone.pop_front() {
            moving.note(self.device.disconnect(circuit));
        } else if connects_nothing_yet && is_in_vain {
            return self.moved(moving.moved);
        } else if connects_nothing_yet && !is_sure {
            moving.looks_left -= 1;
        } else if let Some(circuit) = moving.come.pop_front() {
            moving.note(self.device.connect(circuit));
        } else {
            return self.moved(moving.moved);
        }
        if let Some(process) = &mut self.process {
            process.at_hand = Some(Work::Move(moving));
        }
        Step::Changed
    }

    fn has_let_go(&self, moves: &Moves) -> bool {
        let found = self.device.read();
        found.is_some_and(|found| moves.disconnect.iter().all(|it| !found.contains(*it)))
    }

    fn moved(&mut self, moved: Moved) -> Step<Switchover, Readback> {
        if let Some(process) = &mut self.process {
            process.fence.handle_moved(moved);
        }
        Step::Took
    }
}

impl Moving {
    /// An answer that did not come counts for more than a refusal: what was asked may still be done.
    fn note(&mut self, moved: Moved) {
        match (&self.moved, &moved) {
            (Moved::Late, _) | (_, Moved::Done) => {}
            _ => self.moved = moved,
        }
    }
}
