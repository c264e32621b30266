//! Turns observations into history entries: numbers become names, and interfaces become the links that end there.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use reweave_common::collective::Rank;
use reweave_common::error::error_chain;
use reweave_common::fabric::{Fabric, NicUse};
use reweave_common::finding::Finding;
use reweave_common::flow::FlowKey;
use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::operator::Imbalances;
use reweave_common::periodicity::Periodicity;
use reweave_common::plan::{Generation, Plan};
use reweave_common::rdma::RdmaReading;
use reweave_common::sample::{HostReading, Interface, Reading, Sample, TracedPath};
use reweave_common::snapshot::Hop;
use reweave_common::traffic::{PeerTraffic, Traffic};
use reweave_core::{Change, Command, Device, Ingest, Wiring};
use reweave_history::{Chronicle, Entry, Far, KeeperError, KeepingReport, Probed};
use serde::Serialize;

use super::{Load, Report, What};
use crate::config::HistoryConfig;
use crate::local_health::LocalHealth;

/// A store that could not be opened is tried again after this.
const REOPEN_INTERVAL: Duration = Duration::from_secs(30);
/// The shortest time between two warnings.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);
const MAX_PATHS: usize = 262_144;
/// The rails and uses of all NICs are said again after this many seconds, so that each of the coarsest rows has them.
const NICS_EVERY_S: u64 = 300;
/// Older reports of ranks are ignored.
const RANK_REPORT_TTL: Duration = Duration::from_secs(3);

pub(super) struct Scribe {
    config: HistoryConfig,
    fabric: Arc<Fabric>,
    /// The names of the fabric's nodes.
    names: Vec<Arc<str>>,
    load: Arc<Load>,
    local_health: LocalHealth,
    /// The difference by which moments are ahead of the time of day.
    ahead: Duration,
    chronicle: Option<Chronicle>,
    tried: Option<Instant>,
    /// The last write failed.
    failing: bool,
    warned_at: Option<Moment>,
    /// The second of the last tick.
    second: u64,
    /// Nodes that were ever connected, and whether they are.
    connected: BTreeMap<NodeId, bool>,
    /// Maps addresses to their hosts.
    ingest: Ingest,
    wiring: Wiring,
    /// An interface has changed since the wiring was made.
    rewired: bool,
    /// The wiring has changed since the rails and uses of NICs were said.
    nics_changed: bool,
    ways: BTreeMap<(NodeId, FlowKey), Arc<str>>,
}

/// What the fabric's file says of a NIC.
#[derive(Serialize)]
struct NicLabels {
    rail: u16,
    plane: Option<u16>,
    #[serde(rename = "use")]
    purpose: NicUse,
    link: String,
}

impl Scribe {
    pub(super) fn new(
        config: HistoryConfig,
        fabric: Arc<Fabric>,
        load: Arc<Load>,
        local_health: LocalHealth,
    ) -> Self {
        Self {
            config,
            names: fabric
                .nodes()
                .map(|(_, node)| node.name.as_str().into())
                .collect(),
            ingest: Ingest::of(&fabric),
            fabric,
            load,
            local_health,
            ahead: Duration::ZERO,
            chronicle: None,
            tried: None,
            failing: false,
            warned_at: None,
            second: 0,
            connected: BTreeMap::new(),
            wiring: Wiring::default(),
            rewired: false,
            nics_changed: false,
            ways: BTreeMap::new(),
        }
    }

    pub(super) fn release(&self, readings: usize) {
        self.load.release(readings);
    }

    pub(super) fn take(&mut self, at: Moment, what: What) {
        self.open();
        if let What::Leads { ahead } = what {
            self.ahead = ahead;
        }
        let at = self.time_of_day(at);
        self.advance(at);
        match what {
            What::Leads { .. } => self.forget(),
            What::Up(node) => self.take_connected(at, node, true),
            What::Down(node) => self.take_connected(at, node, false),
            What::Report(node, report) => self.take_report(at, node, report),
            What::Decided(command) => self.take_command(at, &command),
            What::Evenness(found) => self.take_evenness(at, &found),
            What::Time => self.take_time(at),
        }
    }

    pub(super) fn close(mut self) {
        if let Some(chronicle) = &mut self.chronicle {
            let closed = chronicle.close();
            self.judge(closed);
        }
    }

    fn open(&mut self) {
        let wait = self
            .tried
            .is_some_and(|tried| tried.elapsed() < REOPEN_INTERVAL);
        if self.chronicle.is_some() || wait {
            return;
        }
        self.tried = Some(Instant::now());
        let HistoryConfig { url, rules } = self.config.clone();
        match Chronicle::open(&url, rules, run()) {
            Ok(chronicle) => self.welcome(chronicle),
            Err(error) => {
                let why = error_chain(&error);
                tracing::error!(
                    "cannot open the history, nothing is stored until it can be opened: {why}"
                );
                self.local_health.note_history(Some(why));
            }
        }
    }

    /// Histories are asked for by it.
    fn time_of_day(&self, at: Moment) -> Moment {
        Moment::default() + at.since(Moment::default() + self.ahead)
    }

    fn welcome(&mut self, chronicle: Chronicle) {
        if let [first, ..] = chronicle.foreign() {
            let count = chronicle.foreign().len();
            tracing::warn!(
                "{count} foreign files in the history folder, such as {first}; they are left \
                 unchanged"
            );
        }
        self.chronicle = Some(chronicle);
        self.local_health.note_history(None);
    }

    fn advance(&mut self, at: Moment) {
        if let Some(chronicle) = &mut self.chronicle {
            let advanced = chronicle.advance(at);
            self.judge(advanced);
        }
    }

    /// Logs once when writing begins to fail, and once when it works again.
    fn judge(&mut self, outcome: Result<bool, KeeperError>) {
        match outcome {
            Err(error) => {
                let why = error_chain(&error);
                if !self.failing {
                    tracing::error!("cannot write the history, it is buffered in memory: {why}");
                }
                self.failing = true;
                self.local_health.note_history(Some(why));
            }
            Ok(true) if self.failing => {
                tracing::info!("history writes work again");
                self.failing = false;
                self.local_health.note_history(None);
            }
            Ok(_) => {}
        }
    }

    fn observe(&mut self, at: Moment, entry: &Entry) {
        if let Some(chronicle) = &mut self.chronicle {
            chronicle.observe(at, entry);
        }
    }

    /// Forgets the agents of an earlier term: it is not known whether they are still connected.
    fn forget(&mut self) {
        self.connected.clear();
        self.ways.clear();
        self.ingest = Ingest::of(&self.fabric);
        self.rewired = true;
    }

    fn take_connected(&mut self, at: Moment, node: NodeId, connected: bool) {
        if node.index() >= self.fabric.nodes().len() {
            return;
        }
        if connected {
            self.ingest.handle_connected(node);
        } else {
            self.ingest.handle_disconnected(node);
        }
        self.rewired = true;
        self.connected.insert(node, connected);
        self.ways.retain(|(sender, _), _| *sender != node);
        let entry = Entry::agent(self.fabric.name(node), connected, None);
        self.observe(at, &entry);
    }

    /// Once a second, says of every agent whether it is there.
    fn take_time(&mut self, at: Moment) {
        self.record_gaps(at);
        let second = at.as_micros() / 1_000_000;
        if second == self.second {
            return;
        }
        self.second = second;
        self.rewire();
        if self.nics_changed || second.is_multiple_of(NICS_EVERY_S) {
            self.take_nics(at);
        }
        self.take_reported_pairs(at);
        for (&node, &connected) in &self.connected {
            if let Some(chronicle) = &mut self.chronicle {
                let entry = Entry::agent(self.fabric.name(node), connected, None);
                chronicle.observe(at, &entry);
            }
        }
    }

    /// Ranks know each other by numbers. Only the reports of all of them together show on which host each one is.
    fn take_reported_pairs(&mut self, at: Moment) {
        let pairs = self.ingest.fresh_pairs(at, RANK_REPORT_TTL).into_iter();
        for pair in pairs.filter(|pair| pair.rate.bits_per_s() > 0) {
            let [from, to] = [pair.from, pair.to].map(|end| self.fabric.name(end));
            let entry = Entry::collectives(from, to, pair.rate);
            self.observe(at, &entry);
        }
    }

    fn rewire(&mut self) {
        if self.rewired {
            self.rewired = false;
            let nodes = self.ingest.observations().nodes().collect();
            self.wiring = Wiring::new(&self.fabric, &nodes);
            self.nics_changed = true;
        }
    }

    /// The rail and the use of each NIC, by its interface as in all other rows.
    fn take_nics(&mut self, at: Moment) {
        self.nics_changed = false;
        let fabric = Arc::clone(&self.fabric);
        for (_, nic) in fabric.nics() {
            let wired = self.wiring.end(Hop {
                from: nic.host,
                link: nic.link,
            });
            let wired = wired.map(|end| end.interface.clone());
            let interface = wired.or_else(|| nic.interface.clone());
            let is_connected = self.connected.get(&nic.host) == Some(&true);
            if let Some(interface) = interface.filter(|_| is_connected) {
                let labels = NicLabels {
                    rail: nic.rail,
                    plane: nic.plane,
                    purpose: nic.purpose,
                    link: fabric.link_name(nic.link),
                };
                let detail = json(&labels);
                let entry = Entry::state(fabric.name(nic.host), "nic_use", &interface, &detail);
                self.observe(at, &entry);
            }
        }
    }

    fn take_report(&mut self, at: Moment, node: NodeId, report: Report) {
        if !self
            .connected
            .get(&node)
            .is_some_and(|connected| *connected)
        {
            return;
        }
        let Report {
            readings,
            probed,
            others,
        } = report;
        let entry = Entry::agent(self.fabric.name(node), true, Some(readings));
        self.observe(at, &entry);
        let is_interface = |reading: &Reading| matches!(reading, Reading::Interface(_));
        let (interfaces, mut others): (Vec<_>, Vec<_>) = others.into_iter().partition(is_interface);
        // A flow is written down with its way.
        others.sort_by_key(|reading| !matches!(reading, Reading::Path(_)));
        self.take_interfaces(at, node, interfaces);
        for reading in others {
            if self.ingest.believes(node, &reading) {
                self.take_reading(at, node, reading);
            }
        }
        self.take_probed(at, node, &probed);
    }

    fn take_probed(&mut self, at: Moment, node: NodeId, probed: &[Probed]) {
        for probed in probed {
            if self.ingest.is_of(node, &probed.flow) {
                let to = self.name_of(*probed.flow.destination.ip());
                let entry = Entry::probes(&self.names[node.index()], to, probed);
                self.observe(at, &entry);
            }
        }
    }

    fn take_interfaces(&mut self, at: Moment, node: NodeId, interfaces: Vec<Reading>) {
        for reading in &interfaces {
            if let Reading::Interface(interface) = reading {
                self.rewired |= !self.is_known(node, interface);
                let entry = Entry::interface(self.fabric.name(node), interface);
                self.observe(at, &entry);
            }
        }
        let readings = interfaces;
        self.ingest.handle_sample(
            node,
            at,
            Sample {
                taken: at,
                readings,
            },
        );
    }

    fn is_known(&self, node: NodeId, interface: &Interface) -> bool {
        let observed = self.ingest.observations().node(node);
        let known = observed.and_then(|observed| observed.interfaces.get(&interface.name));
        known.is_some_and(|known| known.value == *interface)
    }

    fn take_reading(&mut self, at: Moment, node: NodeId, reading: Reading) {
        let entry = match reading {
            Reading::Counters(counters) => {
                let link = self.wiring.link_at(node, &counters.interface);
                let far = link.map(|link| Far {
                    node: self.fabric.name(self.fabric.link(link).far(node).node),
                    link,
                });
                Entry::link(self.fabric.name(node), far, &counters)
            }
            Reading::Flow(flow) => {
                let way = self.ways.get(&(node, flow.flow)).cloned();
                let to = self.name_of(*flow.flow.destination.ip());
                Entry::flow(&self.names[node.index()], to, way, &flow)
            }
            Reading::Bandwidth(reading) => {
                let subject = reading.flow.to_string();
                Entry::state(
                    self.fabric.name(node),
                    "bandwidth",
                    &subject,
                    &json(&reading),
                )
            }
            Reading::Path(traced) => self.path(node, &traced),
            Reading::Holds {
                generation,
                holding,
            } => Entry::pins(self.fabric.name(node), generation, holding.rules.len()),
            Reading::FlowEnded(flow) => {
                self.ways.remove(&(node, flow));
                return;
            }
            Reading::Host(reading) => return self.take_host(at, node, &reading),
            Reading::Interface(_) | Reading::Probes(_) => return,
        };
        self.observe(at, &entry);
    }

    fn take_host(&mut self, at: Moment, node: NodeId, reading: &HostReading) {
        let name = self.fabric.name(node);
        let state = |what, subject: &str| vec![Entry::state(name, what, subject, &json(reading))];
        let entries = match reading {
            HostReading::Health(health) => Entry::health(name, health).collect(),
            HostReading::Machine(machine) => vec![Entry::machine(name, machine)],
            HostReading::Rhythm(Periodicity::Found(beat)) => vec![Entry::rhythm(name, beat)],
            HostReading::Rhythm(_) => state("rhythm", ""),
            HostReading::Traffic(traffic) => self.traffic(node, traffic),
            HostReading::Nic(nic) => state("nic", &nic.interface),
            HostReading::Hardware(it) => state("hardware", &it.interface),
            HostReading::NicPlace(place) => state("nic_place", &place.interface),
            HostReading::Neighbour(neighbour) => state("neighbour", &neighbour.interface),
            HostReading::Vanished { interface, .. } => state("vanished", interface),
            HostReading::Spare(spare) => state("spare", &spare.interface),
            HostReading::RdmaPort(port) => {
                state("rdma_port", &format!("{}/{}", port.device, port.port))
            }
            HostReading::Rdma(reading) => state("rdma", &rdma_subject(reading)),
            HostReading::Lack(lack) => state("lack", &lack.measurement),
            HostReading::Strays(_) => state("strays", ""),
            HostReading::Rank(reading) => state("rank", &rank_subject(&reading.rank)),
        };
        if matches!(reading, HostReading::Rank(_)) {
            let readings = vec![Reading::Host(reading.clone())];
            let sample = Sample {
                taken: at,
                readings,
            };
            self.ingest.handle_sample(node, at, sample);
        }
        entries
            .into_iter()
            .for_each(|entry| self.observe(at, &entry));
    }

    fn traffic(&self, node: NodeId, traffic: &Traffic) -> Vec<Entry> {
        let peers = traffic.peers.iter();
        let entry = |peer: &PeerTraffic| {
            let to = self.name_of(peer.peer);
            Entry::traffic(self.fabric.name(node), to, traffic.source, peer)
        };
        peers.map(entry).collect()
    }

    fn name_of(&self, address: std::net::Ipv4Addr) -> Option<&Arc<str>> {
        let node = self.wiring.node(address)?;
        Some(&self.names[node.index()])
    }

    fn path(&mut self, node: NodeId, traced: &TracedPath) -> Entry {
        self.rewire();
        let hops = self.wiring.path(&self.fabric, node, traced);
        let way: Option<Arc<str>> = hops.map(|hops| self.way(&hops).into());
        let key = (node, traced.flow);
        match &way {
            Some(way) if self.ways.len() < MAX_PATHS || self.ways.contains_key(&key) => {
                self.ways.insert(key, Arc::clone(way));
            }
            _ => {
                self.ways.remove(&key);
            }
        }
        Entry::path(&self.names[node.index()], way, traced)
    }

    fn way(&self, hops: &[Hop]) -> String {
        let hops = hops.iter();
        let names = hops.map(|hop| format!("{}/{}", self.fabric.name(hop.from), hop.link));
        names.collect::<Vec<_>>().join(" ")
    }

    fn take_command(&mut self, at: Moment, command: &Command) {
        for change in command.change.parts() {
            self.take_change(at, change);
        }
    }

    fn take_change(&mut self, at: Moment, change: &Change) {
        if let Change::PlanProposed { plan, .. } = change {
            self.take_findings(at, plan);
        }
        let (what, node, generation) = summary(change);
        let node = node.map_or("", |node| self.fabric.name(node));
        let entry = Entry::change(what, node, generation, &detail(change));
        self.observe(at, &entry);
    }

    fn take_findings(&mut self, at: Moment, plan: &Plan) {
        for finding in &plan.report.findings {
            let (what, place) = self.about(finding);
            let entry = Entry::finding(plan.generation, what, &place, &json(finding));
            self.observe(at, &entry);
        }
    }

    fn about(&self, finding: &Finding) -> (&'static str, String) {
        let hop = |hop: &Hop| self.way(std::slice::from_ref(hop));
        match finding {
            Finding::EcmpCollision(collision) => ("ecmp-collision", hop(&collision.hop)),
            Finding::UselessPin(pin) => ("useless-pin", format!("{} {}", hop(&pin.hop), pin.flow)),
            Finding::Cause(cause) => ("cause", cause.to_string()),
        }
    }

    fn take_evenness(&mut self, at: Moment, found: &Imbalances) {
        let all = found.all.iter().map(|all| ("", all));
        let jobs = found.jobs.iter().map(|job| (&*job.job, &job.all));
        for (job, all) in all.chain(jobs) {
            let entry = Entry::imbalance(job, "", all.mean_fim_percent, &all.worst);
            self.observe(at, &entry);
        }
        for layer in &found.layers {
            let name = layer.to_string();
            let entry = Entry::imbalance("", &name, layer.mean_fim_percent, &layer.worst);
            self.observe(at, &entry);
        }
    }

    /// Logs gaps, and records them in the history.
    fn record_gaps(&mut self, at: Moment) {
        if self
            .warned_at
            .is_some_and(|warned_at| at.since(warned_at) < WARNING_INTERVAL)
        {
            return;
        }
        self.warned_at = Some(at);
        let dropped = self.load.take_dropped();
        let report = self.chronicle.as_mut().map(Chronicle::take_report);
        let report = report.unwrap_or_default();
        for (why, lost) in [
            ("queue full, readings dropped", dropped),
            ("more series than most_series allows", report.beyond),
            ("readings were too late", report.late),
            ("rows were dropped after write errors", report.lost_rows),
        ] {
            if lost > 0 {
                tracing::warn!("{lost} missing in the history: {why}");
                self.observe(at, &Entry::gap(why, lost));
            }
        }
        warn_of_files(&report);
    }
}

/// Another number for each run, on whichever machine: the standard library's hashers begin at random.
fn run() -> u64 {
    RandomState::new().hash_one(())
}

fn warn_of_files(report: &KeepingReport) {
    for file in &report.broken {
        tracing::warn!("cannot read {file} in the history; it is left in place");
    }
    if report.merged + report.removed > 0 {
        let KeepingReport {
            merged, removed, ..
        } = report;
        tracing::debug!("history: {merged} files merged, {removed} old ones removed");
    }
}

/// The way that was measured, and by what.
fn rank_subject(rank: &Rank) -> String {
    format!("{:016x}/{}", rank.communicator, rank.rank)
}

fn rdma_subject(reading: &RdmaReading) -> String {
    match reading.transport() {
        Some(transport) => format!("{} {transport}", reading.peer()),
        None => format!("{} writes", reading.peer()),
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Everything except secrets that could help an intruder.
fn detail(change: &Change) -> String {
    match change {
        Change::Invited { member, .. }
        | Change::Visited { member, .. }
        | Change::Revoked { member, .. } => json(member),
        Change::Admitted { from, .. } => json(from),
        _ => json(change),
    }
}

fn summary(change: &Change) -> (&'static str, Option<NodeId>, Generation) {
    match change {
        Change::PlanProposed { plan, .. } => ("plan-proposed", None, plan.generation),
        Change::PlanRefused { generation, .. } => ("plan-refused", None, *generation),
        Change::PlanWithdrawn { generation, .. } => ("plan-withdrawn", None, *generation),
        Change::PlanApproved { generation, .. } => ("plan-approved", None, *generation),
        Change::StepIntent(intent) => ("step-intent", None, intent.generation),
        Change::Acked { node, ack } => ("acked", Some(*node), ack.generation),
        Change::Departed(departure) => ("departed", None, departure.generation),
        Change::TurnedBack { generation, .. } => ("turned-back", None, *generation),
        Change::DrainProof { generation, .. } => ("drain-proof", None, *generation),
        Change::CircuitIntent { generation, .. } => ("circuit-intent", None, *generation),
        Change::CircuitObserved { readback, .. } => ("circuit-observed", None, readback.generation),
        Change::LightCame { generation } => ("light-came", None, *generation),
        Change::ConfirmIntent { plan } => ("confirm-intent", None, *plan),
        Change::Verified { generation, .. } => ("verified", None, *generation),
        Change::Held { generation, .. } => ("held", None, *generation),
        Change::Steered {
            generation, how, ..
        } => (how.as_str(), None, *generation),
        Change::Invited { .. } => ("invited", None, Generation::default()),
        Change::Admitted { .. } => ("admitted", None, Generation::default()),
        Change::Visited { .. } => ("visited", None, Generation::default()),
        Change::Revoked { .. } => ("revoked", None, Generation::default()),
        Change::Maintained { place, .. } => {
            let node = match place {
                Device::Node(node) => Some(*node),
                Device::Optical(_) => None,
            };
            ("maintained", node, Generation::default())
        }
        Change::Registered { .. } => ("registered", None, Generation::default()),
        Change::Froze { .. } => ("froze", None, Generation::default()),
        Change::RolledBack { generation } => ("rolled-back", None, *generation),
        Change::ClusterVersion { .. } => ("cluster-version", None, Generation::default()),
        Change::ClusterVersionLowered { .. } => {
            ("cluster-version-lowered", None, Generation::default())
        }
        Change::CoordinatorsRemoved { .. } => ("coordinators-removed", None, Generation::default()),
        Change::PolicySet { .. } => ("policy-set", None, Generation::default()),
        Change::Together(_) => ("together", None, Generation::default()),
    }
}
