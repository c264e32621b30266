//! Common parts of agents and drivers: they take one step after another, may die before any step, follow orders of the
//! leader, and report to it.

use std::fmt;

use reweave_common::circuit::{Readback, Switchover};
use reweave_common::ids::{NodeId, OpticalId};
use reweave_common::instruction::{Ack, Install, Instruction};
use reweave_common::sample::Sample;
use reweave_core::Input;
use serde::Serialize;

use super::coordinator::Guest;
use super::wire::Channel;

/// Result of a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Step<T, S> {
    /// There is nothing to do.
    Rest,
    /// Something that no other sees.
    Took,
    /// The process begins to follow an instruction.
    Acts(T),
    /// The kernel, or the device, has changed.
    Changed,
    Says(S),
}

#[derive(Debug, Clone, Default)]
pub struct Life {
    /// Distinguishes timers of this process from timers of earlier ones.
    pub number: u64,
    /// Number of further steps before the process dies.
    pub left: Option<usize>,
    /// Total number of steps.
    pub steps: usize,
}

impl Life {
    pub fn begin(&mut self) {
        self.number += 1;
    }

    pub fn end(&mut self) {
        (self.number, self.left) = (self.number + 1, None);
    }

    /// Whether this step is not its last.
    pub fn go_on(&mut self) -> bool {
        self.steps += 1;
        match &mut self.left {
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
            None => true,
        }
    }
}

/// An instruction, and its receiver.
#[derive(Debug, Clone, Serialize)]
pub enum Order {
    Instruct(NodeId, Instruction),
    Switch(OpticalId, Switchover),
}

impl Order {
    pub fn guest(&self) -> Guest {
        match self {
            Self::Instruct(node, _) => Guest::Agent(*node),
            Self::Switch(optical, _) => Guest::Driver(*optical),
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instruct(_, instruction) => match instruction.install() {
                Some(Install {
                    generation, token, ..
                }) => {
                    write!(f, "generation {generation} under token {token}")
                }
                None => write!(f, "{instruction:?}"),
            },
            Self::Switch(_, report) => write!(
                f,
                "generation {} under token {}: {} shall be {}",
                report.generation, report.token, report.expected, report.desired
            ),
        }
    }
}

/// Messages of agents and drivers to the leader.
#[derive(Debug, Clone, Serialize)]
pub enum Report {
    Sample(NodeId, Sample),
    Ack(NodeId, Ack),
    Readback(OpticalId, Readback),
}

impl Report {
    pub fn guest(&self) -> Guest {
        match self {
            Self::Sample(node, _) | Self::Ack(node, _) => Guest::Agent(*node),
            Self::Readback(optical, _) => Guest::Driver(*optical),
        }
    }

    pub fn channel(&self) -> Channel {
        match self {
            Self::Sample(..) => Channel::Samples,
            Self::Ack(..) | Self::Readback(..) => Channel::Acks,
        }
    }

    /// Converts to an input of the core.
    pub fn input(self) -> Input {
        match self {
            Self::Sample(node, sample) => Input::Sample { node, sample },
            Self::Ack(node, ack) => Input::Ack { node, ack },
            Self::Readback(optical, readback) => Input::Readback { optical, readback },
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sample(..) => write!(f, "reports"),
            Self::Ack(_, ack) => write!(f, "answers {:?}", ack.outcome.is_ok()),
            Self::Readback(_, readback) => write!(f, "reads back {:?}", readback.outcome),
        }
    }
}
