//! From the present circuits of a device to the desired ones.

use std::collections::BTreeSet;
use std::fmt;

use reweave_common::circuit::{Circuit, CircuitSet, PortId};
use serde::Serialize;

/// All changes. Removals come first: a port serves one circuit at a time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Moves {
    pub disconnect: Vec<Circuit>,
    pub connect: Vec<Circuit>,
}

impl Moves {
    /// What stays is not touched.
    pub fn between(found: &CircuitSet, desired: &CircuitSet) -> Self {
        let only = |these: &CircuitSet, others: &CircuitSet| {
            let own = these.iter().filter(|circuit| !others.contains(*circuit));
            own.collect()
        };
        Self {
            disconnect: only(found, desired),
            connect: only(desired, found),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.disconnect.is_empty() && self.connect.is_empty()
    }
}

impl fmt::Display for Moves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("nothing to move");
        }
        let gone = self.disconnect.iter().map(|circuit| format!("-{circuit}"));
        let come = self.connect.iter().map(|circuit| format!("+{circuit}"));
        f.write_str(&gone.chain(come).collect::<Vec<_>>().join(" "))
    }
}

/// The first port that would serve two circuits, or lead to itself.
pub fn contested(circuits: &CircuitSet) -> Option<PortId> {
    let mut seen = BTreeSet::new();
    let mut ports = circuits.iter().flat_map(Circuit::ports);
    ports.find(|port| !seen.insert(*port))
}

/// Why no switch with ports from 1 to `last` can hold these circuits, if it cannot.
pub fn impossible(circuits: &CircuitSet, last: u16) -> Option<String> {
    let mut ports = circuits.iter().flat_map(Circuit::ports);
    let beyond = ports.find(|port| !(1..=last).contains(&port.0));
    let beyond = beyond.map(|port| format!("no port {port}, only 1 to {last}"));
    let to_itself = || {
        let mut loops = circuits.iter().map(Circuit::ports);
        let found = loops.find(|[one, other]| one == other);
        found.map(|[port, _]| format!("a circuit connects port {port} to itself"))
    };
    let twice = || contested(circuits).map(|port| format!("port {port} is in two circuits"));
    beyond.or_else(to_itself).or_else(twice)
}

/// Whether a device with these circuits may have been stopped on the way: it holds nothing but what
/// it held or should hold, and still all that stays.
pub fn is_between(found: &CircuitSet, expected: &CircuitSet, desired: &CircuitSet) -> bool {
    let known = |circuit| expected.contains(circuit) || desired.contains(circuit);
    let stays = |circuit: &Circuit| desired.contains(*circuit);
    found.iter().all(known)
        && expected
            .iter()
            .filter(stays)
            .all(|circuit| found.contains(circuit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::circuits;

    #[test]
    fn only_differences_are_moved() {
        let found = circuits(&[(1, 5), (2, 6), (3, 7)]);
        let moves = Moves::between(&found, &circuits(&[(1, 6), (2, 5), (3, 7)]));
        assert_eq!(
            moves.disconnect,
            circuits(&[(1, 5), (2, 6)]).iter().collect::<Vec<_>>()
        );
        assert_eq!(
            moves.connect,
            circuits(&[(1, 6), (2, 5)]).iter().collect::<Vec<_>>()
        );
        assert!(Moves::between(&found, &found).is_empty());
    }

    #[test]
    fn port_in_two_circuits_is_found() {
        assert_eq!(contested(&circuits(&[(1, 5), (2, 6)])), None);
        assert_eq!(contested(&circuits(&[(1, 5), (5, 6)])), Some(PortId(5)));
        assert_eq!(contested(&circuits(&[(4, 4)])), Some(PortId(4)));
    }

    #[test]
    fn impossible_circuits_are_named() {
        let said = |ports: &[(u16, u16)]| impossible(&circuits(ports), 10).unwrap_or_default();
        assert_eq!(said(&[(2, 3), (4, 10)]), "");
        assert_eq!(said(&[(2, 3), (2, 5)]), "port 2 is in two circuits");
        assert_eq!(said(&[(2, 99)]), "no port 99, only 1 to 10");
        assert_eq!(said(&[(0, 3)]), "no port 0, only 1 to 10");
        assert_eq!(said(&[(3, 3)]), "a circuit connects port 3 to itself");
    }

    #[test]
    fn intermediate_circuits_lie_between_both() {
        let (from, to) = (circuits(&[(1, 5), (3, 7)]), circuits(&[(1, 6), (3, 7)]));
        for (found, between) in [
            (vec![(3, 7)], true),
            (vec![(1, 5), (3, 7)], true),
            (vec![(1, 6), (3, 7)], true),
            (vec![(1, 5)], false),
            (vec![(1, 8), (3, 7)], false),
        ] {
            assert_eq!(
                is_between(&circuits(&found), &from, &to),
                between,
                "{found:?}"
            );
        }
    }
}
