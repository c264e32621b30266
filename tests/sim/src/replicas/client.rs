//! Clients that ask one thing after the other, and ask again until they are answered or have had
//! enough.

use reweave_replica::RequestId;

use super::linear::Event;
use super::machine::{Answer, Op};
use crate::chance::Chance;

/// Registers that clients share.
const KEY_COUNT: usize = 3;
const VALUE_COUNT: usize = 4;
/// Numbers of clients begin here; those of nodes are lower.
const FIRST_CLIENT_ID: u64 = 1000;
/// After this many attempts a client may have had enough.
const MIN_ATTEMPTS: u64 = 6;

#[derive(Debug)]
pub struct Client {
    id: u64,
    /// Number of its requests so far.
    number: u64,
    pub asked: Option<PendingCall>,
    pub attempt: u64,
    attempts: u64,
    pub answered: u64,
    pub gave_up: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct PendingCall {
    pub request: RequestId,
    pub key: u8,
    pub op: Op,
    call: u64,
}

/// History of operations on registers.
#[derive(Debug, Default)]
pub struct History {
    pub events: Vec<(u8, Event<Op, Answer>)>,
    calls: u64,
}

impl Client {
    pub fn new(index: usize) -> Self {
        Self {
            id: FIRST_CLIENT_ID + index as u64,
            number: 0,
            asked: None,
            attempt: 0,
            attempts: 0,
            answered: 0,
            gave_up: 0,
        }
    }

    /// Thinks of something else to ask.
    pub fn think(&mut self, chance: &mut Chance, history: &mut History) {
        let value = |chance: &mut Chance| chance.below(VALUE_COUNT) as u64;
        let op = match chance.below(3) {
            0 => Op::Read,
            1 => Op::Write(value(chance)),
            _ => Op::Swap(value(chance), value(chance)),
        };
        self.number += 1;
        history.calls += 1;
        let asked = PendingCall {
            request: RequestId {
                client: self.id,
                number: self.number,
            },
            key: chance.below(KEY_COUNT) as u8,
            op,
            call: history.calls,
        };
        let call = Event::Called {
            id: asked.call,
            call: op,
        };
        history.events.push((asked.key, call));
        (self.asked, self.attempts) = (Some(asked), 0);
    }

    /// One more attempt at what it asks.
    pub fn attempt(&mut self) -> u64 {
        self.attempt += 1;
        self.attempts += 1;
        self.attempt
    }

    /// Stops waiting; the outcome is then unknown.
    pub fn may_give_up(&mut self, chance: &mut Chance) {
        if self.attempts > MIN_ATTEMPTS && chance.happens(0.1) {
            self.asked = None;
            self.gave_up += 1;
        }
    }

    /// The first answer counts.
    pub fn hear(&mut self, request: RequestId, answer: Answer, history: &mut History) -> bool {
        let asked = self.asked.take_if(|asked| asked.request == request);
        let Some(asked) = asked else { return false };
        let id = asked.call;
        history
            .events
            .push((asked.key, Event::Returned { id, answer }));
        self.answered += 1;
        true
    }
}
