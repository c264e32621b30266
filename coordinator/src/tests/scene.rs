//! A small cluster with a collision, written by hand: what its agents would report.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use reweave_common::fabric::{Fabric, Port};
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::instruction::Instruction;
use reweave_common::member::{Member, Role};
use reweave_common::moment::Moment;
use reweave_common::operator::{Request, Response};
use reweave_common::sample::{Counters, FlowReading, Interface, Reading, Sample, TracedPath};
use reweave_common::time_span::TimeSpan;
use reweave_common::units::{Bytes, Rate};
use reweave_core::{Command, LATEST_MINOR, Policy, State};
use reweave_replica::decode_exact;
use reweave_replica::{Founding, Member as Voter, MemberId, Proposal, Saved};
use tokio::sync::oneshot::error::{RecvError, TryRecvError};
use tokio::sync::{mpsc, oneshot, watch};

use crate::audit::Audit;
use crate::error::CoordinatorError;
use crate::event_loop::{EventLoop, Parts};
use crate::history::History;
use crate::intake::{Asker, Event, Intake, Origin, Queue, SealedResponse, SessionId, queue};
use crate::local_health::LocalHealth;
use crate::recorder::{Beginning, Recorder};
use crate::replication::{Cluster, Directory, Engine, Opened, Outlets, PeerStatus, Posts, open};
use crate::traces::Traces;

pub(crate) const FABRIC: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\n\
                                 host_gbps = 0.4\nuplink_gbps = 0.2\n";

const OWN_ID: MemberId = MemberId(1);

pub(crate) struct Scene {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) fabric: Arc<Fabric>,
    pub(crate) audit: Audit,
    intake: Intake,
    queue: Option<Queue>,
    /// What happens before there is an event loop waits for it.
    early: Mutex<Option<Vec<Event>>>,
    /// What leads to the agents; kept, or their sessions would end.
    inboxes: Vec<mpsc::Receiver<Box<Instruction>>>,
}

/// A coordinator that leads alone, about to begin.
pub(crate) struct Alone {
    pub(crate) engine: Engine,
    event_loop: EventLoop,
}

/// An answer on its way.
pub(crate) struct PendingAnswer(oneshot::Receiver<SealedResponse>);

impl PendingAnswer {
    pub(crate) fn try_recv(&mut self) -> Result<Response, TryRecvError> {
        Ok(self.try_answered()?.response)
    }

    pub(crate) fn try_answered(&mut self) -> Result<SealedResponse, TryRecvError> {
        self.0.try_recv()
    }

    pub(crate) fn blocking_recv(self) -> Result<Response, RecvError> {
        Ok(self.0.blocking_recv()?.response)
    }
}

impl Scene {
    pub(crate) fn new() -> Self {
        let (intake, queue) = queue();
        let folder = tempfile::tempdir().unwrap();
        Self {
            audit: Audit::open(folder.path()).unwrap(),
            folder,
            fabric: Arc::new(Fabric::parse("f.toml", FABRIC).unwrap()),
            intake,
            queue: Some(queue),
            early: Mutex::new(Some(Vec::new())),
            inboxes: Vec::new(),
        }
    }

    /// The same coordinator after its end, on what it left behind.
    pub(crate) fn again(self) -> Self {
        std::fs::remove_file(self.recording()).unwrap();
        Self {
            folder: self.folder,
            audit: self.audit,
            ..Self::new()
        }
    }

    pub(crate) fn opened(&self) -> Opened {
        let member = Voter {
            name: "coordinator".to_owned(),
            address: "127.0.0.1:7332".parse().unwrap(),
            replaces: None,
            folder: None,
        };
        let founding = Founding {
            members: BTreeMap::from([(OWN_ID, member)]),
            state: State::founded(LATEST_MINOR).encode().unwrap(),
        };
        let beginning = Some(Saved::founding(OWN_ID, Vec::new(), founding));
        open(&self.folder.path().join("log"), beginning).unwrap()
    }

    /// The commands in the log on disk.
    pub(crate) fn logged(&self) -> Vec<Command> {
        let entries = self.opened().saved.entries.into_iter();
        let proposals = entries.filter_map(|entry| Proposal::of(&entry));
        proposals
            .map(|proposal| decode_exact(&proposal.payload).unwrap())
            .collect()
    }

    /// Starts a coordinator on the content of the log. It records its actions.
    pub(crate) fn alone(&self) -> Alone {
        self.alone_with(None)
    }

    pub(crate) fn alone_with(&self, history: Option<History>) -> Alone {
        self.alone_exporting(history, None)
    }

    pub(crate) fn alone_exporting(
        &self,
        history: Option<History>,
        traces: Option<Traces>,
    ) -> Alone {
        let opened = self.opened();
        let directory = Directory::new(OWN_ID, &BTreeMap::new());
        let (published, cluster) = watch::channel(Cluster::unknown(directory.clone()));
        let peer_status = PeerStatus::default();
        let outlets = Outlets {
            intake: self.intake.clone(),
            posts: Posts::default(),
            cluster: published,
            peer_status: peer_status.clone(),
        };
        let state = State::decode(&opened.saved.state().unwrap(), LATEST_MINOR).unwrap();
        let started = Engine::start(&opened.saved, opened.store, directory, outlets);
        let (engine, replication) = started.unwrap();
        let beginning = Beginning {
            policy: Policy::default(),
            fabric: FABRIC.to_owned(),
        };
        let event_loop = EventLoop::new(Parts {
            policy: Policy::default(),
            fabric: Arc::clone(&self.fabric),
            id: OWN_ID,
            state,
            replication,
            cluster,
            peer_status,
            recorder: Some(Recorder::begin(&self.recording(), &beginning).unwrap()),
            history,
            local_health: LocalHealth::default(),
            traces,
            audit: self.audit.clone(),
        });
        Alone { engine, event_loop }
    }

    pub(crate) fn recording(&self) -> std::path::PathBuf {
        self.folder.path().join("run.jsonl")
    }

    /// Lets the event loop handle all events so far, and end.
    pub(crate) fn run(&mut self, alone: Alone) -> Result<(), CoordinatorError> {
        self.put(Event::End);
        self.run_aside(alone).join().unwrap()
    }

    /// Runs until the test puts the end.
    pub(crate) fn run_aside(&mut self, alone: Alone) -> JoinHandle<Result<(), CoordinatorError>> {
        let queue = self.queue.take().unwrap();
        let Alone { engine, event_loop } = alone;
        for event in self.early.lock().unwrap().take().unwrap() {
            self.intake.put_blocking(event).unwrap();
        }
        thread::spawn(|| {
            let log = thread::spawn(|| engine.run());
            let outcome = event_loop.run(queue);
            log.join().unwrap();
            outcome
        })
    }

    pub(crate) fn put(&self, event: Event) {
        match &mut *self.early.lock().unwrap() {
            Some(early) => early.push(event),
            None => self.intake.put_blocking(event).unwrap(),
        }
    }

    pub(crate) fn ask(&self, request: Request) -> PendingAnswer {
        let (reply, answer) = oneshot::channel();
        let by = Asker::Member(Member::new(Role::Operator, "ops"));
        self.put(Event::Asked { by, request, reply });
        PendingAnswer(answer)
    }

    pub(crate) fn node(&self, name: &str) -> NodeId {
        self.fabric.find(name).unwrap()
    }

    pub(crate) fn arrive(&mut self, node: NodeId, session: u64, outbox: usize) -> Origin {
        let session = SessionId(session);
        let from = Origin { node, session };
        let (outbox, inbox) = mpsc::channel(outbox);
        self.inboxes.push(inbox);
        self.put(Event::Arrived { from, outbox });
        from
    }

    /// Every agent connects and reports what it sees while h0 > h2 and h1 > h3 share an uplink.
    pub(crate) fn collide(&mut self) {
        for (node, _) in self.fabric.clone().nodes() {
            let from = self.arrive(node, 1, 64);
            self.report_sample(from);
        }
    }

    /// Delivers a sample of the agent.
    pub(crate) fn report_sample(&self, from: Origin) {
        let readings = self.readings(from.node);
        let taken = Moment::default();
        let sample = Sample { taken, readings };
        self.put(Event::Measured { from, sample });
    }

    fn readings(&self, node: NodeId) -> Vec<Reading> {
        let links = self.fabric.links_of(node).iter().enumerate();
        let mut readings: Vec<_> = links
            .flat_map(|(index, &link)| self.of_port(node, index, link))
            .collect();
        for (from, to) in [("h0", "h2"), ("h1", "h3")] {
            if self.node(from) == node {
                readings.extend(self.of_flow(from, to));
            }
        }
        readings
    }

    fn of_port(&self, node: NodeId, index: usize, link: LinkId) -> [Reading; 2] {
        let far = self.fabric.link(link).far(node);
        let own = Port {
            node,
            index: index as u32,
        };
        let name = format!("port{index}");
        [
            Reading::Interface(Interface {
                name: name.clone(),
                addresses: vec![self.address(link, own)],
                gateways: vec![self.address(link, far)],
            }),
            Reading::Counters(Counters {
                interface: name,
                up: true,
                sent: Bytes::new(1 << 30),
                received: Bytes::new(1 << 30),
                dropped_packets: 0,
                send_rate: Some(self.load(node, far.node)),
                receive_rate: None,
            }),
        ]
    }

    /// The rate of a flow. Only the path over spine0 carries traffic.
    fn load(&self, from: NodeId, to: NodeId) -> Rate {
        let name = |node| self.fabric.name(node);
        let mbps = match (name(from), name(to)) {
            ("leaf0", "spine0") | ("spine0", "leaf1") => 198,
            ("h0" | "h1", _) | ("leaf1", "h2" | "h3") => 99,
            _ => 0,
        };
        Rate::from_bits_per_s(mbps * 1_000_000)
    }

    fn of_flow(&self, from: &str, to: &str) -> [Reading; 2] {
        let end = |name: &str, port| SocketAddrV4::new(self.host(self.node(name)), port);
        let flow = FlowKey {
            protocol: Protocol::Tcp,
            source: end(from, 49152),
            destination: end(to, 5001),
        };
        let way = [from, "leaf0", "spine0", "leaf1"];
        let routers = way.windows(2).map(|pair| {
            let [near, far] = [self.node(pair[0]), self.node(pair[1])];
            let link = self.fabric.links_between(near, far).next().unwrap();
            Some(self.address(link, self.fabric.link(link).far(near)))
        });
        [
            Reading::Flow(FlowReading {
                flow,
                bytes: Bytes::new(1 << 30),
                rate: Some(Rate::from_bits_per_s(99_000_000)),
                rtt: Some(TimeSpan::from_millis(1)),
                retransmits: Some(0),
            }),
            Reading::Path(TracedPath {
                flow,
                routers: routers.collect(),
                confirmed: false,
            }),
        ]
    }

    /// A host has one address; a switch has one on each link.
    fn address(&self, link: LinkId, at: Port) -> Ipv4Addr {
        if self.fabric.node(at.node).role.is_endpoint() {
            return self.host(at.node);
        }
        let end = u8::from(self.fabric.link(link).b.node == at.node);
        Ipv4Addr::new(10, 192, 0, 2 * link.index() as u8 + end)
    }

    fn host(&self, node: NodeId) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, node.index() as u8)
    }
}

/// The lines of a recording that hold these words.
pub(crate) fn lines_with(recording: &Path, words: &str) -> Vec<String> {
    let text = std::fs::read_to_string(recording).unwrap();
    let lines = text.lines().filter(|line| line.contains(words));
    lines.map(str::to_owned).collect()
}
