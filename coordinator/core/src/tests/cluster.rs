//! A core with its log, a network and a clock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use reweave_common::flow::FlowKey;
use reweave_common::ids::NodeId;
use reweave_common::instruction::{Ack, Instruction};
use reweave_common::member::{Member, Role};
use reweave_common::moment::Moment;
use reweave_common::operator::{Mode, Request, Response};
use reweave_common::plan::{Generation, Plan};

use super::network::{Network, host_address};
use crate::{
    Author, Change, Command, Core, Effect, Input, LATEST_MINOR, Outcome, Policy, Recorded,
    Recording, State,
};

/// The step of the clock.
const STEP_INTERVAL: Duration = Duration::from_millis(20);
/// Agents report, and the core gets a tick, once in this many steps.
const STEPS_PER_TICK: u64 = 5;

/// Acks in flight, with their senders.
type Acks = Vec<(NodeId, Ack)>;

pub(crate) struct Cluster {
    pub(crate) network: Network,
    pub(crate) core: Core,
    pub(crate) log: Vec<Command>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) recording: Recording,
    pub(crate) connected: BTreeSet<NodeId>,
    /// The minor version that all coordinators read at the start.
    pub(crate) founded: u16,
    policy: Policy,
    now: Moment,
    steps: u64,
    /// Instructions and acks take one step to arrive.
    to_agents: Vec<(NodeId, Instruction)>,
    to_core: Acks,
    /// The coordinator dies when its log has this many entries, and restarts.
    pub(crate) dies_at: Vec<usize>,
    pub(crate) restarts: usize,
    /// What happens to acks in flight.
    pub(crate) on_the_way: fn(Acks) -> Acks,
}

impl Cluster {
    /// A cluster with two spines and three hosts at each leaf.
    pub(crate) fn new(mode: Mode) -> Self {
        Self::on(Network::new(2, 3), mode)
    }

    pub(crate) fn on(network: Network, mode: Mode) -> Self {
        let policy = Policy {
            mode,
            ..Policy::default()
        };
        Self::with(network, policy)
    }

    pub(crate) fn with(network: Network, policy: Policy) -> Self {
        let core = Core::new(policy.clone(), Arc::clone(&network.fabric));
        let mut cluster = Self {
            core,
            network,
            log: Vec::new(),
            effects: Vec::new(),
            recording: Recording {
                policy: policy.clone(),
                ..Recording::default()
            },
            connected: BTreeSet::new(),
            founded: LATEST_MINOR,
            policy,
            now: Moment::from_micros(1_000_000),
            steps: 0,
            to_agents: Vec::new(),
            to_core: Vec::new(),
            dies_at: Vec::new(),
            restarts: 0,
            on_the_way: |acks| acks,
        };
        cluster.connect_all();
        cluster
    }

    fn connect_all(&mut self) {
        let nodes: Vec<_> = self.network.fabric.nodes().map(|(node, _)| node).collect();
        nodes.into_iter().for_each(|node| self.connect(node));
    }

    pub(crate) fn connect(&mut self, node: NodeId) {
        self.connected.insert(node);
        self.handle(Input::AgentUp { node });
    }

    /// The agent disconnects; its rules stay installed.
    pub(crate) fn disconnect(&mut self, node: NodeId) {
        self.connected.remove(&node);
        self.to_agents.retain(|(to, _)| *to != node);
        self.handle(Input::AgentDown { node });
    }

    pub(crate) fn handle(&mut self, input: Input) {
        self.recording.inputs.push(Recorded {
            at: self.now,
            input: input.clone(),
        });
        self.core.handle(self.now, input);
        while let Some(effect) = self.core.poll_effect() {
            self.effects.push(effect.clone());
            let lives = self.carry_out(effect);
            if !lives {
                self.restart();
                return self.reconnect();
            }
        }
    }

    /// Executes an effect. Returns whether the coordinator survives it.
    fn carry_out(&mut self, effect: Effect) -> bool {
        match effect {
            // There are no drivers here.
            Effect::Switch { .. } => {}
            Effect::Append(command) => {
                self.log.push(command.clone());
                self.core.apply(command);
                return !self.dies_at.contains(&self.log.len());
            }
            Effect::Send { node, instruction } => self.to_agents.push((node, instruction)),
            Effect::Reply { .. } | Effect::Answer { .. } => {}
        }
        true
    }

    /// Restarts the coordinator from its log.
    pub(crate) fn restart(&mut self) {
        self.restarts += 1;
        let (policy, fabric) = (self.policy.clone(), Arc::clone(&self.network.fabric));
        self.core = Core::resume(policy, fabric, State::founded(self.founded));
        self.log
            .iter()
            .cloned()
            .for_each(|command| self.core.apply(command));
    }

    pub(crate) fn reconnect(&mut self) {
        let back = self.connected.clone();
        back.into_iter().for_each(|node| self.connect(node));
    }

    pub(crate) fn now(&self) -> Moment {
        self.now
    }

    /// Appends an entry that the coordinator itself would not write.
    pub(crate) fn append(&mut self, change: Change) {
        let at = self.now;
        self.log.push(Command { at, change });
        self.core.apply(self.log.last().unwrap().clone());
    }

    pub(crate) fn propose(&mut self, plan: Plan, by: Author) {
        let claims = Box::new(self.core.claims(&plan));
        let plan = Box::new(plan);
        self.append(Change::PlanProposed { plan, claims, by });
    }

    /// Sends a request without waiting for the reply.
    pub(crate) fn tell(&mut self, request: Request) {
        self.tell_as("ada", request);
    }

    fn tell_as(&mut self, operator: &str, request: Request) {
        let id = self.effects.len() as u64;
        self.handle(Input::Operator {
            id,
            principal: Member::new(Role::Operator, operator),
            request,
        });
    }

    pub(crate) fn ask(&mut self, request: Request) -> Response {
        self.ask_as("ada", request)
    }

    pub(crate) fn ask_as(&mut self, operator: &str, request: Request) -> Response {
        let id = self.effects.len() as u64;
        self.tell_as(operator, request);
        while self.core.is_judging() {
            self.handle(Input::Tick);
        }
        let mut replies = self.effects.iter().rev().filter_map(|effect| match effect {
            Effect::Reply { id: to, response } if *to == id => Some(response.clone()),
            _ => None,
        });
        replies.next().expect("each request is answered at once")
    }

    /// Requests a plan, and returns its number.
    pub(crate) fn plan(&mut self) -> Generation {
        match self.ask(Request::Plan) {
            Response::Plan {
                plan: Some(plan), ..
            } => plan.generation,
            other => panic!("no plan: {other:?}"),
        }
    }

    pub(crate) fn apply(&mut self, generation: Generation) {
        let answer = self.ask(Request::Apply { generation });
        assert_eq!(answer, Response::ApplyStarted { generation });
    }

    pub(crate) fn step(&mut self) {
        self.now = self.now + STEP_INTERVAL;
        self.steps += 1;
        self.deliver();
        if self.steps.is_multiple_of(STEPS_PER_TICK) {
            self.report();
            self.tick();
        }
    }

    fn tick(&mut self) {
        self.handle(Input::Tick);
        while self.core.is_amid_tick() {
            self.handle(Input::Tick);
        }
    }

    fn deliver(&mut self) {
        let acks = (self.on_the_way)(std::mem::take(&mut self.to_core));
        for (node, instruction) in std::mem::take(&mut self.to_agents) {
            match instruction {
                Instruction::Watch(watch) => self.network.watch(node, watch),
                Instruction::Probe(list) => self.network.probe(node, list),
                Instruction::Closely(_) => {}
                Instruction::Install(_) | Instruction::Unconfirmed(_) => {
                    let switch = self.network.switches.get_mut(&node).unwrap();
                    let ack = switch.follow(&instruction);
                    self.to_core.extend(ack.map(|ack| (node, ack)));
                }
            }
        }
        acks.into_iter()
            .for_each(|(node, ack)| self.handle(Input::Ack { node, ack }));
    }

    pub(crate) fn report(&mut self) {
        for node in self.connected.clone() {
            let sample = self.network.sample(node, self.now);
            self.handle(Input::Sample { node, sample });
        }
    }

    pub(crate) fn run_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.now < end {
            self.step();
        }
    }

    /// Stalls the whole machine: time passes, and no program runs.
    pub(crate) fn stall(&mut self, duration: Duration) {
        self.now = self.now + duration;
    }

    /// Runs until this is so, and returns the time that it took.
    pub(crate) fn run_until(&mut self, what: &str, is_so: impl FnMut(&Self) -> bool) -> Duration {
        self.run_until_within(Duration::from_mins(2), what, is_so)
    }

    fn run_until_within(
        &mut self,
        longest: Duration,
        what: &str,
        mut is_so: impl FnMut(&Self) -> bool,
    ) -> Duration {
        let begin = self.now;
        while !is_so(self) {
            let waited = self.now.since(begin);
            assert!(
                waited < longest,
                "not {what} in {longest:?}: {:?}",
                self.core.state()
            );
            self.step();
        }
        self.now.since(begin)
    }

    pub(crate) fn run_until_ended(&mut self, plans: u64) -> Duration {
        self.run_until("ended", |cluster| cluster.core.state().ended() == plans)
    }

    pub(crate) fn run_until_ended_within(&mut self, plans: u64, longest: Duration) -> Duration {
        let ended = |cluster: &Self| cluster.core.state().ended() == plans;
        self.run_until_within(longest, "ended", ended)
    }

    pub(crate) fn last_outcome(&self) -> &Outcome {
        &self
            .core
            .state()
            .history()
            .next_back()
            .expect("a plan has ended")
            .outcome
    }

    /// The flow that this host sends.
    pub(crate) fn flow(&self, from: &str) -> FlowKey {
        let node = self.network.node(from);
        let mut flows = self.network.flows.keys();
        let found = flows.find(|flow| *flow.source.ip() == host_address(node));
        *found.expect("it sends something")
    }

    /// The spine without flows.
    pub(crate) fn idle_spine(&self) -> usize {
        let used: Vec<_> = self
            .network
            .flows
            .keys()
            .map(|flow| self.network.uplink(flow))
            .collect();
        let is_idle = |spine: &usize| !used.contains(&format!("leaf0-spine{spine}"));
        (0..3).find(is_idle).expect("more spines than flows")
    }

    pub(crate) fn installs_sent(&self) -> usize {
        self.installs().count()
    }

    pub(crate) fn installs_sent_to(&self, node: NodeId) -> usize {
        self.installs().filter(|to| *to == node).count()
    }

    /// The nodes of all instructions.
    fn installs(&self) -> impl Iterator<Item = NodeId> {
        self.effects.iter().filter_map(|effect| match effect {
            Effect::Send { node, instruction } => instruction.install().map(|_| *node),
            _ => None,
        })
    }

    /// Checks that every switch holds exactly the rules in force.
    pub(crate) fn assert_one_generation(&self) {
        let in_force = self.core.state().in_force();
        for (node, switch) in &self.network.switches {
            let mut held: Vec<_> = switch.rules.iter().map(|rule| rule.flow).collect();
            let pins = in_force.pins.iter().filter(|pin| pin.at == *node);
            let mut pinned: Vec<_> = pins.map(|pin| pin.flow).collect();
            held.sort_unstable();
            pinned.sort_unstable();
            let name = self.network.fabric.name(*node);
            assert_eq!(held, pinned, "{name} holds what is not in force");
        }
        for pin in &in_force.pins {
            let flow = self.network.flows.get(&pin.flow);
            let path = flow.map(|flow| self.network.path(&pin.flow, flow));
            let heeded = path.is_none_or(|path| path.iter().any(|hop| hop.link == pin.link));
            assert!(
                heeded,
                "{} does not go by {}",
                pin.flow,
                self.network.fabric.link_name(pin.link)
            );
        }
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.core.state().fmt(f)
    }
}
