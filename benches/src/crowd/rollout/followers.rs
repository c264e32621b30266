//! Agents that follow instructions. Each has the session, fencing and store of the product, with a kernel that only
//! remembers its instructions.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use reweave_agent::fast_sampling::FastSamplingTimer;
use reweave_agent::session::{AgentEvent, AgentUplink};
use reweave_agent::state::Store;
use reweave_agent_core::fence::{Fence, FenceEffect};
use reweave_common::forwarding_state::ForwardingState;
use reweave_common::ids::NodeId;
use reweave_common::instruction::{Ack, Instruction};
use reweave_common::moment::Moment;
use reweave_common::plan::Generation;
use reweave_common::sample::{Reading, Sample};
use reweave_common::time_span::TimeSpan;
use reweave_link::uplink::Certificate;
use reweave_link::{Dialer, Role};
use reweave_proto::message::AgentMessage;
use tokio::sync::Notify;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep, timeout};

use super::APPLY_TIME;
use crate::members::Members;
use crate::times::now;

/// Interval of reports unless an instruction changes it.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);
const HOLD_TIMEOUT: Duration = Duration::from_secs(15);

/// What a node reports about itself.
pub(crate) trait World: Send + Sync + 'static {
    fn readings(&self, node: NodeId, held: &ForwardingState) -> Vec<Reading>;
}

/// A kernel holds the state of its instruction, and its agent is about to report it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) node: NodeId,
    pub(crate) generation: Generation,
    pub(crate) at: Duration,
}

pub(crate) struct Followers {
    held: UnboundedReceiver<Held>,
    looks: BTreeMap<NodeId, Arc<Notify>>,
    /// The agents end when this is dropped.
    _agents: JoinSet<()>,
}

impl Followers {
    /// Must be called inside a runtime.
    pub(crate) fn of(
        members: &Members,
        nodes: &[(NodeId, String)],
        world: &Arc<impl World>,
    ) -> Self {
        let (tell, held) = mpsc::unbounded_channel();
        let (mut agents, mut looks) = (JoinSet::new(), BTreeMap::new());
        for (place, (node, name)) in nodes.iter().enumerate() {
            let look = Arc::<Notify>::default();
            looks.insert(*node, Arc::clone(&look));
            let follower = Follower::new(members, *node, name, world, tell.clone());
            let share = place as f64 / nodes.len() as f64;
            let begin = Instant::now() + TimeSpan::new(REPORT_INTERVAL).scaled(share).get();
            let (dialer, certificate) = line(members, place, name);
            agents.spawn(follower.live(dialer, certificate, begin, look));
        }
        Self {
            held,
            looks,
            _agents: agents,
        }
    }

    /// Reads the state of a node at once, and reports it.
    pub(crate) fn look(&self, node: NodeId) {
        self.looks[&node].notify_one();
    }

    /// Returns notifiers, for a reader that sees changes first.
    pub(crate) fn looks(&self) -> BTreeMap<NodeId, Arc<Notify>> {
        self.looks.clone()
    }

    /// Forgets earlier states.
    pub(crate) fn forget(&mut self) {
        while self.held.try_recv().is_ok() {}
    }

    /// Returns none if no node gets further instructions.
    pub(crate) async fn next(&mut self) -> Option<Held> {
        let held = timeout(HOLD_TIMEOUT, self.held.recv()).await;
        held.ok().flatten()
    }

    /// Returns when the last of `count` nodes holds this generation or a later one.
    pub(crate) async fn all_hold(&mut self, from: Generation, count: usize) -> Option<Duration> {
        let mut hold = BTreeMap::new();
        while hold.len() < count {
            let held = self.next().await?;
            if held.generation >= from {
                hold.insert(held.node, held.at);
            }
        }
        hold.into_values().max()
    }
}

/// Returns a session from an address of its own for each node, because sessions per address are limited.
fn line(members: &Members, place: usize, name: &str) -> (Dialer, Certificate) {
    let certificate = Certificate::load(&members.agent_of(name), Role::Agent);
    let certificate = certificate.expect("it was issued");
    let addresses = members.addresses.clone();
    let dialer = Dialer::new(certificate.identity(), addresses, Role::Coordinator);
    let dialer = dialer.expect("there is an address");
    let first = Ipv4Addr::new(127, 1, 0, 1).to_bits();
    let home: IpAddr = Ipv4Addr::from_bits(first + place as u32).into();
    (dialer.sending_from(home), certificate)
}

struct Follower<W> {
    node: NodeId,
    world: Arc<W>,
    fence: Fence,
    store: Store,
    kernel: ForwardingState,
    tell: UnboundedSender<Held>,
}

impl<W: World> Follower<W> {
    fn new(
        members: &Members,
        node: NodeId,
        name: &str,
        world: &Arc<W>,
        tell: UnboundedSender<Held>,
    ) -> Self {
        let store = Store::open(&members.agent_of(name).join("state")).expect("there is room");
        Self {
            node,
            world: Arc::clone(world),
            fence: Fence::new(store.load().expect("it is new")),
            store,
            kernel: ForwardingState::default(),
            tell,
        }
    }

    async fn live(
        mut self,
        dialer: Dialer,
        certificate: Certificate,
        begin: Instant,
        look: Arc<Notify>,
    ) {
        let mut uplink = AgentUplink::start(dialer, certificate);
        let (mut ticks, mut looks) = (ticks(begin), FastSamplingTimer::default());
        loop {
            tokio::select! {
                () = looks.due() => {
                    uplink.send_measured(self.sample());
                    looks.handle_taken(Instant::now());
                }
                _ = ticks.tick() => uplink.send_measured(self.sample()),
                () = look.notified() => uplink.send_measured(self.sample()),
                event = uplink.next() => match event {
                    Some(AgentEvent::Connected) => ticks.reset_immediately(),
                    Some(AgentEvent::Instructed(
                        report @ (Instruction::Install(_) | Instruction::Unconfirmed(_)),
                    )) => {
                        for ack in self.follow(report).await {
                            uplink.answer(AgentMessage::Ack(ack));
                        }
                    }
                    Some(AgentEvent::Instructed(Instruction::Closely(it))) => {
                        looks.handle_asked(Instant::now(), it);
                    }
                    Some(_) => {}
                    None => return,
                },
            }
        }
    }

    fn sample(&self) -> Sample {
        let in_force = self.fence.in_force();
        let mut readings = self.world.readings(self.node, &self.kernel);
        if in_force.generation != Generation::default() {
            readings.push(Reading::Holds {
                generation: in_force.generation,
                holding: self.kernel.clone(),
            });
        }
        let at_us = u64::try_from(now().as_micros()).unwrap_or(u64::MAX);
        let taken = Moment::from_micros(at_us);
        Sample { taken, readings }
    }

    /// Follows an instruction step by step, as the agent does.
    async fn follow(&mut self, instruction: Instruction) -> Vec<Ack> {
        let mut acks = vec![];
        self.fence.handle_instruction(instruction);
        while let Some(effect) = self.fence.poll_effect() {
            match effect {
                FenceEffect::Note(record) => {
                    let noted = self.store.note(&record);
                    self.fence.handle_noted(noted.map_err(|it| it.to_string()));
                }
                FenceEffect::Apply(holding) => {
                    sleep(APPLY_TIME).await;
                    self.kernel = holding;
                    self.fence.handle_applied(Ok(()));
                }
                FenceEffect::ReadBack => self.fence.handle_read_back(Ok(self.kernel.clone())),
                FenceEffect::Send(ack) => acks.push(self.held(ack)),
            }
        }
        acks
    }

    fn held(&self, ack: Ack) -> Ack {
        if ack.outcome.is_ok() {
            // The receiver may be gone.
            let _ = self.tell.send(Held {
                node: self.node,
                generation: ack.generation,
                at: now(),
            });
        }
        ack
    }
}

fn ticks(begin: Instant) -> Interval {
    let mut ticks = interval_at(begin, REPORT_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
