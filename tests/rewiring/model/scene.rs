//! The cluster between two acts: what is on its way, what is late, and what may still go wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use reweave_common::circuit::CircuitSet;
use reweave_common::fabric::{Circuits, Fabric};
use reweave_common::ids::{NodeId, OpticalId};
use reweave_common::instruction::Instruction;
use reweave_common::moment::Moment;
use reweave_common::operator::{Request, Response};
use reweave_core::{Outcome, State};
use reweave_sim_cluster::actor::{Order, Report};
use reweave_sim_cluster::circuits::cluster::{Cluster, Did};
use reweave_sim_cluster::circuits::world::named;
use reweave_sim_cluster::coordinator::{Death, Guest, Output};
use reweave_sim_cluster::leaders::Leaders;
use reweave_sim_cluster::wire::SessionId;
use serde::Serialize;

/// Time passes by so much; twice that and ports have been seen idle for long enough.
const TIME_STEP: Duration = Duration::from_millis(500);
const WARM_UP_STEPS: usize = 8;
/// A leader that has waited for this long is not looked at any longer.
const MAX_WAIT_STEPS: usize = 64;

/// A cluster, and the circuits that it is given.
#[derive(Debug)]
pub(super) struct Rewired {
    pub(super) fabric: &'static str,
    pub(super) circuits: &'static str,
}

/// What may go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Budget {
    pub(super) crashes: u8,
    /// Messages that are lost, late or doubled, and nodes that roll back what is not confirmed.
    pub(super) mishaps: u8,
}

#[derive(Debug, Clone)]
pub(super) struct Scene {
    cluster: Cluster,
    now: Moment,
    sessions: BTreeMap<Guest, SessionId>,
    sessions_so_far: u64,
    /// On its way now.
    mail: Vec<Letter>,
    /// It may come yet, or never.
    late: Vec<Letter>,
    left: Budget,
    /// For how long nothing has been decided.
    waited: usize,
    entries: usize,
    is_lawful: bool,
    print: u64,
}

#[derive(Debug, Clone, Serialize)]
enum Letter {
    Instructed(Order),
    Says(Report),
}

/// One thing that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// Nothing is on its way, and time passes.
    Wait(Option<Crash>),
    Deliver(usize, Option<Crash>),
    /// What is late comes after all.
    DeliverLate(usize),
    /// It is not delivered now, and maybe never.
    Delay(usize),
    /// It is delivered, and may come again.
    Double(usize),
    /// This node has waited long enough for being confirmed.
    Expire(NodeId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crash {
    /// Of the coordinator, over what it writes down next.
    Coordinator { is_durable: bool },
    /// Of a receiver of instructions, before this step.
    Instructed { step: usize },
}

impl Scene {
    /// Just before the first step of a plan that is approved.
    pub(super) fn departing(rewired: &Rewired, left: Budget) -> Self {
        let fabric = Fabric::parse("its fabric", rewired.fabric).expect("it is a fabric");
        let mut scene = Self {
            cluster: Cluster::new(fabric),
            now: Moment::from_micros(1_000_000),
            sessions: BTreeMap::new(),
            sessions_so_far: 0,
            mail: Vec::new(),
            late: Vec::new(),
            left,
            waited: 0,
            entries: 0,
            is_lawful: true,
            print: 0,
        };
        for guest in scene.cluster.guests() {
            scene.start(guest);
        }
        (0..WARM_UP_STEPS).for_each(|_| scene.wait());
        scene.rewire(rewired.circuits);
        scene.look();
        scene
    }

    fn rewire(&mut self, circuits: &str) {
        let set = CircuitSet::from_text(circuits).expect("they are circuits");
        let optical = OpticalId::from_index(0);
        let circuits = Circuits::from([(optical, set)]);
        let circuits = named(&self.cluster.cabling.fabric, &circuits);
        let offered = self.ask(Request::Rewire { circuits });
        let Some(Response::Plan {
            plan: Some(plan), ..
        }) = offered
        else {
            panic!("there is such a plan, and not {offered:?}");
        };
        let generation = plan.generation;
        self.ask(Request::Apply { generation });
    }

    fn ask(&mut self, request: Request) -> Option<Response> {
        let (answer, outputs) = self.cluster.coordinator.ask(self.now, request);
        self.post(outputs);
        answer
    }

    pub(super) fn print(&self) -> u64 {
        self.print
    }

    /// Whether nothing more may go wrong.
    pub(super) fn is_spent(&self) -> bool {
        (self.left.crashes, self.left.mishaps) == (0, 0)
    }

    pub(super) fn is_lawful(&self) -> bool {
        self.is_lawful
    }

    /// Whether the plan has ended and all know.
    pub(super) fn is_over(&self) -> bool {
        self.is_at_rest() && self.mail.is_empty()
    }

    pub(super) fn is_kept(&self) -> bool {
        self.is_over() && self.outcome() == Some(&Outcome::Committed)
    }

    /// Whether a node took back what was not confirmed in time.
    pub(super) fn went_back(&self) -> bool {
        self.cluster.nodes.values().any(|node| node.went_back > 0)
    }

    fn state(&self) -> &State {
        self.cluster.state().expect("it restarts at once")
    }

    fn is_at_rest(&self) -> bool {
        self.state().rollouts().next().is_none()
    }

    fn outcome(&self) -> Option<&Outcome> {
        Some(&self.state().history().next_back()?.outcome)
    }

    /// All that may happen next.
    pub(super) fn acts(&self) -> Vec<Act> {
        let mut acts: Vec<_> = (0..self.late.len()).map(Act::DeliverLate).collect();
        if !self.is_over() && self.mail.is_empty() {
            acts.push(Act::Wait(None));
            acts.extend(self.coordinator_crashes().map(|it| Act::Wait(Some(it))));
        }
        for index in self.deliverable() {
            acts.push(Act::Deliver(index, None));
            let crashes = match self.mail[index] {
                Letter::Instructed(_) => self.crashes_over(index),
                _ => self.coordinator_crashes().collect(),
            };
            acts.extend(crashes.into_iter().map(|it| Act::Deliver(index, Some(it))));
            if self.left.mishaps > 0 {
                acts.extend([Act::Delay(index), Act::Double(index)]);
            }
        }
        if self.left.mishaps > 0 {
            let nodes = self.cluster.nodes.iter();
            let unconfirmed = nodes.filter(|(_, node)| node.disk.fallback.is_some());
            acts.extend(unconfirmed.map(|(&id, _)| Act::Expire(id)));
        }
        acts
    }

    /// Instructions are followed in any order; answers are heard at once, unless they are late.
    fn deliverable(&self) -> std::ops::Range<usize> {
        let is_answer = |letter: &Letter| !matches!(letter, Letter::Instructed(_));
        match self.mail.iter().position(is_answer) {
            Some(first) => first..first + 1,
            None => 0..self.mail.len(),
        }
    }

    fn coordinator_crashes(&self) -> impl Iterator<Item = Crash> + use<> {
        let may = self.left.crashes > 0;
        let both = [true, false].map(|is_durable| Crash::Coordinator { is_durable });
        both.into_iter().filter(move |_| may)
    }

    /// Before what a receiver notes down, and after, and when half of it is done.
    fn crashes_over(&self, index: usize) -> Vec<Crash> {
        if self.left.crashes == 0 {
            return Vec::new();
        }
        let mut undisturbed = self.clone();
        let Letter::Instructed(order) = undisturbed.mail.remove(index) else {
            return Vec::new();
        };
        let guest = order.guest();
        let before = undisturbed.cluster.life(guest).steps;
        undisturbed.tell(order);
        let last = (undisturbed.cluster.life(guest).steps - before).saturating_sub(1);
        let points = BTreeSet::from([0, 1, last / 2, last.saturating_sub(2), last]);
        points
            .into_iter()
            .map(|step| Crash::Instructed { step })
            .collect()
    }

    /// None where this cannot happen.
    pub(super) fn after(&self, act: &Act) -> Option<Self> {
        let mut scene = self.clone();
        match *act {
            Act::Wait(crash) => return scene.crashing(crash, Self::wait),
            Act::Deliver(index, crash) => {
                let letter = scene.mail.remove(index);
                return scene.crashing(crash, |scene| scene.deliver(letter));
            }
            Act::DeliverLate(index) => {
                let letter = scene.late.remove(index);
                scene.deliver(letter);
            }
            Act::Delay(index) => {
                scene.left.mishaps -= 1;
                let letter = scene.mail.remove(index);
                scene.late.push(letter);
            }
            Act::Double(index) => {
                scene.left.mishaps -= 1;
                let letter = scene.mail.remove(index);
                scene.late.push(letter.clone());
                scene.deliver(letter);
            }
            Act::Expire(node) => {
                scene.left.mishaps -= 1;
                scene.cluster.node(node).expire();
                scene.work(Guest::Agent(node));
            }
        }
        scene.look();
        Some(scene)
    }

    fn crashing(mut self, crash: Option<Crash>, act: impl FnOnce(&mut Self)) -> Option<Self> {
        let died = self.cluster.coordinator.died;
        match crash {
            Some(Crash::Coordinator { is_durable }) => {
                let entry = self.cluster.coordinator.log().len();
                let death = Death { entry, is_durable };
                self.cluster.coordinator.will_die(death);
                self.left.crashes -= 1;
            }
            Some(Crash::Instructed { step }) => {
                for guest in self.cluster.guests() {
                    self.cluster.life(guest).left = Some(step);
                }
                self.left.crashes -= 1;
            }
            None => {}
        }
        act(&mut self);
        let has_died = self.cluster.coordinator.died > died;
        if matches!(crash, Some(Crash::Coordinator { .. })) && !has_died {
            return None;
        }
        for guest in self.cluster.guests() {
            self.cluster.life(guest).left = None;
        }
        self.look();
        Some(self)
    }

    /// What happens next if nothing goes wrong.
    pub(super) fn go_on(&mut self) {
        if self.mail.is_empty() {
            self.wait();
        } else {
            let letter = self.mail.remove(0);
            self.deliver(letter);
        }
        self.look();
    }

    fn wait(&mut self) {
        self.now = self.now + TIME_STEP;
        self.waited = (self.waited + 1).min(MAX_WAIT_STEPS);
        let nodes: Vec<_> = self.cluster.nodes.keys().copied().collect();
        for node in nodes {
            let guest = Guest::Agent(node);
            let sample = self.cluster.sample(self.now, node);
            self.work(guest);
            if let Some(&session) = self.sessions.get(&guest) {
                let coordinator = &mut self.cluster.coordinator;
                let report = Report::Sample(node, sample);
                let outputs = coordinator.report(self.now, session, report);
                self.post(outputs);
            }
        }
        let outputs = self.cluster.coordinator.tick(self.now);
        self.post(outputs);
    }

    fn deliver(&mut self, letter: Letter) {
        let report = match letter {
            Letter::Instructed(order) => return self.tell(order),
            Letter::Says(report) => report,
        };
        let session = self.sessions.get(&report.guest()).copied();
        let coordinator = &mut self.cluster.coordinator;
        let outputs = session.map(|session| coordinator.report(self.now, session, report));
        self.post(outputs.unwrap_or_default());
    }

    fn tell(&mut self, order: Order) {
        let guest = order.guest();
        self.cluster.tell(order);
        self.work(guest);
    }

    /// Until there is nothing to do; a program that dies over it restarts at once.
    fn work(&mut self, guest: Guest) {
        loop {
            match self.cluster.work(self.now, guest) {
                Did::Rested => return,
                Did::Worked => {}
                Did::Says(report) => self.mail.push(Letter::Says(report)),
                Did::Died => return self.start(guest),
            }
        }
    }

    fn start(&mut self, guest: Guest) {
        self.cluster.start(guest);
        self.work(guest);
        self.sessions_so_far += 1;
        let session = SessionId(self.sessions_so_far);
        self.sessions.insert(guest, session);
        let outputs = self.cluster.coordinator.seat(self.now, guest, session);
        self.post(outputs);
    }

    fn post(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Send {
                    node,
                    instruction: it @ (Instruction::Install(_) | Instruction::Unconfirmed(_)),
                    ..
                } => self
                    .mail
                    .push(Letter::Instructed(Order::Instruct(node, it))),
                Output::Switch {
                    optical,
                    switchover,
                    ..
                } => {
                    let order = Order::Switch(optical, switchover);
                    self.mail.push(Letter::Instructed(order));
                }
                Output::Died => self.succeed(),
                Output::Send { .. } | Output::Reply { .. } | Output::Ended { .. } => {}
            }
        }
    }

    /// Another leads from what the log says. Instructions of the former one may come yet; answers to it are lost with
    /// it.
    fn succeed(&mut self) {
        self.cluster.coordinator.start();
        let letters = std::mem::take(&mut self.mail);
        let orders = letters
            .into_iter()
            .filter(|it| matches!(it, Letter::Instructed(_)));
        self.late.extend(orders);
        for (guest, session) in self.sessions.clone() {
            let outputs = self.cluster.coordinator.seat(self.now, guest, session);
            self.post(outputs);
        }
        self.waited = 0;
    }

    /// The laws, and what tells this scene from others.
    fn look(&mut self) {
        self.cluster.look_at_log(self.now);
        if self.is_over() {
            self.cluster.look_at_rest(self.now);
        }
        let breaches = std::mem::take(&mut self.cluster.laws.breaches);
        if !breaches.is_empty() {
            eprintln!("{breaches:?}");
        }
        self.is_lawful &= breaches.is_empty();
        let entries = self.cluster.coordinator.log().len();
        if std::mem::replace(&mut self.entries, entries) != entries {
            self.waited = 0;
        }
        self.print = self.fingerprint();
    }

    /// All that what comes next depends on, but for when it was.
    fn fingerprint(&self) -> u64 {
        let state = self.state();
        let nodes = self.cluster.nodes.values();
        let nodes = nodes.map(|it| (&it.disk, it.kernel.rules(), it.has_spoken));
        let drivers = self.cluster.drivers.values();
        let drivers = drivers.map(|it| (&it.disk, &it.device));
        // In whichever order they became late, each may come next.
        let mut late: Vec<_> = self.late.iter().map(wire_form).collect();
        late.sort();
        let what = (
            state.rollouts().next().map(|rollout| &rollout.phase),
            (&state.in_force().installs, state.next_generation()),
            (&self.mail, late),
            (self.left, self.waited),
            (nodes.collect::<Vec<_>>(), drivers.collect::<Vec<_>>()),
        );
        let mut hasher = DefaultHasher::new();
        wire_form(&what).hash(&mut hasher);
        hasher.finish()
    }
}

fn wire_form(what: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(what).expect("it has a wire form")
}

impl PartialEq for Scene {
    fn eq(&self, other: &Self) -> bool {
        self.print == other.print
    }
}

impl Hash for Scene {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.print.hash(state);
    }
}
