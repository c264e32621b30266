//! What an agent costs its host: with 64 peers that it probes ten times a second each, and readings of
//! everything once a second; then with peers that probe it as often as well; then with trains of packets, too.
//!
//! Then what jobs lose: one that fills a gigabit, with the agent at work and stopped by turns; one that
//! computes and sends, and one of another host that fills the link trains go over, with and without
//! trains by turns.
//!
//!     cargo bench --package reweave-agent --bench cost [-- SECONDS] [idle] [training] [other] [flood]
//!
//! Without a word, all of it. The agent's time is that of its process, in its own code and in the kernel.
//!
//! All peers are one probing engine, beside the coordinator.

#[path = "cost/job.rs"]
mod job;
#[path = "../tests/kernel/sandbox.rs"]
mod sandbox;
#[path = "cost/scene.rs"]
mod scene;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reweave_agent::probing::{Engine, ProbeThread};
use reweave_agent_core::latency::PROBE_WIRE_BYTES;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::moment::Moment;
use reweave_common::periodicity::Periodicity;
use reweave_common::probing::{PROBE_PORT, ProbeList, ProbeTally};
use reweave_common::sample::{HostReading, Reading, Sample};
use reweave_common::time_span::TimeSpan;
use reweave_common::units::Rate;
use reweave_link::pki::{Authority, Validity};
use reweave_link::{Channel, Identity, Listener, Role, Session};
use reweave_proto::message::{AgentMessage, CoordinatorMessage};
use tempfile::TempDir;

use job::{Flood, Training, loses_percent};
use scene::{HOST_ADDRESS, peers, within};

const COORDINATOR_ADDRESS: &str = "10.0.1.1:7332";
const SOURCE_PORTS: std::ops::Range<u16> = 7400..7404;
/// Of each of a peer's four flows, so that it has ten probes a second.
const PROBE_INTERVAL: Duration = Duration::from_millis(400);
/// What probes may take on the wire, and trains.
const MAX_BITS_PER_S: u64 = 1_000_000;
/// With this jobs see more trains in a minute than they would in ten.
const TENFOLD_BITS_PER_S: u64 = 10_000_000;
const TRAIN_INTERVAL: Duration = Duration::from_secs(60);
const FREQUENT_TRAIN_INTERVAL: Duration = Duration::from_secs(1);
const NO_DEADLINE: Moment = Moment::from_micros(u64::MAX);
/// A job computes for this long, and sends for some 100 ms.
const COMPUTE_TIME: Duration = Duration::from_millis(150);
const SENT_BYTES: usize = 12_000_000;
/// A rhythm is heard by then.
const DETECTION_TIME: Duration = Duration::from_secs(10);
/// One in ten thousand of the processor's time cannot be distinguished from less.
const CPU_TICK: Duration = Duration::from_millis(10);

fn main() -> ExitCode {
    let asked = BenchArguments::from_words();
    if let Err(missing) = sandbox::enter() {
        eprintln!("nothing was measured: {missing}");
        return ExitCode::FAILURE;
    }
    scene::connect();
    println!("# {}", machine());
    within("peers", || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(measure(&asked));
    });
    ExitCode::SUCCESS
}

/// What is to be measured, for how long.
struct BenchArguments {
    words: Vec<String>,
}

impl BenchArguments {
    fn from_words() -> Self {
        let words = std::env::args().skip(1);
        Self {
            words: words.filter(|word| !word.starts_with('-')).collect(),
        }
    }

    fn seconds(&self) -> u64 {
        let seconds = self.words.iter().find_map(|word| word.parse().ok());
        seconds.unwrap_or(30)
    }

    /// All is, unless something is named.
    fn has(&self, part: &str) -> bool {
        let mut parts = self
            .words
            .iter()
            .filter(|word| word.parse::<u64>().is_err());
        parts.clone().any(|word| word == part) || parts.next().is_none()
    }
}

/// What the agent took while it was watched, in its own code and in the kernel.
struct Seen {
    seconds: f64,
    core_percent: [f64; 2],
    tally: ProbeTally,
    answers: u64,
    /// Of which something is known.
    trains: u64,
    /// None of a job, since there is none.
    rhythm: Option<Periodicity>,
}

/// In percent, and to how many trains.
struct Lost {
    percent: f64,
    trains: u64,
}

impl Seen {
    fn print(&self, name: &str) {
        let [probes_per_s, answers_per_s] =
            [self.tally.sent(), self.answers].map(|count| count as f64 / self.seconds);
        println!(
            "# {:.0} s: {probes_per_s:.0} probes/s, {answers_per_s:.0} answers/s, {} trains, {} lost; round trips: {:?}; {:?}",
            self.seconds,
            self.trains,
            self.tally.lost.count(),
            self.tally.network(),
            self.rhythm
        );
        let [user, system] = self.core_percent;
        println!("# {user:.2} % in its own code, {system:.2} % in the kernel");
        println!("agent-{name}-core-percent {:.2} 1.0", user + system);
        let probe_bits_per_s = probes_per_s * PROBE_WIRE_BYTES as f64 * 8.0;
        println!("agent-{name}-bits-per-s {probe_bits_per_s:.0} {MAX_BITS_PER_S}");
    }
}

impl Lost {
    fn print(&self, job: &str) {
        println!("# {} trains", self.trains);
        println!("agent-{job}-loss-percent {:.2} 1.0", self.percent);
    }
}

async fn measure(asked: &BenchArguments) {
    let scratch = tempfile::tempdir().expect("a folder");
    let authority = Authority::create(&scratch.path().join("ca"), "bench").expect("an authority");
    let identity = |role, name: &str| {
        let folder = scratch.path().join(name);
        let issued = authority.issue(role, name, Validity::day(), &folder);
        issued.expect("a certificate");
        folder
    };
    let own = Identity::load(&identity(Role::Coordinator, "c0")).expect("an identity");
    let address = COORDINATOR_ADDRESS.parse().expect("an address");
    let mut listener = Listener::bind(address, &own, &[Role::Agent]).expect("the port is free");
    let peers = start_peers();
    let begun = Instant::now();
    let agent = start_agent(&identity(Role::Agent, "host"), &scratch);
    let session = loop {
        if let Some(Ok(session)) = listener.accept().await {
            break session;
        }
    };
    tell(&session, own_list(None)).await;
    wait_until_full(&session).await;
    println!("name measured most");
    let first_full_report_s = begun.elapsed().as_secs_f64();
    println!("agent-first-report-s {first_full_report_s:.1} 3.0");
    if asked.has("idle") {
        let watch = async || watch(&session, &agent, &peers, asked.seconds()).await;
        watch().await.print("probing");
        peers.handle_list(list(back()));
        watch().await.print("probed-as-well");
        tell(&session, own_list(Some(TRAIN_INTERVAL))).await;
        watch().await.print("with-trains");
        println!("agent-resident-mib {:.1} 30", resident_mib(&agent));
    }
    peers.handle_list(list(back()));
    if asked.has("training") {
        training_loses(&session).await.print("training");
    }
    if asked.has("other") {
        other_loses(&session).await.print("other");
    }
    if asked.has("flood") {
        let percent = flood_loses(&agent).await;
        println!("agent-flood-loss-percent {percent:.2} 1.0");
    }
}

/// A job on the agent's host that computes and sends, beside trains in its gaps.
async fn training_loses(session: &Session) -> Lost {
    let job = Training::start("host", peer(), COMPUTE_TIME, SENT_BYTES);
    tokio::time::sleep(DETECTION_TIME).await;
    lost_to_trains(session, || job.speed()).await
}

/// A job of another host that fills the link which trains of this one go over.
async fn other_loses(session: &Session) -> Lost {
    let mut job = Flood::start("other", peer());
    lost_to_trains(session, || job.speed()).await
}

async fn lost_to_trains(session: &Session, speed: impl FnMut() -> f64) -> Lost {
    let trains = Cell::new(0);
    let count = async {
        loop {
            let readings = sample(session).await.readings;
            let of_trains = readings
                .iter()
                .filter(|it| matches!(it, Reading::Bandwidth(_)));
            trains.set(trains.get() + of_trains.count() as u64);
        }
    };
    let set = async |with: bool| {
        let often = ProbeList {
            most_rate: Rate::from_bits_per_s(TENFOLD_BITS_PER_S),
            ..own_list(with.then_some(FREQUENT_TRAIN_INTERVAL))
        };
        tell(session, often).await;
    };
    let percent = tokio::select! {
        never = count => never,
        percent = loses_percent(6, Duration::from_secs(8), set, speed) => percent,
    };
    Lost {
        percent,
        trains: trains.get(),
    }
}

/// Nothing reads what the agent sends meanwhile; its list is good for longer.
async fn flood_loses(agent: &Agent) -> f64 {
    let mut job = Flood::start("host", peer());
    let set = async |works| {
        let signal = if works {
            Signal::SIGCONT
        } else {
            Signal::SIGSTOP
        };
        agent.signal(signal);
    };
    let lost = loses_percent(12, Duration::from_secs(2), set, || job.speed()).await;
    agent.signal(Signal::SIGCONT);
    lost
}

fn peer() -> Ipv4Addr {
    peers().next().expect("there are some")
}

fn own_list(trains_every: Option<Duration>) -> ProbeList {
    let from = |port| SocketAddrV4::new(HOST_ADDRESS, port);
    let to = |peer| SocketAddrV4::new(peer, PROBE_PORT);
    let flows = peers().flat_map(|peer| SOURCE_PORTS.map(move |port| [from(port), to(peer)]));
    ProbeList {
        trains_every: trains_every.map(Into::into),
        ..list(flows)
    }
}

fn list(flows: impl Iterator<Item = [SocketAddrV4; 2]>) -> ProbeList {
    let flow = |[source, destination]: [SocketAddrV4; 2]| FlowKey {
        protocol: Protocol::Udp,
        source,
        destination,
    };
    ProbeList {
        flows: flows.map(flow).collect(),
        period: PROBE_INTERVAL.into(),
        most_rate: Rate::from_bits_per_s(MAX_BITS_PER_S),
        roster: peers().chain([HOST_ADDRESS]).collect(),
        valid_for: TimeSpan::from_secs(3600),
        trains_every: None,
    }
}

/// All of them answer the host.
fn start_peers() -> ProbeThread {
    let mut engine = Engine::new(1, Duration::ZERO);
    engine.answer_on(PROBE_PORT).expect("the port is free");
    engine.take_trains(|_| Some(NO_DEADLINE));
    let probing = ProbeThread::start(engine);
    probing.handle_list(list(std::iter::empty()));
    probing
}

/// All of them probe the host as it probes them.
fn back() -> impl Iterator<Item = [SocketAddrV4; 2]> {
    let to = SocketAddrV4::new(HOST_ADDRESS, PROBE_PORT);
    let from = peers().flat_map(|peer| SOURCE_PORTS.map(move |port| SocketAddrV4::new(peer, port)));
    from.map(move |from| [from, to])
}

struct Agent(Child);

impl Agent {
    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.0.id().cast_signed());
        kill(pid, signal).expect("the agent is there");
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// With a /sys of its namespace, which holds its counters, and on the first core (see `scene`).
fn start_agent(identity: &std::path::Path, scratch: &TempDir) -> Agent {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", "host", "taskset", "--cpu-list", "0"]);
    command.arg(env!("CARGO_BIN_EXE_reweave-agent"));
    command.args(["run", "--role", "host", "--interval-ms", "1000"]);
    command
        .args(["--coordinator", COORDINATOR_ADDRESS, "--identity"])
        .arg(identity);
    command.arg("--state").arg(scratch.path().join("state"));
    Agent(
        command
            .stderr(Stdio::null())
            .spawn()
            .expect("the agent starts"),
    )
}

async fn tell(session: &Session, list: ProbeList) {
    let message = CoordinatorMessage::Probe(list);
    let sent = session.send(Channel::Commands, &message).await;
    sent.expect("the agent takes it");
}

async fn sample(session: &Session) -> Sample {
    loop {
        match session.receive(Channel::Telemetry).await {
            Ok(AgentMessage::Sample(sample)) => return sample,
            Ok(_) => {}
            Err(error) => panic!("the agent is gone: {error}"),
        }
    }
}

/// Interfaces and counters, and a round trip to each peer.
async fn wait_until_full(session: &Session) {
    let mut heard = BTreeSet::new();
    let (mut interfaces, mut counters) = (false, false);
    while !(interfaces && counters && heard.len() == peers().count()) {
        for reading in sample(session).await.readings {
            match reading {
                Reading::Interface(_) => interfaces = true,
                Reading::Host(HostReading::Health(_)) => counters = true,
                Reading::Probes(probes) if !probes.tally.network().is_empty() => {
                    heard.insert(*probes.flow.destination.ip());
                }
                _ => {}
            }
        }
    }
}

async fn watch(session: &Session, agent: &Agent, peers: &ProbeThread, seconds: u64) -> Seen {
    peers.poll_readings();
    let (begun, cpu) = (Instant::now(), cpu(agent));
    let (mut tally, mut trains, mut rhythm) = (ProbeTally::default(), 0, None);
    while begun.elapsed() < Duration::from_secs(seconds) {
        for reading in sample(session).await.readings {
            match reading {
                Reading::Probes(probes) => tally.merge(&probes.tally),
                Reading::Bandwidth(_) => trains += 1,
                Reading::Host(HostReading::Rhythm(heard)) => rhythm = Some(heard),
                _ => {}
            }
        }
    }
    let used = crate::cpu(agent);
    let answers = peers
        .poll_readings()
        .iter()
        .map(|it| u64::from(it.tally.answered))
        .sum();
    let seconds = begun.elapsed().as_secs_f64();
    Seen {
        seconds,
        core_percent: [0, 1].map(|at| 100.0 * (used[at] - cpu[at]).as_secs_f64() / seconds),
        tally,
        answers,
        trains,
        rhythm,
    }
}

/// The time it took so far, in its own code and in the kernel.
fn cpu(agent: &Agent) -> [Duration; 2] {
    let stat = fs::read_to_string(format!("/proc/{}/stat", agent.0.id())).expect("it runs");
    let after_name = stat.rsplit(") ").next().expect("a name in brackets");
    let words: Vec<_> = after_name.split(' ').collect();
    [11, 12].map(|at| CPU_TICK * words[at].parse().expect("a number"))
}

fn resident_mib(agent: &Agent) -> f64 {
    let status = fs::read_to_string(format!("/proc/{}/status", agent.0.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    kib.expect("a number of kB") / 1024.0
}

fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name\t: "));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{cores} cores, {}, Linux {}",
        model.unwrap_or("unknown"),
        kernel.trim()
    )
}
