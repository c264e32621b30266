//! Scripts that create the fabric. Pure functions, so that they can be tested without a kernel.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

use reweave_common::fabric::{Fabric, FabricBuilder, Link, Port, Role};
use reweave_common::ids::{LinkId, NicId, NodeId};
use reweave_common::routes::Routes;
use reweave_common::units::Rate;

use crate::addressing::{self, Addressing, end_of};
use crate::optics;
use crate::rails;
use crate::sharing::Sharing;

/// Jumbo frames, as training clusters use them.
pub(crate) const MTU_BYTES: u64 = 9000;
const MAX_FRAME_BYTES: u64 = MTU_BYTES + 14;

/// First interface index of link ends; 1 is the loopback of each node.
pub(crate) const FIRST_INDEX: usize = 2;

/// tc counts a bucket in 32 bits, and it holds what passes in a millisecond.
pub(crate) const MAX_LINK_RATE: Rate = Rate::from_bits_per_s(8000 * u32::MAX as u64);

/// A setting of a node's kernel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sysctl {
    pub(crate) key: &'static str,
    pub(crate) value: String,
    /// Whether a kernel that does not know it cannot serve.
    pub(crate) required: bool,
}

/// A fabric with all that is derived from it.
pub(crate) struct Wiring<'f> {
    fabric: &'f Fabric,
    addressing: &'f Addressing,
    ways: LinksTowards,
    sharing: Sharing,
}

/// Links that lead nearer to a node.
enum LinksTowards {
    Shortest(Routes),
    /// For a fabric with optical switches, in its initial state, or with declared NICs.
    Lit(BTreeMap<(NodeId, NodeId), Vec<LinkId>>),
}

/// The links that lead to one address of another node.
struct Way<'w> {
    address: Ipv4Addr,
    /// The NIC that has the address, if one alone does.
    nic: Option<NicId>,
    links: &'w [LinkId],
}

impl LinksTowards {
    fn of(fabric: &Fabric) -> Self {
        if fabric.opticals().len() > 0 || fabric.has_declared_nics() {
            return Self::Lit(optics::lit_ways(fabric));
        }
        Self::Shortest(Routes::shortest(&with_switches_as_endpoints(fabric)))
    }

    fn next_hops(&self, from: NodeId, to: NodeId) -> &[LinkId] {
        match self {
            Self::Shortest(routes) => routes.next_hops(from, to),
            Self::Lit(ways) => ways.get(&(from, to)).map_or(&[], Vec::as_slice),
        }
    }
}

impl<'f> Wiring<'f> {
    pub(crate) fn new(fabric: &'f Fabric, addressing: &'f Addressing) -> Self {
        Self {
            fabric,
            addressing,
            ways: LinksTowards::of(fabric),
            sharing: Sharing::of(fabric),
        }
    }

    /// Returns ip commands, outside the nodes, that create each link between its two nodes. `instead` may create a link
    /// differently.
    pub(crate) fn links_script(
        &self,
        instead: impl Fn(LinkId, [&str; 2]) -> Option<String>,
    ) -> String {
        let cables = self
            .fabric
            .links()
            .filter(|(id, _)| is_cable(self.fabric, *id));
        let links = cables.map(|(id, link)| {
            let [a, b] = link.ports().map(|port| self.end(id, port));
            let bare = || format!("link add {a} type veth peer {b}\n");
            instead(id, [&a, &b]).unwrap_or_else(bare)
        });
        links.collect::<String>() + &optics::links_script(self.fabric)
    }

    fn end(&self, link: LinkId, port: Port) -> String {
        let (name, end) = (
            interface(self.fabric, port),
            end_of(self.fabric, link, port),
        );
        let mac = addressing::mac(link, end);
        // If an interface has by chance the same index as its other end, the kernel takes it for one without another
        // end, and delays its carrier events.
        let index = FIRST_INDEX + 2 * link.index() + usize::from(end);
        let node = self.fabric.name(port.node);
        format!("name {name} index {index} address {mac} mtu {MTU_BYTES} netns /run/netns/{node}")
    }

    /// Returns ip commands inside `node` that set its interfaces up.
    pub(crate) fn ports_script(&self, node: NodeId) -> String {
        let mut script = String::from("link set lo up\n");
        for (port, _) in ports(self.fabric, node) {
            let _ = writeln!(script, "link set {} up", interface(self.fabric, port));
        }
        script + &optics::ports_script(self.fabric, node)
    }

    /// Returns ip commands inside `node`: addresses, neighbours and routes.
    pub(crate) fn node_script(&self, node: NodeId) -> String {
        let mut script = self.addresses_script(node);
        self.write_routes(node, &mut script);
        script
    }

    /// The same without routes.
    pub(crate) fn addresses_script(&self, node: NodeId) -> String {
        let mut script = String::new();
        self.write_addresses(node, &mut script);
        self.write_neighbours(node, &mut script);
        script += &optics::node_script(self.fabric, self.addressing, node);
        script
    }

    /// Returns a switch's routes as FRR configuration, with the distance of routing protocols: routes of an agent win
    /// over them.
    pub(crate) fn routes_for_frr(&self, node: NodeId) -> Vec<String> {
        let ways = self.ways_from(node).into_iter();
        let lines = ways.flat_map(|way| {
            let to = way.address;
            way.links.iter().map(move |&link| {
                let ends = self.fabric.link(link);
                let gateway = self.addressing.gateway(self.fabric, link, ends.far(node));
                let interface = interface(self.fabric, near(ends, node));
                // A neighbour is not its own gateway.
                if gateway == to {
                    return format!("ip route {to}/32 {interface} 20");
                }
                format!("ip route {to}/32 {gateway} {interface} onlink 20")
            })
        });
        lines.collect()
    }

    /// Returns the links towards each address of other nodes.
    fn ways_from(&self, node: NodeId) -> Vec<Way<'_>> {
        let others = self.fabric.nodes().filter(|(to, _)| *to != node);
        let ways = others.flat_map(|(to, _)| self.ways_to(node, to));
        ways.filter(|way| !way.links.is_empty()).collect()
    }

    fn ways_to(&self, from: NodeId, to: NodeId) -> Vec<Way<'_>> {
        let links = self.ways.next_hops(from, to);
        let on_rails = rails::nics_of(self.fabric, to).iter();
        if on_rails.len() > 0 {
            let loopback = self.addressing.loopback_of(self.fabric, to);
            let way_to_loopback = loopback.map(|address| Way {
                address,
                nic: None,
                links,
            });
            let ways = on_rails.map(|&nic| self.way_to_nic(from, nic));
            return ways.chain(way_to_loopback).collect();
        }
        let nic = match self.fabric.nics_of(to) {
            &[only] => Some(only),
            _ => None,
        };
        let addresses = self.addressing.all_of(self.fabric, to).into_iter();
        let way = |address| Way {
            address,
            nic,
            links,
        };
        addresses.map(way).collect()
    }

    /// Returns the links that lead to the cable of a NIC, and to no other cable of its host.
    fn way_to_nic(&self, from: NodeId, id: NicId) -> Way<'_> {
        let nic = self.fabric.nic(id);
        let leaf = self.far_end(id);
        let links = if leaf == from {
            std::slice::from_ref(&nic.link)
        } else if self.fabric.node(leaf).role.forwards() {
            self.ways.next_hops(from, leaf)
        } else {
            &[]
        };
        let port = rails::port_of(self.fabric, id);
        Way {
            address: self.addressing.of_nic(self.fabric, port),
            nic: Some(id),
            links,
        }
    }

    /// The node at the other end of a NIC's cable.
    fn far_end(&self, nic: NicId) -> NodeId {
        let nic = self.fabric.nic(nic);
        self.fabric.link(nic.link).far(nic.host).node
    }

    fn write_addresses(&self, node: NodeId, script: &mut String) {
        let role = self.fabric.node(node).role;
        if role == Role::Switch || ports(self.fabric, node).next().is_none() {
            let own = self.addressing.of_node(self.fabric, node);
            let fibre = optics::main_interface(self.fabric, node);
            let interface = fibre.filter(|_| role.is_endpoint()).unwrap_or("lo");
            let _ = writeln!(script, "address add {own}/32 dev {interface}");
        }
        if let Some(loopback) = self.addressing.loopback_of(self.fabric, node) {
            let _ = writeln!(script, "address add {loopback}/32 dev lo");
        }
        for (port, link) in ports(self.fabric, node) {
            let interface = interface(self.fabric, port);
            if role.is_endpoint() {
                let nic = self.addressing.of_nic(self.fabric, port);
                let _ = writeln!(script, "address add {nic}/32 dev {interface}");
            }
            if role.forwards() {
                let own = addressing::on_link(link, end_of(self.fabric, link, port));
                let _ = writeln!(script, "address add {own}/31 dev {interface}");
            }
        }
    }

    /// Known beforehand, so that nothing ever waits for ARP.
    fn write_neighbours(&self, node: NodeId, script: &mut String) {
        for (port, link) in ports(self.fabric, node) {
            let interface = interface(self.fabric, port);
            let far = self.fabric.link(link).far(node);
            let gateway = self.addressing.gateway(self.fabric, link, far);
            let mac = addressing::mac(link, end_of(self.fabric, link, far));
            let _ = writeln!(
                script,
                "neighbour add {gateway} lladdr {mac} nud permanent dev {interface}"
            );
        }
    }

    fn write_routes(&self, node: NodeId, script: &mut String) {
        let source = self.addressing.of_node(self.fabric, node);
        if let Some(uplink) = self.only_way_out(node) {
            self.write_route("default", &[uplink], node, source, script);
            return;
        }
        if !rails::nics_of(self.fabric, node).is_empty() {
            self.write_rails(node, script);
            return;
        }
        for way in self.ways_from(node) {
            let destination = format!("{}/32", way.address);
            self.write_route(&destination, way.links, node, source, script);
        }
    }

    /// Writes the routes of a host on rails. A table for each NIC leads what is sent from its address. The main table is
    /// for programs that bind no address: it selects the NIC, and with it the address they send from.
    fn write_rails(&self, host: NodeId, script: &mut String) {
        let own = rails::nics_of(self.fabric, host);
        for (table, &nic) in (rails::FIRST_TABLE..).zip(own) {
            // A host at the other end passes nothing on.
            if !self.fabric.node(self.far_end(nic)).role.forwards() {
                continue;
            }
            let (link, address) = self.link_and_address(nic);
            let destination = format!("default table {table}");
            self.write_route(&destination, &[link], host, address, script);
            let priority = rails::RULE_PRIORITY;
            let _ = writeln!(
                script,
                "rule add from {address} lookup {table} pref {priority}"
            );
        }
        for way in self.ways_from(host) {
            if let Some(nic) = self.nic_for(own, &way) {
                let (link, address) = self.link_and_address(nic);
                let destination = format!("{}/32", way.address);
                self.write_route(&destination, &[link], host, address, script);
            }
        }
    }

    fn link_and_address(&self, nic: NicId) -> (LinkId, Ipv4Addr) {
        let port = rails::port_of(self.fabric, nic);
        let address = self.addressing.of_nic(self.fabric, port);
        (self.fabric.nic(nic).link, address)
    }

    /// Returns the NIC over which a host sends to an address: that of the same rail if it leads there, or else the first
    /// of the nearest.
    fn nic_for(&self, own: &[NicId], way: &Way<'_>) -> Option<NicId> {
        let same_rail = way.nic.and_then(|to| {
            let mut own = own.iter().copied();
            own.find(|&from| self.is_same_rail(from, to) && self.leads(from, to))
        });
        let is_near = |nic: &NicId| way.links.contains(&self.fabric.nic(*nic).link);
        same_rail.or_else(|| own.iter().copied().find(is_near))
    }

    fn is_same_rail(&self, a: NicId, b: NicId) -> bool {
        let rail = |nic| {
            let nic = self.fabric.nic(nic);
            (nic.purpose, nic.rail, nic.plane)
        };
        rail(a) == rail(b)
    }

    /// Whether what is sent over one NIC reaches another host at its NIC.
    fn leads(&self, from: NicId, to: NicId) -> bool {
        let leaf = self.far_end(from);
        self.fabric.node(leaf).role.forwards() && !self.way_to_nic(leaf, to).links.is_empty()
    }

    /// The link of a host that has one link only, to a node that passes on what it sends.
    fn only_way_out(&self, node: NodeId) -> Option<LinkId> {
        let &[link] = self.fabric.links_of(node) else {
            return None;
        };
        if !is_cable(self.fabric, link) {
            return None;
        }
        let far = self.fabric.link(link).far(node).node;
        let passes_on = self.fabric.node(far).role.forwards();
        (self.fabric.node(node).role == Role::Host && passes_on).then_some(link)
    }

    fn write_route(
        &self,
        destination: &str,
        next_hops: &[LinkId],
        node: NodeId,
        source: Ipv4Addr,
        script: &mut String,
    ) {
        let window = self.sharing.route_attribute();
        let _ = write!(script, "route add {destination} src {source} {window}");
        let hops = next_hops.iter().map(|&link| self.next_hop(node, link));
        match next_hops {
            [_] => hops.for_each(|hop| script.push_str(&format!(" {hop} onlink"))),
            _ => hops.for_each(|hop| {
                script.push_str(&format!(" nexthop {hop} weight 1 onlink"));
            }),
        }
        script.push('\n');
    }

    fn next_hop(&self, node: NodeId, link: LinkId) -> String {
        let ends = self.fabric.link(link);
        let gateway = self.addressing.gateway(self.fabric, link, ends.far(node));
        let interface = interface(self.fabric, near(ends, node));
        format!("via {gateway} dev {interface}")
    }

    /// Returns tc commands inside `node` that limit every port to the rate of its link.
    pub(crate) fn rates_script(&self, node: NodeId) -> String {
        let lines = ports(self.fabric, node).map(|(port, link)| {
            let interface = interface(self.fabric, port);
            rate_line(&interface, self.fabric.link(link).rate, self.sharing)
        });
        lines.collect::<String>() + &optics::rates_script(self.fabric, node, self.sharing)
    }

    /// /etc/hosts of all nodes.
    pub(crate) fn hosts_file(&self) -> String {
        let mut text = String::from("127.0.0.1 localhost\n");
        for (id, node) in self.fabric.nodes() {
            let addresses = self.addressing.all_of(self.fabric, id);
            for (nic, address) in addresses.iter().enumerate() {
                // A multi-homed host's first NIC bears its name, the others name.1, name.2, ...
                let suffix = if nic > 0 {
                    format!(".{nic}")
                } else {
                    Default::default()
                };
                let _ = writeln!(text, "{address} {}{suffix}", node.name);
            }
        }
        text
    }
}

/// The name of a port's interface: `eth0` of a host, `swp3` of a switch, and at a fibre, or a NIC that has a name in the
/// fabric's file, what the file says.
pub(crate) fn interface(fabric: &Fabric, port: Port) -> String {
    let link = fabric.links_of(port.node).get(port.index as usize);
    if let Some(fibre) = link.and_then(|link| fabric.fibre_of(port.node, *link)) {
        return fibre.interface.clone();
    }
    let nic = rails::nic_at(fabric, port);
    if let Some(name) = nic.and_then(|nic| nic.interface.clone()) {
        return name;
    }
    let kind = if fabric.node(port.node).role.is_endpoint() {
        "eth"
    } else {
        "swp"
    };
    format!("{kind}{}", port.index)
}

/// Returns the burst of a link of that rate after a pause: the bytes of one millisecond, so that a late timer loses
/// nothing, and at least two frames, or none would ever pass.
pub(crate) fn burst_bytes(rate: Rate) -> u64 {
    (rate.bits_per_s() / 8000).max(2 * MAX_FRAME_BYTES)
}

/// Returns a tc command that limits `interface` to `rate`.
pub(crate) fn rate_line(interface: &str, rate: Rate, sharing: Sharing) -> String {
    let burst = burst_bytes(rate);
    let limit = (burst + sharing.queue_bytes()).min(u32::MAX.into());
    let rate = rate.bits_per_s();
    format!("qdisc replace dev {interface} root tbf rate {rate}bit burst {burst} limit {limit}\n")
}

/// Source ports of jobs. Host kernels give these to no other program, so a job finds all of them free. They begin with
/// the dynamic ports, which RoCE uses too.
pub(crate) const JOB_SOURCE_PORTS: RangeInclusive<u16> = 0xC000..=0xCFFF;

/// Returns the settings of a node's kernel before it has other interfaces than its loopback.
pub(crate) fn sysctls(role: Role, seed: u64, node: NodeId) -> Vec<Sysctl> {
    let always = |key, value: &str| Sysctl {
        key,
        value: value.to_owned(),
        required: true,
    };
    let if_known = |key, value: &str| Sysctl {
        required: false,
        ..always(key, value)
    };
    let job_ports = format!("{}-{}", JOB_SOURCE_PORTS.start(), JOB_SOURCE_PORTS.end());
    vec![
        // First, because it sets others back.
        always(
            "net/ipv4/ip_forward",
            if role.forwards() { "1" } else { "0" },
        ),
        always("net/ipv4/conf/all/rp_filter", "0"),
        always("net/ipv4/conf/default/rp_filter", "0"),
        always("net/ipv4/conf/all/send_redirects", "0"),
        always("net/ipv4/conf/default/send_redirects", "0"),
        always("net/ipv4/conf/all/accept_redirects", "0"),
        always("net/ipv4/conf/default/accept_redirects", "0"),
        // A switch sends nothing to a port without carrier; the kernel of a server is not so wise.
        always(
            "net/ipv4/conf/all/ignore_routes_with_linkdown",
            if role.is_endpoint() { "0" } else { "1" },
        ),
        always(
            "net/ipv4/conf/default/ignore_routes_with_linkdown",
            if role.is_endpoint() { "0" } else { "1" },
        ),
        // The hash uses addresses, protocol and ports. A kernel without a setting for the fields uses the same ones
        // with policy 1. Hosts do so as well, because a kernel then reports which of its own paths a flow takes.
        always("net/ipv4/fib_multipath_hash_policy", "1"),
        if_known(
            "net/ipv4/fib_multipath_hash_policy",
            if role.is_endpoint() { "1" } else { "3" },
        ),
        if_known("net/ipv4/fib_multipath_hash_fields", "55"),
        if_known("net/ipv4/fib_multipath_hash_seed", &hash_seed(seed, node)),
        always("net/ipv4/ip_local_reserved_ports", &job_ports),
        // Each hop of a trace answers, at once and with the address of the incoming interface.
        always("net/ipv4/icmp_errors_use_inbound_ifaddr", "1"),
        always("net/ipv4/icmp_ratelimit", "0"),
        if_known("net/ipv4/icmp_msgs_per_sec", "1000000"),
        if_known("net/ipv4/icmp_msgs_burst", "1000000"),
        if_known("net/ipv6/conf/all/disable_ipv6", "1"),
        if_known("net/ipv6/conf/default/disable_ipv6", "1"),
    ]
}

/// Repeatable, but other in every switch: with one seed in all, flows that collide in one switch
/// would collide in the next again. Zero would ask the kernel to draw one itself.
fn hash_seed(seed: u64, node: NodeId) -> String {
    let mut mixed =
        seed.wrapping_add((node.index() as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed >> 32) as u32).max(1).to_string()
}

/// Whether it is there under any circuits.
pub(crate) fn is_cable(fabric: &Fabric, link: LinkId) -> bool {
    fabric.crossing(link).is_none()
}

/// The ports of a node that cables end at, and the link at each.
pub(crate) fn ports(fabric: &Fabric, node: NodeId) -> impl Iterator<Item = (Port, LinkId)> {
    let links = fabric.links_of(node).iter().copied();
    links
        .zip(0..)
        .filter(|(link, _)| is_cable(fabric, *link))
        .map(move |(link, index)| (Port { node, index }, link))
}

pub(crate) fn near(link: &Link, node: NodeId) -> Port {
    if link.a.node == node { link.a } else { link.b }
}

/// The same graph in which switches can be reached too: routes lead to endpoints only.
fn with_switches_as_endpoints(fabric: &Fabric) -> Fabric {
    const SOUND_FABRIC: &str = "a sound fabric stays sound";
    let mut builder = FabricBuilder::new();
    for (_, node) in fabric.nodes() {
        let role = if node.role.forwards() {
            Role::Relay
        } else {
            node.role
        };
        builder.add_node(&node.name, role).expect(SOUND_FABRIC);
    }
    let links: Vec<&Link> = fabric.links().map(|(_, link)| link).collect();
    let pair = |link: &Link| [link.a.node, link.b.node];
    for parallel in links.chunk_by(|x, y| pair(x) == pair(y)) {
        let [first, ..] = parallel else { continue };
        let count = parallel.len() as u32;
        builder
            .connect(pair(first), count, first.rate, first.latency)
            .expect(SOUND_FABRIC);
    }
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAF_SPINE: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\n\
                              host_gbps = 0.4\nuplink_gbps = 0.2";
    const DIRECT_FABRIC: &str = "kind = \"direct\"\nhosts = 4\nlink_gbps = 0.1\nstrides = [1]";

    /// The lines of all scripts of a node.
    struct Scripts {
        links: Vec<String>,
        ports: Vec<String>,
        node: Vec<String>,
        rates: Vec<String>,
        hosts: Vec<String>,
    }

    fn scripts(text: &str, node: &str) -> Scripts {
        let fabric = Fabric::parse("fabric.toml", text).unwrap();
        let addressing = Addressing::new(&fabric).unwrap();
        let wiring = Wiring::new(&fabric, &addressing);
        let id = fabric.find(node).unwrap();
        let lines = |script: String| script.lines().map(str::to_owned).collect();
        Scripts {
            links: lines(wiring.links_script(|_, _| None)),
            ports: lines(wiring.ports_script(id)),
            node: lines(wiring.node_script(id)),
            rates: lines(wiring.rates_script(id)),
            hosts: lines(wiring.hosts_file()),
        }
    }

    #[test]
    fn host_has_address_and_default_route() {
        assert_eq!(
            scripts(LEAF_SPINE, "h2").ports,
            ["link set lo up", "link set eth0 up"]
        );
        assert_eq!(
            scripts(LEAF_SPINE, "h2").node,
            [
                "address add 10.0.0.2/32 dev eth0",
                "neighbour add 10.192.0.5 lladdr 02:00:00:00:02:01 nud permanent dev eth0",
                "route add default src 10.0.0.2 window 64000 via 10.192.0.5 dev eth0 onlink",
            ]
        );
    }

    #[test]
    fn leaf_spreads_over_spines() {
        let lines = scripts(LEAF_SPINE, "leaf0").node;
        let has = |line: &str| assert!(lines.iter().any(|l| l == line), "{line}\n{lines:#?}");
        has("address add 10.128.0.0/32 dev lo");
        has("address add 10.192.0.8/31 dev swp2");
        has("neighbour add 10.0.0.1 lladdr 02:00:00:00:01:00 nud permanent dev swp1");
        has("route add 10.0.0.1/32 src 10.128.0.0 window 64000 via 10.0.0.1 dev swp1 onlink");
        has(
            "route add 10.0.0.3/32 src 10.128.0.0 window 64000 nexthop via 10.192.0.9 dev swp2 weight 1 onlink \
             nexthop via 10.192.0.11 dev swp3 weight 1 onlink",
        );
        has("route add 10.128.0.3/32 src 10.128.0.0 window 64000 via 10.192.0.11 dev swp3 onlink");
    }

    #[test]
    fn relays_reach_each_others_every_nic() {
        let lines = scripts(DIRECT_FABRIC, "h0").node;
        let across: Vec<_> = lines
            .iter()
            .filter(|line| line.contains(".0.2/32 src"))
            .collect();
        assert_eq!(across.len(), 2, "{lines:#?}");
        for line in across {
            assert_eq!(line.matches("nexthop").count(), 2, "{line}");
        }
    }

    #[test]
    fn links_are_made_into_both_nodes() {
        let lines = scripts(DIRECT_FABRIC, "h0").links;
        assert_eq!(lines.len(), 4);
        assert_eq!(
            lines[3],
            "link add name eth1 index 8 address 02:00:00:00:03:00 mtu 9000 netns /run/netns/h3 \
             type veth peer name eth1 index 9 address 02:00:00:00:03:01 mtu 9000 \
             netns /run/netns/h0"
        );
    }

    #[test]
    fn every_port_has_its_link_rate() {
        let lines = scripts(LEAF_SPINE, "leaf0").rates;
        assert_eq!(lines.len(), 4);
        let has = |line: &str, part: &str| assert!(line.contains(part), "{line}");
        has(
            &lines[0],
            "dev swp0 root tbf rate 400000000bit burst 50000 limit 2098000",
        );
        has(
            &lines[3],
            "dev swp3 root tbf rate 200000000bit burst 25000 ",
        );
    }

    #[test]
    fn fastest_link_fits_tc_figures() {
        let text = "kind = \"ideal\"\nhosts = 2\nnic_gbps = 34359";
        let sharing = Sharing::of(&Fabric::parse("fabric.toml", text).unwrap());
        let line = rate_line("eth0", MAX_LINK_RATE, sharing);
        assert!(
            line.ends_with("burst 4294967295 limit 4294967295\n"),
            "{line}"
        );
    }

    #[test]
    fn hosts_have_names_for_each_nic() {
        let lines = scripts(DIRECT_FABRIC, "h0").hosts;
        assert_eq!(
            lines[..3],
            ["127.0.0.1 localhost", "10.0.0.0 h0", "10.1.0.0 h0.1"]
        );
    }

    #[test]
    fn hosts_do_not_forward_seeds_differ() {
        let value = |role, node, key: &str| {
            let settings = sysctls(role, 7, NodeId::from_index(node));
            let mut found = settings
                .into_iter()
                .filter(|setting| setting.key.ends_with(key));
            found.next_back().unwrap().value
        };
        assert_eq!(value(Role::Host, 0, "ip_forward"), "0");
        assert_eq!(value(Role::Host, 0, "reserved_ports"), "49152-53247");
        assert_eq!(value(Role::Relay, 0, "ip_forward"), "1");
        assert_eq!(value(Role::Relay, 0, "with_linkdown"), "0");
        assert_eq!(value(Role::Switch, 0, "with_linkdown"), "1");
        let seed = |node| value(Role::Switch, node, "hash_seed");
        assert_eq!(seed(3), seed(3));
        assert_ne!(seed(3), seed(4));
    }
}
