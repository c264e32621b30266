//! Hosts on rails. A host sends from the address of a NIC over that NIC alone, and other nodes lead each address to the
//! cable of its NIC.
//!
//! A host is on rails if the fabric's file declares NICs and it has several. Hosts of other files use all their cables
//! for each of their addresses. Pure, as the rest of the wiring.

use reweave_common::fabric::{Fabric, Nic, Port};
use reweave_common::ids::{NicId, NodeId};

use crate::wiring::near;

/// The routing table of a host's first NIC; the next NIC has the next number.
pub(crate) const FIRST_TABLE: usize = 100;
/// After the rules of an agent (21300), and before the main table (32766).
pub(crate) const RULE_PRIORITY: u32 = 30_000;

/// Returns the NICs of a host on rails, in order of their rails. None for any other node.
pub(crate) fn nics_of(fabric: &Fabric, node: NodeId) -> &[NicId] {
    let nics = fabric.nics_of(node);
    let all_links = fabric.links_of(node).len();
    let is_on_rails = fabric.has_declared_nics() && nics.len() > 1 && nics.len() == all_links;
    if is_on_rails { nics } else { &[] }
}

/// Returns the NIC at a port; none for the port of a switch, of a relay or of a fibre.
pub(crate) fn nic_at(fabric: &Fabric, port: Port) -> Option<&Nic> {
    let link = fabric.links_of(port.node).get(port.index as usize)?;
    let nics = fabric.nics_of(port.node).iter();
    nics.map(|&nic| fabric.nic(nic))
        .find(|nic| nic.link == *link)
}

/// Returns the port of a NIC's host at which its cable ends.
pub(crate) fn port_of(fabric: &Fabric, nic: NicId) -> Port {
    let nic = fabric.nic(nic);
    near(fabric.link(nic.link), nic.host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addressing::Addressing;
    use crate::wiring::Wiring;

    const RAILS: &str = "kind = \"rails\"\npods = 2\nhosts_per_pod = 1\nrails = 2\nspines = 2\n\
                         host_gbps = 0.2\nuplink_gbps = 0.1\n";

    /// The lines of a node's script.
    fn lines(text: &str, node: &str) -> Vec<String> {
        let fabric = Fabric::parse("f.toml", text).unwrap();
        let addressing = Addressing::new(&fabric).unwrap();
        let wiring = Wiring::new(&fabric, &addressing);
        let script = wiring.node_script(fabric.find(node).unwrap());
        script.lines().map(str::to_owned).collect()
    }

    #[track_caller]
    fn assert_has(lines: &[String], line: &str) {
        assert!(lines.iter().any(|it| it == line), "{line}\n{lines:#?}");
    }

    #[test]
    fn host_has_table_for_each_nic() {
        let lines = lines(RAILS, "h0");
        for line in [
            "route add default table 100 src 10.0.0.0 window 64000 via 10.192.0.1 dev eth0 onlink",
            "rule add from 10.0.0.0 lookup 100 pref 30000",
            "route add default table 101 src 10.1.0.0 window 64000 via 10.192.0.3 dev eth1 onlink",
            "rule add from 10.1.0.0 lookup 101 pref 30000",
            "route add 10.0.0.1/32 src 10.0.0.0 window 64000 via 10.192.0.1 dev eth0 onlink",
            "route add 10.1.0.1/32 src 10.1.0.0 window 64000 via 10.192.0.3 dev eth1 onlink",
            // The loopback of spine0, which both NICs lead to.
            "route add 10.128.0.4/32 src 10.0.0.0 window 64000 via 10.192.0.1 dev eth0 onlink",
        ] {
            assert_has(&lines, line);
        }
        assert_eq!(lines.iter().filter(|it| it.starts_with("rule ")).count(), 2);
    }

    #[test]
    fn leaf_leads_each_nic_apart() {
        let leaf = lines(RAILS, "leaf0-0");
        assert_has(
            &leaf,
            "route add 10.0.0.0/32 src 10.128.0.0 window 64000 via 10.0.0.0 dev swp0 onlink",
        );
        // The other NIC of the same host is reached over the spines, and not over the host.
        assert_has(
            &leaf,
            "route add 10.1.0.0/32 src 10.128.0.0 window 64000 nexthop via 10.192.0.9 dev swp1 weight 1 onlink \
             nexthop via 10.192.0.11 dev swp2 weight 1 onlink",
        );
        let shared = RAILS.replace("spines", "leaves_per_pod = 1\nspines");
        assert_has(
            &lines(&shared, "leaf0-0"),
            "route add 10.1.0.0/32 src 10.128.0.0 window 64000 via 10.1.0.0 dev swp1 onlink",
        );
    }

    /// It is reached over any NIC, and the addresses of NICs over theirs alone.
    #[test]
    fn address_of_host_is_loopback() {
        let text = r#"
            kind = "graph"
            node = [{ name = "a", role = "host", address = "192.0.2.8" },
                    { name = "b", role = "host" }, { name = "s", role = "switch" }]
            nic = [{ host = "a", to = "s", gbps = 0.2 }, { host = "a", to = "s", gbps = 0.2 },
                   { host = "b", to = "s", gbps = 0.2 }]
        "#;
        assert_has(&lines(text, "a"), "address add 192.0.2.8/32 dev lo");
        let switch = lines(text, "s");
        assert_has(
            &switch,
            "route add 192.0.2.8/32 src 10.128.0.0 window 64000 nexthop via 10.0.0.0 dev swp0 weight 1 onlink \
             nexthop via 10.1.0.0 dev swp1 weight 1 onlink",
        );
        assert_has(
            &switch,
            "route add 10.1.0.0/32 src 10.128.0.0 window 64000 via 10.1.0.0 dev swp1 onlink",
        );
        let of_nic = text.replace("192.0.2.8", "10.1.0.0");
        assert!(!lines(&of_nic, "a").iter().any(|it| it.ends_with("dev lo")));
    }

    #[test]
    fn host_of_one_rail_has_default_route() {
        let lines = lines(&RAILS.replace("rails = 2", "rails = 1"), "h0");
        assert_has(
            &lines,
            "route add default src 10.0.0.0 window 64000 via 10.192.0.1 dev eth0 onlink",
        );
        assert!(
            !lines.iter().any(|it| it.starts_with("rule ")),
            "{lines:#?}"
        );
    }

    fn nics(text: &str, host: &str) -> usize {
        let fabric = Fabric::parse("f.toml", text).unwrap();
        nics_of(&fabric, fabric.find(host).unwrap()).len()
    }

    #[test]
    fn only_declared_nics_make_rails() {
        let nodes = "kind = \"graph\"\nnode = [{ name = \"a\", role = \"host\" }, { name = \"b\", role = \"host\" }, \
                     { name = \"s\", role = \"switch\" }]\n";
        let implied = format!(
            "{nodes}link = [{{ a = \"a\", b = \"s\", gbps = 1, count = 2 }}, \
             {{ a = \"b\", b = \"s\", gbps = 1 }}]\n"
        );
        assert_eq!(["a", "b", "s"].map(|node| nics(&implied, node)), [0, 0, 0]);
        let nic = "{ host = \"a\", to = \"s\", gbps = 1 }";
        let declared =
            format!("{nodes}link = [{{ a = \"b\", b = \"s\", gbps = 1 }}]\nnic = [{nic}, {nic}]\n");
        assert_eq!(["a", "b", "s"].map(|node| nics(&declared, node)), [2, 0, 0]);
    }

    #[test]
    fn nics_stand_in_order_of_rails() {
        let text = r#"
            kind = "graph"
            node = [{ name = "a", role = "host" }, { name = "s", role = "switch" }]
            nic = [{ host = "a", to = "s", gbps = 1, rail = 1, interface = "ens5" },
                   { host = "a", to = "s", gbps = 1, rail = 0 }]
        "#;
        let fabric = Fabric::parse("f.toml", text).unwrap();
        let a = fabric.find("a").unwrap();
        let ports: Vec<_> = nics_of(&fabric, a)
            .iter()
            .map(|&nic| port_of(&fabric, nic))
            .collect();
        assert_eq!(ports, [1, 0].map(|index| Port { node: a, index }));
        let interface = |port| nic_at(&fabric, port)?.interface.as_deref();
        assert_eq!(interface(ports[1]), Some("ens5"));
        let of_switch = Port {
            node: fabric.find("s").unwrap(),
            index: 0,
        };
        assert_eq!(nic_at(&fabric, of_switch), None);
    }
}
