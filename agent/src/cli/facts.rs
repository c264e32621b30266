//! `facts`: shows facts about a node.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_agent::capabilities::{self, Capability};
use reweave_agent::clock;
use reweave_agent::counters::{NicReader, Tree, nic_places};
use reweave_agent::error::AgentError;
use reweave_agent::host::Host;
use reweave_agent::netlink::RouteSocket;
use reweave_agent::rdma::Helper;
use reweave_agent::role::Role;
use reweave_common::hardware::{Lack, Machine, Neighbour, NicReport, Pcie};
use reweave_common::pci::NicPlace;
use reweave_common::rdma::RdmaPort;
use reweave_common::sample::{HostReading, Interface};
use reweave_common::units::Bytes;
use serde::Serialize;

use super::show::{joined, or_dash};
use super::{Facts as Arguments, Form, out, rdma, table};

#[derive(Default, Serialize)]
struct Facts {
    interfaces: Vec<Interface>,
    nics: Vec<NicReport>,
    nic_places: Vec<NicPlace>,
    machine: Option<Machine>,
    neighbours: Vec<Neighbour>,
    rdma: Vec<RdmaPort>,
    /// Measurements that are not available.
    off: Vec<Lack>,
}

pub(super) fn facts(asked: &Arguments) -> Result<(), AgentError> {
    let facts = match &asked.recorded.root {
        Some(root) => recorded(&Tree::new(root)),
        None => live()?,
    };
    print_lacks(&facts.off);
    match asked.output.form {
        Form::Json => out::json(&facts),
        Form::Table => tell(&facts),
    }
    Ok(())
}

fn live() -> Result<Facts, AgentError> {
    let mut route = RouteSocket::open()?;
    let links = route.links()?;
    let mut host = Host::open(Duration::ZERO)?;
    host.wait_for_neighbours();
    let said = host.readings(clock::now(), &links, &BTreeMap::new());
    let mut facts = Facts {
        interfaces: route.interfaces()?,
        off: off(Role::detect()?),
        ..Facts::default()
    };
    let ports = Helper::start().and_then(|mut helper| helper.ports());
    facts.rdma = ports.unwrap_or_default();
    for reading in said {
        match reading {
            HostReading::Nic(nic) => facts.nics.push(*nic),
            HostReading::NicPlace(place) => facts.nic_places.push(*place),
            HostReading::Neighbour(neighbour) => facts.neighbours.push(*neighbour),
            HostReading::Machine(machine) => facts.machine = Some(machine),
            _ => {}
        }
    }
    Ok(facts)
}

fn off(role: Role) -> Vec<Lack> {
    let abilities = capabilities::abilities(role);
    abilities.iter().filter_map(Capability::lack).collect()
}

/// Facts from a copy, which has no addresses and no machine.
fn recorded(tree: &Tree) -> Facts {
    let mut nics = NicReader::recorded(tree);
    let names = tree.interfaces();
    Facts {
        nics: names.iter().map(|name| nics.read(name)).collect(),
        nic_places: nic_places(tree, &names),
        ..Facts::default()
    }
}

fn tell(facts: &Facts) {
    let row = |it: &Interface| [it.name.clone(), joined(&it.addresses), joined(&it.gateways)];
    let rows: Vec<_> = facts.interfaces.iter().map(row).collect();
    table::print(["interface", "addresses", "gateways"], &rows);
    let rows: Vec<_> = facts.nics.iter().map(nic_row).collect();
    if !rows.is_empty() {
        out::line("");
        let headings = [
            "nic", "driver", "speed", "fec", "mtu", "pcie", "numa", "rdma",
        ];
        table::print(headings, &rows);
    }
    print_places(&facts.nic_places);
    rdma::print_ports(&facts.rdma);
    print_neighbours(&facts.neighbours);
    if let Some(machine) = &facts.machine {
        out::line("");
        let headings = ["processors", "busy", "memory", "available", "numa nodes"];
        table::print(headings, &[machine_row(machine)]);
    }
}

/// Prints the nearest GPUs in one column, since the path to all of them is of one kind.
fn print_places(places: &[NicPlace]) {
    let rows: Vec<_> = places
        .iter()
        .map(|it| {
            let gpus: Vec<_> = it.gpus.iter().map(|gpu| gpu.index).collect();
            let path = it.gpus.first().map(|gpu| gpu.path);
            [
                it.interface.clone(),
                it.pci.to_string(),
                or_dash(it.numa),
                or_dash(path.map(|_| joined(&gpus))),
                or_dash(path),
            ]
        })
        .collect();
    if !rows.is_empty() {
        out::line("");
        table::print(["nic", "pci", "numa", "nearest gpus", "path"], &rows);
    }
}

fn print_neighbours(neighbours: &[Neighbour]) {
    let rows: Vec<_> = neighbours
        .iter()
        .map(|it| {
            [
                it.interface.clone(),
                it.system.clone(),
                it.port.clone(),
                or_dash(it.address),
            ]
        })
        .collect();
    if !rows.is_empty() {
        out::line("");
        table::print(["interface", "neighbour", "port", "address"], &rows);
    }
}

/// Prints sentences, because they contain advice.
fn print_lacks(lacks: &[Lack]) {
    for lack in lacks {
        out::tell(format_args!(
            "off: {}: {}; {}",
            lack.measurement, lack.because, lack.remedy
        ));
    }
}

fn nic_row(it: &NicReport) -> [String; 8] {
    [
        it.interface.clone(),
        or_dash(it.driver.as_ref()),
        or_dash(it.speed),
        or_dash(it.fec),
        or_dash(it.mtu_bytes),
        it.pcie.map_or_else(|| "-".to_owned(), bus),
        or_dash(it.numa_node),
        or_dash(it.rdma.as_ref()),
    ]
}

fn bus(pcie: Pcie) -> String {
    if pcie.is_degraded() {
        format!("{}, could be {}", pcie.now, pcie.most)
    } else {
        pcie.now.to_string()
    }
}

fn machine_row(it: &Machine) -> [String; 5] {
    let gib = |bytes: Bytes| format!("{:.1} GiB", bytes.count() as f64 / f64::from(1 << 30));
    [
        it.cpus.to_string(),
        or_dash(it.cpu_busy_percent.map(|percent| format!("{percent} %"))),
        gib(it.memory),
        gib(it.memory_available),
        it.numa_nodes.len().to_string(),
    ]
}
