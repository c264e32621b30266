//! All programs of the cluster, and the actions of each. The caller decides when an action happens and which messages
//! arrive.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use reweave_common::circuit::{Circuit, CircuitSet};
use reweave_common::fabric::Fabric;
use reweave_common::ids::{LinkId, NodeId, OpticalId};
use reweave_common::moment::Moment;
use reweave_common::sample::{Counters, Interface, Reading, Sample};
use reweave_common::units::Bytes;
use reweave_core::{Core, Policy, State};

use super::device::Device;
use super::driver::Driver;
use super::laws::{Laws, MIN_CAPACITY_SHARE, Sight};
use super::light::{Cabling, Drivers, Nodes, Port, cable_name};
use super::node::Node;
use crate::actor::{Life, Order, Report, Step};
use crate::coordinator::{Coordinator, Guest};

/// Bytes that pass a used port between two samples.
const BYTES_PER_SAMPLE: u64 = 10_000_000;

#[derive(Debug, Clone)]
pub struct Cluster {
    pub cabling: Cabling,
    pub coordinator: Coordinator,
    pub nodes: Nodes,
    pub drivers: Drivers,
    pub laws: Laws,
    passed: BTreeMap<Port, Passed>,
}

/// Counter of a port.
#[derive(Debug, Clone, Copy, Default)]
struct Passed {
    bytes: u64,
    read: Moment,
}

/// Result of a step.
#[derive(Debug, Clone)]
pub enum Did {
    /// There was nothing to do.
    Rested,
    Worked,
    Says(Report),
    /// This step was not taken any longer.
    Died,
}

impl Cluster {
    pub fn new(fabric: Fabric) -> Self {
        let fabric = Arc::new(fabric);
        let policy = Policy {
            capacity_floor: MIN_CAPACITY_SHARE,
            ..Policy::default()
        };
        let driver = |(&optical, circuits): (&OpticalId, &CircuitSet)| {
            let ports = fabric.optical(optical).ports;
            let device = Device::new(ports, circuits.clone());
            (optical, Driver::new(device))
        };
        let mut cluster = Self {
            coordinator: Coordinator::new(policy, Arc::clone(&fabric)),
            nodes: fabric.endpoints().map(|id| (id, Node::new(id))).collect(),
            drivers: fabric.first_circuits().iter().map(driver).collect(),
            laws: Laws::default(),
            passed: BTreeMap::new(),
            cabling: Cabling::new(fabric),
        };
        cluster.look_at_ways(Moment::default());
        cluster
    }

    pub fn state(&self) -> Option<&State> {
        Some(self.coordinator.core()?.state())
    }

    pub fn guests(&self) -> Vec<Guest> {
        let agents = self.nodes.keys().copied().map(Guest::Agent);
        let drivers = self.drivers.keys().copied().map(Guest::Driver);
        agents.chain(drivers).collect()
    }

    /// Returns all ports with light.
    pub fn lit_ports(&self) -> impl Iterator<Item = Port> {
        self.drivers.iter().flat_map(|(&optical, driver)| {
            let ports = driver.device.circuits.iter().flat_map(Circuit::ports);
            ports.map(move |port| (optical, port))
        })
    }

    pub fn life(&mut self, guest: Guest) -> &mut Life {
        match guest {
            Guest::Agent(node) => &mut self.node(node).life,
            Guest::Driver(optical) => &mut self.driver(optical).life,
        }
    }

    pub fn is_running(&self, guest: Guest) -> bool {
        match guest {
            Guest::Agent(node) => self.nodes[&node].is_running(),
            Guest::Driver(optical) => self.drivers[&optical].is_running(),
        }
    }

    pub fn start(&mut self, guest: Guest) {
        let Self {
            cabling,
            nodes,
            drivers,
            ..
        } = self;
        match guest {
            Guest::Agent(node) => {
                let agent = nodes.get_mut(&node).expect("every node has an agent");
                agent.start(|interface| cabling.far(drivers, node, interface).is_some());
            }
            Guest::Driver(optical) => self.driver(optical).start(),
        }
    }

    pub fn die(&mut self, guest: Guest) {
        match guest {
            Guest::Agent(node) => self.node(node).die(),
            Guest::Driver(optical) => self.driver(optical).die(),
        }
    }

    pub fn node(&mut self, id: NodeId) -> &mut Node {
        self.nodes.get_mut(&id).expect("every node has an agent")
    }

    pub fn driver(&mut self, id: OpticalId) -> &mut Driver {
        self.drivers
            .get_mut(&id)
            .expect("every switch has a driver")
    }

    pub fn tell(&mut self, order: Order) {
        match order {
            Order::Instruct(node, it) => self.node(node).handle_instruction(it),
            Order::Switch(optical, it) => self.driver(optical).handle_switchover(it),
        }
    }

    /// The next step of an agent or a driver, and a look at what it changed.
    pub fn work(&mut self, now: Moment, guest: Guest) -> Did {
        if !self.life(guest).go_on() {
            self.die(guest);
            return Did::Died;
        }
        match guest {
            Guest::Agent(node) => self.work_at_node(now, node),
            Guest::Driver(optical) => self.work_at_device(now, optical),
        }
    }

    fn work_at_node(&mut self, now: Moment, id: NodeId) -> Did {
        let Self {
            cabling,
            nodes,
            drivers,
            ..
        } = self;
        let node = nodes.get_mut(&id).expect("every node has an agent");
        let step = node.work(|interface| cabling.far(drivers, id, interface).is_some());
        match step {
            Step::Rest => return Did::Rested,
            Step::Took => {
                let (laws, sight, _) = self.sight(now);
                laws.look_at_record(sight, id);
            }
            Step::Changed => self.look_at_ways(now),
            Step::Says(ack) => return Did::Says(Report::Ack(id, ack)),
            Step::Acts(install) => {
                let (laws, sight, _) = self.sight(now);
                laws.look_at_act(sight, id, &install);
            }
        }
        Did::Worked
    }

    fn work_at_device(&mut self, now: Moment, id: OpticalId) -> Did {
        let driver = self.driver(id);
        match driver.work() {
            Step::Rest => return Did::Rested,
            Step::Took => {}
            Step::Changed => {
                self.look_at_ways(now);
                let circuits = &self.drivers[&id].device.circuits;
                self.laws.look_at_device(id, circuits);
            }
            Step::Says(readback) => return Did::Says(Report::Readback(id, readback)),
            Step::Acts(report) => {
                let (laws, sight, _) = self.sight(now);
                laws.look_at_moves(sight, id, &report);
            }
        }
        Did::Worked
    }

    pub fn look_at_ways(&mut self, now: Moment) {
        let (laws, sight, _) = self.sight(now);
        laws.look_at_ways(sight);
    }

    pub fn look_at_log(&mut self, now: Moment) {
        let (laws, sight, state) = self.sight(now);
        if let Some(state) = state {
            laws.look_at_log(sight, state);
        }
    }

    pub fn look_at_rest(&mut self, now: Moment) {
        let (laws, sight, state) = self.sight(now);
        if let Some(state) = state {
            laws.look_at_rest(sight, state);
        }
    }

    fn sight(&mut self, now: Moment) -> (&mut Laws, Sight<'_>, Option<&State>) {
        let sight = Sight {
            now,
            cabling: &self.cabling,
            nodes: &self.nodes,
            drivers: &self.drivers,
            log: self.coordinator.log(),
        };
        let state = self.coordinator.core().map(Core::state);
        (&mut self.laws, sight, state)
    }

    /// Returns the full report of an agent, after it has repaired drift.
    pub fn sample(&mut self, now: Moment, id: NodeId) -> Sample {
        let Self {
            cabling,
            nodes,
            drivers,
            ..
        } = self;
        let node = nodes.get_mut(&id).expect("every node has an agent");
        node.handle_time(now);
        if node.keep(|interface| cabling.far(drivers, id, interface).is_some()) {
            cabling.looked_after(drivers, id, now);
        }
        let mut readings = vec![Reading::Holds {
            generation: node.disk.in_force.generation,
            holding: node.holding(),
        }];
        readings.extend(cables(&self.cabling.fabric, id));
        let interfaces: Vec<_> = self.cabling.interfaces(id).map(str::to_owned).collect();
        for interface in interfaces {
            readings.push(self.counters(now, id, interface));
        }
        Sample {
            taken: now,
            readings,
        }
    }

    fn counters(&mut self, now: Moment, node: NodeId, interface: String) -> Reading {
        let far = self.cabling.far(&self.drivers, node, &interface);
        let port = self.cabling.port(node, &interface);
        let sent = port.map_or(0, |port| {
            let passed = self.passed.entry(port).or_default();
            let is_used = self.laws.is_used_since(port, passed.read);
            passed.bytes += u64::from(is_used) * BYTES_PER_SAMPLE;
            passed.read = now;
            passed.bytes
        });
        Reading::Counters(Counters {
            interface,
            up: far.is_some(),
            sent: Bytes::new(sent),
            received: Bytes::new(0),
            dropped_packets: 0,
            send_rate: None,
            receive_rate: None,
        })
    }
}

/// The interfaces of cables, whose addresses say what they join.
fn cables(fabric: &Fabric, node: NodeId) -> impl Iterator<Item = Reading> {
    let links = fabric.links_of(node).iter().copied();
    let cables = links.filter(|&link| fabric.crossing(link).is_none());
    cables.map(move |link| {
        let is_second = u32::from(fabric.link(link).b.node == node);
        Reading::Interface(Interface {
            name: cable_name(link),
            addresses: vec![address(link, is_second)],
            gateways: Vec::new(),
        })
    })
}

fn address(link: LinkId, end: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a01_0000 + 2 * link.index() as u32 + end)
}
