//! The whole program, with a coordinator that listens on host 3.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reweave_common::flow::FlowKey;
use reweave_common::forwarding_state::ForwardingState;
use reweave_common::health::CounterSource;
use reweave_common::instruction::{Ack, FastSampling, Install, InstallRefusal, Token, Watch};
use reweave_common::plan::Generation;
use reweave_common::probing::ProbeList;
use reweave_common::sample::{Counters, HostReading, PinRule, Reading, Sample};
use reweave_common::time_span::TimeSpan;
use reweave_link::pki::{Authority, Validity};
use reweave_link::{Channel, Identity, Listener, Role, Session as Link};
use reweave_proto::hello::{Hello, PROTOCOL_VERSION, Version};
use reweave_proto::message::{AgentMessage, CoordinatorMessage};
use reweave_proto::since_version::came_with;
use tempfile::TempDir;
use tokio::time::timeout;

use crate::commands::agent;
use crate::executable::write_executable;
use crate::fabric::{
    Fabric, TEST_TIMEOUT, host, ip_in, kernel_counter, leaf_at, leaf_of, pin, spine_at, spine_of,
    wait_until_constant, within,
};
use crate::probing::{list, probe};
use crate::tests;
use crate::traffic::{Session, Stream};

tests! {
    host_and_leaf_serve_coordinator,
    pins_stay_until_coordinator_is_back,
    probing_ends_when_coordinator_is_gone,
    killed_agent_keeps_its_promises,
    missing_route_right_is_reported,
    hanging_programs_delay_no_report,
    agent_without_rights_reports_partially,
    vanished_interface_is_reported,
    link_change_is_reported_immediately,
    requested_close_sampling_reports_interfaces,
}

/// A running agent. It is killed when the test is done with it.
pub(crate) struct Running(Child);

impl Running {
    fn end(mut self, signal: Signal) -> ExitStatus {
        self.signal(signal);
        self.0.wait().expect("it ends")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.0.id() as i32);
        kill(pid, signal).expect("it runs");
    }

    /// The processor time it has taken.
    fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).expect("it runs");
        let after_name = stat.rsplit(") ").next().expect("a name in brackets");
        let ticks = after_name.split(' ').skip(11).take(2);
        let ticks: u64 = ticks.map(|it| it.parse::<u64>().expect("a number")).sum();
        Duration::from_millis(ticks * 10)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Certificates, state folders and the coordinator's socket.
pub(crate) struct Stage {
    scratch: TempDir,
    authority: Authority,
    listener: Listener,
}

impl Stage {
    async fn new() -> Self {
        let scratch = tempfile::tempdir().expect("a folder");
        let authority = Authority::create(&scratch.path().join("ca"), "lab").expect("an authority");
        issue(&authority, &scratch, Role::Coordinator, "c0");
        let listener = listen(&scratch, PROTOCOL_VERSION).await;
        Self {
            scratch,
            authority,
            listener,
        }
    }

    pub(crate) fn start(&self, node: &str) -> Running {
        self.start_at(node, "200")
    }

    pub(crate) fn start_at(&self, node: &str, interval_ms: &str) -> Running {
        let command = Command::new(env!("CARGO_BIN_EXE_reweave-agent"));
        self.start_by(command, node, interval_ms)
    }

    /// Without a right to anything; what it says goes to `said`.
    fn start_without_rights(&self, node: &str, said: &Path) -> Running {
        let mut command = Command::new("unshare");
        command.args(["--user", env!("CARGO_BIN_EXE_reweave-agent")]);
        command.stderr(fs::File::create(said).expect("a file"));
        self.start_by(command, node, "200")
    }

    /// Starts the agent with a /sys that shows the node's interfaces.
    pub(crate) fn start_with_files(&self, node: &str) -> Running {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", node, env!("CARGO_BIN_EXE_reweave-agent")]);
        self.start_by(command, node, "200")
    }

    fn start_by(&self, mut command: Command, node: &str, interval_ms: &str) -> Running {
        let identity = issue(&self.authority, &self.scratch, Role::Agent, node);
        let state = self.scratch.path().join(format!("{node}-state"));
        let coordinator = address().to_string();
        command.args([
            "run",
            "--coordinator",
            &coordinator,
            "--interval-ms",
            interval_ms,
        ]);
        command.arg("--identity").arg(identity);
        command.arg("--state").arg(state).stdin(Stdio::null());
        within(node, || {
            Running(command.spawn().expect("the program starts"))
        })
    }

    /// The session of the agent that comes next, which must be this one.
    pub(crate) async fn session(&mut self, node: &str) -> Link {
        loop {
            let accepted = timeout(TEST_TIMEOUT, self.listener.accept()).await;
            match accepted.expect("an agent comes").expect("the socket lives") {
                Ok(session) => {
                    assert_eq!(session.peer().name, node);
                    return session;
                }
                Err(error) => eprintln!("not let in: {error}"),
            }
        }
    }
}

fn address() -> SocketAddr {
    (host(3), 4700).into()
}

/// A socket that was just closed may take a moment to be gone.
async fn listen(scratch: &TempDir, version: Version) -> Listener {
    let identity = Identity::load(&scratch.path().join("c0")).expect("an identity");
    let hello = Hello {
        version,
        ..Hello::new(identity.cluster())
    };
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        match Listener::bind_as(address(), &identity, &[Role::Agent], hello.clone()) {
            Ok(listener) => return listener,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        tokio::task::yield_now().await;
    }
}

fn issue(authority: &Authority, scratch: &TempDir, role: Role, name: &str) -> PathBuf {
    let folder = scratch.path().join(name);
    authority
        .issue(role, name, Validity::day(), &folder)
        .expect("a certificate");
    folder
}

/// Runs a test in host 3, where the coordinator is.
pub(crate) fn at_the_coordinator<F: Future<Output = ()>>(test: impl FnOnce(Stage) -> F + Send) {
    within("h3", || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime
            .expect("a runtime")
            .block_on(async { test(Stage::new().await).await });
    });
}

async fn sample(link: &Link) -> Sample {
    match timeout(TEST_TIMEOUT, link.receive(Channel::Telemetry)).await {
        Ok(Ok(AgentMessage::Sample(sample))) => sample,
        other => panic!("no sample: {other:?}"),
    }
}

/// Waits for a reading that `pick` takes.
pub(crate) async fn reading<T>(link: &Link, pick: impl Fn(Reading) -> Option<T>) -> T {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let sample = sample(link).await;
        if let Some(found) = sample.readings.iter().cloned().find_map(&pick) {
            return found;
        }
        assert!(Instant::now() < deadline, "not in {sample:?}");
    }
}

pub(crate) async fn instruct(link: &Link, install: Install) -> Ack {
    let message = CoordinatorMessage::Install(install);
    link.send(Channel::Commands, &message)
        .await
        .expect("it is sent");
    loop {
        match timeout(TEST_TIMEOUT, link.receive(Channel::Commands)).await {
            Ok(Ok(AgentMessage::Ack(ack))) => return ack,
            Ok(Ok(AgentMessage::Clock { .. })) => {}
            other => panic!("no answer: {other:?}"),
        }
    }
}

async fn watch(link: &Link, flows: &[FlowKey]) {
    let watch = Watch {
        trace: flows.to_vec(),
    };
    let message = CoordinatorMessage::Watch(watch);
    link.send(Channel::Commands, &message)
        .await
        .expect("it is sent");
}

async fn pinned(link: &Link) -> (u64, Vec<PinRule>) {
    let pick = |reading| match reading {
        Reading::Holds {
            generation,
            holding,
        } => Some((generation.0, holding.rules)),
        _ => None,
    };
    reading(link, pick).await
}

fn install(generation: u64, rules: &[PinRule]) -> Install {
    Install {
        generation: Generation(generation),
        token: Token(generation),
        holding: ForwardingState::of_pins(rules.to_vec()),
    }
}

fn host_and_leaf_serve_coordinator() {
    let _fabric = Fabric::new();
    let stream = Stream::start(Session::new(0, 2), 64 << 10, Duration::from_millis(10));
    let flow = stream.flow;
    at_the_coordinator(async |mut stage| {
        let _host = stage.start("h0");
        let host_link = stage.session("h0").await;
        let _leaf = stage.start("leaf0");
        let leaf_link = stage.session("leaf0").await;
        reading(&host_link, |it| {
            (matches!(it, Reading::Flow(read) if read.flow == flow)).then_some(())
        })
        .await;
        let is_strays = |it| matches!(it, Reading::Host(HostReading::Strays(_))).then_some(());
        reading(&host_link, is_strays).await;
        let spine = 1 - spine_of(&flow);
        let asked = Instant::now();
        let ack = instruct(&leaf_link, install(1, &[pin(flow, spine)])).await;
        eprintln!("installed in {:?}", asked.elapsed());
        assert_eq!(
            ack.outcome,
            Ok(ForwardingState::of_pins(vec![pin(flow, spine)]))
        );
        assert_eq!(spine_of(&flow), spine);
        let asked = Instant::now();
        watch(&host_link, &[flow]).await;
        let routers = reading(&host_link, |it| match it {
            Reading::Path(path) => Some(path.routers),
            _ => None,
        });
        let expected = [leaf_of(0), spine_at(0, spine), leaf_at(1, spine)].map(Some);
        assert_eq!(routers.await, expected);
        eprintln!("asked for and traced in {:?}", asked.elapsed());
    });
    stream.finish();
}

fn pins_stay_until_coordinator_is_back() {
    let _fabric = Fabric::new();
    let stream = Stream::start(Session::new(0, 2), 8 << 10, Duration::from_millis(5));
    let flow = stream.flow;
    at_the_coordinator(async |mut stage| {
        let leaf = stage.start("leaf0");
        let link = stage.session("leaf0").await;
        let rules = [pin(flow, 1 - spine_of(&flow))];
        assert!(instruct(&link, install(3, &rules)).await.outcome.is_ok());
        drop(link);
        stage.listener.close("going away").await;
        assert_eq!(within("leaf0", crate::pins::held), rules);
        let before = came_with(PROTOCOL_VERSION.minor - 1);
        stage.listener = listen(&stage.scratch, before).await;
        let link = stage.session("leaf0").await;
        assert_eq!(
            link.version(),
            before,
            "one of the release before serves it"
        );
        assert_eq!(
            pinned(&link).await,
            (3, rules.to_vec()),
            "in the first that is said"
        );
        let rules = [pin(flow, 1 - spine_of(&flow))];
        assert!(instruct(&link, install(4, &rules)).await.outcome.is_ok());
        assert!(leaf.end(Signal::SIGTERM).success());
        // Silence would end the session in other words.
        let goodbye = timeout(TEST_TIMEOUT, link.closed()).await;
        let words = goodbye.expect("it says so").to_string();
        assert!(words.contains("closed the session"), "{words}");
        assert_eq!(within("leaf0", crate::pins::held), rules);
    });
    stream.finish();
}

fn probing_ends_when_coordinator_is_gone() {
    let _fabric = Fabric::new();
    let flow = Session::new(0, 2).flow;
    at_the_coordinator(async |mut stage| {
        let _host = stage.start("h0");
        let link = stage.session("h0").await;
        watch(&link, &[flow]).await;
        reading(&link, |it| matches!(it, Reading::Path(_)).then_some(())).await;
        drop(link);
        stage.listener.close("going away").await;
        // Each flow is traced every second.
        wait_until_constant(
            "the last of the probes of h0",
            Duration::from_millis(1500),
            || kernel_counter("leaf0", "Icmp", "OutTimeExcds"),
        );
    });
}

fn killed_agent_keeps_its_promises() {
    let _fabric = Fabric::new();
    at_the_coordinator(async |mut stage| {
        let rules = [pin(crate::fabric::some_flow(1), 1)];
        let leaf = stage.start("leaf0");
        let link = stage.session("leaf0").await;
        assert!(instruct(&link, install(5, &rules)).await.outcome.is_ok());
        leaf.end(Signal::SIGKILL);
        // Its first sample comes with the session, not a minute later.
        let _leaf = stage.start_at("leaf0", "60000");
        let link = stage.session("leaf0").await;
        assert_eq!(pinned(&link).await, (5, rules.to_vec()));
        let older = Err(InstallRefusal::Older {
            held: Generation(5),
            token: Token(5),
        });
        assert_eq!(instruct(&link, install(4, &[])).await.outcome, older);
        assert_eq!(
            instruct(&link, install(5, &rules)).await.outcome,
            Ok(ForwardingState::of_pins(rules.to_vec()))
        );
        assert_eq!(
            instruct(&link, install(6, &[])).await.outcome,
            Ok(ForwardingState::default())
        );
    });
}

/// Stand-ins for the programs that an agent runs. They hang until this is dropped.
struct HangingPrograms {
    folder: TempDir,
    /// They read it, and nothing writes.
    _pipe: fs::File,
}

impl HangingPrograms {
    fn new(names: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        let made = Command::new("mkfifo").arg(&pipe).status();
        assert!(made.is_ok_and(|it| it.success()), "a named pipe");
        for name in names {
            let program = folder.path().join(name);
            let script = format!("#!/bin/sh\nexec cat {}\n", pipe.display());
            write_executable(&program, &script);
        }
        let ends = fs::OpenOptions::new().read(true).write(true).open(&pipe);
        Self {
            folder,
            _pipe: ends.expect("both ends"),
        }
    }

    /// Where they are found before others.
    fn path(&self) -> String {
        let others = std::env::var("PATH").expect("there are programs");
        format!("{}:{others}", self.folder.path().display())
    }
}

/// Nor where nft counts, since this agent may load nothing into the kernel.
fn hanging_programs_delay_no_report() {
    let _fabric = Fabric::new();
    let hanging = HangingPrograms::new(&["lldpcli", "nft", "rdma"]);
    let mut without_rights = Command::new("unshare");
    without_rights.args(["--user", env!("CARGO_BIN_EXE_reweave-agent")]);
    let with_rights = Command::new(env!("CARGO_BIN_EXE_reweave-agent"));
    for mut command in [with_rights, without_rights] {
        command.env("PATH", hanging.path());
        at_the_coordinator(async |mut stage| {
            let _host = stage.start_by(command, "h0", "200");
            let link = stage.session("h0").await;
            let is_interface = |it| matches!(it, Reading::Interface(_)).then_some(());
            reading(&link, is_interface).await;
            // Nor do the ones after it.
            for _ in 0..5 {
                sample(&link).await;
            }
        });
    }
}

fn missing_route_right_is_reported() {
    let _fabric = Fabric::new();
    let denied = within("leaf0", || {
        let mut command = Command::new("unshare");
        let run = command.args([
            "--user",
            env!("CARGO_BIN_EXE_reweave-agent"),
            "trace",
            "tcp",
            "10.0.0.0:1",
            "10.1.0.1:2",
        ]);
        run.output().expect("unshare runs")
    });
    assert_eq!(denied.status.code(), Some(1));
    let words = String::from_utf8_lossy(&denied.stderr);
    assert!(
        words.contains("CAP_NET_RAW") && words.contains("Operation not permitted"),
        "{words}"
    );
    let pins = agent("leaf0", &["pins"]);
    assert!(pins.status.success(), "looking takes no right");
}

fn agent_without_rights_reports_partially() {
    let _fabric = Fabric::new();
    at_the_coordinator(async |mut stage| {
        let said = stage.scratch.path().join("said");
        let _host = stage.start_without_rights("h0", &said);
        let link = stage.session("h0").await;
        reading(&link, |it| matches!(it, Reading::Counters(_)).then_some(())).await;
        let said = fs::read_to_string(said).expect("it has said something");
        assert!(
            said.contains("paths of flows is off") && said.contains("CAP_NET_RAW"),
            "{said}"
        );
    });
}

/// Every reader learns that it is gone: netlink, files, the program that counts its packets, and the probes that were
/// sent from its address.
fn vanished_interface_is_reported() {
    let _fabric = Fabric::new();
    at_the_coordinator(async |mut stage| {
        let mut host = stage.start_with_files("h0");
        let link = stage.session("h0").await;
        for _ in 0..3 {
            plug_in("h0");
            probe_from(&link, SPARE_ADDRESS).await;
            reading(&link, |it| tells_health(&it, "spare0").then_some(())).await;
            ip_in("h0", &["link", "del", "spare0"]);
            reading(&link, |it| has_vanished(&it, "spare0").then_some(())).await;
            reading(&link, |it| tells_health(&it, "eth0").then_some(())).await;
            reading(&link, |it| cannot_send(&it).then_some(())).await;
        }
        assert_eq!(host.0.try_wait().expect("a child"), None, "it ended");
    });
}

/// Reports are a minute apart.
fn link_change_is_reported_immediately() {
    let _fabric = Fabric::new();
    plug_in("h0");
    at_the_coordinator(async |mut stage| {
        let _host = stage.start_at("h0", "60000");
        let link = stage.session("h0").await;
        assert!(spare_is_up(&link).await);
        for to in ["down", "up"] {
            let turn = || drop(ip_in("h0", &["link", "set", "spare1", to]));
            spare_learns(&link, to == "up", turn).await;
        }
    });
}

/// As its next report says.
pub(crate) async fn spare_is_up(link: &Link) -> bool {
    let spare = |reading| match reading {
        Reading::Counters(it) if it.interface == "spare0" => Some(it.up),
        _ => None,
    };
    reading(link, spare).await
}

/// Not by a report.
pub(crate) async fn spare_learns(link: &Link, up: bool, turn: impl FnOnce()) {
    turn();
    assert_eq!(spare_between_reports(link).await.up, up);
}

/// Compares only the sampled counters, because a report has other readings as well.
async fn spare_between_reports(link: &Link) -> Counters {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let sample = sample(link).await;
        let mut counters = Vec::new();
        let mut is_report = false;
        for reading in sample.readings {
            match reading {
                Reading::Counters(it) => counters.push(it),
                _ => is_report = true,
            }
        }
        let spare = counters.into_iter().find(|it| it.interface == "spare0");
        if let Some(spare) = spare.filter(|_| !is_report) {
            return spare;
        }
        assert!(Instant::now() < deadline, "only in reports");
    }
}

/// Reports are a minute apart.
fn requested_close_sampling_reports_interfaces() {
    let _fabric = Fabric::new();
    plug_in("h0");
    at_the_coordinator(async |mut stage| {
        let _host = stage.start_at("h0", "60000");
        let link = stage.session("h0").await;
        assert!(spare_is_up(&link).await);
        let closely = CoordinatorMessage::Closely(FastSampling { for_ms: 10_000 });
        let message = link.send(Channel::Commands, &closely).await;
        message.expect("it is sent");
        let mut first = spare_between_reports(&link).await;
        for _ in 1..10 {
            first = spare_between_reports(&link).await;
        }
        within("h0", || {
            // No node has it, and so others are asked for its owner.
            let socket = UdpSocket::bind((SPARE_ADDRESS, 0)).expect("an address of its own");
            let neighbour = Ipv4Addr::new(10, 77, 0, 9);
            socket
                .send_to(b"hello", (neighbour, 9))
                .expect("it is sent");
        });
        while spare_between_reports(&link).await.sent == first.sent {}
    });
}

const SPARE_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

pub(crate) fn plug_in(node: &str) {
    let pair = ["type", "veth", "peer", "name", "spare1"];
    ip_in(node, &[&["link", "add", "spare0"], &pair[..]].concat());
    let address = format!("{SPARE_ADDRESS}/24");
    ip_in(node, &["address", "add", &address, "dev", "spare0"]);
    for end in ["spare0", "spare1"] {
        ip_in(node, &["link", "set", end, "up"]);
    }
}

/// Ten times a second.
async fn probe_from(link: &Link, source: Ipv4Addr) {
    let mut flow = probe(0, 2, 7400);
    flow.source.set_ip(source);
    let list = ProbeList {
        period: TimeSpan::from_millis(100),
        ..list([flow], &[])
    };
    let message = CoordinatorMessage::Probe(list);
    let sent = link.send(Channel::Commands, &message).await;
    sent.expect("it is sent");
}

fn tells_health(reading: &Reading, interface: &str) -> bool {
    let place = CounterSource::Interface(interface.to_owned());
    matches!(reading, Reading::Host(HostReading::Health(health)) if health.place == place)
}

fn has_vanished(reading: &Reading, name: &str) -> bool {
    matches!(reading, Reading::Host(HostReading::Vanished { interface, .. }) if interface == name)
}

fn cannot_send(reading: &Reading) -> bool {
    matches!(reading, Reading::Probes(probes) if probes.tally.unsent.count() > 0)
}

/// CPU time to trace 16 flows once. The agent does so each second: it may take a tenth of a core.
const MAX_CPU_PER_TRACE_ROUND: Duration = Duration::from_millis(100);

pub(crate) fn sixteen_flows_cost_little() {
    let _fabric = Fabric::new();
    let stream = |_| Stream::start(Session::new(0, 2), 64 << 10, Duration::from_millis(50));
    let streams: Vec<_> = (0..16).map(stream).collect();
    let flows: Vec<_> = streams.iter().map(|stream| stream.flow).collect();
    at_the_coordinator(async |mut stage| {
        let host = stage.start("h0");
        let link = stage.session("h0").await;
        watch(&link, &flows).await;
        assert_cost_is_little(&host, &link).await;
    });
    for stream in streams {
        stream.finish();
    }
}

/// Traces each flow three times, which the agent does once a second. CPU time does not count what the machine does besides.
async fn assert_cost_is_little(host: &Running, link: &Link) {
    const TRACE_ROUNDS: usize = 3;
    let (deadline, before) = (Instant::now() + TEST_TIMEOUT, host.cpu());
    let (mut samples, mut paths) = (0, 0);
    while paths < TRACE_ROUNDS * 16 {
        assert!(
            Instant::now() < deadline,
            "only {paths} paths in {samples} samples"
        );
        let sample = sample(link).await;
        let is_path = |it: &&Reading| matches!(it, Reading::Path(_));
        paths += sample.readings.iter().filter(is_path).count();
        samples += 1;
    }
    let cpu = host.cpu() - before;
    eprintln!("{samples} samples, {paths} paths of 16 flows: {cpu:?}");
    assert!(
        cpu < TRACE_ROUNDS as u32 * MAX_CPU_PER_TRACE_ROUND,
        "{cpu:?} for {paths} paths"
    );
}
