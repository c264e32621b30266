//! The NICs of hosts: what the fabric's file says, and what their agents report.

use std::net::Ipv4Addr;

use reweave_common::fabric::Nic;
use reweave_common::observations::NodeObservations;
use reweave_common::operator::{NicStatus, Response};
use reweave_common::snapshot::Hop;

use crate::model::world::World;

/// The NICs from this number on, in the order of the fabric.
pub(super) fn nics(world: &World<'_>, from_nic: u32, most: u32) -> Response {
    let all = world.fabric().nics();
    let page = all.skip(from_nic as usize).take(most as usize);
    Response::Nics(page.map(|(_, nic)| status(world, nic)).collect())
}

fn status(world: &World<'_>, nic: &Nic) -> NicStatus {
    let fabric = world.fabric();
    let observed = world.known.ingest.observations().node(nic.host);
    let interface = interface(world, nic);
    let host = observed.map(|it| &it.host);
    let place = host.zip(interface).and_then(|(host, name)| {
        let place = host.nic_places.get(name)?;
        Some(&place.value)
    });
    let report = host.zip(interface);
    let report = report.and_then(|(host, name)| host.nics.get(name));
    let numa = place.and_then(|place| place.numa);
    let numa = numa.or_else(|| report?.value.numa_node);
    let gpus = place.map(|place| &place.gpus[..]).unwrap_or_default();
    let counters = interface.and_then(|name| world.counted(nic.host, name));
    let counters = counters.map(|counters| &counters.value);
    let is_gone = host.zip(interface);
    let is_gone = is_gone.is_some_and(|(host, name)| host.vanished.contains_key(name));
    let up = counters.map(|counters| counters.up);
    NicStatus {
        host: fabric.name(nic.host).to_owned(),
        interface: interface.map(str::to_owned),
        rail: nic.rail,
        plane: nic.plane,
        purpose: nic.purpose,
        link: fabric.link_name(nic.link),
        address: address(world, nic, observed, interface),
        pci: place.map(|place| place.pci),
        numa: nic.numa.or(numa),
        gpu: nic.gpu,
        gpus: gpus.iter().take(NicStatus::MAX_GPUS).copied().collect(),
        up: if is_gone { Some(false) } else { up },
        capacity_bits_per_s: fabric.link(nic.link).rate,
        sent_bits_per_s: counters.and_then(|counters| counters.send_rate),
        received_bits_per_s: counters.and_then(|counters| counters.receive_rate),
    }
}

/// The interface that is known to be at the NIC's link, else the one in the file.
fn interface<'w>(world: &'w World<'_>, nic: &'w Nic) -> Option<&'w str> {
    let end = world.wiring.end(Hop {
        from: nic.host,
        link: nic.link,
    });
    let reported = end.map(|end| &end.interface[..]);
    reported.or(nic.interface.as_deref())
}

/// The address in the file, else the first that its host reports.
fn address(
    world: &World<'_>,
    nic: &Nic,
    observed: Option<&NodeObservations>,
    interface: Option<&str>,
) -> Option<Ipv4Addr> {
    let end = world.wiring.end(Hop {
        from: nic.host,
        link: nic.link,
    });
    let wired = end.map(|end| end.address);
    let reported = || {
        let interface = observed?.interfaces.get(interface?)?;
        interface.value.addresses.first().copied()
    };
    nic.address.or(wired).or_else(reported)
}
