//! What optical switches are asked and how they answer, in each of the languages they speak.
//!
//! Every one of them names a circuit by two ports and has one of the two come first. Which one that
//! is must be kept, for a circuit is taken away by the name it was made with.

pub mod restconf;

use reweave_common::circuit::{Circuit, PortId};

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
