//! A cluster of coordinators in a world of its own: the real replicas, with simulated disks and
//! lines, by one clock and one seed.

mod asking;
mod effects;
mod leading;
mod pleading;
mod posting;
mod seating;
mod versions;
mod vouching;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::operator::Mode;
use reweave_core::{Input, LATEST_MINOR, Policy, State};
use reweave_replica::{
    Change, FolderId, Founding, LogError, Member, MemberId, Members, Message, RequestId, Saved,
    Timing,
};

use crate::chance::Chance;
use crate::coordinator::Output;
use crate::replicas::agreed::Agreed;
use crate::replicas::client::{Client, History, PendingCall};
use crate::replicas::disk::SimulatedDisk;
use crate::replicas::fabric::policy;
use crate::replicas::laws::Laws;
use crate::replicas::lines::{Lane, Line, Lines};
use crate::replicas::machine::{Answer, Machine};
use crate::replicas::node::{Asker, Node, Plea, Running, direction, encode, wants_room};
use crate::replicas::people::{Gossip, Person, Word};
use crate::schedule::Schedule;
use crate::wire::SessionId;
use asking::CLIENT_THINK_TIMES;
use pleading::OPERATOR_THINK_TIMES;

pub const TICK_INTERVAL: Duration = Duration::from_millis(10);
/// They ask, approve, invite, revoke and knock.
const OPERATOR_COUNT: usize = 3;
const NETWORK_DELAYS: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(2)];
/// A coordinator that loses power at an operation on its disk, or finds no room there, starts again after this.
const RESTART_DELAY: Duration = Duration::from_millis(50);

/// A member that was not heard for this long may come back as another build.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(1);

/// Properties of the connections between coordinators.
#[derive(Debug, Clone, Copy)]
pub struct Weather {
    pub lost: f64,
    pub repeated: f64,
    /// Some messages take so much longer.
    pub late: f64,
    pub late_by: Duration,
}

impl Weather {
    pub const FAULT_FREE: Self = Self {
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
    /// Parts of a large message.
    Parts(Lane),
    /// The connection is lost, and its sender notices.
    HungUp {
        line: Line,
        connection: u64,
    },
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
        asked: PendingCall,
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
    /// A client thinks of something to want.
    Muse {
        person: usize,
    },
    Plea {
        node: u64,
        plea: Box<Plea>,
    },
    Replied {
        person: usize,
        attempt: u64,
        word: Word,
    },
    /// It got no instruction.
    Waited {
        person: usize,
        attempt: u64,
    },
    Seat {
        to: u64,
        node: NodeId,
        session: SessionId,
    },
    Unseat {
        to: u64,
        node: NodeId,
        session: SessionId,
    },
    /// From an agent with this session, or from none.
    Input {
        to: u64,
        session: Option<SessionId>,
        input: Box<Input>,
    },
}

pub struct Cluster {
    schedule: Schedule<Event>,
    pub chance: Chance,
    pub nodes: BTreeMap<u64, Node>,
    /// Nothing is delivered from the first to the second.
    pub cut: BTreeSet<(u64, u64)>,
    pub weather: Weather,
    pub lines: Lines,
    pub clients: Vec<Client>,
    /// No client begins anything new.
    pub is_closing: bool,
    /// People want something.
    pub is_deciding: bool,
    /// Cluster version at the start.
    founded: u16,
    /// Whether a restarting coordinator has been upgraded.
    upgrades: Option<Chance>,
    /// When a coordinator is downgraded, once the cluster version is lowered.
    goes_back: Option<Chance>,
    /// Number of coordinators that were downgraded.
    pub went_back: u64,
    /// Whether a member that has voted loses power at once, and restarts.
    pub voters_die: bool,
    pub history: History,
    pub laws: Laws,
    pub agreed: Agreed,
    pub policy: Policy,
    pub timing: Timing,
    pub events: u64,
    /// Number of leader changes during a rollout.
    pub inherited: u64,
    believed: Vec<u64>,
    people: Vec<Person>,
    gossip: Gossip,
    /// Coordinator of each session.
    places: BTreeMap<SessionId, u64>,
    /// Outputs for agents, which are simulated elsewhere.
    outputs: Vec<Output>,
}

pub fn member(id: u64) -> Member {
    Member {
        name: format!("c{id}"),
        address: ([10, 0, 0, id as u8], 7332).into(),
        replaces: None,
        folder: Some(FolderId(id)),
    }
}

/// Returns the initial disk content of a founding member.
fn founder(id: u64, nodes: u64, version: u16) -> Saved {
    let founding = Founding {
        members: (1..=nodes).map(|id| (MemberId(id), member(id))).collect(),
        state: encode(&Machine::default(), &State::founded(version)),
    };
    Saved::founding(MemberId(id), Vec::new(), founding)
}

impl Cluster {
    pub fn new(seed: u64, nodes: u64, clients: usize) -> Self {
        let mut cluster = Self::empty(seed, clients);
        cluster.found(nodes);
        cluster.begin();
        cluster
    }

    /// Creates a cluster of the previous release whose coordinators restart with this release at some time.
    pub fn upgraded(seed: u64, nodes: u64, clients: usize) -> Self {
        let mut cluster = Self::empty(seed, clients);
        cluster.founded = LATEST_MINOR - 1;
        cluster.agreed = Agreed::founded(cluster.founded);
        cluster.upgrades = Some(Chance::of(seed ^ 0x0917_ade5));
        (cluster.gossip.steers, cluster.gossip.sets) = (true, true);
        cluster.found(nodes);
        cluster.begin();
        cluster
    }

    fn empty(seed: u64, clients: usize) -> Self {
        let timing = Timing {
            heartbeat_ticks: 2,
            election_ticks: 10,
            entries_per_snapshot: 30,
            kept_entries: 6,
            promotion_lag: 8,
            snapshot_ticks: 30,
            compaction_retry_ticks: 100,
            seed,
            ..Timing::default()
        };
        Self {
            schedule: Schedule::starting_at(Moment::from_micros(1_000_000_000_000_000)),
            chance: Chance::of(seed),
            nodes: BTreeMap::new(),
            cut: BTreeSet::new(),
            weather: Weather::FAULT_FREE,
            lines: Lines::new(&mut Chance::of(seed ^ 0x0001_e77e)),
            clients: (0..clients).map(Client::new).collect(),
            is_closing: false,
            is_deciding: true,
            founded: LATEST_MINOR,
            upgrades: None,
            goes_back: None,
            went_back: 0,
            voters_die: false,
            history: History::default(),
            laws: Laws::default(),
            agreed: Agreed::founded(LATEST_MINOR),
            policy: policy(Mode::Auto),
            timing,
            events: 0,
            inherited: 0,
            believed: vec![1; clients],
            people: vec![Person::default(); OPERATOR_COUNT],
            gossip: Gossip::default(),
            places: BTreeMap::new(),
            outputs: Vec::new(),
        }
    }

    fn begin(&mut self) {
        for client in 0..self.clients.len() {
            self.after(CLIENT_THINK_TIMES, Event::Think { client });
        }
        for person in 0..OPERATOR_COUNT {
            self.after(OPERATOR_THINK_TIMES, Event::Muse { person });
        }
    }

    fn found(&mut self, nodes: u64) {
        for id in 1..=nodes {
            self.enter_as(&founder(id, nodes, self.founded), self.founded);
        }
    }

    /// Restarts a lost member with an empty disk under its old number, as if it had just been founded. The others know
    /// that its folder is a different one.
    pub fn haunt(&mut self, id: u64, founders: u64) {
        self.enter(&founder(id, founders, self.founded));
        if let Some(node) = self.nodes.get_mut(&id) {
            node.folder = FolderId(1000 + id);
        }
    }

    pub fn enter(&mut self, saved: &Saved) {
        self.enter_as(saved, LATEST_MINOR);
    }

    fn enter_as(&mut self, saved: &Saved, reads: u16) {
        let node = saved.member.0;
        let disk = SimulatedDisk::new(self.chance.branch());
        let mut entering = Node::of(saved, disk);
        entering.reads = reads;
        self.nodes.insert(node, entering);
        self.start(node);
    }

    pub fn now(&self) -> Moment {
        self.schedule.now()
    }

    fn after(&mut self, between: [Duration; 2], event: Event) {
        let delay = self.chance.time(between[0], between[1]);
        self.schedule.after(delay, event);
    }

    pub fn run_for(&mut self, duration: Duration) {
        let end = self.now() + duration;
        while self.now() < end {
            self.step();
        }
    }

    /// Whether it came to that in time.
    pub fn run_until(&mut self, most: Duration, done: impl Fn(&Self) -> bool) -> bool {
        let end = self.now() + most;
        while self.now() < end {
            if done(self) {
                return true;
            }
            self.step();
        }
        done(self)
    }

    pub fn step(&mut self) {
        let event = self.schedule.go_on().expect("a replica always ticks");
        self.events += 1;
        if let Some(until) = self.stands_still(&event) {
            return self.schedule.at(until, event);
        }
        self.live(event);
    }

    /// Until when the receiver of this event takes nothing.
    fn stands_still(&self, event: &Event) -> Option<Moment> {
        let node = match event {
            Event::Tick { node, .. }
            | Event::Synced { node, .. }
            | Event::Snapshot { node, .. }
            | Event::Request { node, .. }
            | Event::Plea { node, .. } => *node,
            Event::Seat { to, .. } | Event::Unseat { to, .. } | Event::Input { to, .. } => *to,
            Event::Message(message) => direction(message).1,
            Event::Parts(lane) => lane.line.1,
            Event::HungUp { line, .. } => line.0,
            _ => return None,
        };
        let until = self.nodes.get(&node)?.stands_still_until;
        (until > self.now()).then_some(until)
    }

    fn live(&mut self, event: Event) {
        match event {
            Event::Tick { node, life } => self.tick(node, life),
            Event::Message(message) => self.deliver(*message),
            Event::Parts(lane) => self.parts_come(lane),
            Event::HungUp { line, connection } => self.hang_up(line, connection),
            Event::Synced { node, life } => self.synced(node, life),
            Event::Snapshot {
                node,
                life,
                index,
                state,
            } => {
                self.in_life(node, life, |running| {
                    let made = running.replica_mut().handle_snapshot(index, state);
                    made.expect("no state here is that long");
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
            Event::Muse { person } => self.muse(person),
            Event::Plea { node, plea } => self.plead(node, *plea),
            Event::Replied {
                person,
                attempt,
                word,
            } => self.handle_answer(person, attempt, &word),
            Event::Waited { person, attempt } => self.waited(person, attempt),
            Event::Seat { to, node, session } => self.take_seat(to, node, session),
            Event::Unseat { to, node, session } => self.leave_seat(to, node, session),
            Event::Input { to, session, input } => self.hear(to, session, *input),
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
            self.schedule
                .after(TICK_INTERVAL, Event::Tick { node, life });
        }
        let found = self.nodes.get_mut(&node).filter(|node| node.life == life);
        let Some(running) = found.and_then(|node| node.running.as_mut()) else {
            return;
        };
        if let Err(error) = running.tick() {
            return self.end(node, &error);
        }
        self.carry_out(node);
        self.report_room(node);
        self.send_min_version(node);
        self.hear_members(node);
    }

    /// Reports disk space as the event loop of the product does.
    fn report_room(&mut self, id: u64) {
        let now = self.now();
        let Some(running) = self.alive(id) else {
            return;
        };
        let may_decide = running.durable.may_decide();
        if may_decide != running.may_decide {
            running.may_decide = may_decide;
            let at = running.clock(now);
            let input = running.office.handle_disk(!may_decide);
            running.office.handle(at, input);
            self.drive(id);
            self.carry_out(id);
        }
    }

    fn send_min_version(&mut self, id: u64) {
        let (now, reads) = (self.now(), self.nodes[&id].reads);
        let Some(running) = self.alive(id) else {
            return;
        };
        let heard =
            |(minor, at): &(u16, Moment)| (now.since(*at) <= SILENCE_TIMEOUT).then_some(*minor);
        let read = |MemberId(peer)| {
            if peer == id {
                Some(reads)
            } else {
                running.read_by.get(&peer).and_then(heard)
            }
        };
        let members = running.durable.replica().members();
        let find = || members.min_version(read);
        if let Some(input) = running.office.handle_min_version(find) {
            let at = running.clock(now);
            running.office.handle(at, input);
            self.drive(id);
            self.carry_out(id);
        }
    }

    fn synced(&mut self, node: u64, life: u64) {
        let found = self.nodes.get_mut(&node).filter(|node| node.life == life);
        match found.map(Node::sync) {
            Some(Err(error)) => self.end(node, &error),
            _ => self.carry_out(node),
        }
    }

    /// The product exits if its log cannot be written, and is restarted.
    fn end(&mut self, id: u64, error: &LogError) {
        let is_dead = self.nodes[&id].disk.is_dead();
        assert!(is_dead || wants_room(error), "{id} ends: {error}");
        self.kill(id, RESTART_DELAY);
    }

    /// Whether it has lost power at what it has just done to its disk. It starts again later.
    fn has_lost_power(&mut self, id: u64) -> bool {
        let node = self.nodes.get(&id);
        let is_dead = node.is_some_and(|node| node.running.is_some() && node.disk.is_dead());
        if is_dead {
            // Others may have been sent what it holds.
            self.look_at(id);
            self.kill(id, RESTART_DELAY);
        }
        is_dead
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
        let said = (self.nodes[&from].reads, self.now());
        let is_full = self.nodes[&from].is_full();
        let mut lost = None;
        self.in_life(to, life, |running| {
            running.read_by.insert(from, said);
            running.hear_room(from, is_full);
            lost = running.durable.handle_message(message).err();
        });
        if let Some(lost) = lost {
            assert!(!is_known, "no disk ever lost what was synced: {lost}");
            self.lose(to);
        }
    }

    /// Whether a message is accepted: not from another member under a known number, nor from an unknown number that the
    /// replica does not expect. New members know no members at first, and accept all.
    fn is_heard(&self, message: &Message, by: Option<&Running>) -> bool {
        let from = direction(message).0;
        let (folder, name) = (self.nodes[&from].folder, format!("c{from}"));
        let hears = |by: &Running| {
            let (replica, members) = (by.replica(), by.replica().members());
            members.of.is_empty()
                || members.hears(message.from, &name, folder)
                || replica.expects(message.from, &name, folder)
        };
        by.is_some_and(hears)
    }

    pub fn start(&mut self, node: u64) {
        let (timing, policy) = (self.timing.clone(), self.policy.clone());
        let Some(found) = self.nodes.get_mut(&node).filter(|node| !node.is_lost) else {
            return;
        };
        if found.running.is_some() {
            return;
        }
        if found.life > 0 && self.upgrades.as_mut().is_some_and(|it| it.happens(0.5)) {
            found.reads = LATEST_MINOR;
        }
        if let Err(error) = found.start(&timing, &policy) {
            return self.could_not_start(node, &error);
        }
        if found.running.is_none() {
            return;
        }
        let life = found.life;
        self.laws.started(node);
        self.after([Duration::ZERO, TICK_INTERVAL], Event::Tick { node, life });
        self.carry_out(node);
    }

    /// Without power or room it starts later. A disk that does not hold what was written is refused for good, and the file
    /// is named.
    fn could_not_start(&mut self, id: u64, error: &LogError) {
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        if node.disk.is_dead() || wants_room(error) {
            return self.kill(id, RESTART_DELAY);
        }
        let why = error.to_string();
        assert!(
            !node.disk.is_intact(),
            "{id} refuses what was written: {why}"
        );
        assert!(error.is_bad_input(), "{id}: {why}");
        assert!(
            why.starts_with("log ") || why.starts_with("reached "),
            "{why}"
        );
        (node.is_refused, node.is_lost) = (true, true);
    }

    /// Cuts the power of a node, which restarts after a while.
    pub fn kill(&mut self, node: u64, away: Duration) {
        let Some(found) = self.nodes.get_mut(&node) else {
            return;
        };
        let seats = found.lose_power();
        self.lines.lose_all_of(node);
        self.schedule.after(away, Event::Start { node });
        self.end_sessions(seats);
    }

    /// The rest of them, at once.
    pub fn upgrade_all(&mut self) {
        if self.upgrades.is_none() {
            return;
        }
        let earlier = self.nodes.iter();
        let earlier = earlier.filter(|(_, node)| node.reads < LATEST_MINOR);
        let earlier: Vec<_> = earlier.map(|(&id, _)| id).collect();
        for id in earlier {
            self.kill(id, Duration::ZERO);
            if let Some(node) = self.nodes.get_mut(&id) {
                node.reads = LATEST_MINOR;
            }
        }
    }

    /// Whether the leader may decide all kinds there are.
    pub fn is_upgraded(&self) -> bool {
        let mut running = self.nodes.values().filter_map(|node| node.running.as_ref());
        running.any(|it| it.office.leads() && it.office.state().cluster_version() == LATEST_MINOR)
    }

    /// Removes a node with its disk for good.
    pub fn lose(&mut self, node: u64) {
        self.kill(node, Duration::ZERO);
        if let Some(found) = self.nodes.get_mut(&node) {
            found.is_lost = true;
        }
    }

    /// Neither hears nor is heard by the other coordinators; clients get through.
    pub fn isolate(&mut self, node: u64) {
        let others = self.nodes.keys();
        let lines = others.flat_map(|&other| [(node, other), (other, node)]);
        self.cut.extend(lines);
    }

    /// Frees space on all disks.
    pub fn make_room(&mut self) {
        for node in self.nodes.values() {
            node.disk.make_room();
        }
    }

    pub fn anybody(&mut self) -> u64 {
        let all: Vec<_> = self.nodes.keys().copied().collect();
        *self.chance.one_of(&all)
    }

    /// Asks the leader to change the members.
    pub fn change(&mut self, change: &Change) -> bool {
        let leaders: Vec<_> = self
            .nodes
            .iter()
            .filter(|(_, node)| node.leads().is_some())
            .map(|(&id, _)| id)
            .collect();
        leaders.into_iter().any(|id| {
            let running = self.running(id);
            let done = running.durable.may_decide() && running.replica_mut().change(change).is_ok();
            self.carry_out(id);
            done
        })
    }

    pub fn answered(&self) -> u64 {
        self.clients.iter().map(|client| client.answered).sum()
    }

    /// The leader, as far as it knows.
    pub fn leader(&self) -> Option<u64> {
        let mut nodes = self.nodes.iter();
        nodes
            .find(|(_, node)| node.leads().is_some())
            .map(|(&id, _)| id)
    }

    /// Returns the members, as the leader knows them.
    pub fn members(&self) -> Option<Members> {
        let leaders = self
            .nodes
            .values()
            .filter_map(|node| Some((node.leads()?, node)));
        let (_, node) = leaders.max_by_key(|(term, _)| *term)?;
        Some(node.running.as_ref()?.replica().members().clone())
    }

    /// The state of each, to find out what went wrong.
    pub fn standing(&self) -> String {
        let each = self.nodes.iter().map(|(id, node)| match &node.running {
            Some(running) => format!("{id}: {:?}", running.replica()),
            None => format!("{id} does not run"),
        });
        each.collect::<Vec<_>>().join("\n")
    }

    pub fn standing_still(&mut self, node: u64, duration: Duration) {
        let until = self.now() + duration;
        if let Some(node) = self.nodes.get_mut(&node) {
            node.stands_still_until = until;
        }
    }
}
