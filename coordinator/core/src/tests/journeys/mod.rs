//! Tables and circuits change on small random fabrics: messages are lost, doubled and late, nodes
//! and optical switches fail, and the coordinator dies over any entry of its log. After every event
//! every packet arrives, by every way there is.

mod device;
mod held;
mod laws;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use reweave_common::circuit::{Circuit, CircuitSet, Readback, Switchover};
use reweave_common::course::Tables;
use reweave_common::fabric::{Circuits, Fabric, Fibre};
use reweave_common::ids::{NodeId, OpticalId};
use reweave_common::instruction::{Ack, Install, Instruction};
use reweave_common::moment::Moment;
use reweave_common::plan::{Generation, Plan, Report};
use reweave_common::sample::{Counters, Reading, Sample};
use reweave_common::units::{Bytes, Rate};

use device::{Ailment, Device};

use super::switch::{Mood, Switch};
use crate::course::examples::{Chance, shortest_ways, some_circuits, some_fabric, some_tables};
use crate::{Author, Change, Command, Core, Effect, Input, Outcome, Policy, State};

const STEP: Duration = Duration::from_millis(50);
const FAULTS_FOR: Duration = Duration::from_secs(15);
/// So long after the last fault nothing is under way any more.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// How bad things are, in hundredths.
#[derive(Debug, Clone, Copy)]
struct Weather {
    lost: usize,
    doubled: usize,
    /// Nodes that turn deaf or refuse, drivers that fail, in each step.
    fails: usize,
    /// Entries over which the coordinator dies.
    dies: usize,
}

const FAIR: Weather = Weather {
    lost: 0,
    doubled: 0,
    fails: 0,
    dies: 0,
};
const FOUL: Weather = Weather {
    lost: 10,
    doubled: 10,
    fails: 2,
    dies: 8,
};

enum Message {
    Install(NodeId, Install),
    Ack(NodeId, Ack),
    Sample(NodeId, Sample),
    Switch(OpticalId, Switchover),
    Readback(OpticalId, Readback),
}

struct World {
    fabric: Arc<Fabric>,
    policy: Policy,
    core: Core,
    log: Vec<Command>,
    nodes: BTreeMap<NodeId, Switch>,
    devices: BTreeMap<OpticalId, Device>,
    /// What nodes do that hold no route: it was set up by hand, and stays.
    own: Tables,
    mail: Vec<(Moment, Message)>,
    now: Moment,
    weather: Weather,
    chance: Chance,
    passed: u64,
    /// Traffic that goes on whatever nodes hold, as that of a card with a fixed next hop.
    is_stubborn: bool,
    dies_over: Option<(usize, bool)>,
    deaths: usize,
    seed: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut chance = Chance(seed);
        let bare = some_fabric(&mut chance);
        let circuits = some_circuits(&bare, &mut chance);
        let fabric = Arc::new(with_circuits(&bare, &circuits));
        let own = shortest_ways(&fabric, &circuits);
        let device = |(&optical, circuits): (&OpticalId, &CircuitSet)| {
            let circuits = circuits.clone();
            (
                optical,
                Device {
                    circuits,
                    ..Device::default()
                },
            )
        };
        let policy = Policy {
            capacity_floor: 0.25,
            ..Policy::default()
        };
        let mut world = Self {
            core: Core::new(policy.clone(), Arc::clone(&fabric)),
            nodes: fabric
                .endpoints()
                .map(|node| (node, Switch::default()))
                .collect(),
            devices: circuits.iter().map(device).collect(),
            policy,
            fabric,
            log: Vec::new(),
            own,
            mail: Vec::new(),
            now: Moment::from_micros(1_000_000),
            weather: FAIR,
            chance,
            passed: 0,
            is_stubborn: false,
            dies_over: None,
            deaths: 0,
            seed,
        };
        world.greet();
        world
    }

    fn state(&self) -> &State {
        self.core.state()
    }

    fn greet(&mut self) {
        for node in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.handle(Input::AgentUp { node });
        }
        for optical in self.devices.keys().copied().collect::<Vec<_>>() {
            self.handle(Input::DriverUp { optical });
        }
    }

    /// To other tables, and other circuits in most cases.
    fn propose(&mut self) {
        let circuits = match self.chance.below(4) {
            0 => self.state().in_force().circuits_of(&self.fabric),
            _ => some_circuits(&self.fabric, &mut self.chance),
        };
        let tables = some_tables(&self.fabric, &circuits, &mut self.chance);
        let generation = self.state().next_generation();
        let parent = self.state().in_force().generation;
        let by = Author::Operator("ada".to_owned());
        let plan = Box::new(plan(generation, parent, tables, circuits));
        self.append(Change::PlanProposed {
            plan,
            by: by.clone(),
        });
        self.append(Change::PlanApproved { generation, by });
    }

    fn append(&mut self, change: Change) {
        let command = Command {
            at: self.now,
            change,
        };
        self.log.push(command.clone());
        self.core.apply(command);
    }

    fn is_idle(&self) -> bool {
        self.state().rollout().is_none()
    }

    /// Until no plan is under way.
    fn run(&mut self, most: Duration) -> Option<Outcome> {
        let end = self.now + most;
        while self.now < end {
            self.step();
            if self.is_idle() {
                let ended = self.state().history().next_back();
                return ended.map(|ended| ended.outcome.clone());
            }
        }
        None
    }

    fn step(&mut self) {
        self.now = self.now + STEP;
        self.ail();
        let (due, later) = std::mem::take(&mut self.mail)
            .into_iter()
            .partition(|(at, _)| *at <= self.now);
        self.mail = later;
        let due: Vec<(Moment, Message)> = due;
        for (_, message) in due {
            self.deliver(message);
            self.look();
        }
        if self.now.as_micros().is_multiple_of(250_000) {
            self.report();
        }
        self.handle(Input::Tick);
        self.look();
    }

    fn ail(&mut self) {
        if self.chance.below(100) >= self.weather.fails {
            return;
        }
        let nodes: Vec<_> = self.nodes.keys().copied().collect();
        let node = nodes[self.chance.below(nodes.len())];
        let moods = [Mood::Obeys, Mood::Deaf, Mood::Refuses, Mood::Mute];
        let mood = moods[self.chance.below(4)].clone();
        self.nodes.get_mut(&node).unwrap().mood = mood;
        let ailments = [
            Ailment::None,
            Ailment::TimesOut,
            Ailment::Refuses,
            Ailment::MovesHalf,
        ];
        let ails = ailments[self.chance.below(4)];
        let optical = OpticalId::from_index(self.chance.below(self.devices.len()));
        self.devices.get_mut(&optical).unwrap().ails = ails;
    }

    /// Everything works again; what a device did by halves somebody puts right.
    fn heal(&mut self) {
        self.weather = FAIR;
        for node in self.nodes.values_mut() {
            node.mood = Mood::Obeys;
        }
        let journey = self
            .core
            .state()
            .rollout()
            .and_then(|it| it.phase.journey().cloned());
        for (optical, device) in &mut self.devices {
            device.ails = Ailment::None;
            let known = journey
                .as_ref()
                .and_then(|it| it.circuits.get(optical).cloned());
            let desired = self
                .log
                .iter()
                .rev()
                .find_map(|command| match &command.change {
                    Change::CircuitIntent { moves, .. } => {
                        moves.get(optical).map(|it| it.desired.clone())
                    }
                    _ => None,
                });
            if let Some(known) = known.filter(|_| Some(&device.circuits) != desired.as_ref()) {
                device.circuits = known;
            }
        }
    }

    fn report(&mut self) {
        self.passed += u64::from(self.is_stubborn) * 10_000_000;
        for node in self.nodes.keys().copied().collect::<Vec<_>>() {
            let fabric = Arc::clone(&self.fabric);
            let fibres = fabric.fibres().filter(|fibre| fibre.node == node);
            let counters = fibres.map(|fibre| self.counters(fibre));
            let sample = Sample {
                taken: self.now,
                readings: counters.collect(),
            };
            self.post(&Message::Sample(node, sample));
        }
    }

    fn counters(&self, fibre: &Fibre) -> Reading {
        Reading::Counters(Counters {
            interface: fibre.interface.clone(),
            up: self.light_at(fibre).is_some(),
            sent: Bytes::new(self.passed),
            received: Bytes::new(0),
            dropped_packets: 0,
            send_rate: None,
            receive_rate: None,
        })
    }

    /// Where light that enters there leaves.
    fn light_at(&self, fibre: &Fibre) -> Option<&Fibre> {
        let ports = self.devices[&fibre.optical]
            .circuits
            .iter()
            .map(Circuit::ports);
        let other = |[a, b]: [_; 2]| match fibre.port {
            port if port == a => Some(b),
            port if port == b => Some(a),
            _ => None,
        };
        self.fabric
            .fibre(fibre.optical, ports.filter_map(other).next()?)
    }

    fn post(&mut self, message: &Message) {
        if self.chance.below(100) < self.weather.lost {
            return;
        }
        let delay = |chance: &mut Chance| Duration::from_millis(chance.below(120) as u64);
        let copies = 1 + usize::from(self.chance.below(100) < self.weather.doubled);
        for copy in 0..copies {
            let late = copy as u32 * Duration::from_secs(3);
            let at = self.now + delay(&mut self.chance) + late;
            self.mail.push((at, message.copy()));
        }
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Install(node, install) => {
                let node_of = self.nodes.get_mut(&node).unwrap();
                if let Some(ack) = node_of.follow(install) {
                    self.post(&Message::Ack(node, ack));
                }
            }
            Message::Ack(node, ack) => self.handle(Input::Ack { node, ack }),
            Message::Sample(node, sample) => self.handle(Input::Sample { node, sample }),
            Message::Switch(optical, switchover) => {
                let before = self.circuits();
                let device = self.devices.get_mut(&optical).unwrap();
                let readback = device.follow(&switchover);
                self.look_at_move(&before);
                if let Some(readback) = readback {
                    self.post(&Message::Readback(optical, readback));
                }
            }
            Message::Readback(optical, readback) => {
                self.handle(Input::Readback { optical, readback });
            }
        }
    }

    fn handle(&mut self, input: Input) {
        self.core.handle(self.now, input);
        while let Some(effect) = self.core.poll_effect() {
            match effect {
                Effect::Append(command) => self.write(command),
                Effect::Send {
                    node,
                    instruction: Instruction::Install(install),
                } => {
                    self.was_intended(node, &install);
                    self.post(&Message::Install(node, install));
                }
                Effect::Switch {
                    optical,
                    switchover,
                } => {
                    self.move_was_intended(optical, &switchover);
                    self.post(&Message::Switch(optical, switchover));
                }
                _ => {}
            }
        }
    }

    /// The coordinator may die over it, before it is durable or just after.
    fn write(&mut self, command: Command) {
        let entry = self.log.len();
        let chosen = self.dies_over.take_if(|(over, _)| *over == entry);
        let by_chance = self.chance.below(100) < self.weather.dies;
        let is_durable = chosen.map_or(self.chance.below(2) == 0, |(_, is_durable)| is_durable);
        let dies = chosen.is_some() || by_chance;
        if !dies || is_durable {
            self.log.push(command.clone());
            self.core.apply(command);
        }
        if dies {
            self.deaths += 1;
            let state = self.core.state().clone();
            self.core = Core::resume(self.policy.clone(), Arc::clone(&self.fabric), state);
            self.greet();
        }
    }
}

impl Message {
    fn copy(&self) -> Self {
        match self {
            Self::Install(node, it) => Self::Install(*node, it.clone()),
            Self::Ack(node, it) => Self::Ack(*node, it.clone()),
            Self::Sample(node, it) => Self::Sample(*node, it.clone()),
            Self::Switch(optical, it) => Self::Switch(*optical, it.clone()),
            Self::Readback(optical, it) => Self::Readback(*optical, it.clone()),
        }
    }
}

fn plan(generation: Generation, parent: Generation, tables: Tables, circuits: Circuits) -> Plan {
    let nothing = Rate::from_bits_per_s(0);
    Plan {
        generation,
        parent,
        pins: Vec::new(),
        tables,
        circuits,
        moves: Vec::new(),
        predictions: Vec::new(),
        report: Report {
            findings: Vec::new(),
            slowest_before: nothing,
            slowest_after: nothing,
            alternatives: Vec::new(),
        },
    }
}

/// The same fabric, as if these circuits had always been there.
fn with_circuits(fabric: &Fabric, circuits: &Circuits) -> Fabric {
    let mut builder = reweave_common::fabric::FabricBuilder::new();
    for (node, it) in fabric.nodes() {
        builder.add_node(&it.name, it.role).unwrap();
        builder
            .set_address(node, fabric.address(node).unwrap())
            .unwrap();
    }
    for (_, optical) in fabric.opticals() {
        builder.add_optical(&optical.name, optical.ports).unwrap();
    }
    for fibre in fabric.fibres() {
        builder.add_fibre(fibre.clone()).unwrap();
    }
    for (&optical, set) in circuits {
        for circuit in set.iter() {
            builder.set_circuit(optical, circuit).unwrap();
        }
    }
    builder.build()
}

/// Where everybody reaches everybody at first.
fn world(seed: u64) -> Option<World> {
    let world = World::new(seed);
    let hosts = world.nodes.len();
    let complete =
        world.own.len() == hosts && world.own.values().all(|it| it.towards.len() == hosts - 1);
    complete.then_some(world)
}

/// Which of some plans were carried out, taken back, or refused.
fn live(seed: u64, plans: usize, weather: Weather) -> [usize; 3] {
    let mut counts = [0; 3];
    let Some(mut world) = world(seed) else {
        return counts;
    };
    for _ in 0..plans {
        world.run_for(Duration::from_secs(2));
        world.propose();
        world.weather = weather;
        let outcome = world.run(FAULTS_FOR);
        world.heal();
        let outcome = outcome.or_else(|| world.run(ENDS_WITHIN));
        let Some(outcome) = outcome else {
            panic!("seed {seed}: it never ends: {:#?}", world.state().rollout());
        };
        // Late copies may still come.
        world.run_for(Duration::from_secs(5));
        world.look_at_rest();
        counts[match outcome {
            Outcome::Committed => 0,
            Outcome::RolledBack { .. } => 1,
            _ => 2,
        }] += 1;
    }
    counts
}

impl World {
    fn run_for(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            self.step();
        }
    }
}

fn sum(seeds: std::ops::Range<u64>, weather: Weather) -> [usize; 3] {
    let of_seed = |seed| live(seed, 3, weather);
    let add = |sum: [usize; 3], next: [usize; 3]| [0, 1, 2].map(|index| sum[index] + next[index]);
    seeds.map(of_seed).fold([0; 3], add)
}

#[test]
fn in_fair_weather_every_plan_that_can_be_is_carried_out_and_no_packet_is_lost() {
    let counts @ [committed, taken_back, _] = sum(0..20, FAIR);
    assert!(committed > 10 && taken_back == 0, "{counts:?}");
}

#[test]
fn in_foul_weather_no_packet_is_lost_and_every_plan_ends() {
    let counts @ [committed, taken_back, _] = sum(0..24, FOUL);
    assert!(committed > 5 && taken_back > 5, "{counts:?}");
}

#[test]
fn the_coordinator_may_die_over_every_entry_of_a_journey() {
    let tell = |seed, dies_over| {
        let mut world = world(seed)?;
        world.run_for(Duration::from_secs(2));
        world.propose();
        world.dies_over = dies_over;
        let outcome = world.run(ENDS_WITHIN)?;
        world.look_at_rest();
        (outcome == Outcome::Committed).then_some(world)
    };
    let mut deaths = 0;
    for seed in 0..5 {
        let entries = tell(seed, None).map_or(0, |world| world.log.len());
        for (entry, is_durable) in (2..entries).flat_map(|entry| [(entry, true), (entry, false)]) {
            let world = tell(seed, Some((entry, is_durable)));
            let died = world
                .unwrap_or_else(|| panic!("seed {seed}: dead over {entry}"))
                .deaths;
            assert_eq!(died, 1, "seed {seed}: nobody died over {entry}");
            deaths += 1;
        }
    }
    assert!(deaths > 20, "only {deaths}");
}

#[test]
fn circuits_stay_where_they_are_while_packets_pass_them_whatever_nodes_say() {
    let mut taken_back = 0;
    for seed in 0..10 {
        let Some(mut world) = world(seed) else {
            continue;
        };
        world.is_stubborn = true;
        world.run_for(Duration::from_secs(2));
        world.propose();
        let before = world.circuits();
        let outcome = world.run(ENDS_WITHIN);
        assert_eq!(world.circuits(), before, "seed {seed}: {outcome:?}");
        taken_back += usize::from(matches!(outcome, Some(Outcome::RolledBack { .. })));
    }
    assert!(taken_back > 0);
}
