//! A node's report about itself: hardware, counters, total traffic.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use super::{TimedReading, insert};
use crate::collective::RankReading;
use crate::hardware::{HardwareAddress, Lack, Mac, Machine, Neighbour, NicReport};
use crate::health::{CounterSource, Health};
use crate::moment::Moment;
use crate::pci::NicPlace;
use crate::periodicity::Periodicity;
use crate::probing::PortStrays;
use crate::rdma::{RdmaPort, RdmaReading, Transport};
use crate::sample::{HostReading, Spare};
use crate::traffic::Traffic;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostObservations {
    pub health: BTreeMap<CounterSource, TimedReading<Health>>,
    pub nics: BTreeMap<String, TimedReading<NicReport>>,
    pub hardware: BTreeMap<String, TimedReading<Mac>>,
    pub nic_places: BTreeMap<String, TimedReading<NicPlace>>,
    pub spare: BTreeMap<String, TimedReading<Spare>>,
    pub neighbours: BTreeMap<String, TimedReading<Neighbour>>,
    /// Interfaces that disappeared and did not return.
    pub vanished: BTreeMap<String, TimedReading<Moment>>,
    /// Measurements that are not available.
    pub lacks: BTreeMap<String, TimedReading<Lack>>,
    /// By device and port number.
    pub rdma_ports: BTreeMap<(String, u8), TimedReading<RdmaPort>>,
    pub rdma: BTreeMap<RdmaWay, TimedReading<RdmaReading>>,
    pub machine: Option<TimedReading<Machine>>,
    pub rhythm: Option<TimedReading<Periodicity>>,
    pub strays: Option<TimedReading<PortStrays>>,
    pub traffic: Option<TimedReading<Traffic>>,
    /// By communicator and rank.
    pub ranks: BTreeMap<(u64, u32), TimedReading<RankReading>>,
}

/// A peer and the transport of messages; none for writes.
pub type RdmaWay = (Ipv4Addr, Option<Transport>);

impl HostObservations {
    /// Lifetime of RDMA results: with many hosts each path is measured rarely.
    const RDMA_TTL: Duration = Duration::from_secs(600);
    const MAX_PLACES: usize = 2048;
    const MAX_LACKS: usize = 64;
    const MAX_PEERS: usize = 4096;
    const MAX_SIGNALS: usize = 64;
    const MAX_RDMA_PORTS: usize = 64;
    /// Maximum number of GIDs, as in the tables of NICs.
    const MAX_GIDS: usize = 256;
    const MAX_RANKS: usize = 64;

    /// Records a reading. Returns whether there was room for it.
    pub(super) fn record(&mut self, at: Moment, reading: HostReading) -> bool {
        match reading {
            HostReading::Health(value) => self.record_health(TimedReading { value, at }),
            HostReading::Nic(nic) => {
                let (name, value) = (nic.interface.clone(), *nic);
                insert(
                    &mut self.nics,
                    Self::MAX_PLACES,
                    name,
                    TimedReading { value, at },
                )
            }
            HostReading::Hardware(HardwareAddress { interface, address }) => {
                let aged = TimedReading { value: address, at };
                insert(&mut self.hardware, Self::MAX_PLACES, interface, aged)
            }
            HostReading::NicPlace(place) => self.record_nic_place(at, *place),
            HostReading::Spare(value) => {
                let name = value.interface.clone();
                insert(
                    &mut self.spare,
                    Self::MAX_PLACES,
                    name,
                    TimedReading { value, at },
                )
            }
            HostReading::Neighbour(neighbour) => {
                let (name, value) = (neighbour.interface.clone(), *neighbour);
                let aged = TimedReading { value, at };
                insert(&mut self.neighbours, Self::MAX_PLACES, name, aged)
            }
            HostReading::Lack(lack) => {
                let (name, value) = (lack.measurement.clone(), lack);
                insert(
                    &mut self.lacks,
                    Self::MAX_LACKS,
                    name,
                    TimedReading { value, at },
                )
            }
            HostReading::RdmaPort(port) => self.record_rdma_port(TimedReading { value: *port, at }),
            HostReading::Rdma(reading) => {
                let (way, value) = ((reading.peer(), reading.transport()), *reading);
                insert(
                    &mut self.rdma,
                    Self::MAX_PEERS,
                    way,
                    TimedReading { value, at },
                )
            }
            HostReading::Traffic(value) => self.record_traffic(at, value),
            HostReading::Machine(machine) => self.record_machine(at, machine),
            HostReading::Rhythm(rhythm) => record(&mut self.rhythm, at, rhythm),
            HostReading::Strays(strays) => record(&mut self.strays, at, strays),
            HostReading::Rank(rank) => self.record_rank(TimedReading { value: *rank, at }),
            HostReading::Vanished { interface, seen } => self.record_vanished(at, interface, seen),
        }
    }

    /// Removes an interface and its counters.
    fn record_vanished(&mut self, at: Moment, interface: String, seen: Moment) -> bool {
        self.health
            .remove(&CounterSource::Interface(interface.clone()));
        self.nics.remove(&interface);
        self.hardware.remove(&interface);
        self.nic_places.remove(&interface);
        self.spare.remove(&interface);
        self.neighbours.remove(&interface);
        let aged = TimedReading { value: seen, at };
        insert(&mut self.vanished, Self::MAX_PLACES, interface, aged)
    }

    pub(super) fn record_present(&mut self, interface: &str) {
        self.vanished.remove(interface);
    }

    pub(super) fn forget_older_than(&mut self, now: Moment, most: Duration) {
        self.health.retain(|_, it| it.is_fresh(now, most));
        self.spare.retain(|_, it| it.is_fresh(now, most));
        self.lacks.retain(|_, it| it.is_fresh(now, most));
        self.rdma.retain(|_, it| it.is_fresh(now, Self::RDMA_TTL));
        self.traffic.take_if(|it| !it.is_fresh(now, most));
        self.rhythm.take_if(|it| !it.is_fresh(now, most));
        self.ranks.retain(|_, it| it.is_fresh(now, most));
    }

    fn record_health(&mut self, health: TimedReading<Health>) -> bool {
        let few = health.value.signals.len() <= Self::MAX_SIGNALS;
        let place = health.value.place.clone();
        few && insert(&mut self.health, Self::MAX_PLACES, place, health)
    }

    fn record_nic_place(&mut self, at: Moment, value: NicPlace) -> bool {
        let name = value.interface.clone();
        let aged = TimedReading { value, at };
        insert(&mut self.nic_places, Self::MAX_PLACES, name, aged)
    }

    fn record_rdma_port(&mut self, port: TimedReading<RdmaPort>) -> bool {
        let few = port.value.gids.len() <= Self::MAX_GIDS;
        let name = (port.value.device.clone(), port.value.port);
        few && insert(&mut self.rdma_ports, Self::MAX_RDMA_PORTS, name, port)
    }

    fn record_rank(&mut self, reading: TimedReading<RankReading>) -> bool {
        let rank = &reading.value.rank;
        let place = (rank.communicator, rank.rank);
        reading.value.is_bounded() && insert(&mut self.ranks, Self::MAX_RANKS, place, reading)
    }

    fn record_machine(&mut self, at: Moment, machine: Machine) -> bool {
        let few = machine.numa_nodes.len() <= Self::MAX_PLACES
            && machine.settings.len() <= Self::MAX_PLACES;
        few && record(&mut self.machine, at, machine)
    }

    fn record_traffic(&mut self, at: Moment, traffic: Traffic) -> bool {
        let few =
            traffic.peers.len() <= Self::MAX_PEERS && traffic.rdma.len() <= Self::MAX_RDMA_PORTS;
        few && record(&mut self.traffic, at, traffic)
    }
}

fn record<T>(place: &mut Option<TimedReading<T>>, at: Moment, value: T) -> bool {
    *place = Some(TimedReading { value, at });
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::{Signal, SignalReading};
    use crate::rdma::RdmaBandwidth;
    use crate::time_span::TimeSpan;
    use crate::units::Bytes;

    fn health(signals: usize) -> HostReading {
        let signal = SignalReading {
            signal: Signal::Discards,
            total: 1,
            grown: None,
            of: None,
        };
        HostReading::Health(Health {
            place: CounterSource::Interface("eth0".to_owned()),
            over: TimeSpan::ZERO,
            signals: vec![signal; signals],
        })
    }

    #[test]
    fn vanished_interface_has_no_health() {
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
    fn vanished_nic_has_no_place() {
        let mut host = HostObservations::default();
        let now = Moment::from_micros(7);
        let place = |interface: &str| {
            HostReading::NicPlace(Box::new(NicPlace {
                interface: interface.to_owned(),
                ..NicPlace::default()
            }))
        };
        assert!(host.record(now, place("eth0")) && host.record(now, place("eth1")));
        host.forget_older_than(Moment::from_micros(1 << 40), Duration::from_secs(3));
        assert_eq!(host.nic_places.len(), 2, "agents report them once");
        let interface = "eth0".to_owned();
        assert!(host.record(
            now,
            HostReading::Vanished {
                interface,
                seen: now
            }
        ));
        assert_eq!(host.nic_places.keys().collect::<Vec<_>>(), ["eth1"]);
    }

    #[test]
    fn unrepeated_lack_expires() {
        let mut host = HostObservations::default();
        let lack = |measurement: &str| {
            HostReading::Lack(Lack {
                measurement: measurement.to_owned(),
                ..Lack::default()
            })
        };
        let at = |s: u64| Moment::from_micros(s * 1_000_000);
        assert!(host.record(at(0), lack("RDMA")) && host.record(at(0), lack("paths of flows")));
        assert!(host.record(at(2), lack("RDMA")));
        host.forget_older_than(at(4), Duration::from_secs(3));
        assert_eq!(host.lacks.keys().collect::<Vec<_>>(), ["RDMA"]);
    }

    #[test]
    fn last_rdma_reading_is_kept_minutes() {
        let mut host = HostObservations::default();
        let at = |s: u64| Moment::from_micros(s * 1_000_000);
        let wrote = |bytes| {
            HostReading::Rdma(Box::new(RdmaReading::Bandwidth(RdmaBandwidth {
                peer: Ipv4Addr::new(10, 0, 0, 1),
                bytes: Bytes::new(bytes),
                took: TimeSpan::from_millis(1),
            })))
        };
        assert!(host.record(at(0), wrote(1)) && host.record(at(1), wrote(2)));
        assert_eq!(host.rdma.len(), 1);
        host.forget_older_than(at(500), Duration::from_secs(3));
        assert_eq!(host.rdma.values().next().map(|it| it.at), Some(at(1)));
        host.forget_older_than(at(700), Duration::from_secs(3));
        assert!(host.rdma.is_empty());
    }

    #[test]
    fn excessive_signals_are_rejected() {
        let mut host = HostObservations::default();
        assert!(!host.record(Moment::default(), health(1000)));
        assert!(host.health.is_empty());
    }
}
