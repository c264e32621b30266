//! Hosts with several NICs: packets for a NIC come to its host over that NIC's link, and plans keep it so.

use std::net::SocketAddrV4;

use reweave_agent_core::reconcile::RuleOp;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::operator::Mode;
use reweave_common::plan::Pin;
use reweave_common::scenario::{Job, Scenario};
use reweave_core::Outcome;
use reweave_sim_cluster::World;
use reweave_sim_cluster::laws::{Breach, Laws};
use reweave_sim_cluster::network::Network;
use reweave_sim_cluster::network::addresses::{rail_address, rule_of_pin};
use reweave_sim_cluster::wire::Weather;

use crate::fabrics::{Rails, rails_fabric};
use crate::scene::{demo, ended, policy};

/// Rails 0 and 2 of a host hang on one leaf, and rails 1 and 3 on another.
const SHAPE: Rails = Rails {
    hosts_per_pod: 2,
    rails: 4,
    leaves_per_pod: 2,
    spines: 2,
};

fn rail_flow(network: &Network, [from, to]: [NodeId; 2], rail: usize) -> FlowKey {
    let end = |host, port| SocketAddrV4::new(rail_address(&network.fabric, host, rail), port);
    FlowKey {
        protocol: Protocol::Tcp,
        source: end(from, 10_000),
        destination: end(to, 5000),
    }
}

fn pairs(network: &Network) -> Vec<[NodeId; 2]> {
    let hosts: Vec<_> = network.fabric.endpoints().collect();
    let all = hosts
        .iter()
        .flat_map(|&from| hosts.iter().map(move |&to| [from, to]));
    all.filter(|[from, to]| from != to).collect()
}

/// All hosts send to all others on each rail.
fn all_to_all() -> Network {
    let mut network = Network::new(rails_fabric(&SHAPE), 1, Moment::default());
    for ends in pairs(&network) {
        for rail in 0..SHAPE.rails {
            let flow = rail_flow(&network, ends, rail);
            network.open(flow, ends);
        }
    }
    network
}

fn breaches(network: &Network) -> Vec<Breach> {
    let mut laws = Laws::default();
    laws.look_at_ways(network);
    laws.breaches()
}

#[test]
fn rail_flows_end_at_their_nic() {
    let network = all_to_all();
    for ends in pairs(&network) {
        for rail in 0..SHAPE.rails {
            let flow = rail_flow(&network, ends, rail);
            let way = network.way(&flow).expect("the spines join all leaves");
            let links = [way.first(), way.last()].map(|hop| hop.map(|hop| hop.link));
            let nics = ends.map(|host| network.fabric.links_of(host).get(rail).copied());
            assert_eq!(links, nics, "{flow} of rail {rail}");
        }
    }
    assert!(breaches(&network).is_empty());
}

/// A law that nothing breaks proves nothing.
#[test]
fn arrival_at_other_nic_breaks_law() {
    let mut network = all_to_all();
    let ends = ["h0", "h2"].map(|name| network.node(name));
    let flow = rail_flow(&network, ends, 0);
    let way = network.way(&flow).expect("the spines join all leaves");
    let at = way[way.len() - 1].from;
    let link = network.fabric.links_of(ends[1])[2];
    let rule = rule_of_pin(&network.fabric, &Pin { flow, at, link });
    let changed = network.change(at, &RuleOp::Add(rule));
    changed.expect("its kernel takes rules");
    assert_eq!(breaches(&network), [Breach::OtherNic { flow, link }]);
}

/// The demo's two pairs of hosts, each over two rails: their flows meet on both, while the other spine is idle.
#[test]
fn rail_collision_is_resolved() {
    let usual = demo();
    let fabric = rails_fabric(&SHAPE);
    let job = Job {
        hosts: fabric.endpoints().collect(),
        flows_per_pair: 2,
        ..usual.jobs[0].clone()
    };
    let scenario = Scenario {
        fabric,
        jobs: Vec::new(),
        ..usual
    };
    let mut world = World::new(scenario, policy(Mode::Auto), 1, Weather::FAIR_WEATHER);
    world.run_until("all there", |world| world.is_calm());
    world.start(&job);
    let ended = ended(&mut world, 1);
    assert_eq!(ended.outcome, Outcome::Committed, "{}", world.journal());
    assert!(!ended.plan.moves.is_empty());
    world.rest();
}
