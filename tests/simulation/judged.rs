//! The planner's plans before their judge, on small random fabrics: what is planned must be found
//! sound, and what has been bent must not, by any mixture of old and new rules.
//!
//! Whether packets arrive is not asked of the planner or the judge, but of the world.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddrV4;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use reweave_check::{Unsound, check};
use reweave_common::fabric::Role;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::moment::Moment;
use reweave_common::plan::{Generation, Pin, Plan};
use reweave_common::snapshot::{FlowState, Hop, LinkState, Snapshot};
use reweave_common::units::Rate;
use reweave_repair::Policy;
use reweave_sim_cluster::chance::Chance;
use reweave_sim_cluster::network::addresses::{rail_address, rule_of_pin};
use reweave_sim_cluster::network::forwarding::Kernels;
use reweave_sim_cluster::network::{Kernel, Network};

use crate::fabrics::some_fabric;

const SEED_COUNT: u64 = 100;
/// Each plan is carried out, and the next one made for what has become of it and of new flows.
const MAX_PLANS: usize = 3;
const BENDS_PER_PLAN: usize = 8;

/// A plan, the scene it was made for, and the seed of both.
type Case = (u64, Scene, Plan);

static PLANNED_CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let of_seed = |seed| {
        planned(seed)
            .into_iter()
            .map(move |(scene, plan)| (seed, scene, plan))
    };
    (0..SEED_COUNT).flat_map(of_seed).collect()
});

#[test]
fn every_plan_is_sound_and_lossless() {
    for (seed, scene, plan) in PLANNED_CASES.iter() {
        assert_eq!(scene.check(plan), Ok(()), "seed {seed}: {plan:#?}");
        assert!(scene.loses_nothing(plan), "seed {seed}: {plan:#?}");
    }
    eprintln!("{} plans judged", PLANNED_CASES.len());
    assert!(
        PLANNED_CASES.len() > 50,
        "only {} plans",
        PLANNED_CASES.len()
    );
}

/// The last switch on the way sends packets back to where they came from.
#[test]
fn looping_plan_is_refused() {
    let last_sends_back = |_: &Scene, way: &[Hop]| match way {
        [.., inbound, last] => Some((last.from, inbound.link)),
        _ => None,
    };
    refused(last_sends_back, |unsound| {
        matches!(unsound, Unsound::Loop { .. })
    });
}

/// The first switch hands packets to a host that they are not for.
#[test]
fn black_hole_plan_is_refused() {
    let first_hands_over = |scene: &Scene, way: &[Hop]| {
        let at = way[1].from;
        Some((at, scene.stranger(at, way)?))
    };
    refused(first_hands_over, |unsound| {
        matches!(unsound, Unsound::BlackHole { .. })
    });
}

/// Each plan, when the flow that it moves is pinned to what `bend` says on its new way.
fn refused(
    bend: impl Fn(&Scene, &[Hop]) -> Option<(NodeId, LinkId)>,
    is_the_reason: impl Fn(&Unsound) -> bool,
) {
    let mut bent = 0;
    for (seed, scene, plan) in PLANNED_CASES.iter() {
        let flow = plan.moves[0].flow;
        let way = scene.way(&scene.kernels(&plan.pins), flow);
        let Some((at, link)) = bend(scene, &way.expect("it is sound")) else {
            continue;
        };
        let plan = with_pin(plan, Pin { flow, at, link });
        assert!(!scene.loses_nothing(&plan), "seed {seed}: it does no harm");
        let verdict = scene.check(&plan).expect_err("packets are lost");
        assert!(
            verdict.iter().any(&is_the_reason),
            "seed {seed}: {verdict:#?}"
        );
        bent += 1;
    }
    assert!(bent > 50, "only {bent} plans");
}

/// Bent anyhow: what the judge lets pass must lose nothing.
#[test]
fn mutated_sound_plans_lose_no_packet() {
    let (mut passed, mut refused) = (0, 0);
    for (seed, scene, plan) in PLANNED_CASES.iter() {
        let mut chance = Chance::of(*seed);
        for _ in 0..BENDS_PER_PLAN {
            let plan = scene.bent(plan, &mut chance);
            let is_sound = scene.check(&plan).is_ok();
            assert!(
                !is_sound || scene.loses_nothing(&plan),
                "seed {seed}: {plan:#?}"
            );
            *(if is_sound { &mut passed } else { &mut refused }) += 1;
        }
    }
    eprintln!("{passed} bent plans passed, {refused} were refused");
    assert!(
        passed > 50 && refused > 50,
        "{passed} passed, {refused} refused"
    );
}

/// In place of another pin of that flow at that switch.
fn with_pin(plan: &Plan, pin: Pin) -> Plan {
    let mut plan = plan.clone();
    plan.pins
        .retain(|other| (other.flow, other.at) != (pin.flow, pin.at));
    plan.pins.push(pin);
    plan
}

/// A network with the pins in force.
struct Scene {
    network: Arc<Network>,
    generation: Generation,
    pins: Vec<Pin>,
}

/// Plans for a random network, each for what the one before has led to.
fn planned(seed: u64) -> Vec<(Scene, Plan)> {
    let mut chance = Chance::of(seed);
    let mut network = Network::new(some_fabric(&mut chance), chance.number(), Moment::default());
    let (mut generation, mut pins, mut plans) = (Generation(0), Vec::new(), Vec::new());
    for round in 0..MAX_PLANS {
        network = with_more_flows(&network, &mut chance, round);
        let scene = Scene {
            network: Arc::new(network),
            generation,
            pins,
        };
        let plan = scene.plan();
        (generation, pins) = match &plan {
            Some(plan) => (plan.generation, plan.pins.clone()),
            None => (scene.generation, scene.pins.clone()),
        };
        network = Network::clone(&scene.network);
        plans.extend(plan.map(|plan| (scene, plan)));
    }
    plans
}

impl Scene {
    fn plan(&self) -> Option<Plan> {
        let (snapshot, policy) = (self.snapshot(), Policy::default());
        reweave_repair::repair(&snapshot, &policy).into_plan()
    }

    fn check(&self, plan: &Plan) -> Result<(), Vec<Unsound>> {
        let network = reweave_check::Network {
            addresses: self.network.addresses.all(),
            nics: self.network.addresses.nics(),
            generation: self.generation,
            pins: &self.pins,
            ..reweave_check::Network::untouched(&self.network.fabric)
        };
        check(&network, plan)
    }

    /// Whether all packets arrive at the NICs that they are for, whichever switches have followed the plan already.
    fn loses_nothing(&self, plan: &Plan) -> bool {
        let (before, after) = (self.kernels(&self.pins), self.kernels(&plan.pins));
        let differ = |switch: &&NodeId| before[switch].rules() != after[switch].rules();
        let touched: Vec<_> = before.keys().filter(differ).copied().collect();
        (0..1_u32 << touched.len()).all(|mixture| {
            let mut kernels = before.clone();
            for (index, switch) in touched.iter().enumerate() {
                if mixture & (1 << index) != 0 {
                    kernels.insert(*switch, after[switch].clone());
                }
            }
            let mut ways = self.network.ways_under(&kernels);
            ways.all(|(flow, way)| way.is_ok_and(|way| self.network.ends_at_nic(&flow, &way)))
        })
    }

    fn kernels(&self, pins: &[Pin]) -> Kernels {
        let fabric = &self.network.fabric;
        let holding = |(&switch, _)| {
            let own = pins.iter().filter(|pin| pin.at == switch);
            let rules = own.map(|pin| rule_of_pin(fabric, pin)).collect();
            (switch, Kernel::holding(rules))
        };
        self.network.kernels.iter().map(holding).collect()
    }

    fn way(&self, kernels: &Kernels, flow: FlowKey) -> Option<Vec<Hop>> {
        let mut ways = self.network.ways_under(kernels);
        ways.find(|(key, _)| *key == flow)?.1.ok()
    }

    /// A link of this switch to a host that is not on the way.
    fn stranger(&self, at: NodeId, way: &[Hop]) -> Option<LinkId> {
        let fabric = &self.network.fabric;
        let is_strange = |&&link: &&LinkId| {
            let far = fabric.node(fabric.link(link).far(at).node);
            far.role == Role::Host && way.iter().all(|hop| hop.link != link)
        };
        fabric.links_of(at).iter().find(is_strange).copied()
    }

    /// One pin leads elsewhere, or stands at another switch.
    fn bent(&self, plan: &Plan, chance: &mut Chance) -> Plan {
        let switches: Vec<_> = self.network.kernels.keys().copied().collect();
        let mut pin = *chance.one_of(&plan.pins);
        if chance.happens(0.5) {
            pin.at = *chance.one_of(&switches);
        }
        pin.link = *chance.one_of(self.network.fabric.links_of(pin.at));
        with_pin(plan, pin)
    }

    fn snapshot(&self) -> Snapshot {
        let kernels = self.kernels(&self.pins);
        let rates = self.network.rates_under(&kernels);
        let ways: BTreeMap<_, _> = self.network.ways_under(&kernels).collect();
        let mut loads: BTreeMap<Hop, f64> = BTreeMap::new();
        for (flow, way) in &ways {
            for hop in way.iter().flatten() {
                *loads.entry(*hop).or_default() += rates[flow];
            }
        }
        let flows = ways
            .into_iter()
            .map(|(flow, way)| self.state(flow, rates[&flow], way.ok()));
        Snapshot {
            generation: self.generation,
            fabric: Arc::clone(&self.network.fabric),
            links: self.links(&loads),
            lossy: BTreeMap::new(),
            drained: BTreeSet::new(),
            flows: flows.collect(),
            pins: self.pins.clone(),
            unpinnable: BTreeSet::new(),
            tables: BTreeMap::new(),
            circuits: BTreeMap::new(),
            beating: Vec::new(),
        }
    }

    fn state(&self, flow: FlowKey, bits_per_s: f64, path: Option<Vec<Hop>>) -> FlowState {
        let rate = Rate::from_bits_per_s(bits_per_s as u64);
        let owner = |address| {
            self.network
                .addresses
                .owner(address)
                .expect("it has an owner")
        };
        FlowState {
            flow,
            from: owner(*flow.source.ip()),
            to: owner(*flow.destination.ip()),
            nic: self.network.addresses.nic_link(*flow.destination.ip()),
            rate,
            rate_range: [rate, rate],
            path,
            age: Duration::ZERO,
        }
    }

    fn links(&self, loads: &BTreeMap<Hop, f64>) -> BTreeMap<Hop, LinkState> {
        let links = self.network.fabric.links();
        let hops = links.flat_map(|(link, cable)| {
            cable.ports().map(|port| Hop {
                from: port.node,
                link,
            })
        });
        let state = |hop| LinkState {
            up: true,
            rate: Rate::from_bits_per_s(loads.get(&hop).copied().unwrap_or(0.0) as u64),
            age: Duration::ZERO,
        };
        hops.map(|hop| (hop, state(hop))).collect()
    }
}

fn with_more_flows(network: &Network, chance: &mut Chance, round: usize) -> Network {
    let mut network = network.clone();
    let hosts: Vec<_> = network.fabric.endpoints().collect();
    for number in 0..2 + chance.below(4) {
        let [from, to] = [0, 0].map(|_| *chance.one_of(&hosts));
        if from != to {
            let port = (10_000 + 100 * round + number) as u16;
            let address = |host| rail_address(&network.fabric, host, number);
            let flow = FlowKey {
                protocol: Protocol::Tcp,
                source: SocketAddrV4::new(address(from), port),
                destination: SocketAddrV4::new(address(to), 5000),
            };
            network.open(flow, [from, to]);
        }
    }
    network
}
