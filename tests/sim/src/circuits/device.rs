//! An optical switch: it moves one circuit at a time, and its fault determines the result.

use std::collections::BTreeSet;

use reweave_common::circuit::{Circuit, CircuitSet, PortId};
use reweave_driver::fence::Moved;
use reweave_driver::moves::contested;
use serde::Serialize;

/// Survives its driver.
#[derive(Debug, Clone, Serialize)]
pub struct Device {
    ports: u16,
    pub circuits: CircuitSet,
    pub ails: Ailment,
    /// No light leaves these, with any circuits.
    blind: BTreeSet<PortId>,
    /// Light leaves these every other moment.
    flapping: BTreeSet<PortId>,
    is_between: bool,
    vanishing: CircuitSet,
    vanished: CircuitSet,
    /// In the order of the requests.
    delayed: Vec<DelayedMove>,
}

#[derive(Debug, Clone, Copy, Serialize)]
enum DelayedMove {
    Disconnect(Circuit),
    Connect(Circuit),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub enum Ailment {
    #[default]
    None,
    /// It executes requests, but does not confirm them in time.
    Silent,
    /// It executes nothing, does not answer, and cannot be read.
    Unreachable,
    /// It does not answer, can be read, and executes requests when the fault ends.
    Delays,
    Refuses,
    /// It removes circuits, does not set new ones, and confirms both.
    MovesHalf,
    /// Light leaves at another port that is not in use.
    WrongPort,
    /// New circuits stay dark during the fault.
    StaysDark,
    /// The light of new circuits flaps during the fault.
    Flaps,
    /// New circuits vanish after a while.
    Vanishes,
}

impl Device {
    pub fn new(ports: u16, circuits: CircuitSet) -> Self {
        Self {
            ports,
            circuits,
            ails: Ailment::None,
            blind: BTreeSet::new(),
            flapping: BTreeSet::new(),
            is_between: false,
            vanishing: CircuitSet::default(),
            vanished: CircuitSet::default(),
            delayed: Vec::new(),
        }
    }

    pub fn ports(&self) -> u16 {
        self.ports
    }

    pub fn read(&self) -> Option<CircuitSet> {
        (self.ails != Ailment::Unreachable).then(|| self.circuits.clone())
    }

    /// Returns the port at which light from this port leaves.
    pub fn far(&self, port: PortId) -> Option<PortId> {
        let mut ends = self.circuits.iter().map(Circuit::ports);
        let [a, b] = ends.find(|ends| ends.contains(&port))?;
        let is_dark =
            |end| self.blind.contains(end) || (self.is_between && self.flapping.contains(end));
        let is_blind = [a, b].iter().any(is_dark);
        (!is_blind).then_some(if a == port { b } else { a })
    }

    pub fn disconnect(&mut self, circuit: Circuit) -> Moved {
        self.catch_up();
        match self.ails {
            Ailment::Unreachable => Moved::Late,
            Ailment::Delays => self.delay(DelayedMove::Disconnect(circuit)),
            Ailment::Refuses => refused(),
            _ if !self.circuits.contains(circuit) => refused(),
            _ => {
                let kept = self.circuits.iter().filter(|&it| it != circuit);
                self.circuits = kept.collect();
                self.forget(circuit);
                circuit.ports().iter().for_each(|port| {
                    self.blind.remove(port);
                    self.flapping.remove(port);
                });
                self.said()
            }
        }
    }

    pub fn connect(&mut self, circuit: Circuit) -> Moved {
        self.catch_up();
        let [a, b] = circuit.ports();
        let joined = match self.ails {
            Ailment::Unreachable => return Moved::Late,
            Ailment::Delays => return self.delay(DelayedMove::Connect(circuit)),
            Ailment::Refuses => return refused(),
            Ailment::MovesHalf => return Moved::Done,
            Ailment::WrongPort => self.beside(a, b).map(|wrong| Circuit::new(a, wrong)),
            _ => Some(circuit),
        };
        let after: CircuitSet = self.circuits.iter().chain(joined).collect();
        if contested(&after).is_some() {
            return refused();
        }
        self.circuits = after;
        self.forget(circuit);
        match self.ails {
            Ailment::StaysDark => self.blind.extend([a, b]),
            Ailment::Flaps => self.flapping.extend([a, b]),
            Ailment::Vanishes => {
                self.vanishing = self.vanishing.iter().chain([circuit]).collect();
            }
            _ => {}
        }
        self.said()
    }

    /// Forgets a circuit that has vanished, so that it does not come back.
    fn forget(&mut self, circuit: Circuit) {
        let is_apart = |it: &Circuit| {
            it.ports()
                .iter()
                .all(|port| !circuit.ports().contains(port))
        };
        self.vanished = self.vanished.iter().filter(is_apart).collect();
    }

    pub fn heal(&mut self) {
        self.ails = Ailment::None;
        self.blind.clear();
        self.flapping.clear();
        self.vanishing = CircuitSet::default();
        let back = std::mem::take(&mut self.vanished);
        self.circuits = self.circuits.iter().chain(back.iter()).collect();
        self.catch_up();
    }

    /// Executes delayed requests in order, and refuses those that have become impossible.
    fn catch_up(&mut self) {
        if matches!(
            self.ails,
            Ailment::Delays | Ailment::Unreachable | Ailment::Refuses
        ) {
            return;
        }
        for change in std::mem::take(&mut self.delayed) {
            match change {
                DelayedMove::Disconnect(circuit) => self.disconnect(circuit),
                DelayedMove::Connect(circuit) => self.connect(circuit),
            };
        }
    }

    fn delay(&mut self, change: DelayedMove) -> Moved {
        self.delayed.push(change);
        Moved::Late
    }

    /// Updates the light. Returns whether anything has changed.
    pub fn flicker(&mut self) -> bool {
        self.is_between = !self.is_between;
        let vanishing = std::mem::take(&mut self.vanishing);
        self.vanished = self.vanished.iter().chain(vanishing.iter()).collect();
        let left = self.circuits.iter().filter(|&it| !vanishing.contains(it));
        let left: CircuitSet = left.collect();
        let is_other = left != self.circuits || !self.flapping.is_empty();
        self.circuits = left;
        is_other
    }

    fn said(&self) -> Moved {
        match self.ails {
            Ailment::Silent => Moved::Late,
            _ => Moved::Done,
        }
    }

    /// The next port after `b` that nothing is joined to.
    fn beside(&self, a: PortId, b: PortId) -> Option<PortId> {
        let is_free = |port: &PortId| {
            let mut used = self.circuits.iter().flat_map(Circuit::ports);
            ![a, b].contains(port) && used.all(|it| it != *port)
        };
        let behind = b.0 + 1..=self.ports;
        let mut ports = behind.chain(1..b.0).map(PortId);
        ports.find(is_free)
    }
}

fn refused() -> Moved {
    Moved::Refused("busy".to_owned())
}
