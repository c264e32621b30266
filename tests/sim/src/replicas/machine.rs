//! The replicated state in addition to that of the core: registers that clients read and write.

use std::collections::BTreeMap;
use std::hash::Hasher;

use reweave_replica::RequestId;
use serde::{Deserialize, Serialize};

/// Operation on a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Op {
    Read,
    Write(u64),
    /// If it holds the first, it holds the second afterwards.
    Swap(u64, u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Answer {
    Value(u64),
    Written,
    Swapped(bool),
}

/// Content of a log entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Payload {
    Register {
        key: u8,
        op: Op,
    },
    /// A command, as the product writes it.
    Decided(Vec<u8>),
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    registers: BTreeMap<u8, u64>,
    /// Last request of each client, with its answer.
    answers: BTreeMap<u64, (u64, Answer)>,
}

impl Machine {
    pub fn get(&self, key: u8) -> u64 {
        self.registers.get(&key).copied().unwrap_or_default()
    }

    /// Returns the answer to a request, if it was the last of its client.
    pub fn answer(&self, request: RequestId) -> Option<Answer> {
        let (number, answer) = self.answers.get(&request.client)?;
        (*number == request.number).then_some(*answer)
    }

    /// The last request of a client that was applied.
    pub fn last(&self, client: u64) -> u64 {
        self.answers.get(&client).map_or(0, |(number, _)| *number)
    }

    pub fn apply(&mut self, request: RequestId, key: u8, op: Op) {
        let (value, answer) = carried_out(self.get(key), op);
        self.registers.insert(key, value);
        let RequestId { client, number } = request;
        self.answers.insert(client, (number, answer));
    }
}

/// Returns the new value of a register, and the answer.
pub fn carried_out(value: u64, op: Op) -> (u64, Answer) {
    match op {
        Op::Read => (value, Answer::Value(value)),
        Op::Write(new) => (new, Answer::Written),
        Op::Swap(old, new) if value == old => (new, Answer::Swapped(true)),
        Op::Swap(..) => (value, Answer::Swapped(false)),
    }
}

/// A hash that is the same everywhere.
pub fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    hasher.write(bytes);
    hasher.finish()
}

struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
