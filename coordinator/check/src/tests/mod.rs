//! Plans that must be refused, and for which reason.

mod claimed;
mod deadlocks;
mod leaves;
mod loads;
mod migrations;
mod mixtures;
mod nics;
mod plain;
mod random_network;

use std::net::SocketAddrV4;

use reweave_common::fabric::Fabric;
use reweave_common::flow::Protocol;
use reweave_common::plan::Report;
use reweave_common::units::Rate;

use super::*;

/// A network whose n-th node has the address 10.0.0.n.
struct Site {
    fabric: Fabric,
    addresses: BTreeMap<Ipv4Addr, NodeId>,
    nics: BTreeMap<Ipv4Addr, LinkId>,
    down: BTreeSet<LinkId>,
    pins: Vec<Pin>,
    flows: Vec<FlowState>,
    link_loads: BTreeMap<Hop, LinkState>,
}

impl Site {
    fn of(fabric: &str) -> Self {
        let fabric = Fabric::parse("fabric.toml", fabric).unwrap();
        let addresses = fabric
            .nodes()
            .map(|(node, _)| (address(node), node))
            .collect();
        Self {
            fabric,
            addresses,
            nics: BTreeMap::new(),
            down: BTreeSet::new(),
            pins: Vec::new(),
            flows: Vec::new(),
            link_loads: BTreeMap::new(),
        }
    }

    fn leaf_spine() -> Self {
        Self::of(
            "kind = \"leaf-spine\"\nleaves = 2\nspines = 3\nhosts_per_leaf = 2\n\
             host_gbps = 1\nuplink_gbps = 1",
        )
    }

    /// Names of relays a to e, and pairs of them that are linked.
    fn relays(names: &str, pairs: &[&str]) -> Self {
        let node = |name| format!("[[node]]\nname = \"{name}\"\nrole = \"relay\"\n");
        let link = |pair: &&str| {
            format!(
                "[[link]]\na = \"{}\"\nb = \"{}\"\ngbps = 1\n",
                &pair[..1],
                &pair[1..]
            )
        };
        let nodes: String = names.chars().map(node).collect();
        let links: String = pairs.iter().map(link).collect();
        Self::of(&format!("kind = \"graph\"\n{nodes}{links}"))
    }

    fn node(&self, name: &str) -> NodeId {
        self.fabric.find(name).unwrap()
    }

    fn flow(&self, from: &str, to: &str) -> FlowKey {
        let end = |name, port| SocketAddrV4::new(address(self.node(name)), port);
        FlowKey {
            protocol: Protocol::Tcp,
            source: end(from, 40_000),
            destination: end(to, 5201),
        }
    }

    fn link(&self, from: &str, to: &str) -> LinkId {
        self.fabric
            .links_between(self.node(from), self.node(to))
            .next()
            .unwrap()
    }

    fn pin(&self, flow: FlowKey, at: &str, next: &str) -> Pin {
        Pin {
            flow,
            at: self.node(at),
            link: self.link(at, next),
        }
    }

    fn check(&self, pins: &[Pin]) -> Result<(), Vec<Unsound>> {
        self.check_plan(&plan(pins))
    }

    fn check_plan(&self, plan: &Plan) -> Result<(), Vec<Unsound>> {
        let (nothing, circuits) = (Tables::new(), Circuits::new());
        check(&self.network([&nothing, &nothing], &circuits), plan)
    }

    /// With the tables in force, and those that nodes may hold already.
    fn network<'a>(
        &'a self,
        [tables, unsure]: [&'a Tables; 2],
        circuits: &'a Circuits,
    ) -> Network<'a> {
        Network {
            fabric: &self.fabric,
            addresses: &self.addresses,
            nics: &self.nics,
            down: &self.down,
            generation: Generation(4),
            pins: &self.pins,
            tables,
            unsure,
            circuits,
            floor: 0.0,
            is_lossless: false,
            flows: &self.flows,
            link_loads: &self.link_loads,
        }
    }

    /// The words in which the only fault is reported.
    fn fault(&self, pins: &[Pin]) -> String {
        let faults = self.check(pins).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        faults[0].to_string()
    }
}

fn address(node: NodeId) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, node.index() as u8)
}

fn plan(pins: &[Pin]) -> Plan {
    let rate = Rate::from_bits_per_s(0);
    let (findings, alternatives) = (Vec::new(), Vec::new());
    Plan {
        generation: Generation(5),
        parent: Generation(4),
        takes_back: None,
        orders: Vec::new(),
        pins: pins.to_vec(),
        tables: BTreeMap::new(),
        circuits: BTreeMap::new(),
        moves: Vec::new(),
        predictions: Vec::new(),
        iterations: Vec::new(),
        report: Report {
            findings,
            slowest_before: rate,
            slowest_after: rate,
            alternatives,
        },
    }
}

#[test]
fn pin_to_another_spine_is_sound() {
    let mut site = Site::leaf_spine();
    let flow = site.flow("h0", "h2");
    let pin = site.pin(flow, "leaf0", "spine1");
    assert_eq!(site.check(&[pin]), Ok(()));
    site.pins = vec![pin];
    assert_eq!(site.check(&[site.pin(flow, "leaf0", "spine2")]), Ok(()));
    assert_eq!(site.check(&[]), Ok(()));
}

#[test]
fn mutual_relay_pins_form_loop() {
    let site = Site::relays("abc", &["ab", "bc", "ac"]);
    let flow = site.flow("a", "c");
    let said = site.fault(&[site.pin(flow, "a", "b"), site.pin(flow, "b", "a")]);
    assert_eq!(
        said,
        "tcp 10.0.0.0:40000 > 10.0.0.2:5201 may circle: a > b > a"
    );
}

#[test]
fn upward_pin_at_destination_leaf_loops() {
    let site = Site::leaf_spine();
    let said = site.fault(&[site.pin(site.flow("h0", "h2"), "leaf1", "spine2")]);
    assert!(
        said.ends_with("may circle: leaf1 > spine2 > leaf1"),
        "{said}"
    );
}

#[test]
fn sound_plans_may_loop_in_between() {
    // Before: a - b - c. After: b - a - c. If b goes first, a and b send to each other.
    let mut site = Site::relays("abc", &["ab", "bc", "ac"]);
    let flow = site.flow("a", "c");
    let after = [site.pin(flow, "b", "a")];
    assert_eq!(site.check(&after), Ok(()));
    site.pins = vec![site.pin(flow, "a", "b")];
    assert!(site.fault(&after).ends_with("may circle: a > b > a"));
}

#[test]
fn spine_without_downlink_is_black_hole() {
    let site = Site::of(
        r#"
        kind = "graph"
        node = [{ name = "h0", role = "host" }, { name = "h1", role = "host" },
                { name = "leaf0", role = "switch" }, { name = "leaf1", role = "switch" },
                { name = "spine0", role = "switch" }, { name = "spine1", role = "switch" },
                { name = "h2", role = "host" }]
        link = [{ a = "h0", b = "leaf0", gbps = 1 }, { a = "h1", b = "leaf1", gbps = 1 },
                { a = "leaf0", b = "spine0", gbps = 1 }, { a = "leaf1", b = "spine0", gbps = 1 },
                { a = "leaf0", b = "spine1", gbps = 1 }, { a = "leaf0", b = "h2", gbps = 1 }]
        "#,
    );
    let flow = site.flow("h0", "h1");
    // It can only send it back.
    let said = site.fault(&[site.pin(flow, "leaf0", "spine1")]);
    assert!(
        said.ends_with("may circle: leaf0 > spine1 > leaf0"),
        "{said}"
    );
    // And a host sends nothing on.
    let said = site.fault(&[site.pin(flow, "leaf0", "h2")]);
    assert_eq!(
        said,
        "tcp 10.0.0.0:40000 > 10.0.0.1:5201, sent by leaf0 over link leaf0-h2, may be lost at h2: \
         no next hop to h1"
    );
}

#[test]
fn down_links_carry_nothing() {
    let mut site = Site::leaf_spine();
    let pin = site.pin(site.flow("h0", "h2"), "leaf0", "spine1");
    site.down = BTreeSet::from([site.link("leaf0", "spine1")]);
    let said = site.fault(&[pin]);
    assert!(
        said.ends_with("is pinned at leaf0 to link leaf0-spine1: this link is down"),
        "{said}"
    );
    site.down = BTreeSet::from([site.link("spine1", "leaf1")]);
    let said = site.fault(&[pin]);
    assert!(
        said.ends_with("may be lost at spine1: no next hop to h2"),
        "{said}"
    );
    // A flow that is pinned to a dead link may be freed of it.
    site.pins = vec![pin];
    assert_eq!(site.check(&[site.pin(pin.flow, "leaf0", "spine0")]), Ok(()));
    assert_eq!(site.check(&[]), Ok(()));
}

#[test]
fn unpinning_into_dead_pin_is_refused() {
    // Freed at a, it may come to b, which sends it over a link that is down until it is freed too.
    let mut site = Site::relays("abcd", &["ab", "bd", "ac", "cd", "bc"]);
    let flow = site.flow("a", "d");
    site.pins = vec![site.pin(flow, "a", "c"), site.pin(flow, "b", "c")];
    site.down = BTreeSet::from([site.link("b", "c")]);
    let said = site.fault(&[]);
    assert!(
        said.contains("sent by a over link a-b, may be lost at b"),
        "{said}"
    );
    assert_eq!(site.check(&[site.pins[0]]), Ok(()), "freed at b only");
}

#[test]
fn plan_must_follow_current_generation() {
    let site = Site::leaf_spine();
    let said = |parent, generation| {
        let (parent, generation) = (Generation(parent), Generation(generation));
        let checked = site.check_plan(&Plan {
            parent,
            generation,
            ..plan(&[])
        });
        let faults = checked.err().unwrap_or_default();
        faults.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        said(3, 4),
        ["the plan builds on generation 3, but 4 is in force; make a new plan"]
    );
    assert_eq!(
        said(4, 4),
        ["the plan is generation 4, which does not follow on 4"]
    );
    assert!(said(4, 5).is_empty());
    assert!(said(4, 6).is_empty(), "plan 5 may have come to nothing");
}

#[test]
fn invalid_pins_are_named() {
    let site = Site::leaf_spine();
    let flow = site.flow("h0", "h2");
    let pin = site.pin(flow, "leaf0", "spine1");
    let ends = |pins: &[Pin], end: &str| {
        let said = site.fault(pins);
        assert!(said.ends_with(end), "{said}");
    };
    ends(
        &[site.pin(flow, "h0", "leaf0")],
        "is pinned at h0 to link h0-leaf0: this node forwards nothing",
    );
    ends(
        &[Pin {
            at: site.node("leaf1"),
            ..pin
        }],
        "is pinned at leaf1 to link leaf0-spine1: this link is not there",
    );
    ends(
        &[Pin {
            at: NodeId::from_index(99),
            ..pin
        }],
        "at node 99 to link leaf0-spine1: the fabric has no such node",
    );
    ends(
        &[Pin {
            link: LinkId::from_index(99),
            ..pin
        }],
        "at leaf0 to link 99: the fabric has no such link",
    );
    ends(
        &[pin, site.pin(flow, "leaf0", "spine2")],
        "is pinned at leaf0 to link leaf0-spine1, and there to link leaf0-spine2 as well",
    );
    let nowhere = FlowKey {
        destination: "10.9.9.9:5201".parse().unwrap(),
        ..flow
    };
    ends(
        &[Pin {
            flow: nowhere,
            ..pin
        }],
        "to link leaf0-spine1: no node has the address it goes to",
    );
}

#[test]
fn faults_of_all_flows_are_reported() {
    let site = Site::leaf_spine();
    let [one, other] = [site.flow("h0", "h2"), site.flow("h1", "h3")];
    let faults = site.check(&[
        site.pin(one, "leaf1", "spine0"),
        site.pin(other, "leaf1", "spine1"),
    ]);
    assert_eq!(faults.unwrap_err().len(), 2);
}
