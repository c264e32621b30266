//! Errors of a lab: one variant per failed operation, each with a remedy.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;

use nix::errno::Errno;
use nix::unistd::Pid;
use reweave_common::exit_code::{BAD_USAGE, FAILED, NOT_EXECUTABLE, NOT_FOUND};
use reweave_common::input::InputError;
use reweave_common::units::Rate;
use thiserror::Error;

use crate::features::Feature;
use crate::optical::Refusal;
use crate::tools::Tool;
use crate::worker::AssignmentError;

#[derive(Debug, Error)]
pub enum LabError {
    /// The scenario or fabric file says something that makes no sense.
    #[error(transparent)]
    Input(#[from] InputError),
    #[error("cannot read {}: {source}", .path.display())]
    ReadScenario { path: PathBuf, source: io::Error },
    #[error(
        "{path} has no [[job]] to run: add one, or bring up what it has with `reweave-lab up {path}`",
        path = .path.display()
    )]
    NothingToRun { path: PathBuf },
    #[error(
        "{name:?} is no name for a lab: use --name with up to 64 letters, digits, '-', '_', '.'"
    )]
    BadLabName { name: String },
    #[error("{count} {what} are more than the {most} a lab has addresses for")]
    FabricTooLarge {
        what: &'static str,
        count: usize,
        most: usize,
    },
    #[error(
        "{address} of {host:?} is an address that the lab gives to another: choose one outside of 10.0.0.0/8"
    )]
    AddressTaken { host: String, address: Ipv4Addr },
    #[error("another interface of {host:?} is named {interface:?} in a lab: rename this NIC")]
    InterfaceTaken { host: String, interface: String },
    #[error("{link} at {rate}: a lab shapes links up to {most}")]
    RateTooHigh {
        link: String,
        rate: Rate,
        most: Rate,
    },
    /// The file makes sense, but no lab of this kind can be made of it.
    #[error("{}: {source}", .path.display())]
    BeyondLab { path: PathBuf, source: Box<Self> },
    #[error(
        "{tool} is missing: install the package {package} (Debian, Ubuntu: apt install {package})",
        package = .tool.package()
    )]
    MissingTool { tool: Tool },
    #[error(
        "FRR is missing, which this scenario's `frr` asks for: install the package frr (Debian, Ubuntu: apt install frr)"
    )]
    MissingFrr,
    #[error(
        "FRR runs as a user of its own, which only root can make it be: a scenario with `frr` needs root"
    )]
    FrrForRoot,
    #[error("FRR does not start in {node}: {source}")]
    StartFrr { node: String, source: io::Error },
    #[error("this kernel has no {feature}: {}", .feature.advice())]
    MissingFeature { feature: Feature },
    #[error("this kernel does not let an ordinary user make namespaces ({source}): {hint}")]
    UserNamespaces { hint: String, source: Errno },
    #[error("cannot make {what}: {source}")]
    Namespaces { what: &'static str, source: Errno },
    #[error(
        "cannot mount {what} inside the lab: {source} (in a container, it must be allowed to mount: docker run --privileged)"
    )]
    Mount { what: &'static str, source: Errno },
    #[error("cannot start the lab's first process: {source}")]
    Fork { source: Errno },
    #[error("cannot watch for signals: {source}")]
    Signals { source: Errno },
    #[error("the lab's first process did not start: {source}")]
    Handshake { source: io::Error },
    #[error("cannot make node {node}: {step}: {source}")]
    CreateNode {
        node: String,
        step: &'static str,
        source: io::Error,
    },
    #[error("cannot set {key} in {node}: {source}")]
    Sysctl {
        node: String,
        key: String,
        source: io::Error,
    },
    #[error("cannot enter {node}: {source}")]
    EnterNode { node: String, source: Errno },
    #[error("cannot run {tool}: {source}")]
    StartTool { tool: Tool, source: io::Error },
    /// A tool refused a line of its script.
    #[error("{tool} refused `{line}` in {node}: {said}")]
    ToolRefused {
        tool: Tool,
        node: String,
        line: String,
        said: String,
    },
    #[error("cannot list processes: {source}")]
    ListProcesses { source: io::Error },
    #[error("cannot start the user-space wire: {source} (it needs a kernel with CONFIG_PACKET)")]
    Relay { source: io::Error },
    #[error("cannot record the packets of {node}: {source} (it needs a kernel with CONFIG_PACKET)")]
    Capture { node: String, source: io::Error },
    #[error("cannot keep artifacts in {}: {source}", .path.display())]
    Keep { path: PathBuf, source: io::Error },
    #[error(
        "lab {name} plays its faults at their times: bring it up with --stepped to step through them"
    )]
    NotStepped { name: String },
    #[error("all faults of lab {name} have been played")]
    TimelineFinished { name: String },
    #[error("lab {name}: {error}")]
    StepFailed { name: String, error: String },
    #[error("lab {name} ended before it answered: {source}")]
    ControlSocket {
        name: String,
        source: serde_json::Error,
    },
    #[error("cannot play the fault `{what}`: {source}")]
    Fault { what: String, source: Box<Self> },
    #[error("rank {rank} of {job} is not running")]
    NoSuchProcess { job: String, rank: usize },
    /// Its processes do not end, or start others faster than they are stopped.
    #[error("the processes of {node} go on in spite of signals")]
    Restless { node: String },
    #[error("cannot signal process {pid}: {source}")]
    Signal { pid: Pid, source: Errno },
    /// The kernels have no consistent path for a flow.
    #[error("the routes do not lead {flow} to its receiver")]
    NoPath { flow: String },
    #[error("{host} has more flows than source ports: use fewer flows_per_pair, or fewer rails")]
    PortsUsedUp { host: String },
    #[error("cannot start rank {rank} of {job}: {source}")]
    StartRank {
        job: String,
        rank: usize,
        source: io::Error,
    },
    #[error("cannot give rank {rank} of {job} its work: {source}")]
    TellRank {
        job: String,
        rank: usize,
        source: io::Error,
    },
    #[error("the ranks of {job} did not find each other: {why}")]
    NotConnected { job: String, why: String },
    #[error("cannot read a node's counters: {source}")]
    Counters { source: io::Error },
    /// A rank's process cannot do its work.
    #[error("this rank cannot work: {source}")]
    Worker { source: io::Error },
    #[error("what stands on standard input is no work for a rank: {source}")]
    BadAssignment { source: AssignmentError },
    #[error("the lab gives an order that no rank knows: {source}")]
    BadOrder { source: serde_json::Error },
    #[error("cannot listen at {at}: {source}")]
    Listen { at: SocketAddrV4, source: io::Error },
    #[error("the optical switch cannot have that circuit: {source}")]
    Circuit { source: Refusal },
    #[error("optical switch {name} does not start: {source}")]
    StartOptical { name: String, source: io::Error },
    #[error("cannot open flow {flow}: {source}")]
    OpenFlow { flow: String, source: io::Error },
    #[error("no source port leads all flows of job {job:?} the way its `via` wants")]
    NoSuchWay { job: String },
    #[error("cannot keep the lab's state in {}: {source}", .path.display())]
    State { path: PathBuf, source: io::Error },
    #[error("{} belongs to another user; remove it, or set XDG_RUNTIME_DIR to a folder of your own", .path.display())]
    StateOwner { path: PathBuf },
    #[error(
        "lab {name:?} is running already: end it with `reweave-lab down {name}`, or choose another name with --name"
    )]
    AlreadyRunning { name: String },
    #[error("no lab of this user is running: start one with `reweave-lab up SCENARIO`")]
    NoLab,
    #[error("there is no lab {name:?}; running: {}", .running.join(", "))]
    NoSuchLab { name: String, running: Vec<String> },
    #[error("several labs are running: say which with --lab ({})", .running.join(", "))]
    WhichLab { running: Vec<String> },
    #[error("lab {name:?} does not come up")]
    StillStarting { name: String },
    #[error("lab {lab:?} has no node {name:?}; it has {}", .nodes.join(" "))]
    NoSuchNode {
        name: String,
        lab: String,
        nodes: Vec<String>,
    },
    #[error("the scenario of lab {lab:?} has no job {name:?}; it has {}", .jobs.join(" "))]
    NoSuchJob {
        name: String,
        lab: String,
        jobs: Vec<String>,
    },
    #[error("a job is conducted by `reweave-lab job`: {source}")]
    BadConduct { source: serde_json::Error },
    #[error("cannot enter lab {name:?}: {source}")]
    EnterLab { name: String, source: Errno },
    #[error("cannot run {program}: {source}")]
    StartProgram { program: String, source: io::Error },
    #[error("cannot end lab {name:?}: {source}")]
    Stop { name: String, source: Errno },
    #[error("lab {name:?} does not go away")]
    StillThere { name: String },
    #[error("lab {name:?} was killed")]
    Killed { name: String },
    #[error("cannot write the result: {source}")]
    Say { source: io::Error },
}

impl LabError {
    /// [`BAD_USAGE`] when the user asked for something that does not exist or makes no sense.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Input(_)
            | Self::ReadScenario { .. }
            | Self::NothingToRun { .. }
            | Self::BadLabName { .. }
            | Self::FabricTooLarge { .. }
            | Self::AddressTaken { .. }
            | Self::InterfaceTaken { .. }
            | Self::RateTooHigh { .. }
            | Self::BeyondLab { .. }
            | Self::AlreadyRunning { .. }
            | Self::NoLab
            | Self::NoSuchLab { .. }
            | Self::WhichLab { .. }
            | Self::NoSuchNode { .. }
            | Self::NoSuchJob { .. }
            | Self::BadConduct { .. }
            | Self::BadAssignment { .. }
            | Self::BadOrder { .. } => BAD_USAGE,
            Self::StartProgram { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                NOT_FOUND
            }
            Self::StartProgram { .. } => NOT_EXECUTABLE,
            _ => FAILED,
        }
    }
}
