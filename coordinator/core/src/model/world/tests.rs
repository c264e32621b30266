use std::net::{Ipv4Addr, SocketAddrV4};

use reweave_common::fabric::{FabricBuilder, NicSpec, Role};
use reweave_common::flow::Protocol;
use reweave_common::ids::LinkId;
use reweave_common::sample::{FlowReading, Interface, Reading, Sample, TracedPath};
use reweave_common::time_span::TimeSpan;
use reweave_common::units::Bytes;

use super::*;

/// Two hosts, each at a leaf of its own, and two parallel links between the leaves.
struct Site {
    fabric: Arc<Fabric>,
    ingest: Ingest,
    trends: CounterTrends,
    latencies: Latencies,
    losses: Losses,
    ways: ProbePaths,
    resting: IdleFlows,
    names: JobNames,
    policy: Policy,
    now: Moment,
}

const ONE_GBPS: Rate = Rate::from_bits_per_s(1_000_000_000);

fn fabric() -> Arc<Fabric> {
    let mut builder = FabricBuilder::new();
    let hosts = ["h0", "h1"].map(|name| builder.add_node(name, Role::Host).unwrap());
    let leaves = ["leaf0", "leaf1"].map(|name| builder.add_node(name, Role::Switch).unwrap());
    for (host, leaf) in hosts.into_iter().zip(leaves) {
        builder
            .connect([host, leaf], 1, ONE_GBPS, Duration::ZERO)
            .unwrap();
    }
    builder
        .connect(leaves, 2, ONE_GBPS, Duration::ZERO)
        .unwrap();
    Arc::new(builder.build())
}

fn interface(name: &str, address: [u8; 4], gateway: Option<[u8; 4]>) -> Reading {
    Reading::Interface(Interface {
        name: name.to_owned(),
        addresses: vec![address.into()],
        gateways: gateway.into_iter().map(Ipv4Addr::from).collect(),
    })
}

fn counters(name: &str, send_mbps: u64, receive_mbps: u64) -> Reading {
    let rate = |mbps| Some(Rate::from_bits_per_s(mbps * 1_000_000));
    Reading::Counters(Counters {
        interface: name.to_owned(),
        up: true,
        sent: Bytes::ZERO,
        received: Bytes::ZERO,
        dropped_packets: 0,
        send_rate: rate(send_mbps),
        receive_rate: rate(receive_mbps),
    })
}

fn flow() -> FlowKey {
    FlowKey {
        protocol: Protocol::Tcp,
        source: SocketAddrV4::new([10, 0, 0, 0].into(), 1000),
        destination: SocketAddrV4::new([10, 0, 0, 1].into(), 5000),
    }
}

fn reading(mbps: u64) -> Reading {
    Reading::Flow(FlowReading {
        flow: flow(),
        bytes: Bytes::ZERO,
        rate: Some(Rate::from_bits_per_s(mbps * 1_000_000)),
        rtt: Some(TimeSpan::from_millis(1)),
        retransmits: Some(0),
    })
}

fn path(routers: &[Option<[u8; 4]>]) -> Reading {
    path_of(flow(), routers)
}

fn path_of(flow: FlowKey, routers: &[Option<[u8; 4]>]) -> Reading {
    let routers = routers
        .iter()
        .map(|router| router.map(Ipv4Addr::from))
        .collect();
    Reading::Path(TracedPath {
        flow,
        routers,
        confirmed: false,
    })
}

/// The introductions of the four nodes. Each leaf's ports lead to its host and, twice, to the other leaf.
fn introductions() -> [(&'static str, Vec<Reading>); 4] {
    [
        (
            "h0",
            vec![interface("eth0", [10, 0, 0, 0], Some([10, 192, 0, 1]))],
        ),
        (
            "h1",
            vec![interface("eth0", [10, 0, 0, 1], Some([10, 192, 0, 3]))],
        ),
        (
            "leaf0",
            vec![
                interface("swp0", [10, 192, 0, 1], None),
                interface("swp1", [10, 192, 0, 4], None),
                interface("swp2", [10, 192, 0, 6], None),
            ],
        ),
        (
            "leaf1",
            vec![
                interface("swp0", [10, 192, 0, 3], None),
                interface("swp1", [10, 192, 0, 5], None),
                interface("swp2", [10, 192, 0, 7], None),
            ],
        ),
    ]
}

const PATH_OVER_SPINE1: &[Option<[u8; 4]>] = &[Some([10, 192, 0, 1]), Some([10, 192, 0, 7])];
const RETURN_OVER_SPINE0: &[Option<[u8; 4]>] = &[Some([10, 192, 0, 3]), Some([10, 192, 0, 4])];

impl Site {
    fn new() -> Self {
        let mut site = Self::on(&fabric());
        for (name, readings) in introductions() {
            site.hear(name, readings);
        }
        site
    }

    /// Connected agents that have not reported.
    fn on(fabric: &Arc<Fabric>) -> Self {
        let mut site = Self {
            fabric: Arc::clone(fabric),
            ingest: Ingest::default(),
            trends: CounterTrends::default(),
            latencies: Latencies::default(),
            losses: Losses::default(),
            ways: ProbePaths::default(),
            resting: IdleFlows::default(),
            names: JobNames::default(),
            policy: Policy::default(),
            now: Moment::from_micros(10_000_000),
        };
        for (node, _) in fabric.nodes() {
            site.ingest.handle_connected(node);
        }
        site
    }

    fn node(&self, name: &str) -> NodeId {
        self.fabric.find(name).unwrap()
    }

    fn hear(&mut self, name: &str, readings: Vec<Reading>) {
        let sample = Sample {
            taken: self.now,
            readings,
        };
        self.ingest.handle_sample(self.node(name), self.now, sample);
    }

    fn wait(&mut self, duration: Duration) {
        self.now = self.now + duration;
    }

    fn known(&self) -> Measurements<'_> {
        let least_elephant = least_elephant(&self.fabric, &self.policy);
        let Self {
            fabric,
            ingest,
            trends,
            latencies,
            losses,
            ways,
            resting,
            names,
            policy,
            now,
        } = self;
        Measurements {
            fabric,
            ingest,
            trends,
            latencies,
            losses,
            ways,
            resting,
            names,
            policy,
            least_elephant,
            resumed_at: Moment::default(),
            now: *now,
        }
    }

    fn snapshot(&self) -> Snapshot {
        self.known().world().snapshot(&InForce::default())
    }

    fn flow_path(&self) -> Option<Vec<String>> {
        let snapshot = self.snapshot();
        let path = snapshot.flows.first()?.path.clone()?;
        Some(
            path.iter()
                .map(|hop| self.fabric.link_name(hop.link))
                .collect(),
        )
    }

    fn path_back(&self) -> Option<Vec<String>> {
        let snapshot = self.snapshot();
        let back = self.known().world().path_back(snapshot.flows.first()?)?;
        let links = back.iter().map(|hop| self.fabric.link_name(hop.link));
        Some(links.collect())
    }

    fn hop(&self, from: &str, link: usize) -> Hop {
        Hop {
            from: self.node(from),
            link: LinkId::from_index(link),
        }
    }
}

#[test]
fn wiring_follows_gateways_and_shared_31() {
    let site = Site::new();
    let world = site.known().world();
    let end = |from: &str, link| {
        let end = world.wiring.end(site.hop(from, link)).unwrap();
        (end.interface.clone(), end.address.to_string())
    };
    let at = |name: &str, address: &str| (name.to_owned(), address.to_owned());
    assert_eq!(end("h0", 0), at("eth0", "10.0.0.0"));
    assert_eq!(end("leaf0", 0), at("swp0", "10.192.0.1"));
    assert_eq!(end("leaf0", 2), at("swp1", "10.192.0.4"));
    assert_eq!(end("leaf1", 3), at("swp2", "10.192.0.7"));
}

#[test]
fn each_host_nic_has_own_link() {
    let mut builder = FabricBuilder::new();
    let [host, other] = ["h0", "h1"].map(|name| builder.add_node(name, Role::Host).unwrap());
    let leaves = ["leaf0", "leaf1"].map(|name| builder.add_node(name, Role::Switch).unwrap());
    for ends in [[host, leaves[0]], [host, leaves[1]], [other, leaves[1]]] {
        builder.connect(ends, 1, ONE_GBPS, Duration::ZERO).unwrap();
    }
    let mut site = Site::on(&Arc::new(builder.build()));
    let second = interface("eth1", [10, 0, 0, 0], Some([10, 192, 0, 3]));
    site.hear(
        "h0",
        vec![
            interface("eth0", [10, 1, 0, 0], Some([10, 192, 0, 1])),
            second,
        ],
    );
    site.hear(
        "h1",
        vec![interface("eth0", [10, 0, 0, 1], Some([10, 192, 0, 5]))],
    );
    site.hear("leaf0", vec![interface("swp0", [10, 192, 0, 1], None)]);
    let ports = [("swp0", [10, 192, 0, 3]), ("swp1", [10, 192, 0, 5])];
    site.hear(
        "leaf1",
        ports
            .map(|(name, address)| interface(name, address, None))
            .into(),
    );
    site.hear("h0", vec![reading(100), path(&[Some([10, 192, 0, 3])])]);
    assert_eq!(site.flow_path().unwrap(), ["h0-leaf1", "h1-leaf1"]);
    let world = site.known().world();
    assert_eq!(
        world.wiring.end(site.hop("h0", 0)).unwrap().interface,
        "eth0"
    );
}

/// Labs number loopbacks consecutively: those of three leaves, and then those of the spines.
#[test]
fn adjacent_loopbacks_join_no_link() {
    let text = "kind = \"leaf-spine\"\nleaves = 3\nspines = 2\nhosts_per_leaf = 1\n\
                host_gbps = 1\nuplink_gbps = 1";
    let mut site = Site::on(&Arc::new(Fabric::parse("fabric.toml", text).unwrap()));
    let fabric = Arc::clone(&site.fabric);
    for (node, readings) in fabric
        .nodes()
        .map(|(node, _)| (node, as_in_a_lab(&fabric, node)))
    {
        site.hear(fabric.name(node), readings);
    }
    assert_eq!(
        faces(&site, "leaf2-spine0"),
        ["swp1 of leaf2", "swp2 of spine0"]
    );
    for (link, _) in fabric.links() {
        assert_eq!(faces(&site, &fabric.link_name(link)).len(), 2);
    }
}

/// The known ends of a link.
fn faces(site: &Site, name: &str) -> Vec<String> {
    let fabric = &site.fabric;
    let mut links = fabric.links();
    let (link, between) = links
        .find(|(link, _)| fabric.link_name(*link) == name)
        .unwrap();
    let wiring = site.known().world().wiring;
    let ends = between.ports().into_iter().filter_map(|port| {
        let from = port.node;
        let end = wiring.end(Hop { from, link })?;
        Some(format!("{} of {}", end.interface, fabric.name(from)))
    });
    ends.collect()
}

/// Reports of a loopback and of ports, each with an address of a /31 and routes to the other end.
fn as_in_a_lab(fabric: &Fabric, node: NodeId) -> Vec<Reading> {
    let on_link = |link: LinkId, at: NodeId| {
        let end = usize::from(fabric.link(link).b.node == at);
        [10, 192, 0, (2 * link.index() + end) as u8]
    };
    let switches = fabric.nodes().filter(|(_, it)| it.role == Role::Switch);
    let place = switches.map(|(id, _)| id).position(|id| id == node);
    let own = place.map(|place| interface("lo", [10, 128, 0, place as u8], None));
    let ports = fabric
        .links_of(node)
        .iter()
        .enumerate()
        .map(|(port, &link)| {
            let far = fabric.link(link).far(node).node;
            interface(
                &format!("swp{port}"),
                on_link(link, node),
                Some(on_link(link, far)),
            )
        });
    own.into_iter().chain(ports).collect()
}

/// Forwarding hosts, each with a loopback address in addition to those of its links.
#[test]
fn consecutive_host_addresses_follow_their_routes() {
    let text = "kind = \"direct\"\nhosts = 4\nlink_gbps = 1\nstrides = [1]";
    let mut site = Site::on(&Arc::new(Fabric::parse("fabric.toml", text).unwrap()));
    let fabric = Arc::clone(&site.fabric);
    for (node, _) in fabric.nodes() {
        let mut readings = as_in_a_lab(&fabric, node);
        let Reading::Interface(first) = &mut readings[0] else {
            panic!("its first port comes first");
        };
        first.addresses.push([10, 0, 0, node.index() as u8].into());
        site.hear(fabric.name(node), readings);
    }
    assert_eq!(faces(&site, "h1-h2"), ["swp1 of h1", "swp0 of h2"]);
    for (link, _) in fabric.links() {
        assert_eq!(faces(&site, &fabric.link_name(link)).len(), 2);
    }
}

#[test]
fn partly_known_parallel_links_stay_unresolved() {
    let mut site = Site::new();
    site.ingest.handle_connected(site.node("leaf1"));
    site.hear("leaf1", introductions()[3].1[..2].to_vec());
    let world = site.known().world();
    assert_eq!(world.wiring.end(site.hop("leaf0", 2)), None);
    assert!(world.wiring.end(site.hop("leaf1", 1)).is_some());
}

/// A host whose two NICs, declared like this, are at one leaf. Its agent reports the first `known` of two interfaces.
fn parallel_nics(specs: [NicSpec; 2], known: usize) -> Site {
    let mut builder = FabricBuilder::new();
    let host = builder.add_node("h0", Role::Host).unwrap();
    let leaf = builder.add_node("leaf0", Role::Switch).unwrap();
    for spec in specs {
        let added = builder.add_nic(host, leaf, ONE_GBPS, Duration::ZERO, spec);
        added.unwrap();
    }
    let mut site = Site::on(&Arc::new(builder.build()));
    let nics = [
        interface("eth1", [10, 0, 1, 9], Some([10, 192, 0, 3])),
        interface("eth0", [10, 0, 0, 5], Some([10, 192, 0, 1])),
    ];
    site.hear("h0", nics.into_iter().take(known).collect());
    let ports = [("swp0", [10, 192, 0, 1]), ("swp1", [10, 192, 0, 3])];
    let ports = ports.map(|(name, address)| interface(name, address, None));
    site.hear("leaf0", ports.into());
    site
}

/// The first NIC has the higher address.
#[test]
fn parallel_nics_known_by_address() {
    let unnamed = || [NicSpec::default(), NicSpec::default()];
    let ascending = parallel_nics(unnamed(), 2);
    assert_eq!(
        faces(&ascending, "h0-leaf0"),
        ["eth0 of h0", "swp0 of leaf0"]
    );
    let mut by_address = unnamed();
    by_address[0].address = Some([10, 0, 1, 9].into());
    let mut by_name = unnamed();
    by_name[0].interface = Some("eth1".to_owned());
    for specs in [by_address, by_name] {
        let both = parallel_nics(specs.clone(), 2);
        assert_eq!(faces(&both, "h0-leaf0"), ["eth1 of h0", "swp1 of leaf0"]);
        assert_eq!(faces(&both, "h0-leaf0.1"), ["eth0 of h0", "swp0 of leaf0"]);
        let one = parallel_nics(specs, 1);
        assert_eq!(faces(&one, "h0-leaf0"), ["eth1 of h0", "swp1 of leaf0"]);
        assert!(faces(&one, "h0-leaf0.1").is_empty());
    }
}

/// Two hosts at two leaves. The file gives an address to each of the two NICs of the first.
fn nics_at_two_leaves() -> Site {
    let mut builder = FabricBuilder::new();
    let hosts = ["h0", "h1"].map(|name| builder.add_node(name, Role::Host).unwrap());
    let leaves = ["leaf0", "leaf1"].map(|name| builder.add_node(name, Role::Switch).unwrap());
    let addresses = NIC_ADDRESSES.map(|address| Some(Ipv4Addr::from(address)));
    for (host, leaf, address) in [
        (hosts[0], leaves[0], addresses[0]),
        (hosts[0], leaves[1], addresses[1]),
        (hosts[1], leaves[1], None),
    ] {
        let spec = NicSpec {
            address,
            ..NicSpec::default()
        };
        let added = builder.add_nic(host, leaf, ONE_GBPS, Duration::ZERO, spec);
        added.unwrap();
    }
    let mut site = Site::on(&Arc::new(builder.build()));
    let ports = [("swp0", [10, 192, 0, 3]), ("swp1", [10, 192, 0, 5])];
    let ports = ports.map(|(name, address)| interface(name, address, None));
    site.hear("leaf1", ports.into());
    site
}

const NIC_ADDRESSES: [[u8; 4]; 2] = [[10, 0, 0, 5], [10, 1, 0, 5]];

/// The links of the NICs with these addresses.
fn nics_with_addresses(site: &Site) -> [String; 2] {
    let wiring = site.known().world().wiring;
    NIC_ADDRESSES.map(|address| {
        let link = wiring.nics()[&Ipv4Addr::from(address)];
        site.fabric.link_name(link)
    })
}

/// Packets go to where an address is. Until its host reports it, that is what the file says.
#[test]
fn reported_address_moves_to_nic() {
    let mut site = nics_at_two_leaves();
    assert_eq!(nics_with_addresses(&site), ["h0-leaf0", "h0-leaf1"]);
    let moved = interface("eth1", NIC_ADDRESSES[0], Some([10, 192, 0, 3]));
    site.hear("h0", vec![moved]);
    assert_eq!(nics_with_addresses(&site), ["h0-leaf1", "h0-leaf1"]);
}

#[test]
fn declared_address_stays_with_host() {
    let mut site = nics_at_two_leaves();
    let claimed = interface("eth0", NIC_ADDRESSES[1], Some([10, 192, 0, 5]));
    site.hear("h1", vec![claimed]);
    assert_eq!(nics_with_addresses(&site), ["h0-leaf0", "h0-leaf1"]);
}

#[test]
fn interface_facing_two_neighbours_is_ignored() {
    let mut site = Site::new();
    site.hear(
        "h1",
        vec![interface("eth1", [10, 0, 0, 9], Some([10, 192, 0, 3]))],
    );
    assert_eq!(site.known().world().wiring.end(site.hop("leaf1", 1)), None);
}

#[test]
fn interface_facing_one_neighbour_twice_ignored() {
    let mut site = Site::new();
    site.ingest.handle_connected(site.node("leaf0"));
    let mut both = interface("swp1", [10, 192, 0, 4], Some([10, 192, 0, 7]));
    if let Reading::Interface(interface) = &mut both {
        interface.gateways.push([10, 192, 0, 5].into());
    }
    site.hear("leaf0", vec![introductions()[2].1[0].clone(), both]);
    assert_eq!(site.known().world().wiring.end(site.hop("leaf0", 2)), None);
    assert_eq!(site.known().world().wiring.end(site.hop("leaf0", 3)), None);
}

#[test]
fn unreported_flow_is_forgotten() {
    let mut site = Site::new();
    site.hear("h0", vec![reading(100)]);
    assert!(site.ingest.flow(&flow()).is_some());
    site.wait(site.policy.most_age() + Duration::from_micros(1));
    site.ingest.handle_time(site.now, &site.policy);
    assert!(site.ingest.flow(&flow()).is_none());
}

#[test]
fn path_names_exact_links_of_routers() {
    let mut site = Site::new();
    site.hear("h0", vec![reading(100), path(PATH_OVER_SPINE1)]);
    let expected = ["h0-leaf0", "leaf0-leaf1.1", "h1-leaf1"].map(str::to_owned);
    assert_eq!(site.flow_path().unwrap(), expected);
}

#[test]
fn return_path_is_traced_separately() {
    let mut site = Site::new();
    let back = path_of(flow().reversed(), RETURN_OVER_SPINE0);
    site.hear(
        "h0",
        vec![reading(100), path(PATH_OVER_SPINE1), back.clone()],
    );
    assert_eq!(site.path_back(), None, "the receiver alone knows it");
    site.hear("h1", vec![back]);
    let expected = ["h1-leaf1", "leaf0-leaf1", "h0-leaf0"].map(str::to_owned);
    assert_eq!(site.path_back().unwrap(), expected);
    site.wait(site.policy.trust_path_for() + Duration::from_micros(1));
    site.hear("h0", vec![reading(100)]);
    assert_eq!(site.path_back(), None, "it is too old");
}

#[test]
fn incomplete_or_inconsistent_path_is_ignored() {
    let leaf0 = Some([10, 192, 0, 1]);
    let wrong: [&[Option<[u8; 4]>]; 7] = [
        &[leaf0, None],
        &[leaf0, None, Some([10, 192, 0, 7])],
        &[leaf0, Some([10, 192, 0, 3])],
        &[leaf0, Some([9, 9, 9, 9])],
        &[Some([10, 192, 0, 7])],
        &[leaf0],
        &[],
    ];
    for routers in wrong {
        let mut site = Site::new();
        site.hear("h0", vec![reading(100), path(routers)]);
        assert_eq!(site.snapshot().flows.len(), 1);
        assert_eq!(site.flow_path(), None, "{routers:?}");
    }
}

#[test]
fn rate_is_mean_of_last_readings() {
    let mut site = Site::new();
    for mbps in [900, 10, 20, 30, 40, 50] {
        site.hear("h0", vec![reading(mbps)]);
        site.wait(Duration::from_millis(100));
    }
    let state = site.snapshot().flows.remove(0);
    let mbps = [state.rate, state.rate_range[0], state.rate_range[1]].map(Rate::mbps);
    assert_eq!(mbps, [30.0, 10.0, 50.0]);
    assert_eq!(state.age, Duration::from_millis(100));
    assert_eq!(
        [state.from, state.to],
        ["h0", "h1"].map(|name| site.node(name))
    );
}

#[test]
fn verdict_needs_enough_fresh_readings() {
    let mut site = Site::new();
    let begin = site.now;
    for _ in 0..site.policy.readings() {
        site.hear("h0", vec![reading(100)]);
        site.wait(Duration::from_millis(100));
    }
    let spread = |site: &Site, from| {
        let recent = site.ingest.flow(&flow()).unwrap();
        site.known()
            .spread_since(recent, from)
            .map(|spread| spread.mean.mbps())
    };
    assert_eq!(spread(&site, begin), Some(100.0));
    assert_eq!(spread(&site, begin + Duration::from_micros(1)), None);
    assert!(site.known().is_well_measured(&flow()));
    site.wait(site.policy.most_age());
    assert_eq!(spread(&site, begin), None);
}

#[test]
fn stale_readings_are_left_out() {
    let mut site = Site::new();
    site.hear(
        "h0",
        vec![reading(100), path(PATH_OVER_SPINE1), counters("eth0", 7, 8)],
    );
    let count = |site: &Site| (site.snapshot().flows.len(), site.snapshot().links.len());
    site.wait(site.policy.most_age());
    assert_eq!(count(&site), (1, 2));
    site.wait(Duration::from_micros(1));
    for name in ["h0", "h1", "leaf0", "leaf1"] {
        site.hear(name, vec![]);
    }
    assert_eq!(count(&site), (0, 0));
}

#[test]
fn stale_path_expires_under_live_flow() {
    let mut site = Site::new();
    site.hear("h0", vec![reading(100), path(PATH_OVER_SPINE1)]);
    let mut waited = Duration::ZERO;
    while waited <= site.policy.trust_path_for() {
        assert!(site.flow_path().is_some(), "{waited:?}");
        site.wait(Duration::from_secs(1));
        waited += Duration::from_secs(1);
        site.hear("h0", vec![reading(100)]);
        for name in ["h1", "leaf0", "leaf1"] {
            site.hear(name, vec![]);
        }
    }
    assert_eq!((site.flow_path(), site.snapshot().flows.len()), (None, 1));
}

#[test]
fn path_traced_during_reroute_is_ignored() {
    let mut site = Site::new();
    site.hear("h0", vec![reading(100), path(PATH_OVER_SPINE1)]);
    let until = site.now + Duration::from_millis(300);
    site.ingest
        .handle_rerouted(site.node("leaf0"), [flow()].into(), until);
    assert_eq!(site.flow_path(), None);
    site.hear("h0", vec![path(PATH_OVER_SPINE1)]);
    assert_eq!(site.flow_path(), None);
    site.wait(Duration::from_millis(300));
    site.hear("h0", vec![path(PATH_OVER_SPINE1)]);
    assert!(site.flow_path().is_some());
    assert_eq!(site.ingest.discarded(site.node("h0")), 0);
}

#[test]
fn link_rate_prefers_sender_counters() {
    let mut site = Site::new();
    site.hear("leaf0", vec![counters("swp1", 70, 30)]);
    let links = site.snapshot().links;
    assert_eq!(links[&site.hop("leaf0", 2)].rate.mbps(), 70.0);
    assert_eq!(links[&site.hop("leaf1", 2)].rate.mbps(), 30.0);
    site.hear("leaf1", vec![counters("swp1", 31, 69)]);
    assert_eq!(
        site.snapshot().links[&site.hop("leaf1", 2)].rate.mbps(),
        31.0
    );
    assert_eq!(site.snapshot().links.len(), 2);
}

#[test]
fn disconnected_node_is_excluded() {
    let mut site = Site::new();
    site.hear("h0", vec![reading(100), path(PATH_OVER_SPINE1)]);
    site.ingest.handle_disconnected(site.node("leaf0"));
    assert_eq!(site.flow_path(), None);
    assert_eq!(site.known().world().wiring.end(site.hop("h0", 0)), None);
}
