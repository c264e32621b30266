//! A job of real traffic programs on the addresses of the loopback interface.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use reweave_common::ids::Rank;
use reweave_common::units::Bytes;
use reweave_common::workload::{Pattern, Program, ProgramStep, Transfer};
use serde_json::{Value, json};

/// Longer than anything here takes, on a machine that is busy with other tests.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Event for the end of a rank's output.
const SILENCE_MARK: &str = "silence";
pub(crate) const FLOWS_PER_PAIR: u32 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Udp,
    Quic,
}

impl Transport {
    fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Quic => "quic",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Tcp | Self::Quic => 5001,
            Self::Udp => 4791,
        }
    }
}

/// Parameters of a job.
pub(crate) struct Order {
    pub(crate) transport: Transport,
    pub(crate) pattern: Pattern,
    pub(crate) ranks: usize,
    pub(crate) bytes: u64,
    /// Before each iteration's exchanges.
    pub(crate) compute: Duration,
    pub(crate) iterations: u32,
}

impl Order {
    fn programs(&self) -> Vec<Program> {
        let mut programs = self.pattern.programs(self.ranks, Bytes::new(self.bytes));
        for program in &mut programs {
            program.insert(0, ProgramStep::Compute(self.compute));
        }
        programs
    }
}

/// One flow of the job, as its ranks get it.
#[derive(Clone, Copy)]
pub(crate) struct Flow {
    pub(crate) id: u32,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) nth: u32,
    source: SocketAddrV4,
    destination: SocketAddrV4,
}

impl Flow {
    fn to_json(self) -> Value {
        json!({
            "id": self.id,
            "from": self.from,
            "to": self.to,
            "nth": self.nth,
            "source": self.source.to_string(),
            "destination": self.destination.to_string(),
            "burst_bytes": 0,
        })
    }

    /// Returns the name in error messages.
    pub(crate) fn name(&self) -> String {
        format!("{} > {}", self.source, self.destination)
    }
}

/// Processes that end with this value, however the test ends.
pub(crate) struct Job {
    pub(crate) programs: Vec<Program>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) iterations: u32,
    ranks: Vec<Process>,
    heard: Receiver<(usize, Value)>,
    said: Vec<Vec<Value>>,
}

struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Job {
    /// Starts all ranks, with open sessions.
    pub(crate) fn connected(order: &Order) -> Self {
        let mut job = Self::instructed(order);
        job.all_say("listening");
        job.tell("connect");
        job.all_say("connected");
        job
    }

    /// Starts all ranks with their orders, before sessions are open.
    pub(crate) fn instructed(order: &Order) -> Self {
        let programs = order.programs();
        let flows = flows(&programs, order.transport);
        let (tell, heard) = mpsc::channel();
        let ranks = (0..order.ranks).map(|rank| {
            let mut process = Process::start(&mut worker(), rank, tell.clone());
            process.tell(&assignment(order, rank, &programs[rank], &flows));
            process
        });
        Self {
            ranks: ranks.collect(),
            said: vec![Vec::new(); order.ranks],
            iterations: order.iterations,
            programs,
            flows,
            heard,
        }
    }

    /// Gives all ranks an order. One that is gone hears nothing.
    pub(crate) fn tell(&mut self, order: &str) {
        for rank in &mut self.ranks {
            rank.tell(&json!(order));
        }
    }

    pub(crate) fn kill(&mut self, rank: usize) {
        self.ranks[rank].child.kill().expect("it is our child");
    }

    fn all_say(&mut self, event: &str) {
        for rank in 0..self.ranks.len() {
            self.wait_for(rank, event);
        }
    }

    /// Waits for the next event of this name from `rank`.
    pub(crate) fn wait_for(&mut self, rank: usize, event: &str) -> Value {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            if let Some(found) = self.events(rank, event).next() {
                return found.clone();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok((from, said)) = self.heard.recv_timeout(left) else {
                panic!("rank {rank} never said {event}: {:?}", self.said);
            };
            self.said[from].push(said);
        }
    }

    /// Returns all events of this name from `rank`.
    pub(crate) fn events(&self, rank: usize, event: &str) -> impl Iterator<Item = &Value> {
        let found = self.said[rank].iter();
        found.filter_map(move |said| match said {
            Value::String(name) => (name == event).then_some(said),
            _ => said.get(event),
        })
    }

    /// Ends the lab. Returns the exit status of each rank's process.
    pub(crate) fn leave(mut self) -> Vec<ExitStatus> {
        for rank in &mut self.ranks {
            rank.stdin = None;
        }
        self.all_say(SILENCE_MARK);
        let ended = self
            .ranks
            .iter_mut()
            .map(|rank| rank.child.wait().expect("it is our child"));
        ended.collect()
    }

    /// Returns the bytes of `flow` in all iterations, by the programs.
    pub(crate) fn bytes_of(&self, flow: &Flow) -> u64 {
        let to_receiver = |send: &&Transfer| send.peer.index() == flow.to;
        let sends = sends(&self.programs[flow.from]).filter(to_receiver);
        let shares = sends.map(|send| {
            let mut shares = send.bytes.split(FLOWS_PER_PAIR as usize);
            shares
                .nth(flow.nth as usize)
                .expect("a share for each flow")
                .count()
        });
        shares.sum::<u64>() * u64::from(self.iterations)
    }
}

impl Process {
    fn start(worker: &mut Command, rank: usize, tell: Sender<(usize, Value)>) -> Self {
        let mut child = worker.spawn().expect("the traffic program starts");
        let stdout = child.stdout.take().expect("it is piped");
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let said = serde_json::from_str(&line).unwrap_or(Value::String(line));
                let _ = tell.send((rank, said));
            }
            let _ = tell.send((rank, json!(SILENCE_MARK)));
        });
        let stdin = child.stdin.take();
        Self { child, stdin }
    }

    fn tell(&mut self, what: &Value) {
        if let Some(stdin) = &mut self.stdin {
            let _ = writeln!(stdin, "{what}");
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The traffic program with this on its standard input: its exit code and what it says on stderr.
/// The lab stays there meanwhile, so the program must not wait for it to go.
pub(crate) fn refusal(input: &Value) -> (Option<i32>, String) {
    let (tell, heard) = mpsc::channel();
    let mut process = Process::start(worker().stderr(Stdio::piped()), 0, tell);
    process.tell(input);
    let silence = heard.recv_timeout(TEST_TIMEOUT);
    assert_eq!(silence, Ok((0, json!(SILENCE_MARK))));
    let mut said = String::new();
    let mut stderr = process.child.stderr.take().expect("it is piped");
    stderr.read_to_string(&mut said).expect("it speaks UTF-8");
    (process.child.wait().expect("it is our child").code(), said)
}

/// Returns the assignment of a job's first rank.
pub(crate) fn first_assignment(order: &Order) -> Value {
    let programs = order.programs();
    let flows = flows(&programs, order.transport);
    assignment(order, 0, &programs[0], &flows)
}

fn worker() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reweave-lab"));
    command.arg("worker");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn assignment(order: &Order, rank: usize, program: &Program, flows: &[Flow]) -> Value {
    let own = flows
        .iter()
        .filter(|flow| flow.from == rank || flow.to == rank);
    json!({
        "rank": rank,
        "program": program,
        "iterations": order.iterations,
        "transport": order.transport.name(),
        "flows": own.map(|flow| flow.to_json()).collect::<Vec<_>>(),
    })
}

/// Two flows for each pair that exchanges anything, on addresses that no other test has.
fn flows(programs: &[Program], transport: Transport) -> Vec<Flow> {
    let place = place();
    let mut flows: Vec<Flow> = Vec::new();
    for (from, program) in programs.iter().enumerate() {
        let mut peers: Vec<Rank> = sends(program).map(|send| send.peer).collect();
        peers.sort_unstable();
        peers.dedup();
        for (peer, nth) in peers
            .iter()
            .flat_map(|peer| (0..FLOWS_PER_PAIR).map(move |n| (peer, n)))
        {
            let (id, to) = (flows.len() as u32, peer.index());
            let [source, destination] = [from, to].map(|rank| address(place, rank));
            flows.push(Flow {
                id,
                from,
                to,
                nth,
                source: SocketAddrV4::new(source, 0xC000 + id as u16),
                destination: SocketAddrV4::new(destination, transport.port()),
            });
        }
    }
    flows
}

fn sends(program: &Program) -> impl Iterator<Item = &Transfer> {
    let sends = program.iter().filter_map(|step| match step {
        ProgramStep::Compute(_) => None,
        ProgramStep::Exchange { sends, .. } => Some(sends),
    });
    sends.flatten()
}

/// A network of the loopback interface for each job of each run of these tests.
fn place() -> [u8; 2] {
    static NEXT_ADDRESS: AtomicU8 = AtomicU8::new(0);
    let run = (std::process::id() % 120) as u8;
    [128 + run, NEXT_ADDRESS.fetch_add(1, Ordering::Relaxed)]
}

fn address([run, job]: [u8; 2], rank: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, run, job, rank as u8 + 1)
}
