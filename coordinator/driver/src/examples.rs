//! Example values for tests.

use reweave_common::circuit::{Circuit, CircuitSet, PortId};

pub(crate) fn circuits(pairs: &[(u16, u16)]) -> CircuitSet {
    let circuit = |&(a, b): &(u16, u16)| Circuit::new(PortId(a), PortId(b));
    pairs.iter().map(circuit).collect()
}
