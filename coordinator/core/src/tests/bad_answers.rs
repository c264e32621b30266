//! Agents and drivers with well-formed but wrong answers, also to running instructions, and strangers with tokens. The
//! core continues after any answer, its state stays consistent, no node gets contradictory instructions, and honest
//! agents are served afterwards.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::circuit::{Circuit, CircuitSet, NotSwitched, PortId, Readback};
use reweave_common::fabric::Circuits;
use reweave_common::forwarding_state::ForwardingState;
use reweave_common::ids::{NodeId, OpticalId};
use reweave_common::instruction::{Ack, Install, InstallRefusal, Token};
use reweave_common::member::{Digest, Member, Role};
use reweave_common::migration_plan::{MigrationPlan, MigrationStep, Wave};
use reweave_common::operator::{About, Mode, Request};
use reweave_common::plan::{Generation, Plan};
use reweave_common::sample::{Counters, Reading, Sample};
use reweave_common::split_mix::SplitMix64;
use reweave_common::time_span::TimeSpan;
use reweave_common::units::Bytes;

use super::bad_input::{assert_log_can_be_read, boundary_number};
use super::cluster::Cluster;
use super::fibre_macs;
use super::mock_switch::Switch;
use super::scene::collision;
use crate::{Author, Change, Departure, Effect, Input, Migration, Move, Phase, Rollout, Stage};

const SEED_COUNT: u64 = 4;
const ROUND_COUNT: usize = 40;
const ROUND_INTERVAL: Duration = Duration::from_millis(100);
/// The plan changes one of them, a switch.
const HOSTILE_NODES: [&str; 3] = ["leaf0", "spine1", "h2"];
const HOSTILE_RELAYS: [&str; 2] = ["h1", "h3"];
/// Ids of operators are below this.
const FIRST_KNOCK_ID: u64 = 1 << 40;
const INVITED_TOKEN: Digest = Digest([7; 32]);

fn generation(numbers: &mut SplitMix64, asked: Option<Generation>) -> Generation {
    let asked = asked.filter(|_| !numbers.one_in(4));
    asked.unwrap_or_else(|| Generation(boundary_number(numbers)))
}

fn token(numbers: &mut SplitMix64, asked: Option<Token>) -> Token {
    let asked = asked.filter(|_| !numbers.one_in(4));
    asked.unwrap_or_else(|| Token(boundary_number(numbers)))
}

/// A wrong ack of the running step, or of one that never existed.
fn hostile_ack(cluster: &Cluster, node: NodeId, numbers: &mut SplitMix64) -> Ack {
    let mut rollouts = cluster.core.state().rollouts();
    let step = rollouts.find_map(|it| it.phase.step());
    let wanted = step.and_then(|step| step.install(node));
    let wanted = wanted.map(|install| install.holding);
    let error = || "it would not".to_owned();
    let (held, report) = (
        generation(numbers, step.map(|it| it.generation)),
        token(numbers, step.map(|it| it.token)),
    );
    let outcome = match numbers.below(8) {
        0 => Ok(wanted.unwrap_or_default()),
        1 => Ok(ForwardingState::default()),
        2 => Err(InstallRefusal::Older {
            held,
            token: report,
        }),
        3 => Err(InstallRefusal::DifferentContent {
            held,
            token: report,
        }),
        4 => Err(InstallRefusal::Kernel { error: error() }),
        5 => Err(InstallRefusal::NotDurable { error: error() }),
        6 => Err(InstallRefusal::NotASwitch),
        _ => Err(InstallRefusal::RestoreFailed { error: error() }),
    };
    Ack {
        generation: generation(numbers, step.map(|it| it.generation)),
        token: token(numbers, step.map(|it| it.token)),
        outcome,
    }
}

fn some_circuits(numbers: &mut SplitMix64) -> CircuitSet {
    let mut port = || PortId(boundary_number(numbers) as u16);
    let circuits = [0, 1].map(|_| Circuit::new(port(), port()));
    circuits.into_iter().collect()
}

/// A wrong answer to the running instruction, or to one that never existed.
fn hostile_readback(cluster: &Cluster, optical: OpticalId, numbers: &mut SplitMix64) -> Readback {
    let moving = migrations(cluster).find_map(Migration::moving);
    let moved = moving.and_then(|moving| Some(moving.targets.get(&optical)?.moved.clone()));
    let found = match moved {
        Some(moved) if numbers.one_in(2) => moved.expected,
        Some(moved) if numbers.one_in(2) => moved.desired,
        _ => some_circuits(numbers),
    };
    let error = || "it would not".to_owned();
    let (held, report) = (
        generation(numbers, moving.map(|it| it.generation)),
        token(numbers, moving.map(|it| it.token)),
    );
    let outcome = match numbers.below(10) {
        0 => Ok(found),
        1 => Err(NotSwitched::Older {
            held,
            token: report,
        }),
        2 => Err(NotSwitched::DifferentContent {
            held,
            token: report,
        }),
        3 => Err(NotSwitched::Mismatch { found }),
        4 => Err(NotSwitched::TimedOut),
        5 => Err(NotSwitched::Device {
            error: error(),
            found,
        }),
        6 => Err(NotSwitched::Impossible { error: error() }),
        7 => Err(NotSwitched::NotDurable { error: error() }),
        8 => Err(NotSwitched::NoSuchSwitch),
        _ => Err(NotSwitched::Unclear { error: error() }),
    };
    Readback {
        generation: generation(numbers, moving.map(|it| it.generation)),
        token: token(numbers, moving.map(|it| it.token)),
        outcome,
    }
}

fn hostile_about(numbers: &mut SplitMix64) -> About {
    About {
        build: "0.0".repeat(numbers.below(100)),
        protocol: String::new(),
        good_for: TimeSpan::from_secs(boundary_number(numbers)),
        skew_us: (!numbers.one_in(4)).then(|| boundary_number(numbers).cast_signed()),
    }
}

/// Traffic counters of a relay's fibres, up to the largest number.
fn hostile_counters(cluster: &Cluster, numbers: &mut SplitMix64) -> Sample {
    let counters = |interface: &str| {
        Reading::Counters(Counters {
            interface: interface.to_owned(),
            up: !numbers.one_in(4),
            sent: Bytes::new(u64::MAX),
            received: Bytes::new(boundary_number(numbers)),
            dropped_packets: boundary_number(numbers),
            send_rate: None,
            receive_rate: None,
        })
    };
    Sample {
        taken: cluster.now(),
        readings: ["fab0", "fab1"].map(counters).into(),
    }
}

fn migrations(cluster: &Cluster) -> impl Iterator<Item = &Migration> {
    let rollouts = cluster.core.state().rollouts();
    rollouts.filter_map(|it| it.phase.migration())
}

fn is_moving(cluster: &Cluster) -> bool {
    migrations(cluster).any(Migration::is_moving)
}

/// Properties that hold after any answer.
#[derive(Default)]
struct AnswerLaws {
    hostile: &'static [&'static str],
    next: Generation,
    applied: u64,
    /// By id: the token and the key.
    knocks: BTreeMap<u64, (Digest, Digest)>,
}

impl AnswerLaws {
    fn among(hostile: &'static [&'static str]) -> Self {
        Self {
            hostile,
            ..Self::default()
        }
    }

    fn knock(&mut self, cluster: &mut Cluster, numbers: &mut SplitMix64) {
        let id = FIRST_KNOCK_ID + self.knocks.len() as u64;
        let token = if numbers.one_in(2) {
            INVITED_TOKEN
        } else {
            Digest([numbers.below(3) as u8; 32])
        };
        let key = Digest([numbers.below(3) as u8; 32]);
        self.knocks.insert(id, (token, key));
        cluster.handle(Input::Knock {
            id,
            token,
            key,
            from: "10.0.0.66".to_owned(),
        });
    }

    fn look_at(&mut self, cluster: &Cluster) {
        let state = cluster.core.state();
        assert!(state.next_generation() >= self.next, "generations rise");
        assert!(state.applied() >= self.applied, "the log grows");
        (self.next, self.applied) = (state.next_generation(), state.applied());
        assert!(state.in_force().generation < self.next);
        let numbers: Vec<_> = state.rollouts().map(|it| it.plan.generation).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        let under_way: Vec<_> = state.under_way().collect();
        for (place, one) in under_way.iter().enumerate() {
            for other in &under_way[place + 1..] {
                assert_eq!(one.claims.shared_with(&other.claims), None);
            }
        }
        state
            .rollouts()
            .for_each(|it| assert_consistent(it, self.next));
        assert_one_instruction_each(cluster);
        self.assert_instructed_in_order(cluster);
        self.assert_tokens_have_one_key(cluster);
    }

    /// Numbers only grow for each agent, except for agents that lie about theirs, which may get earlier instructions
    /// again.
    fn assert_instructed_in_order(&self, cluster: &Cluster) {
        let mut last: BTreeMap<NodeId, &Install> = BTreeMap::new();
        for (node, install) in installs(cluster) {
            let name = cluster.network.fabric.name(node);
            if let Some(before) = last.insert(node, install)
                && !self.hostile.contains(&name)
            {
                assert!(before.token <= install.token, "{name}: {install:?}");
                let [old, new] = [before, install].map(|it| it.generation);
                assert!(old <= new, "{name}: {install:?}");
            }
        }
    }

    fn assert_tokens_have_one_key(&self, cluster: &Cluster) {
        let mut keys = BTreeMap::new();
        for effect in &cluster.effects {
            if let Effect::Answer { id, pass: Ok(_) } = effect {
                let (token, key) = self.knocks[id];
                assert_eq!(*keys.entry(token).or_insert(key), key);
            }
        }
        let tokens: Vec<_> = keys.into_keys().collect();
        assert!(tokens.is_empty() || tokens == [INVITED_TOKEN], "{tokens:?}");
    }
}

/// The phase of a plan agrees with what is known in it.
fn assert_consistent(rollout: &Rollout, next: Generation) {
    let Rollout { phase, claims, .. } = rollout;
    let is_offer = *phase == Phase::Proposed;
    assert_eq!(rollout.approved.is_none(), is_offer, "{phase:?}");
    assert!(rollout.plan.generation < next);
    if let Some(step) = phase.step() {
        assert!(step.generation < next, "{phase:?}");
        let mut targets = step.targets.keys();
        assert!(targets.all(|it| claims.nodes.contains(it)), "{phase:?}");
    }
    if let Some(migration) = phase.migration() {
        assert_on_plan(migration);
    }
}

fn assert_on_plan(migration: &Migration) {
    assert!(migration.completed_steps <= migration.plan.steps().count());
    let current = migration.current_step();
    match &migration.stage {
        Stage::Installing(step) | Stage::Unconfirmed(step) | Stage::Confirming(step) => {
            let Some(MigrationStep::Round(round)) = current else {
                panic!("not on a round: {migration:?}");
            };
            assert!(round.keys().eq(step.targets.keys()), "{migration:?}");
        }
        Stage::Proven | Stage::Switching(_) | Stage::Switched => {
            assert!(
                matches!(current, Some(MigrationStep::Switch(_))),
                "{migration:?}"
            );
        }
        Stage::Due => {}
    }
}

/// All instructions in order, with their nodes.
fn installs(cluster: &Cluster) -> impl Iterator<Item = (NodeId, &Install)> {
    cluster.effects.iter().filter_map(|effect| match effect {
        Effect::Send { node, instruction } => Some((*node, instruction.install()?)),
        _ => None,
    })
}

/// No token and no generation has two contents.
fn assert_one_instruction_each(cluster: &Cluster) {
    let (mut by_token, mut by_generation) = (BTreeMap::new(), BTreeMap::new());
    for (node, install) in installs(cluster) {
        let before = *by_token.entry((node, install.token)).or_insert(install);
        assert_eq!(before, install, "one token");
        let generation = (node, install.generation);
        let before = *by_generation.entry(generation).or_insert(install);
        let is_same = before.holding.is_same_as(&install.holding);
        assert!(is_same, "{before:?}, {install:?}");
    }
}

fn invite(cluster: &mut Cluster) {
    let expires = cluster.now() + Duration::from_mins(10);
    cluster.append(Change::Invited {
        token: INVITED_TOKEN,
        member: Member::new(Role::Agent, "h0"),
        expires,
        by: Author::Policy,
    });
}

/// Several wrong answers from each of these nodes.
fn answer_badly(cluster: &mut Cluster, nodes: &[&str], numbers: &mut SplitMix64) {
    for name in nodes {
        let node = cluster.network.node(name);
        for _ in 0..3 {
            let ack = hostile_ack(cluster, node, numbers);
            cluster.handle(Input::Ack { node, ack });
        }
        let about = hostile_about(numbers);
        cluster.handle(Input::About { node, about });
    }
}

/// The number of hostile answers that counted as the first one to a step.
fn survives_answers(seed: u64) -> usize {
    let (mut numbers, mut laws) = (SplitMix64::new(seed), AnswerLaws::among(&HOSTILE_NODES));
    let (mut cluster, flows) = collision(Mode::Auto);
    invite(&mut cluster);
    for round in 0..ROUND_COUNT {
        answer_badly(&mut cluster, &HOSTILE_NODES, &mut numbers);
        laws.knock(&mut cluster, &mut numbers);
        cluster.run_for(ROUND_INTERVAL);
        laws.look_at(&cluster);
        if round % 10 == 9 {
            cluster.ask(Request::Status);
        }
    }
    let changes = cluster.log.iter().flat_map(|it| it.change.parts());
    let is_bad =
        |change: &&Change| matches!(change, Change::Acked { ack, .. } if ack.outcome.is_err());
    let counted = changes.filter(is_bad).count();
    assert_log_can_be_read(&mut cluster);
    let parted = |cluster: &Cluster| {
        let [one, other] = flows.map(|flow| cluster.network.uplink(&flow));
        one != other
    };
    cluster.run_until("parted", parted);
    laws.look_at(&cluster);
    counted
}

#[test]
fn core_survives_hostile_answers() {
    let counted: usize = (0..SEED_COUNT).map(survives_answers).sum();
    assert!(counted > 0, "no hostile answer came in time to count");
}

/// Hosts in a ring of circuits, two of which are about to move.
fn circuits_about_to_move() -> (Cluster, OpticalId) {
    let mut cluster = fibre_macs::cluster();
    let nodes: Vec<_> = cluster
        .network
        .fabric
        .nodes()
        .map(|(node, _)| node)
        .collect();
    let switches = nodes.into_iter().map(|node| (node, Switch::default()));
    cluster.network.switches.extend(switches);
    let optical = cluster.network.fabric.find_optical("ocs0").unwrap();
    cluster.handle(Input::DriverUp { optical });
    let circuits = cluster.network.fabric.first_circuits().clone();
    let desired = CircuitSet::from_text("1-5,2-3,4-8,6-7").unwrap();
    let wanted = Circuits::from([(optical, desired.clone())]);
    let state = cluster.core.state();
    let (generation, parent) = (state.next_generation(), state.in_force().generation);
    let plan = Plan {
        circuits: wanted.clone(),
        ..Plan::empty(generation, parent)
    };
    cluster.propose(plan, Author::Policy);
    let moved = Move {
        expected: circuits[&optical].clone(),
        desired,
    };
    let wave = Wave {
        circuits: wanted,
        ..Wave::default()
    };
    cluster.append(Change::PlanApproved {
        generation,
        by: Author::Policy,
        anyway: false,
    });
    cluster.append(Change::Departed(Departure {
        generation,
        migration_plan: MigrationPlan { waves: vec![wave] },
        circuits,
        before: Vec::new(),
    }));
    let quiet = Vec::new();
    cluster.append(Change::DrainProof { generation, quiet });
    let next = cluster.core.state().next_generation();
    cluster.append(Change::CircuitIntent {
        plan: generation,
        generation: next,
        moves: BTreeMap::from([(optical, moved)]),
    });
    assert!(is_moving(&cluster));
    (cluster, optical)
}

/// The driver has done what it was asked.
fn answer_well(cluster: &mut Cluster, optical: OpticalId) {
    let moving = migrations(cluster).find_map(Migration::moving).cloned();
    let Some(moving) = moving else {
        return;
    };
    let readback = Readback {
        generation: moving.generation,
        token: moving.token,
        outcome: Ok(moving.targets[&optical].moved.desired.clone()),
    };
    cluster.handle(Input::Readback { optical, readback });
}

fn survives_readbacks(seed: u64) {
    let (mut numbers, mut laws) = (SplitMix64::new(seed), AnswerLaws::among(&HOSTILE_RELAYS));
    let (mut cluster, optical) = circuits_about_to_move();
    invite(&mut cluster);
    for _ in 0..ROUND_COUNT {
        for name in HOSTILE_RELAYS {
            let node = cluster.network.node(name);
            let sample = hostile_counters(&cluster, &mut numbers);
            cluster.handle(Input::Sample { node, sample });
        }
        answer_badly(&mut cluster, &HOSTILE_RELAYS, &mut numbers);
        cluster.run_for(ROUND_INTERVAL);
        for optical in [optical, OpticalId::from_index(7)] {
            let readback = hostile_readback(&cluster, optical, &mut numbers);
            cluster.handle(Input::Readback { optical, readback });
        }
        laws.knock(&mut cluster, &mut numbers);
        laws.look_at(&cluster);
    }
    assert_log_can_be_read(&mut cluster);
    // The first answer may lead to another instruction at once.
    for _ in 0..2 {
        answer_well(&mut cluster, optical);
    }
    assert!(!is_moving(&cluster), "an honest driver is heard");
    laws.look_at(&cluster);
}

#[test]
fn core_survives_hostile_readbacks() {
    (0..SEED_COUNT).for_each(survives_readbacks);
}
