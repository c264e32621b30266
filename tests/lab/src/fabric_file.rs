//! The fabric file for coordinators in a lab on rails: it declares every NIC with the interface and the address that it
//! has here, which the scenario's own file may leave out.

use std::fmt::Write as _;

use reweave_common::fabric::{Fabric, Link, Nic, Role};
use reweave_common::ids::NicId;

use crate::addressing::Addressing;
use crate::rails;
use crate::wiring;

/// Place of the file inside the lab.
pub(crate) const FABRIC_PATH: &str = "/run/fabric.toml";

/// Returns the file in the form `graph`; none for a fabric that declares no NICs, or has optical switches.
pub(crate) fn text(fabric: &Fabric, addressing: &Addressing) -> Option<String> {
    if !fabric.has_declared_nics() || fabric.opticals().len() > 0 {
        return None;
    }
    let mut text = String::from("kind = \"graph\"\n");
    for (id, node) in fabric.nodes() {
        let role = match node.role {
            Role::Host => "host",
            Role::Switch => "switch",
            Role::Relay => "relay",
        };
        let _ = write!(
            text,
            "[[node]]\nname = \"{}\"\nrole = \"{role}\"\n",
            node.name
        );
        if let Some(address) = fabric.address(id) {
            let _ = writeln!(text, "address = \"{address}\"");
        }
    }
    let is_nic = |link| {
        let nic = fabric.nic_at(link);
        nic.is_some_and(|nic| fabric.leaf_of(nic).is_some())
    };
    let others = fabric.links().filter(|(id, _)| !is_nic(*id));
    let others: Vec<&Link> = others.map(|(_, link)| link).collect();
    let nodes = |link: &Link| [link.a.node, link.b.node];
    for parallel in others.chunk_by(|x, y| nodes(x) == nodes(y)) {
        let [first, ..] = parallel else { continue };
        let [a, b] = nodes(first).map(|node| fabric.name(node));
        let _ = write!(
            text,
            "[[link]]\na = \"{a}\"\nb = \"{b}\"\ncount = {}\n{}",
            parallel.len(),
            speed(first)
        );
    }
    for (id, nic) in fabric.nics().filter(|(_, nic)| is_nic(nic.link)) {
        text += &nic_table(fabric, addressing, id, nic);
    }
    Some(text)
}

fn nic_table(fabric: &Fabric, addressing: &Addressing, id: NicId, nic: &Nic) -> String {
    let link = fabric.link(nic.link);
    let port = rails::port_of(fabric, id);
    let [host, to] = [nic.host, link.far(nic.host).node].map(|node| fabric.name(node));
    let mut table = format!(
        "[[nic]]\nhost = \"{host}\"\nto = \"{to}\"\n{}interface = {:?}\naddress = \"{}\"\nrail = {}\nuse = \"{}\"\n",
        speed(link),
        wiring::interface(fabric, port),
        addressing.of_nic(fabric, port),
        nic.rail,
        nic.purpose.name()
    );
    for (key, value) in [("plane", nic.plane), ("numa", nic.numa), ("gpu", nic.gpu)] {
        if let Some(value) = value {
            let _ = writeln!(table, "{key} = {value}");
        }
    }
    table
}

fn speed(link: &Link) -> String {
    let latency_us = link.latency.as_nanos() as f64 / 1e3;
    format!("gbps = {}\nlatency_us = {latency_us}\n", link.rate.gbps())
}

#[cfg(test)]
mod tests {
    use reweave_common::fabric::NicUse;

    use super::*;

    const RAILS: &str = "kind = \"rails\"\npods = 2\nhosts_per_pod = 2\nrails = 4\nleaves_per_pod = 2\nspines = 2\n\
                         host_gbps = 0.2\nuplink_gbps = 0.1\nlatency_us = 2.5\n";

    /// The ends, rate and latency of each link, and the host, far end, rail, address and interface of each NIC.
    fn facts(fabric: &Fabric, addressing: &Addressing) -> [Vec<String>; 2] {
        let links = fabric.links().map(|(id, link)| {
            let (name, rate, latency) = (fabric.link_name(id), link.rate, link.latency);
            format!("{name} {rate:?} {latency:?}")
        });
        let nics = fabric.nics().map(|(id, nic)| {
            let port = rails::port_of(fabric, id);
            format!(
                "{} {:?} {} {} {}",
                fabric.name(nic.host),
                fabric.leaf_of(id).map(|leaf| fabric.name(leaf)),
                nic.rail,
                addressing.of_nic(fabric, port),
                wiring::interface(fabric, port)
            )
        });
        let (mut links, mut nics): (Vec<_>, Vec<_>) = (links.collect(), nics.collect());
        links.sort();
        nics.sort();
        [links, nics]
    }

    #[test]
    fn lab_fabric_declares_addresses_of_nics() {
        let fabric = Fabric::parse("f.toml", RAILS).unwrap();
        let addressing = Addressing::new(&fabric).unwrap();
        let written = text(&fabric, &addressing).unwrap();
        let again = Fabric::parse("fabric.toml", &written).unwrap();
        assert_eq!(
            facts(&again, &Addressing::new(&again).unwrap()),
            facts(&fabric, &addressing)
        );
        let h3 = again.find("h3").unwrap();
        let last = again.nic_with([10, 3, 0, 3].into()).unwrap();
        let nic = again.nic(last);
        assert_eq!((nic.host, nic.rail), (h3, 3));
        assert_eq!(nic.interface.as_deref(), Some("eth3"));
    }

    /// A switch keeps its loopback, and a name keeps its quotation marks.
    #[test]
    fn lab_fabric_keeps_declared_values() {
        let declared = r#"
            kind = "graph"
            node = [{ name = "a", role = "host" },
                    { name = "s", role = "switch", address = "192.0.2.9" }]
            nic = [{ host = "a", to = "s", gbps = 1, plane = 0, interface = 'en"1' },
                   { host = "a", to = "s", gbps = 1, plane = 1, gpu = 3, numa = 1, use = "storage" }]
        "#;
        let fabric = Fabric::parse("f.toml", declared).unwrap();
        let addressing = Addressing::new(&fabric).unwrap();
        let written = text(&fabric, &addressing).unwrap();
        let again = Fabric::parse("fabric.toml", &written).unwrap();
        let switch = again.find("s").unwrap();
        assert_eq!(again.address(switch), Some([192, 0, 2, 9].into()));
        let [first, second] = again.nics_of(again.find("a").unwrap()) else {
            panic!("{written}");
        };
        let [first, second] = [first, second].map(|&id| again.nic(id));
        assert_eq!(first.interface.as_deref(), Some("en\"1"));
        assert_eq!([first.plane, second.plane], [Some(0), Some(1)]);
        let storage = (NicUse::Storage, Some(3), Some(1));
        assert_eq!((second.purpose, second.gpu, second.numa), storage);
    }

    #[test]
    fn fabric_without_nics_is_not_rewritten() {
        let fabric = Fabric::parse("f.toml", "kind = \"ideal\"\nhosts = 2\nnic_gbps = 1\n");
        let fabric = fabric.unwrap();
        let addressing = Addressing::new(&fabric).unwrap();
        assert_eq!(text(&fabric, &addressing), None);
    }
}
