//! Circuits of the switch: a matching of ports, with the mirrors that are moving.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

/// Circuits by the port that was requested first; light passes in both directions.
#[derive(Debug)]
pub(super) struct Crossbar {
    ports: u16,
    pairs: BTreeMap<u16, u16>,
    /// Destinations of moving mirrors.
    moving: BTreeSet<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Refusal {
    #[error("no port {port}, only 1 to {last}")]
    NoSuchPort { port: u16, last: u16 },
    #[error("port {0} cannot lead to itself")]
    ToItself(u16),
    #[error("port {0} belongs to another circuit")]
    InUse(u16),
    #[error("the mirror of port {0} is moving")]
    Moving(u16),
    #[error("no circuit begins at port {0}")]
    NoCircuit(u16),
}

/// The ports that lose their light for a change.
pub(super) type Darkened = BTreeSet<u16>;

impl Crossbar {
    pub(super) fn new(ports: u16) -> Self {
        Self {
            ports,
            pairs: BTreeMap::new(),
            moving: BTreeSet::new(),
        }
    }

    pub(super) fn pairs(&self) -> &BTreeMap<u16, u16> {
        &self.pairs
    }

    pub(super) fn has(&self, ingress: u16, egress: u16) -> bool {
        self.pairs.get(&ingress) == Some(&egress)
    }

    /// The mirrors begin to move. What `ingress` led to is left dark.
    pub(super) fn begin(&mut self, ingress: u16, egress: u16) -> Result<Darkened, Refusal> {
        if ingress == egress {
            return Err(Refusal::ToItself(ingress));
        }
        for port in [ingress, egress] {
            self.check_port(port)?;
            let other = self
                .pairs
                .iter()
                .find(|&(&from, &to)| from != ingress && (from == port || to == port));
            if other.is_some() {
                return Err(Refusal::InUse(port));
            }
        }
        let before = self.pairs.remove(&ingress);
        self.moving.extend([ingress, egress]);
        Ok([ingress, egress].into_iter().chain(before).collect())
    }

    /// The mirrors have arrived.
    pub(super) fn end(&mut self, ingress: u16, egress: u16) {
        self.moving.remove(&ingress);
        self.moving.remove(&egress);
        self.pairs.insert(ingress, egress);
    }

    pub(super) fn remove(&mut self, ingress: u16) -> Result<Darkened, Refusal> {
        self.check_port(ingress)?;
        let egress = self.pairs.remove(&ingress);
        let egress = egress.ok_or(Refusal::NoCircuit(ingress))?;
        Ok([ingress, egress].into())
    }

    /// The next port after `port` that is unused.
    pub(super) fn next_free(&self, port: u16, besides: u16) -> Option<u16> {
        let used = |port: &u16| {
            *port == besides
                || self.moving.contains(port)
                || self
                    .pairs
                    .iter()
                    .any(|(from, to)| from == port || to == port)
        };
        let mut others = (port + 1..=self.ports).chain(1..port);
        others.find(|other| !used(other))
    }

    fn check_port(&self, port: u16) -> Result<(), Refusal> {
        if !(1..=self.ports).contains(&port) {
            let last = self.ports;
            return Err(Refusal::NoSuchPort { port, last });
        }
        if self.moving.contains(&port) {
            return Err(Refusal::Moving(port));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crossbar(pairs: &[(u16, u16)]) -> Crossbar {
        let mut crossbar = Crossbar::new(8);
        for &(ingress, egress) in pairs {
            crossbar.begin(ingress, egress).unwrap();
            crossbar.end(ingress, egress);
        }
        crossbar
    }

    #[test]
    fn moved_circuit_leaves_old_end_dark() {
        let mut crossbar = crossbar(&[(1, 5), (2, 6)]);
        assert_eq!(crossbar.begin(1, 7), Ok([1, 5, 7].into()));
        assert!(!crossbar.has(1, 5) && !crossbar.has(1, 7), "under way");
        crossbar.end(1, 7);
        assert_eq!(*crossbar.pairs(), [(1, 7), (2, 6)].into());
    }

    #[test]
    fn no_port_ever_serves_two_circuits() {
        let mut crossbar = crossbar(&[(1, 5)]);
        assert_eq!(crossbar.begin(2, 5), Err(Refusal::InUse(5)));
        assert_eq!(crossbar.begin(5, 2), Err(Refusal::InUse(5)));
        assert_eq!(crossbar.begin(2, 1), Err(Refusal::InUse(1)));
        assert_eq!(crossbar.begin(3, 3), Err(Refusal::ToItself(3)));
        assert_eq!(
            crossbar.begin(3, 9),
            Err(Refusal::NoSuchPort { port: 9, last: 8 })
        );
        crossbar.begin(3, 4).unwrap();
        assert_eq!(crossbar.begin(2, 4), Err(Refusal::Moving(4)));
        assert_eq!(*crossbar.pairs(), [(1, 5)].into());
    }

    #[test]
    fn removing_frees_both_ports() {
        let mut crossbar = crossbar(&[(1, 5)]);
        assert_eq!(crossbar.remove(5), Err(Refusal::NoCircuit(5)));
        assert_eq!(crossbar.remove(1), Ok([1, 5].into()));
        assert_eq!(crossbar.next_free(8, 1), Some(2));
        assert!(crossbar.begin(5, 1).is_ok());
    }
}
