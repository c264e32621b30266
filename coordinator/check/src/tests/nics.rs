//! Pins of flows to hosts with several NICs: the way ends over the link of the NIC that has the address.

use reweave_common::forwarding::{ForwardingTable, NextHop};

use super::*;

/// Two hosts with a NIC at each of two leaves, and one with two NICs at the second leaf.
fn rails() -> Site {
    Site::of(
        r#"
        kind = "graph"
        node = [{ name = "h0", role = "host" }, { name = "h1", role = "host" },
                { name = "h2", role = "host" },
                { name = "leaf0", role = "switch" }, { name = "leaf1", role = "switch" },
                { name = "spine0", role = "switch" }, { name = "spine1", role = "switch" }]
        nic = [{ host = "h0", to = "leaf0", gbps = 1 }, { host = "h0", to = "leaf1", gbps = 1 },
               { host = "h1", to = "leaf0", gbps = 1 }, { host = "h1", to = "leaf1", gbps = 1 },
               { host = "h2", to = "leaf1", gbps = 1 },
               { host = "h2", to = "leaf1", gbps = 1, address = "10.1.0.2" }]
        link = [{ a = "leaf0", b = "spine0", gbps = 1 }, { a = "leaf0", b = "spine1", gbps = 1 },
                { a = "leaf1", b = "spine0", gbps = 1 }, { a = "leaf1", b = "spine1", gbps = 1 }]
        "#,
    )
}

/// A flow of the first host to this address of another.
pub(super) fn flow_to(site: &mut Site, host: &str, address: [u8; 4]) -> FlowKey {
    let (address, host_node) = (Ipv4Addr::from(address), site.node(host));
    site.addresses.insert(address, host_node);
    FlowKey {
        destination: SocketAddrV4::new(address, 5201),
        ..site.flow("h0", host)
    }
}

/// The second host reports that the flow's destination is an address of its NIC at this leaf.
pub(super) fn give_nic(site: &mut Site, flow: FlowKey, leaf: &str) {
    let link = site.link("h1", leaf);
    site.nics.insert(*flow.destination.ip(), link);
}

#[test]
fn pin_to_other_nic_is_refused() {
    let mut site = rails();
    let flow = flow_to(&mut site, "h1", [10, 1, 0, 1]);
    let across = [site.pin(flow, "leaf0", "spine1")];
    let to_other = [site.pin(flow, "leaf0", "h1")];
    // As long as no NIC is known to have the address, any may.
    assert_eq!(site.check(&to_other), Ok(()));
    give_nic(&mut site, flow, "leaf1");
    assert_eq!(site.check(&across), Ok(()));
    let said = site.fault(&to_other);
    assert!(
        said.ends_with(
            "sent by leaf0 over link h1-leaf0, may be lost at h1: no next hop to h1-leaf1"
        ),
        "{said}"
    );
}

/// The leaf of another NIC sends packets on as any switch does.
#[test]
fn other_leaf_sends_to_the_nic() {
    let mut site = rails();
    let flow = flow_to(&mut site, "h1", [10, 1, 0, 1]);
    give_nic(&mut site, flow, "leaf1");
    let said = site.fault(&[site.pin(flow, "spine1", "leaf0")]);
    assert!(
        said.contains("may circle: spine1 > leaf0 > spine1"),
        "{said}"
    );
}

#[test]
fn pin_to_parallel_nic_is_refused() {
    let mut site = rails();
    let flow = flow_to(&mut site, "h2", [10, 1, 0, 2]);
    let [first, declared] = {
        let [host, leaf] = ["h2", "leaf1"].map(|name| site.node(name));
        let nics: Vec<_> = site.fabric.links_between(host, leaf).collect();
        [nics[0], nics[1]]
    };
    let pin = site.pin(flow, "leaf1", "h2");
    let at = |link| [Pin { link, ..pin }];
    assert_eq!(site.check(&at(declared)), Ok(()));
    let said = site.fault(&at(first));
    assert!(
        said.ends_with("may be lost at h2: no next hop to h2-leaf1.1"),
        "{said}"
    );
}

/// The file gives the address to the second of two parallel NICs, and the host reports it at the first.
#[test]
fn reported_nic_precedes_declared_one() {
    let mut site = rails();
    let flow = flow_to(&mut site, "h2", [10, 1, 0, 2]);
    let [host, leaf] = ["h2", "leaf1"].map(|name| site.node(name));
    let nics: Vec<_> = site.fabric.links_between(host, leaf).collect();
    site.nics.insert(*flow.destination.ip(), nics[0]);
    let pin = site.pin(flow, "leaf1", "h2");
    let at = |link| [Pin { link, ..pin }];
    assert_eq!(site.check(&at(nics[0])), Ok(()));
    let said = site.fault(&at(nics[1]));
    assert!(
        said.ends_with("may be lost at h2: no next hop to h2-leaf1"),
        "{said}"
    );
}

/// A pin is judged with what the nodes behind it do by their tables.
#[test]
fn table_to_other_nic_is_followed() {
    let mut site = rails();
    let flow = flow_to(&mut site, "h1", [10, 1, 0, 1]);
    let (at, to) = (site.node("leaf0"), site.node("h1"));
    let hop = NextHop {
        link: site.link("leaf0", "h1"),
        weight: 1,
    };
    let table = ForwardingTable {
        at,
        towards: BTreeMap::from([(to, vec![hop])]),
        raises: Vec::new(),
    };
    let tables = Tables::from([(at, table)]);
    let pinned = Plan {
        tables: tables.clone(),
        ..plan(&[site.pin(flow, "spine1", "leaf0")])
    };
    let (nothing, circuits) = (Tables::new(), Circuits::new());
    let is_sound = |site: &Site| {
        let network = site.network([&tables, &nothing], &circuits);
        check(&network, &pinned).is_ok()
    };
    assert!(is_sound(&site));
    give_nic(&mut site, flow, "leaf1");
    assert!(!is_sound(&site));
}
