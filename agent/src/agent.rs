//! The agent: its interfaces to the kernel, and the state machines of `agent/core` that they feed.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use reweave_agent_core::fence::{Fence, FenceEffect};
use reweave_agent_core::flows::{FlowBook, Socket};
use reweave_agent_core::links::{LinkBook, LinkCount};
use reweave_agent_core::packet_trains::TracedTrains;
use reweave_agent_core::path_confirmation::PathConfirmation;
use reweave_agent_core::probe::ProbeMark;
use reweave_agent_core::trace::{TraceResult, Tracer};
use reweave_common::error::error_chain;
use reweave_common::forwarding_state::ForwardingState;
use reweave_common::hardware::Lack;
use reweave_common::instruction::{Ack, Install, Unconfirmed, Watch};
use reweave_common::moment::Moment;
use reweave_common::probing::{PROBE_PORT, ProbeList, ProbeReading};
use reweave_common::sample::{HostReading, Reading, Sample};

use crate::activity::Activity;
use crate::capabilities;
use crate::clock;
use crate::collectives::{self, Listener};
use crate::error::AgentError;
use crate::flows::FlowSocket;
use crate::host::{COUNTERS_INTERVAL, Host};
use crate::netlink::{Link, LinkEvents, RouteSocket, down_interfaces};
use crate::packet_trains::{SharedGate, TrainThread};
use crate::path_confirmation::ConfirmationClient;
use crate::preflight::PreflightListener;
use crate::probes::{ProbeError, Prober};
use crate::probing::{Engine, ProbeThread};
use crate::rdma::RdmaThread;
use crate::role::Role;
use crate::state::Store;
use crate::switch::{Software, Switch};
use crate::traffic::{self, Wire};

/// Addresses and routes change seldom, and a switch may have very many routes.
const FACTS_INTERVAL: Duration = Duration::from_secs(5);
/// All agents have applied a new roster by then.
const PROBE_START_DELAY: Duration = Duration::from_millis(200);
const UNCONFIRMED_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Results of probes are reported for many of them at once.
const PROBE_REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// A flood of answers must not block the agent's other work.
const MAX_ANSWERS_PER_TURN: usize = 1024;

pub struct Agent {
    role: Role,
    route: RouteSocket,
    turns: LinkEvents,
    switch: Switch,
    flow_socket: FlowSocket,
    host: Host,
    /// Only on hosts: a switch's traffic is not its own.
    activity: Option<Activity>,
    /// Only on hosts.
    rdma: Option<RdmaThread>,
    /// None if the agent has no permission to trace.
    prober: Option<Prober>,
    store: Store,
    fence: Fence,
    /// The interfaces of entries that the instruction under way could not have.
    left_out: BTreeSet<String>,
    links: LinkBook,
    flows: FlowBook,
    tracer: Tracer,
    asker: ConfirmationClient,
    probing: ProbeThread,
    trains: TrainThread,
    routed: TracedTrains,
    /// Gets the activity of jobs, which forbids load tests.
    door: PreflightListener,
    /// When probe results were last reported.
    probes_sent: Option<Moment>,
    facts: Option<(Moment, Vec<Reading>)>,
    /// Results since the last report.
    news: Vec<Reading>,
    /// Missing permissions of this process.
    off: Vec<Lack>,
    complaints: Complaints,
}

impl Agent {
    /// Opens everything that is permitted, reports what is not, and restores exactly the state in force when an agent
    /// last ran here. `mark` is random.
    pub fn start(
        role: Role,
        software: &Software,
        state: &Path,
        mark: ProbeMark,
    ) -> Result<Self, AgentError> {
        let store = Store::open(state)?;
        let record = store.load()?;
        if record.fallback.is_some() {
            let unconfirmed = record.in_force.generation;
            tracing::warn!(
                "generation {unconfirmed} was not confirmed before this start; rolled back"
            );
        }
        let gate = SharedGate::default();
        let (probing, door) = start_probing(mark, gate.clone());
        let mut agent = Self {
            role,
            route: RouteSocket::open()?,
            turns: LinkEvents::open()?,
            switch: Switch::new(software),
            flow_socket: FlowSocket::open()?,
            host: Host::open(COUNTERS_INTERVAL)?,
            activity: role
                .is_endpoint()
                .then(|| Activity::start(role.forwards(), gate.clone())),
            rdma: role
                .is_endpoint()
                .then(|| RdmaThread::start(gate.clone(), u64::from(mark.0))),
            prober: Prober::open(mark).ok(),
            fence: if role.forwards() {
                Fence::new(record)
            } else {
                Fence::of_host(record)
            },
            store,
            left_out: BTreeSet::new(),
            links: LinkBook::default(),
            flows: FlowBook::default(),
            tracer: Tracer::numbered_from(rand::random()),
            asker: ConfirmationClient::default(),
            probing,
            door,
            trains: TrainThread::start(gate, rand::random()),
            routed: TracedTrains::default(),
            probes_sent: None,
            facts: None,
            news: vec![],
            off: capabilities::lacks(role),
            complaints: Complaints::default(),
        };
        agent.clear_leftovers()?;
        agent.carry_out();
        print_lacks(&agent.lacks());
        Ok(agent)
    }

    /// Listens for jobs' reports of collectives: at `named`, otherwise where jobs look by default, if possible.
    pub fn hear_jobs(&mut self, named: Option<&Path>) -> Result<(), AgentError> {
        let usual = collectives::usual_place();
        let (Some(activity), Some(place)) = (&mut self.activity, named.or(usual.as_deref())) else {
            return Ok(());
        };
        match Listener::start(place) {
            Ok(listener) => activity.hear_jobs(listener),
            Err(error) if named.is_none() => tracing::warn!("{}", error_chain(&error)),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// See [`Host::read_copy`].
    pub fn read_copy(&mut self, root: &Path) {
        self.host.read_copy(root);
    }

    /// All readings now, with the results since the last sample.
    pub fn sample(&mut self) -> Sample {
        let taken = clock::now();
        let (mut readings, mut wires) = (vec![], vec![]);
        let links = self.route.links();
        if let Some(links) = self.complaints.check("interfaces", links) {
            wires = traffic::wires(&links);
            readings.extend(self.read_holding(&links));
            readings.extend(self.read_host(taken, &links));
            let counters = self.read_counters(taken, links);
            readings.extend(self.host.spare(&counters));
            readings.extend(counters);
        }
        readings.extend(self.read_facts(taken));
        let sockets = self.flow_socket.sockets();
        if let Some(mut sockets) = self.complaints.check("flows", sockets) {
            let (said, datagrams) = self.read_activity(taken, &wires, &sockets);
            sockets.extend(datagrams);
            readings.extend(said);
            readings.extend(self.flows.handle_sockets(taken, &sockets));
        }
        readings.extend(self.read_lacks());
        readings.extend(self.read_probes(taken));
        readings.extend(self.read_trains(taken));
        let over_rdma = self.rdma.iter().flat_map(RdmaThread::poll_readings);
        readings.extend(over_rdma.map(Reading::Host));
        readings.append(&mut self.news);
        Sample { taken, readings }
    }

    /// Whether a result should not wait for the next sample.
    pub fn has_news(&self) -> bool {
        self.news.iter().any(|it| matches!(it, Reading::Path(_)))
    }

    /// Urgent results, in a sample of their own.
    pub fn poll_news(&mut self) -> Option<Sample> {
        self.has_news().then(|| Sample {
            taken: clock::now(),
            readings: std::mem::take(&mut self.news),
        })
    }

    /// Interfaces that went up or down since the last report, in a sample of their own; and whether there is nothing
    /// more for now. If the kernel dropped events, all interfaces are read.
    pub fn poll_turned(&mut self) -> (Option<Sample>, bool) {
        let turned = self.turns.poll();
        let mut links = turned.links;
        if turned.missed {
            let now = self.complaints.check("interfaces", self.route.links());
            links.extend(now.into_iter().flatten());
        }
        let wires = links.into_iter().filter(|link| !link.loopback);
        let readings = self
            .links
            .handle_turns(wires.map(|link| link.count).collect());
        let taken = clock::now();
        let sample = (!readings.is_empty()).then_some(Sample { taken, readings });
        (sample, turned.is_all)
    }

    /// Interfaces only, between two samples.
    pub fn look(&mut self) -> Option<Sample> {
        let (taken, links) = (clock::now(), self.route.links());
        let links = self.complaints.check("interfaces", links)?;
        let counts = self.counts(links);
        let readings = self.links.handle_look(counts);
        Some(Sample { taken, readings })
    }

    /// Readable when [`Self::poll_turned`] should be called.
    pub fn turns(&self) -> io::Result<OwnedFd> {
        self.turns.heard()
    }

    pub fn watch(&mut self, watch: &Watch) {
        if self.prober.is_some() {
            self.tracer.watch(clock::now(), &watch.trace);
        }
    }

    /// Probes these hosts, and answers those on the roster.
    pub fn probe_hosts(&mut self, list: ProbeList) {
        self.trains.handle_list(list.clone());
        if let Some(activity) = &mut self.activity {
            activity.handle_measuring(list.most_rate);
        }
        if let Some(rdma) = &self.rdma {
            rdma.handle_list(&list);
        }
        self.probing.handle_list(list);
    }

    pub fn install(&mut self, install: Install) -> Vec<Ack> {
        self.fence.handle_install(install);
        self.carry_out()
    }

    pub fn install_unconfirmed(&mut self, unconfirmed: Unconfirmed) -> Vec<Ack> {
        self.fence.handle_unconfirmed(unconfirmed);
        self.carry_out()
    }

    /// When [`Self::revert_unconfirmed`] has to be called at the latest.
    pub fn next_look_at_unconfirmed(&self) -> Option<Duration> {
        self.fence
            .is_unconfirmed()
            .then_some(UNCONFIRMED_CHECK_INTERVAL)
    }

    /// Rolls back what was not confirmed in time.
    pub fn revert_unconfirmed(&mut self) {
        let unconfirmed = self.fence.in_force().generation;
        if self.fence.handle_time(clock::now()) {
            self.carry_out();
            let back = self.fence.in_force().generation;
            tracing::warn!(
                "generation {unconfirmed} was not confirmed in time; rolled back to generation \
                 {back}"
            );
        }
    }

    /// Takes answers to probes. Returns whether there are no more for now.
    pub fn receive(&mut self) -> Result<bool, ProbeError> {
        let Some(prober) = &self.prober else {
            return Ok(true);
        };
        for _ in 0..MAX_ANSWERS_PER_TURN {
            let Some((at, answer)) = prober.receive()? else {
                return Ok(true);
            };
            self.tracer.handle_answer(at, &answer);
        }
        Ok(false)
    }

    /// Sends the probes that are due, and collects results.
    pub fn probe(&mut self) {
        let now = clock::now();
        if let Some(prober) = &mut self.prober {
            self.asker.hear_for(&mut self.tracer, now);
            self.asker.ask_for(&mut self.tracer, prober, now);
            while let Some(probe) = self.tracer.poll_probe(now) {
                prober.send(&probe);
            }
        }
        while let Some(found) = self.tracer.poll_found() {
            self.hear(found);
        }
    }

    /// When [`Self::probe`] has to be called at the latest, if no answer comes before.
    pub fn next_probe(&self) -> Option<Moment> {
        self.tracer.next_due()
    }

    /// Readable when [`Self::receive`] should be called; none if nothing can be received.
    pub fn answers(&self) -> io::Result<Option<OwnedFd>> {
        let prober = self.prober.as_ref();
        prober.map(|it| it.as_fd().try_clone_to_owned()).transpose()
    }

    fn hear(&mut self, found: TraceResult) {
        match found {
            TraceResult::Path(path) if self.routed.handle_path(&path) => {}
            TraceResult::Path(path) => self.news.push(Reading::Path(path)),
            TraceResult::Deaf(host) => {
                tracing::warn!(
                    "{host} does not answer ICMP echo, so traces of flows to it are incomplete"
                );
            }
        }
    }

    /// Results of trains, with their paths.
    fn read_trains(&mut self, now: Moment) -> impl Iterator<Item = Reading> + use<> {
        for reading in self.trains.poll_readings() {
            if self.prober.is_some() {
                self.tracer.trace_once(now, reading.flow);
            }
            self.routed.handle_reading(now, reading);
        }
        let known = self.routed.poll_readings(now).into_iter();
        known.map(Reading::Bandwidth)
    }

    fn read_counters(&mut self, now: Moment, links: Vec<Link>) -> Vec<Reading> {
        let counts = self.counts(links);
        self.links.handle_links(now, counts)
    }

    fn counts(&mut self, links: Vec<Link>) -> Vec<LinkCount> {
        let wires = links.into_iter().filter(|link| !link.loopback);
        wires
            .map(|link| link.count)
            .chain(self.host.ports())
            .collect()
    }

    /// The traffic with each peer, and the flows without a socket.
    fn read_activity(
        &mut self,
        now: Moment,
        wires: &[Wire],
        sockets: &[Socket],
    ) -> (Vec<Reading>, Vec<Socket>) {
        let Some(activity) = &mut self.activity else {
            return (vec![], vec![]);
        };
        let facts = self.facts.iter().flat_map(|(_, facts)| facts);
        let addresses = facts.flat_map(|reading| match reading {
            Reading::Interface(interface) => interface.addresses.as_slice(),
            _ => &[],
        });
        let own = addresses.copied().collect();
        let (said, datagrams) = activity.readings(now, wires, &own, sockets);
        for reading in &said {
            if let HostReading::Rhythm(rhythm) = reading {
                self.door.handle_rhythm(now, *rhythm);
            }
        }
        (said.into_iter().map(Reading::Host).collect(), datagrams)
    }

    fn read_host(&mut self, now: Moment, links: &[Link]) -> Vec<Reading> {
        let drops = self.route.queue_drops();
        let drops = self.complaints.check("queues", drops).unwrap_or_default();
        let readings = self.host.readings(now, links, &drops);
        readings.into_iter().map(Reading::Host).collect()
    }

    fn read_lacks(&self) -> impl Iterator<Item = Reading> + use<> {
        let lacks = self.lacks().into_iter();
        lacks.map(|lack| Reading::Host(HostReading::Lack(lack)))
    }

    fn lacks(&self) -> Vec<Lack> {
        let refused = self.activity.as_ref().map_or(&[][..], Activity::refused);
        let mut lacks = capabilities::with_refused(&self.off, refused);
        lacks.extend(self.switch.lack());
        lacks.extend(self.switch.limits());
        lacks.extend(self.probing.lack());
        lacks
    }

    fn read_probes(&mut self, now: Moment) -> Vec<Reading> {
        if !clock::is_due(self.probes_sent, now, PROBE_REPORT_INTERVAL) {
            return vec![];
        }
        let strays = HostReading::Strays(self.probing.strays());
        let probes = self.probing.poll_readings();
        // Without a result yet, the first one is reported at once.
        self.probes_sent = (!probes.is_empty()).then_some(now);
        for ProbeReading { flow, tally } in &probes {
            if let Some(routers) = tally.routers {
                let sight = PathConfirmation::Past(routers.there);
                self.tracer.handle_sight(now, flow, sight);
            }
        }
        let boxed = probes.into_iter().map(Box::new);
        let probes = boxed.map(Reading::Probes);
        probes.chain([Reading::Host(strays)]).collect()
    }

    fn read_facts(&mut self, now: Moment) -> Vec<Reading> {
        let reported_at = self.facts.as_ref().map(|(at, _)| *at);
        if clock::is_due(reported_at, now, FACTS_INTERVAL) {
            let interfaces = self.route.interfaces();
            if let Some(interfaces) = self.complaints.check("addresses", interfaces) {
                let facts = interfaces.into_iter().map(Reading::Interface);
                self.facts = Some((now, facts.collect()));
            }
        }
        self.facts
            .iter()
            .flat_map(|(_, facts)| facts.clone())
            .collect()
    }

    /// The kernel's state, after it was repaired if necessary. A host that was never instructed reports nothing.
    fn read_holding(&mut self, links: &[Link]) -> Option<Reading> {
        let in_force = self.fence.in_force().clone();
        if !self.role.forwards() && !self.fence.has_instruction() {
            return None;
        }
        let kept = self.switch.keep(&mut self.route, &in_force.holding, links);
        let kept = self.complaints.check("pins and routes", kept)?;
        self.complaints
            .check("routes", kept.in_the_way.map_or(Ok(()), Err));
        if kept.mended {
            tracing::warn!("kernel state drifted from desired state; repaired");
        }
        Some(Reading::Holds {
            generation: in_force.generation,
            holding: kept.holding,
        })
    }

    /// Restores the state in force. If that is impossible now, nothing is installed until the repair.
    fn clear_leftovers(&mut self) -> Result<(), AgentError> {
        let links = self.route.links()?;
        let in_force = &self.fence.in_force().holding;
        let kept = self.switch.keep(&mut self.route, in_force, &links);
        let cleared = kept.map(drop).or_else(|error| {
            tracing::warn!("cannot restore the state in force: {}", error_chain(&error));
            let nothing = ForwardingState::default();
            self.switch.hold_all(&mut self.route, &nothing)
        });
        cleared.map_err(|source| AgentError::Leftovers { source })
    }

    fn note_left_out(&mut self, interfaces: BTreeSet<String>) {
        if !interfaces.is_empty() {
            let names: Vec<_> = interfaces.iter().map(String::as_str).collect();
            let names = names.join(", ");
            tracing::warn!("pins and hops left out until their interfaces are up: {names}");
        }
        self.left_out = interfaces;
    }

    /// Executes the fence's effects until there are none.
    fn carry_out(&mut self) -> Vec<Ack> {
        let mut acks = vec![];
        while let Some(effect) = self.fence.poll_effect() {
            match effect {
                FenceEffect::Note(record) => {
                    let noted = self.store.note(&record);
                    self.fence.handle_noted(in_words(noted));
                }
                FenceEffect::Apply(holding) => {
                    let applied = self.switch.hold_usable(&mut self.route, &holding);
                    let applied = applied.map(|left_out| self.note_left_out(left_out));
                    self.fence.handle_applied(in_words(applied));
                }
                FenceEffect::ReadBack => {
                    let held = in_words(self.switch.holding(&mut self.route));
                    let mut down = std::mem::take(&mut self.left_out);
                    // One that has gone down meanwhile has taken its routes along.
                    let links = self.route.links().unwrap_or_default();
                    down.extend(down_interfaces(&links));
                    self.fence.handle_read_back_without(held, &down);
                }
                FenceEffect::Send(ack) => acks.push(ack),
            }
        }
        acks
    }
}

fn print_lacks(lacks: &[Lack]) {
    for it in lacks {
        tracing::warn!("{} is off: {}; {}", it.measurement, it.because, it.remedy);
    }
}

fn start_probing(mark: ProbeMark, gate: SharedGate) -> (ProbeThread, PreflightListener) {
    let mut engine = Engine::new(u64::from(mark.0), PROBE_START_DELAY);
    engine.answer_after(PROBE_PORT);
    engine.take_trains(move |now| gate.open_until(now));
    let door = engine.door();
    (ProbeThread::start(engine), door)
}

fn in_words<T, E: Error + 'static>(outcome: Result<T, E>) -> Result<T, String> {
    outcome.map_err(|error| error_chain(&error))
}

/// The last error of each kind, so that an error that repeats twice a second is reported once.
#[derive(Default)]
struct Complaints {
    last: BTreeMap<&'static str, String>,
}

impl Complaints {
    fn check<T, E: Error + 'static>(
        &mut self,
        what: &'static str,
        outcome: Result<T, E>,
    ) -> Option<T> {
        match in_words(outcome) {
            Ok(value) => {
                if self.last.remove(what).is_some() {
                    tracing::info!("{what}: recovered");
                }
                Some(value)
            }
            Err(words) => {
                if self.last.get(what) != Some(&words) {
                    tracing::warn!("{what}: {words}");
                    self.last.insert(what, words);
                }
                None
            }
        }
    }
}
