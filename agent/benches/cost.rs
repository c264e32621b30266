//! What an agent costs its host: with 64 peers that it probes ten times a second each, which probe
//! it as often, and readings of everything once a second.
//!
//! Then a flow fills a gigabit, with the agent at work and stopped by turns.
//!
//!     cargo bench --package reweave-agent --bench cost [-- SECONDS]
//!
//! Two network namespaces, joined by one link: in one the agent, in the other all its peers on one
//! probing engine, and the coordinator.

#[path = "cost/job.rs"]
mod job;
#[path = "../tests/kernel/sandbox.rs"]
mod sandbox;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};
use reweave_agent::probing::{Engine, ProbeThread};
use reweave_agent_core::latency::WIRE_BYTES;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::probing::{PROBE_PORT, ProbeList, Tally};
use reweave_common::sample::{Reading, Sample};
use reweave_common::units::Rate;
use reweave_link::pki::{Authority, Validity};
use reweave_link::{Channel, Identity, Listener, Role, Session};
use reweave_proto::message::{AgentMessage, CoordinatorMessage};
use tempfile::TempDir;

const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const COORDINATOR: &str = "10.0.1.1:7332";
const PEERS: u8 = 64;
const PORTS: std::ops::Range<u16> = 7400..7404;
/// Of each of a peer's four flows, so that it has ten probes a second.
const PERIOD: Duration = Duration::from_millis(400);
/// What probes may take on the wire.
const MOST_BITS_PER_S: u64 = 1_000_000;
/// One in ten thousand of the processor's time cannot be told from less.
const TICK: Duration = Duration::from_millis(10);

fn main() -> ExitCode {
    let seconds = std::env::args().filter_map(|word| word.parse().ok()).next();
    let seconds: u64 = seconds.unwrap_or(30);
    if let Err(missing) = sandbox::enter() {
        eprintln!("nothing was measured: {missing}");
        return ExitCode::FAILURE;
    }
    connect();
    let measured = within("peers", || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(measure(seconds))
    });
    println!("# {}", machine());
    measured.print();
    ExitCode::SUCCESS
}

struct Measured {
    seconds: f64,
    probes_per_s: f64,
    answers_per_s: f64,
    /// Of what the agent sent, its own probes on the wire.
    probe_bits_per_s: f64,
    core_percent: f64,
    resident_mib: f64,
    first_full_report_s: f64,
    /// What a flow that fills its link gets less beside the agent than while that is stopped.
    job_loss_percent: f64,
    lost: u64,
    network: String,
}

impl Measured {
    fn print(&self) {
        println!(
            "# {:.0} s: {PEERS} peers, {:.0} probes/s, {:.0} answers/s, {} lost; {}",
            self.seconds, self.probes_per_s, self.answers_per_s, self.lost, self.network
        );
        println!("name measured most");
        println!("agent-core-percent {:.2} 1.0", self.core_percent);
        println!("agent-resident-mib {:.1} 30", self.resident_mib);
        println!("agent-first-report-s {:.1} 3.0", self.first_full_report_s);
        println!("agent-job-loss-percent {:.2} 1.0", self.job_loss_percent);
        println!(
            "agent-probe-bits-per-s {:.0} {MOST_BITS_PER_S}",
            self.probe_bits_per_s
        );
    }
}

async fn measure(seconds: u64) -> Measured {
    let scratch = tempfile::tempdir().expect("a folder");
    let authority = Authority::create(&scratch.path().join("ca"), "bench").expect("an authority");
    let identity = |role, name: &str| {
        let folder = scratch.path().join(name);
        let issued = authority.issue(role, name, Validity::day(), &folder);
        issued.expect("a certificate");
        folder
    };
    let own = Identity::load(&identity(Role::Coordinator, "c0")).expect("an identity");
    let address = COORDINATOR.parse().expect("an address");
    let mut listener = Listener::bind(address, &own, &[Role::Agent]).expect("the port is free");
    let peers = start_peers();
    let begun = Instant::now();
    let agent = start_agent(&identity(Role::Agent, "host"), &scratch);
    let session = loop {
        if let Some(Ok(session)) = listener.accept().await {
            break session;
        }
    };
    tell(&session).await;
    wait_until_full(&session).await;
    let first_full_report_s = begun.elapsed().as_secs_f64();
    let measured = watch(&session, &agent, &peers, seconds).await;
    // Nobody listens to the agent meanwhile; its list is good for longer.
    let job_loss_percent = job::loses_percent(&agent.0, Ipv4Addr::new(10, 0, 1, 1));
    Measured {
        first_full_report_s,
        job_loss_percent,
        ..measured
    }
}

fn peers() -> impl Iterator<Item = Ipv4Addr> {
    (1..=PEERS).map(|number| Ipv4Addr::new(10, 0, 1, number))
}

fn list(flows: impl Iterator<Item = [SocketAddrV4; 2]>) -> ProbeList {
    let flow = |[source, destination]: [SocketAddrV4; 2]| FlowKey {
        protocol: Protocol::Udp,
        source,
        destination,
    };
    ProbeList {
        flows: flows.map(flow).collect(),
        period: PERIOD,
        most_rate: Rate::from_bits_per_s(MOST_BITS_PER_S),
        roster: peers().chain([HOST]).collect(),
        valid_for: Duration::from_secs(3600),
        trains_every: None,
    }
}

/// All of them probe the host as it probes them.
fn start_peers() -> ProbeThread {
    let mut engine = Engine::new(1, Duration::ZERO);
    engine.answer_on(PROBE_PORT).expect("the port is free");
    let probing = ProbeThread::start(engine);
    let to = SocketAddrV4::new(HOST, PROBE_PORT);
    let from = peers().flat_map(|peer| PORTS.map(move |port| SocketAddrV4::new(peer, port)));
    probing.handle_list(list(from.map(|from| [from, to])));
    probing
}

struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_agent(identity: &std::path::Path, scratch: &TempDir) -> Agent {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reweave-agent"));
    command.args([
        "run",
        "--role",
        "host",
        "--interval-ms",
        "1000",
        "--coordinator",
        COORDINATOR,
    ]);
    command.arg("--identity").arg(identity);
    command
        .arg("--state")
        .arg(scratch.path().join("state"))
        .stderr(Stdio::null());
    Agent(within("host", || {
        command.spawn().expect("the agent starts")
    }))
}

async fn tell(session: &Session) {
    let from = |port| SocketAddrV4::new(HOST, port);
    let to = |peer| SocketAddrV4::new(peer, PROBE_PORT);
    let flows = peers().flat_map(|peer| PORTS.map(move |port| [from(port), to(peer)]));
    let message = CoordinatorMessage::Probe(list(flows));
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
    while !(interfaces && counters && heard.len() == usize::from(PEERS)) {
        for reading in sample(session).await.readings {
            match reading {
                Reading::Interface(_) => interfaces = true,
                Reading::Counters(_) => counters = true,
                Reading::Probes(probes) if !probes.tally.network.is_empty() => {
                    heard.insert(*probes.flow.destination.ip());
                }
                _ => {}
            }
        }
    }
}

async fn watch(session: &Session, agent: &Agent, peers: &ProbeThread, seconds: u64) -> Measured {
    peers.poll_readings();
    let (begun, cpu) = (Instant::now(), cpu(agent));
    let mut tally = Tally::default();
    while begun.elapsed() < Duration::from_secs(seconds) {
        for reading in sample(session).await.readings {
            if let Reading::Probes(probes) = reading {
                tally.merge(&probes.tally);
            }
        }
    }
    let wall = begun.elapsed().as_secs_f64();
    let used = crate::cpu(agent) - cpu;
    let answered: u64 = peers
        .poll_readings()
        .iter()
        .map(|it| it.tally.answered)
        .sum();
    let probes_per_s = tally.sent() as f64 / wall;
    Measured {
        seconds: wall,
        probes_per_s,
        answers_per_s: answered as f64 / wall,
        probe_bits_per_s: probes_per_s * WIRE_BYTES as f64 * 8.0,
        core_percent: 100.0 * used.as_secs_f64() / wall,
        resident_mib: resident_mib(agent),
        first_full_report_s: 0.0,
        job_loss_percent: 0.0,
        lost: tally.lost.count(),
        network: format!("round trips: {:?}", tally.network),
    }
}

fn cpu(agent: &Agent) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", agent.0.id())).expect("it runs");
    let after_name = stat.rsplit(") ").next().expect("a name in brackets");
    let ticks = after_name.split(' ').skip(11).take(2);
    TICK * ticks
        .map(|it| it.parse::<u32>().expect("a number"))
        .sum::<u32>()
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

/// Two namespaces and the link between them.
fn connect() {
    for space in ["host", "peers"] {
        ip(&["netns", "add", space]);
        ip(&["-n", space, "link", "set", "lo", "up"]);
    }
    let link = "link add eth0 netns host type veth peer name eth0 netns peers";
    ip(&link.split(' ').collect::<Vec<_>>());
    ip(&[
        "-n",
        "host",
        "address",
        "add",
        &format!("{HOST}/16"),
        "dev",
        "eth0",
    ]);
    for peer in peers() {
        ip(&[
            "-n",
            "peers",
            "address",
            "add",
            &format!("{peer}/16"),
            "dev",
            "eth0",
        ]);
    }
    for space in ["host", "peers"] {
        ip(&["-n", space, "link", "set", "eth0", "up"]);
    }
}

fn ip(arguments: &[&str]) {
    let status = Command::new("ip").args(arguments).status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "ip {arguments:?}"
    );
}

fn within<T: Send>(space: &str, work: impl FnOnce() -> T + Send) -> T {
    let enter_and_work = || {
        let space = File::open(format!("/run/netns/{space}")).expect("it is there");
        setns(space, CloneFlags::CLONE_NEWNET).expect("and can be entered");
        work()
    };
    let outcome = thread::scope(|scope| scope.spawn(enter_and_work).join());
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
