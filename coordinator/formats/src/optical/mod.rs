//! What optical switches are asked and how they answer, in each of the languages they speak.
//!
//! Every one of them names a circuit by two ports and has one of the two come first. Which one that
//! is must be kept, for a circuit is taken away by the name it was made with.

pub mod netconf;
pub mod pairs;
pub mod restconf;
pub mod tl1;

use reweave_common::circuit::{Circuit, PortId};

/// What is held against an answer before it is read.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// A circuit in the words of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    pub ingress: PortId,
    pub egress: PortId,
}

impl Pair {
    pub fn circuit(self) -> Circuit {
        Circuit::new(self.ingress, self.egress)
    }
}

impl From<Circuit> for Pair {
    fn from(circuit: Circuit) -> Self {
        let [ingress, egress] = circuit.ports();
        Self { ingress, egress }
    }
}

#[cfg(test)]
fn cross_connect(ingress: u16, egress: u16) -> Pair {
    Pair {
        ingress: PortId(ingress),
        egress: PortId(egress),
    }
}
