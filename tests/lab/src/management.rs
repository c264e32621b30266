//! The management network, over which programs reach the nodes outside the fabric.
//!
//! Every node has an interface `mgmt0`, joined to the *station*: a namespace outside the fabric, with a name and a
//! network of its own, where a coordinator runs. The station forwards between nodes on that network; nodes do not, so
//! the two networks stay separate.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use reweave_common::fabric::{Fabric, Role};
use reweave_common::ids::{NodeId, OpticalId};
pub(crate) use reweave_common::scenario::STATION_NAME;

use crate::error::LabError;
use crate::node::NodeDoor;
use crate::parallel::apart;
use crate::wiring::{self, Sysctl};

const MANAGEMENT_NETWORK: &str = "10.255.0.0/16";
const FIRST_ADDRESS: u32 = u32::from_be_bytes([10, 255, 0, 1]);
const MAX_NODES: usize = (1 << 16) - 3;
pub(crate) const MANAGEMENT_INTERFACE: &str = "mgmt0";

/// The station's address.
pub(crate) fn station_address() -> Ipv4Addr {
    FIRST_ADDRESS.into()
}

pub(crate) fn address(node: NodeId) -> Ipv4Addr {
    (FIRST_ADDRESS + 1 + node.index() as u32).into()
}

pub(crate) fn check_size(fabric: &Fabric) -> Result<(), LabError> {
    let count = places(fabric).count();
    (count <= MAX_NODES)
        .then_some(())
        .ok_or(LabError::FabricTooLarge {
            what: "nodes on a management network",
            count,
            most: MAX_NODES,
        })
}

/// Returns the members of the management network with their numbers: nodes, then optical switches.
fn places(fabric: &Fabric) -> impl Iterator<Item = (NodeId, &str)> {
    let nodes = fabric.nodes().map(|(_, node)| node.name.as_str());
    let opticals = fabric.opticals().map(|(_, optical)| optical.name.as_str());
    let names = nodes.chain(opticals).enumerate();
    names.map(|(index, name)| (NodeId::from_index(index), name))
}

/// The number there of an optical switch.
pub(crate) fn of_optical(fabric: &Fabric, optical: OpticalId) -> NodeId {
    NodeId::from_index(fabric.nodes().len() + optical.index())
}

/// Makes the station: no node of the fabric, but entered like one.
pub(crate) fn create_station(fabric: &Fabric, seed: u64) -> Result<NodeDoor, LabError> {
    let beyond = NodeId::from_index(places(fabric).count());
    let settings = wiring::sysctls(Role::Relay, seed, beyond);
    apart(|| NodeDoor::create(STATION_NAME, &settings))
}

/// Returns the setting of a node's interface that disables forwarding.
pub(crate) fn sysctl() -> Sysctl {
    Sysctl {
        key: "net/ipv4/conf/mgmt0/forwarding",
        value: "0".to_owned(),
        required: true,
    }
}

/// Returns ip commands, outside the nodes, that create an interface in each, with its other end in the station.
pub(crate) fn links_script(fabric: &Fabric) -> String {
    let link = |(id, name): (NodeId, &str)| {
        let [near, far] = [mac(id, 0), mac(id, 1)];
        let port = port(id);
        format!(
            "link add name {MANAGEMENT_INTERFACE} address {near} netns /run/netns/{name} type veth peer name {port} \
             address {far} netns /run/netns/{STATION_NAME}\n"
        )
    };
    places(fabric).map(link).collect()
}

/// Returns ip commands inside a node.
pub(crate) fn node_script(node: NodeId) -> String {
    let (own, station, far) = (address(node), station_address(), mac(node, 1));
    format!(
        "address add {own}/32 dev {MANAGEMENT_INTERFACE}\n\
         link set {MANAGEMENT_INTERFACE} up\n\
         neighbour add {station} lladdr {far} nud permanent dev {MANAGEMENT_INTERFACE}\n\
         route add {MANAGEMENT_NETWORK} via {station} dev {MANAGEMENT_INTERFACE} src {own} onlink\n"
    )
}

/// Returns ip commands inside the station.
pub(crate) fn station_script(fabric: &Fabric) -> String {
    let station = station_address();
    let mut script = format!("link set lo up\naddress add {station}/32 dev lo\n");
    for (node, _) in places(fabric) {
        let (address, mac, port) = (address(node), mac(node, 0), port(node));
        let _ = write!(
            script,
            "link set {port} up\n\
             neighbour add {address} lladdr {mac} nud permanent dev {port}\n\
             route add {address}/32 dev {port} src {station}\n"
        );
    }
    script
}

/// Further lines of /etc/hosts.
pub(crate) fn hosts_file(fabric: &Fabric) -> String {
    let station = format!("{} {STATION_NAME}\n", station_address());
    let nodes = places(fabric).map(|(id, name)| format!("{} {name}.mgmt\n", address(id)));
    std::iter::once(station).chain(nodes).collect()
}

/// The station's end; node names may be too long for an interface.
fn port(node: NodeId) -> String {
    format!("m{}", node.index())
}

/// 06 distinguishes them from the addresses of the fabric's links.
fn mac(node: NodeId, end: u8) -> String {
    let [a, b, c, d] = (node.index() as u32).to_be_bytes();
    format!("06:{a:02x}:{b:02x}:{c:02x}:{d:02x}:{end:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn station_reaches_each_node() {
        let text = "kind = \"ideal\"\nhosts = 2\nnic_gbps = 1";
        let fabric = Fabric::parse("f.toml", text).unwrap();
        let h1 = fabric.find("h1").unwrap();
        let links = links_script(&fabric);
        assert_eq!(links.lines().count(), 3);
        assert!(
            links.contains("netns /run/netns/h1 type veth peer name m2 "),
            "{links}"
        );
        assert!(node_script(h1).contains("route add 10.255.0.0/16 via 10.255.0.1 dev mgmt0"));
        let station = station_script(&fabric);
        assert!(station.contains("route add 10.255.0.3/32 dev m1 src 10.255.0.1\n"));
        assert!(
            hosts_file(&fabric)
                .starts_with("10.255.0.1 station\n10.255.0.2 switch.mgmt\n10.255.0.3 h0.mgmt\n")
        );
    }
}
