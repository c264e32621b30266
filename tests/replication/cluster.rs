//! A cluster of coordinators in a world of its own: the real replicas, with simulated disks and
//! lines, by one clock and one seed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reweave_common::moment::Moment;
use reweave_common::plan::{Plan, Report};
use reweave_common::units::Rate;
use reweave_core::{Author, Change as Decision, Command};
use reweave_replica::{
    Applied, Batch, Change, Effect, FolderId, Founding, Kind, Member, MemberId, Members, Message,
    NotLeading, ReadId, RequestId, Saved, Standing, Timing,
};
use reweave_tests::world::chance::Chance;
use reweave_tests::world::schedule::Schedule;

use crate::client::{Asked, Client, History};
use crate::laws::Laws;
use crate::machine::{Answer, Machine, Op, Payload};
use crate::node::{Asker, Node, Running, direction};

pub(crate) const TICK: Duration = Duration::from_millis(10);
/// A client asks again after so long, and somebody else.
const ANSWER_WITHIN: [Duration; 2] = [Duration::from_millis(150), Duration::from_millis(400)];
const ON_THE_WAY: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(2)];
/// From one node that does not lead to the next.
const LOOKS_AROUND: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(30)];
const MOST_GIVEN_UP: u64 = 4;
const THINKS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(30)];
const DECIDES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(120)];
const SNAPSHOT_TAKES: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(20)];

/// How lines between coordinators are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weather {
    pub(crate) lost: f64,
    pub(crate) repeated: f64,
    /// Some messages take so much longer.
    pub(crate) late: f64,
    pub(crate) late_by: Duration,
}

impl Weather {
    pub(crate) const CALM: Self = Self {
        lost: 0.0,
        repeated: 0.0,
        late: 0.0,
        late_by: Duration::ZERO,
    };
}

#[derive(Debug)]
enum Event {
    Tick {
        node: u64,
        life: u64,
    },
    Message(Box<Message>),
    Synced {
        node: u64,
        life: u64,
    },
    Snapshot {
        node: u64,
        life: u64,
        index: u64,
        state: Vec<u8>,
    },
    Start {
        node: u64,
    },
    Think {
        client: usize,
    },
    Request {
        node: u64,
        asker: Asker,
        asked: Asked,
    },
    Answer {
        asker: Asker,
        request: RequestId,
        answer: Answer,
    },
    /// The node does not lead; perhaps another does.
    Elsewhere {
        asker: Asker,
        leader: Option<u64>,
    },
    Ask {
        asker: Asker,
    },
    TimedOut {
        asker: Asker,
    },
    Decide,
}

pub(crate) struct Cluster {
    schedule: Schedule<Event>,
    pub(crate) chance: Chance,
    pub(crate) nodes: BTreeMap<u64, Node>,
    /// Nothing goes from the first to the second.
    pub(crate) cut: BTreeSet<(u64, u64)>,
    pub(crate) weather: Weather,
    pub(crate) clients: Vec<Client>,
    /// Nobody begins anything new.
    pub(crate) is_closing: bool,
    /// Leaders decide things by themselves.
    pub(crate) is_deciding: bool,
    /// Whoever has voted loses power at once, and comes back.
    pub(crate) voters_die: bool,
    pub(crate) history: History,
    pub(crate) laws: Laws,
    pub(crate) timing: Timing,
    pub(crate) events: u64,
    believed: Vec<u64>,
}

pub(crate) fn member(id: u64) -> Member {
    Member {
        name: format!("c{id}"),
        address: ([10, 0, 0, id as u8], 7332).into(),
        replaces: None,
        folder: Some(FolderId(id)),
    }
}

/// What one of the first begins with.
fn founder(id: u64, nodes: u64) -> Saved {
    let founding = Founding {
        members: (1..=nodes).map(|id| (MemberId(id), member(id))).collect(),
        state: Vec::new(),
    };
    Saved::founding(MemberId(id), Vec::new(), founding)
}

impl Cluster {
    pub(crate) fn new(seed: u64, nodes: u64, clients: usize) -> Self {
        let timing = Timing {
            heartbeat_ticks: 2,
            election_ticks: 10,
            entries_per_snapshot: 30,
            kept_entries: 6,
            promotion_lag: 8,
            snapshot_ticks: 30,
            seed,
            ..Timing::default()
        };
        let mut cluster = Self {
            schedule: Schedule::starting_at(Moment::from_micros(1_000_000_000_000_000)),
            chance: Chance::of(seed),
            nodes: BTreeMap::new(),
            cut: BTreeSet::new(),
            weather: Weather::CALM,
            clients: (0..clients).map(Client::new).collect(),
            is_closing: false,
            is_deciding: true,
            voters_die: false,
            history: History::default(),
            laws: Laws::default(),
            timing,
            events: 0,
            believed: vec![1; clients],
        };
        cluster.found(nodes);
        for client in 0..clients {
            cluster.after(THINKS, Event::Think { client });
        }
        cluster.after(DECIDES, Event::Decide);
        cluster
    }

    fn found(&mut self, nodes: u64) {
        for id in 1..=nodes {
            self.enter(&founder(id, nodes));
        }
    }

    /// On an empty disk, somebody comes back under the number of one that has lost everything, as if
    /// it had just been founded. The others know that its folder is another one.
    pub(crate) fn haunt(&mut self, id: u64, founders: u64) {
        self.enter(&founder(id, founders));
        if let Some(node) = self.nodes.get_mut(&id) {
            node.folder = FolderId(1000 + id);
        }
    }

    pub(crate) fn enter(&mut self, saved: &Saved) {
        let node = saved.member.0;
        self.nodes.insert(node, Node::of(saved));
        self.start(node);
    }

    pub(crate) fn now(&self) -> Moment {
        self.schedule.now()
    }

    fn after(&mut self, between: [Duration; 2], event: Event) {
        let delay = self.chance.time(between[0], between[1]);
        self.schedule.after(delay, event);
    }

    pub(crate) fn run_for(&mut self, duration: Duration) {
        let end = self.now() + duration;
        while self.now() < end {
            self.step();
        }
    }

    /// Whether it came to that in time.
    pub(crate) fn run_until(&mut self, most: Duration, done: impl Fn(&Self) -> bool) -> bool {
        let end = self.now() + most;
        while self.now() < end {
            if done(self) {
                return true;
            }
            self.step();
        }
        done(self)
    }

    pub(crate) fn step(&mut self) {
        let event = self.schedule.go_on().expect("somebody always ticks");
        self.events += 1;
        if let Some(until) = self.stands_still(&event) {
            return self.schedule.at(until, event);
        }
        self.live(event);
    }

    /// Until when whoever should take this event takes nothing.
    fn stands_still(&self, event: &Event) -> Option<Moment> {
        let node = match event {
            Event::Tick { node, .. }
            | Event::Synced { node, .. }
            | Event::Snapshot { node, .. }
            | Event::Request { node, .. } => *node,
            Event::Message(message) => direction(message).1,
            _ => return None,
        };
        let until = self.nodes.get(&node)?.stands_still_until;
        (until > self.now()).then_some(until)
    }

    fn live(&mut self, event: Event) {
        match event {
            Event::Tick { node, life } => self.tick(node, life),
            Event::Message(message) => self.deliver(*message),
            Event::Synced { node, life } => self.synced(node, life),
            Event::Snapshot {
                node,
                life,
                index,
                state,
            } => {
                self.in_life(node, life, |running| {
                    running.replica.handle_snapshot(index, state);
                });
            }
            Event::Start { node } => self.start(node),
            Event::Think { client } => self.think(client),
            Event::Request { node, asker, asked } => self.request(node, asker, asked),
            Event::Answer {
                asker,
                request,
                answer,
            } => self.answer(asker, request, answer),
            Event::Elsewhere { asker, leader } => self.elsewhere(asker, leader),
            Event::Ask { asker } => self.ask_again(asker),
            Event::TimedOut { asker } => self.timed_out(asker),
            Event::Decide => self.decide(),
        }
    }

    /// Lets it be done to a node that has not died meanwhile, and carries out what follows.
    fn in_life(&mut self, node: u64, life: u64, what: impl FnOnce(&mut Running)) {
        let found = self.nodes.get_mut(&node).filter(|node| node.life == life);
        if let Some(running) = found.and_then(|node| node.running.as_mut()) {
            what(running);
            self.carry_out(node);
        }
    }

    fn tick(&mut self, node: u64, life: u64) {
        if self.nodes[&node].life == life && self.nodes[&node].running.is_some() {
            self.schedule.after(TICK, Event::Tick { node, life });
        }
        self.in_life(node, life, |running| running.replica.handle_tick());
    }

    fn synced(&mut self, node: u64, life: u64) {
        let found = self.nodes.get_mut(&node).filter(|node| node.life == life);
        if let Some(node) = found.filter(|node| node.running.is_some()) {
            node.disk.sync();
        }
        self.in_life(node, life, |running| running.replica.handle_durable());
    }

    fn deliver(&mut self, message: Message) {
        let (from, to) = direction(&message);
        let Some(node) = self
            .nodes
            .get(&to)
            .filter(|_| !self.cut.contains(&(from, to)))
        else {
            return;
        };
        let (life, is_known) = (node.life, node.folder == FolderId(to));
        if !self.is_heard(&message, node.running.as_ref()) {
            return;
        }
        let mut lost = None;
        self.in_life(to, life, |running| {
            lost = running.replica.handle_message(message).err();
        });
        if let Some(lost) = lost {
            assert!(!is_known, "no disk ever lost what was synced: {lost}");
            self.lose(to);
        }
    }

    /// What is said by somebody else under a number that is known is not heard.
    fn is_heard(&self, message: &Message, by: Option<&Running>) -> bool {
        let from = direction(message).0;
        let folder = self.nodes[&from].folder;
        let hears = |by: &Running| {
            let members = by.replica.members();
            members.hears(message.from, &format!("c{from}"), folder)
        };
        by.is_some_and(hears)
    }

    pub(crate) fn start(&mut self, node: u64) {
        let timing = self.timing.clone();
        let Some(found) = self.nodes.get_mut(&node).filter(|node| !node.is_lost) else {
            return;
        };
        if found.running.is_some() {
            return;
        }
        found.start(&timing);
        let life = found.life;
        self.laws.started(node);
        self.after([Duration::ZERO, TICK], Event::Tick { node, life });
        self.carry_out(node);
    }

    /// It loses power now, and comes back after a while.
    pub(crate) fn kill(&mut self, node: u64, away: Duration) {
        let Some(found) = self.nodes.get_mut(&node) else {
            return;
        };
        found.running = None;
        found.dies_at = None;
        found.disk.lose_power(&mut self.chance);
        self.schedule.after(away, Event::Start { node });
    }

    /// It never comes back, nor does its disk.
    pub(crate) fn lose(&mut self, node: u64) {
        self.kill(node, Duration::ZERO);
        if let Some(found) = self.nodes.get_mut(&node) {
            found.is_lost = true;
        }
    }

    fn carry_out(&mut self, id: u64) {
        while let Some(effect) = self.poll(id) {
            self.carry_out_one(id, effect);
        }
        if let Some(running) = self.nodes.get(&id).and_then(|node| node.running.as_ref()) {
            self.laws.look(id, &running.replica);
        }
    }

    fn poll(&mut self, id: u64) -> Option<Effect> {
        self.nodes
            .get_mut(&id)?
            .running
            .as_mut()?
            .replica
            .poll_effect()
    }

    fn carry_out_one(&mut self, id: u64, effect: Effect) {
        match effect {
            Effect::Send(message) => {
                self.post(&message);
                let votes = message.kind == Kind::RequestVoteResponse && !message.reject;
                if votes && self.voters_die {
                    self.kill(id, Duration::from_millis(1));
                }
            }
            Effect::Persist(batch) => self.write(id, &batch),
            Effect::Apply(applied) => self.apply(id, &applied),
            Effect::Repeated(request) => self.answer_waiting(id, request),
            Effect::Restore { index, state } => self.restore(id, index, &state),
            Effect::TakeSnapshot { index } => self.take_snapshot(id, index),
            Effect::ReadReady(read) => self.read_ready(id, read),
            Effect::ReadLost(read) => self.read_lost(id, read),
            Effect::Stands(standing) => self.stands(id, standing),
            Effect::Membership(members) => {
                // Whoever was taken out ends.
                if !members.of.is_empty() && !members.of.contains_key(&MemberId(id)) {
                    self.lose(id);
                }
            }
            Effect::Unreadable { index } => panic!("{id} cannot read entry {index}"),
        }
    }

    fn post(&mut self, message: &Message) {
        if self.cut.contains(&direction(message)) || self.chance.happens(self.weather.lost) {
            return;
        }
        let copies = 1 + usize::from(self.chance.happens(self.weather.repeated));
        for _ in 0..copies {
            let late = self.chance.happens(self.weather.late);
            let most = if late {
                self.weather.late_by
            } else {
                ON_THE_WAY[1]
            };
            let message = Box::new(message.clone());
            self.after(
                [ON_THE_WAY[0], most.max(ON_THE_WAY[0])],
                Event::Message(message),
            );
        }
    }

    fn write(&mut self, id: u64, batch: &Batch) {
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        node.disk.write(batch);
        let (life, takes) = (node.life, node.sync_takes);
        if node.dies_at == Some(node.disk.writes) {
            return self.kill(id, Duration::from_millis(50));
        }
        self.after(takes, Event::Synced { node: id, life });
    }

    fn running(&mut self, id: u64) -> &mut Running {
        let node = self.nodes.get_mut(&id).expect("it said something");
        node.running.as_mut().expect("it said something")
    }

    fn apply(&mut self, id: u64, applied: &Applied) {
        let running = self.running(id);
        running.machine.apply(applied);
        if let Some(running) = self.nodes[&id].running.as_ref() {
            self.laws.applied(id, applied.index, &running.machine);
        }
        self.answer_waiting(id, applied.request);
    }

    fn answer_waiting(&mut self, id: u64, request: RequestId) {
        let running = self.running(id);
        let answer = running.machine.answer(request);
        let waiting = running.waiting.remove(&request);
        if let (Some(asker), Some(answer)) = (waiting, answer) {
            if let Some(term) = self.nodes[&id].leads() {
                self.laws.acknowledged(term, request);
            }
            self.send_answer(asker, request, answer);
        }
    }

    fn send_answer(&mut self, asker: Asker, request: RequestId, answer: Answer) {
        let answer = Event::Answer {
            asker,
            request,
            answer,
        };
        self.after(ON_THE_WAY, answer);
    }

    fn restore(&mut self, id: u64, index: u64, state: &[u8]) {
        self.running(id).machine = Machine::decode(state);
        if let Some(running) = self.nodes[&id].running.as_ref() {
            self.laws.restored(id, index, &running.machine);
        }
    }

    /// It takes a while to write one, and more is applied meanwhile.
    fn take_snapshot(&mut self, id: u64, index: u64) {
        let state = self.running(id).machine.encode();
        let life = self.nodes[&id].life;
        self.after(
            SNAPSHOT_TAKES,
            Event::Snapshot {
                node: id,
                life,
                index,
                state,
            },
        );
    }

    fn read_ready(&mut self, id: u64, read: ReadId) {
        let running = self.running(id);
        if let Some((asker, key)) = running.reads.remove(&read) {
            let answer = Answer::Value(running.machine.get(key));
            // Reads are told apart by their attempts.
            let request = RequestId {
                client: 0,
                number: asker.attempt,
            };
            self.send_answer(asker, request, answer);
        }
    }

    fn read_lost(&mut self, id: u64, read: ReadId) {
        if let Some((asker, _)) = self.running(id).reads.remove(&read) {
            self.after(
                ON_THE_WAY,
                Event::Elsewhere {
                    asker,
                    leader: None,
                },
            );
        }
    }

    fn stands(&mut self, id: u64, standing: Standing) {
        let running = self.running(id);
        running.proposed = 0;
        running.said = running.machine.latest();
        let waiting = std::mem::take(&mut running.waiting);
        for asker in waiting.into_values() {
            self.after(
                ON_THE_WAY,
                Event::Elsewhere {
                    asker,
                    leader: None,
                },
            );
        }
        if let (Standing::Leads { term }, Some(running)) = (standing, &self.nodes[&id].running) {
            self.laws.leads(id, term, &running.machine);
        }
    }

    fn think(&mut self, client: usize) {
        if self.is_closing {
            return;
        }
        self.clients[client].think(&mut self.chance, &mut self.history);
        self.ask(client);
    }

    fn ask(&mut self, client: usize) {
        let Some(asked) = self.clients[client].asked else {
            return self.after(THINKS, Event::Think { client });
        };
        let attempt = self.clients[client].attempt();
        let asker = Asker { client, attempt };
        let node = self.believed[client];
        self.after(ON_THE_WAY, Event::Request { node, asker, asked });
        self.after(ANSWER_WITHIN, Event::TimedOut { asker });
    }

    fn request(&mut self, node: u64, asker: Asker, asked: Asked) {
        let Some(running) = self
            .nodes
            .get_mut(&node)
            .and_then(|node| node.running.as_mut())
        else {
            return;
        };
        let taken = take(running, asker, asked);
        if taken.is_err() {
            let leader = match running.replica.standing() {
                Standing::Follows { leader } => leader.map(|leader| leader.0),
                Standing::Leads { .. } => None,
            };
            self.after(ON_THE_WAY, Event::Elsewhere { asker, leader });
        }
        self.carry_out(node);
    }

    fn answer(&mut self, asker: Asker, request: RequestId, answer: Answer) {
        let client = &mut self.clients[asker.client];
        let Some(asked) = client.asked else { return };
        let is_read = request.client == 0;
        let fits = if is_read {
            client.attempt == asker.attempt
        } else {
            asked.request == request
        };
        if !fits || !client.hear(asked.request, answer, &mut self.history) {
            return;
        }
        self.after(
            THINKS,
            Event::Think {
                client: asker.client,
            },
        );
    }

    fn elsewhere(&mut self, asker: Asker, leader: Option<u64>) {
        let client = &self.clients[asker.client];
        if client.attempt != asker.attempt || client.asked.is_none() {
            return;
        }
        self.believed[asker.client] = leader.unwrap_or_else(|| self.anybody());
        self.after(LOOKS_AROUND, Event::Ask { asker });
    }

    fn ask_again(&mut self, asker: Asker) {
        let client = &self.clients[asker.client];
        if client.attempt == asker.attempt && client.asked.is_some() {
            self.ask(asker.client);
        }
    }

    fn timed_out(&mut self, asker: Asker) {
        let client = &self.clients[asker.client];
        if client.attempt != asker.attempt || client.asked.is_none() {
            return;
        }
        self.believed[asker.client] = self.anybody();
        self.try_again(asker.client);
    }

    /// A few requests are never heard of again: each makes the history harder to judge.
    fn try_again(&mut self, client: usize) {
        let given_up: u64 = self.clients.iter().map(|client| client.gave_up).sum();
        if given_up < MOST_GIVEN_UP {
            self.clients[client].may_give_up(&mut self.chance);
        }
        self.ask(client);
    }

    pub(crate) fn anybody(&mut self) -> u64 {
        let all: Vec<_> = self.nodes.keys().copied().collect();
        *self.chance.one_of(&all)
    }

    /// Whoever leads, or thinks so, decides something.
    fn decide(&mut self) {
        self.after(DECIDES, Event::Decide);
        if self.is_closing || !self.is_deciding {
            return;
        }
        let leaders = self
            .nodes
            .iter()
            .filter_map(|(&id, node)| Some((id, node.leads()?)));
        for (id, term) in leaders.collect::<Vec<_>>() {
            self.decide_at(id, term);
        }
    }

    fn decide_at(&mut self, id: u64, term: u64) {
        let today = self.nodes[&id].time_of_day(self.now());
        let running = self.running(id);
        running.said = running.said.max(today);
        running.proposed += 1;
        let request = RequestId {
            client: id,
            number: (term << 32) + running.proposed,
        };
        let command = Command {
            at: running.said,
            change: decision(&running.machine),
        };
        let payload = Payload::Decided(Box::new(command));
        let payload = postcard::to_stdvec(&payload).expect("it can be written");
        // A node that stands still has led, and will find out.
        let _ = running.replica.propose(request, payload);
        self.carry_out(id);
    }

    /// Asks whoever leads to change who takes part.
    pub(crate) fn change(&mut self, change: &Change) -> bool {
        let leaders: Vec<_> = self
            .nodes
            .iter()
            .filter(|(_, node)| node.leads().is_some())
            .map(|(&id, _)| id)
            .collect();
        leaders.into_iter().any(|id| {
            let done = self.running(id).replica.change(change).is_ok();
            self.carry_out(id);
            done
        })
    }

    pub(crate) fn answered(&self) -> u64 {
        self.clients.iter().map(|client| client.answered).sum()
    }

    /// Whoever leads, as far as it knows.
    pub(crate) fn leader(&self) -> Option<u64> {
        let mut nodes = self.nodes.iter();
        nodes
            .find(|(_, node)| node.leads().is_some())
            .map(|(&id, _)| id)
    }

    /// Who takes part, as whoever leads knows it.
    pub(crate) fn members(&self) -> Option<Members> {
        let leaders = self
            .nodes
            .values()
            .filter_map(|node| Some((node.leads()?, node)));
        let (_, node) = leaders.max_by_key(|(term, _)| *term)?;
        Some(node.running.as_ref()?.replica.members().clone())
    }

    /// How each of them is, for whoever wants to know what went wrong.
    pub(crate) fn standing(&self) -> String {
        let each = self.nodes.iter().map(|(id, node)| match &node.running {
            Some(running) => format!("{id}: {:?}", running.replica),
            None => format!("{id} does not run"),
        });
        each.collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn standing_still(&mut self, node: u64, duration: Duration) {
        let until = self.now() + duration;
        if let Some(node) = self.nodes.get_mut(&node) {
            node.stands_still_until = until;
        }
    }
}

/// A read waits for its turn, and everything else for its place in the log.
fn take(running: &mut Running, asker: Asker, asked: Asked) -> Result<(), NotLeading> {
    let Asked {
        request, key, op, ..
    } = asked;
    if op == Op::Read {
        running.last_read += 1;
        let read = ReadId(running.last_read);
        running.replica.read(read)?;
        running.reads.insert(read, (asker, key));
    } else {
        let payload = Payload::Register { key, op };
        let payload = postcard::to_stdvec(&payload).expect("it can be written");
        running.replica.propose(request, payload)?;
        running.waiting.insert(request, asker);
    }
    Ok(())
}

/// A plan on offer, or the end of the one there is.
fn decision(machine: &Machine) -> Decision {
    if let Some(rollout) = machine.state.rollout() {
        let generation = rollout.plan.generation;
        return Decision::PlanWithdrawn {
            generation,
            reasons: vec![],
        };
    }
    let plan = Plan {
        generation: machine.state.next_generation(),
        parent: machine.state.in_force().generation,
        pins: vec![],
        moves: vec![],
        predictions: vec![],
        report: Report {
            findings: vec![],
            slowest_before: Rate::from_bits_per_s(1),
            slowest_after: Rate::from_bits_per_s(2),
            alternatives: vec![],
        },
    };
    Decision::PlanProposed {
        plan: Box::new(plan),
        by: Author::Policy,
    }
}
