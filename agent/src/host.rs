//! A host's report about itself besides its flows: hardware, counters, machine.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use reweave_agent_core::counters::HealthBook;
use reweave_agent_core::links::LinkCount;
use reweave_agent_core::spare::spare;
use reweave_common::hardware::{HardwareAddress, Machine, NicReport};
use reweave_common::health::Health;
use reweave_common::moment::Moment;
use reweave_common::pci::NicPlace;
use reweave_common::sample::{HostReading, Reading};

use crate::clock::is_due;
use crate::counters::{CounterReader, EthtoolError, MachineReader, NicReader, nic_places};
use crate::lldp::{LldpListener, LldpNeighbours};
use crate::netlink::Link;

/// The kernel keeps the counters of RDMA ports for 10 ms, and large NICs have thousands.
pub const COUNTERS_INTERVAL: Duration = Duration::from_secs(1);
/// What NICs and machines are changes seldom.
const FACTS_INTERVAL: Duration = Duration::from_secs(30);

pub struct Host {
    counters: CounterReader,
    health: HealthBook,
    nics: NicReader,
    machine: MachineReader,
    ear: LldpListener,
    snapshot: HostSnapshot,
    counters_period: Duration,
}

/// What was last found out, and when.
#[derive(Default)]
struct HostSnapshot {
    health: Option<(Moment, Vec<Health>)>,
    facts: Option<(Moment, Facts)>,
}

#[derive(Default)]
struct Facts {
    nics: Vec<NicReport>,
    hardware: Vec<HardwareAddress>,
    nic_places: Vec<NicPlace>,
    machine: Option<Machine>,
}

impl Host {
    /// Counters are read no more often than once in `counters_period`.
    pub fn open(counters_period: Duration) -> Result<Self, EthtoolError> {
        let counters = CounterReader::open()?;
        Ok(Self {
            nics: NicReader::open(counters.tree())?,
            machine: MachineReader::open(counters.tree()),
            counters,
            ear: LldpListener::listen(FACTS_INTERVAL),
            health: HealthBook::default(),
            snapshot: HostSnapshot::default(),
            counters_period,
        })
    }

    /// From now on NICs, counters and the machine are what a copy of some machine's files says of them. Of
    /// its interfaces those count that are here, by name and number.
    pub fn read_copy(&mut self, root: &Path) {
        self.counters = CounterReader::recorded(root);
        self.nics = NicReader::recorded(self.counters.tree());
        self.machine = MachineReader::recorded(self.counters.tree());
    }

    /// The interfaces of RDMA devices, beside those of the kernel.
    pub fn ports(&self) -> Vec<LinkCount> {
        self.counters.ports()
    }

    /// All readings at this moment. `drops` are those of the kernel's queues.
    pub fn readings(
        &mut self,
        now: Moment,
        links: &[Link],
        drops: &BTreeMap<u32, u64>,
    ) -> Vec<HostReading> {
        let wires: Vec<_> = links.iter().filter(|link| self.sees(link)).collect();
        let snapshot = &self.snapshot;
        let [health_at, facts_at] = [
            snapshot.health.as_ref().map(|(at, _)| *at),
            snapshot.facts.as_ref().map(|(at, _)| *at),
        ];
        if is_due(health_at, now, self.counters_period) {
            self.snapshot.health = Some((now, self.read_health(now, &wires, drops)));
        }
        if is_due(facts_at, now, FACTS_INTERVAL) {
            self.snapshot.facts = Some((now, self.read_facts(&wires)));
        }
        let mut readings = self.snapshot.readings();
        readings.extend(self.ear.last().into_iter().flat_map(heard));
        readings
    }

    /// Waits for the first result, for callers that read only once.
    pub fn wait_for_neighbours(&mut self) {
        self.ear.wait();
    }

    /// What is left of each interface whose speed is known.
    pub fn spare(&self, counters: &[Reading]) -> Vec<Reading> {
        let facts = self.snapshot.facts.as_ref();
        let nics = facts.map_or(&[][..], |(_, facts)| &facts.nics);
        let spare = counters.iter().filter_map(|reading| match reading {
            Reading::Counters(counters) => {
                let nic = nics
                    .iter()
                    .find(|nic| nic.interface == counters.interface)?;
                spare(nic, counters)
            }
            _ => None,
        });
        spare
            .map(|it| Reading::Host(HostReading::Spare(it)))
            .collect()
    }

    fn sees(&self, link: &Link) -> bool {
        let tree = self.counters.tree();
        !link.loopback && tree.has_interface(&link.count.interface, link.index)
    }

    fn read_facts(&mut self, wires: &[&Link]) -> Facts {
        let names = names(wires);
        let nics = names.iter().map(|name| self.nics.read(name));
        Facts {
            nics: nics.collect(),
            hardware: wires.iter().filter_map(|link| hardware(link)).collect(),
            nic_places: nic_places(self.counters.tree(), &names),
            machine: self.machine.read(),
        }
    }

    fn read_health(
        &mut self,
        now: Moment,
        wires: &[&Link],
        drops: &BTreeMap<u32, u64>,
    ) -> Vec<Health> {
        let drops_of =
            |link: &&Link| Some((link.count.interface.clone(), *drops.get(&link.index)?));
        let drops = wires.iter().filter_map(drops_of).collect();
        let counts = self.counters.read(&names(wires), &drops);
        self.health.handle_counts(now, &counts)
    }
}

fn names(wires: &[&Link]) -> Vec<String> {
    let names = wires.iter().map(|link| link.count.interface.clone());
    names.collect()
}

fn hardware(link: &Link) -> Option<HardwareAddress> {
    Some(HardwareAddress {
        interface: link.count.interface.clone(),
        address: link.hardware?,
    })
}

fn heard(heard: &LldpNeighbours) -> Vec<HostReading> {
    match heard {
        Ok(neighbours) => {
            let neighbours = neighbours.iter().cloned().map(Box::new);
            neighbours.map(HostReading::Neighbour).collect()
        }
        Err(lack) => vec![HostReading::Lack(lack.clone())],
    }
}

impl HostSnapshot {
    fn readings(&self) -> Vec<HostReading> {
        let health = self.health.iter().flat_map(|(_, health)| health);
        let mut readings: Vec<_> = health.cloned().map(HostReading::Health).collect();
        if let Some((_, facts)) = &self.facts {
            let nics = facts.nics.iter().cloned().map(Box::new);
            readings.extend(nics.map(HostReading::Nic));
            readings.extend(facts.hardware.iter().cloned().map(HostReading::Hardware));
            let places = facts.nic_places.iter().cloned().map(Box::new);
            readings.extend(places.map(HostReading::NicPlace));
            readings.extend(facts.machine.clone().map(HostReading::Machine));
        }
        readings
    }
}
