//! What a node said of itself: its hardware, its counters, its traffic as a whole.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Aged, insert};
use crate::hardware::{Lack, Machine, Neighbour, Nic};
use crate::health::{Health, Place};
use crate::moment::Moment;
use crate::rhythm::Rhythm;
use crate::sample::{HostReading, Spare};
use crate::traffic::Traffic;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostObservations {
    pub health: BTreeMap<Place, Aged<Health>>,
    pub nics: BTreeMap<String, Aged<Nic>>,
    pub spare: BTreeMap<String, Aged<Spare>>,
    pub neighbours: BTreeMap<String, Aged<Neighbour>>,
    /// Interfaces that went and did not come back.
    pub vanished: BTreeMap<String, Aged<Moment>>,
    /// Measurements that are off.
    pub lacks: BTreeMap<String, Aged<Lack>>,
    pub machine: Option<Aged<Machine>>,
    pub rhythm: Option<Aged<Rhythm>>,
    pub traffic: Option<Aged<Traffic>>,
}

impl HostObservations {
    const MOST_PLACES: usize = 512;
    const MOST_LACKS: usize = 64;
    const MOST_PEERS: usize = 4096;
    const MOST_SIGNALS: usize = 128;

    /// Whether there was room for it.
    pub(super) fn record(&mut self, at: Moment, reading: HostReading) -> bool {
        match reading {
            HostReading::Health(value) => self.record_health(Aged { value, at }),
            HostReading::Nic(nic) => {
                let (name, value) = (nic.interface.clone(), *nic);
                insert(&mut self.nics, Self::MOST_PLACES, name, Aged { value, at })
            }
            HostReading::Spare(value) => {
                let name = value.interface.clone();
                insert(&mut self.spare, Self::MOST_PLACES, name, Aged { value, at })
            }
            HostReading::Neighbour(neighbour) => {
                let (name, value) = (neighbour.interface.clone(), *neighbour);
                let aged = Aged { value, at };
                insert(&mut self.neighbours, Self::MOST_PLACES, name, aged)
            }
            HostReading::Lack(lack) => {
                let (name, value) = (lack.measurement.clone(), lack);
                insert(&mut self.lacks, Self::MOST_LACKS, name, Aged { value, at })
            }
            HostReading::Traffic(value) => self.record_traffic(Aged { value, at }),
            HostReading::Machine(machine) => record(&mut self.machine, at, machine),
            HostReading::Rhythm(rhythm) => record(&mut self.rhythm, at, rhythm),
            HostReading::Vanished { interface, seen } => self.record_vanished(at, interface, seen),
        }
    }

    /// An interface is not there any more; what it counted is history.
    fn record_vanished(&mut self, at: Moment, interface: String, seen: Moment) -> bool {
        self.health.remove(&Place::Interface(interface.clone()));
        self.nics.remove(&interface);
        self.spare.remove(&interface);
        self.neighbours.remove(&interface);
        let aged = Aged { value: seen, at };
        insert(&mut self.vanished, Self::MOST_PLACES, interface, aged)
    }

    pub(super) fn record_present(&mut self, interface: &str) {
        self.vanished.remove(interface);
    }

    pub(super) fn forget_older_than(&mut self, now: Moment, most: Duration) {
        self.health.retain(|_, it| it.is_fresh(now, most));
        self.spare.retain(|_, it| it.is_fresh(now, most));
        self.traffic.take_if(|it| !it.is_fresh(now, most));
        self.rhythm.take_if(|it| !it.is_fresh(now, most));
    }

    fn record_health(&mut self, health: Aged<Health>) -> bool {
        let few = health.value.signals.len() <= Self::MOST_SIGNALS;
        let place = health.value.place.clone();
        few && insert(&mut self.health, Self::MOST_PLACES, place, health)
    }

    fn record_traffic(&mut self, traffic: Aged<Traffic>) -> bool {
        let few = traffic.value.peers.len() <= Self::MOST_PEERS;
        if few {
            self.traffic = Some(traffic);
        }
        few
    }
}

fn record<T>(place: &mut Option<Aged<T>>, at: Moment, value: T) -> bool {
    *place = Some(Aged { value, at });
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::{Signal, SignalReading};

    fn health(signals: usize) -> HostReading {
        let signal = SignalReading {
            signal: Signal::Discards,
            total: 1,
            grown: None,
            of: None,
        };
        HostReading::Health(Health {
            place: Place::Interface("eth0".to_owned()),
            over: Duration::ZERO,
            signals: vec![signal; signals],
        })
    }

    #[test]
    fn an_interface_that_vanished_has_no_health_until_it_is_back() {
        let mut host = HostObservations::default();
        let now = Moment::from_micros(7);
        assert!(host.record(now, health(1)));
        let interface = "eth0".to_owned();
        assert!(host.record(
            now,
            HostReading::Vanished {
                interface,
                seen: now
            }
        ));
        assert!(host.health.is_empty() && host.vanished.contains_key("eth0"));
        host.record_present("eth0");
        assert!(host.vanished.is_empty());
    }

    #[test]
    fn nobody_has_so_many_signals() {
        let mut host = HostObservations::default();
        assert!(!host.record(Moment::default(), health(1000)));
        assert!(host.health.is_empty());
    }
}
