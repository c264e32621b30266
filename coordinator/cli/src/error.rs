//! Errors of the commands.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::Utf8Error;
use std::time::Duration;

use reweave_common::error::error_chain;
use reweave_common::exit_code::{BAD_USAGE, FAILED};
use reweave_common::fabric::NicUse;
use reweave_common::input::InputError;
use reweave_common::operator::{Refused, Response, Unknown};
use reweave_common::plan::Generation;
use reweave_common::tree::NoTree;
use reweave_design::topology::TopologyError;
use reweave_formats::chakra::ChakraError;
use reweave_formats::flight_recorder::FlightRecorderError;
use reweave_formats::kubernetes::KubernetesError;
use reweave_formats::nccl::NcclError;
use reweave_formats::nccl_inspector;
use reweave_formats::nccl_topo::TopoError;
use reweave_formats::slurm::SlurmError;
use reweave_formats::topoopt::{ProfileError, TaskGraphError};
use reweave_history::{PastError, ShelfError};
use reweave_link::chain::ChainError;
use reweave_link::durable_files::{LockedFolderError, numbered};
use reweave_link::join::{JoinError, TokenError};
use reweave_link::pki::PkiError;
use reweave_link::{DenyListError, LinkError};
use reweave_repair::causes::EvidenceError;
use reweave_sim::collectives::CollectiveError;
use reweave_sim::engine::SimError;
use reweave_sim::workload::SimulationError;
use reweave_sim::workload::history::ReplayError;
use reweave_sim::workload::job::operators::OperatorError;
use reweave_sim::workload::job::preset::PresetError;
use reweave_sim::workload::recorded::RecordedError;
use thiserror::Error;

use crate::json::Misread;
use crate::kept::Whose;
use crate::sim::collective::is_bad_input;
use crate::standing::Answer;

#[derive(Debug, Error)]
pub(crate) enum CliError {
    #[error(
        "the leading coordinator serves no dashboard: its `http` address is taken or not on \
         loopback; --http gives another address"
    )]
    NoPage,
    #[error(
        "no identity: give the folder of an operator's certificate with --identity or \
         REWEAVE_IDENTITY (`reweave cluster init` creates one)"
    )]
    NoIdentity,
    #[error("{member} is not the certificate of an operator or a viewer; use one of those")]
    NotForPeople { member: String },
    #[error("cannot use the identity in {}", folder.display())]
    Identity {
        folder: PathBuf,
        source: Box<PkiError>,
    },
    #[error("cannot find {name}: write --coordinator as ADDRESS, ADDRESS:PORT or NAME:PORT")]
    NoSuchAddress { name: String, source: io::Error },
    /// The source holds the reason for each address.
    #[error("cannot reach {}", coordinators(addresses))]
    Reach {
        addresses: Vec<SocketAddr>,
        source: Box<LinkError>,
    },
    /// Each coordinator is on the deny list beside the identity.
    #[error(
        "cannot use {}: {}; give the address of another coordinator with --coordinator or `reweave \
         context set`",
        coordinators(addresses), denial.fault()
    )]
    Denied {
        addresses: Vec<SocketAddr>,
        denial: Box<LinkError>,
    },
    #[error(transparent)]
    DenyLists(#[from] DenyListError),
    #[error("`reweave top` needs a terminal; `reweave status` prints the same once")]
    NoTerminal,
    #[error(transparent)]
    Token(TokenError),
    #[error("cannot join")]
    Join { source: Box<JoinError> },
    #[error("no command for {node}: give it after `--`, or use --finish when the work is done")]
    NothingToRun { node: String },
    #[error("the driver of {node} reports no version to compare with {version}")]
    NoVersion { node: String, version: String },
    #[error("the coordinator did not answer")]
    Ask(#[source] Box<LinkError>),
    #[error("no coordinator reports its state{reasons}")]
    NoStanding { reasons: String },
    #[error("the coordinator did not answer within {} s", waited.as_secs_f64())]
    NoAnswer { waited: Duration },
    #[error("{0}")]
    Refused(Refused),
    #[error("unexpected answer from the coordinator: {answer}")]
    Unexpected { answer: String },
    #[error(
        "connection to the coordinator lost; plan {generation} may still be applied: see `reweave \
         history`"
    )]
    OutOfSight {
        generation: Generation,
        source: Box<CliError>,
    },
    #[error(
        "no plan {generation} in the history: it never existed or has expired; `reweave history` \
         lists plans"
    )]
    Lost { generation: Generation },
    #[error(
        "plan {generation} is not on offer: {what}; see `reweave plan show {generation}`, and \
         make a new one with `reweave plan`"
    )]
    NotOffered {
        generation: Generation,
        what: String,
    },
    #[error(
        "plan {generation} is on offer, but there is no terminal for confirmation: use `reweave \
         apply {generation}`, or `reweave apply --yes` for the newest offer"
    )]
    Unconfirmed { generation: Generation },
    #[error("plan {generation} was not applied and stays on offer")]
    Declined { generation: Generation },
    #[error(
        "no job and no host is named {job:?}; `reweave jobs` lists jobs, `reweave hosts` lists \
         hosts"
    )]
    NothingToExplain { job: String },
    #[error(transparent)]
    NoTree(#[from] NoTree),
    #[error(transparent)]
    Slurm(#[from] SlurmError),
    #[error(transparent)]
    Nccl(#[from] NcclError),
    #[error(transparent)]
    Kubernetes(#[from] KubernetesError),
    #[error("no node {node}; `reweave hosts` lists them")]
    NoSuchNode { node: String },
    #[error(
        "the fabric has no node {node}: nothing is revoked; `reweave hosts` lists nodes, --force \
         revokes certificates of any name"
    )]
    NotToRevoke { node: String },
    #[error("no job on {} is frozen; `reweave status` lists frozen jobs", hosts.join(", "))]
    NotFrozen { hosts: Vec<String> },
    #[error("cannot write the manual into {}", folder.display())]
    Manual { folder: PathBuf, source: io::Error },
    #[error("no context named {name}; `reweave context list` lists them")]
    NoSuchContext { name: String },
    #[error("{key} is given twice: give each setting one value")]
    SettingTwice { key: String },
    #[error("no context is current; name one, or choose one with `reweave context use`")]
    NoContext,
    #[error("the new context {name} needs coordinators: give them with --coordinator")]
    NoCoordinators { name: String },
    #[error("no folder for config.toml: neither XDG_CONFIG_HOME nor HOME is set")]
    NoConfigFolder,
    #[error("cannot write this as TOML")]
    Toml(#[source] toml::ser::Error),
    #[error("cannot write this as YAML")]
    Yaml(#[source] serde_saphyr::ser::Error),
    #[error("cannot run {}", program.display())]
    Program { program: PathBuf, source: io::Error },
    #[error("no state folder: give one with --dir")]
    NoFolder,
    #[error(
        "another `reweave dev` runs in {}{}; use that one, or stop it first", folder.display(),
        numbered(*by)
    )]
    DevRuns { folder: PathBuf, by: Option<u32> },
    #[error("{program} still runs on {}{}; stop it first", folder.display(), numbered(*by))]
    LeftBehind {
        program: &'static str,
        folder: PathBuf,
        by: Option<u32>,
    },
    #[error(transparent)]
    Keep(LockedFolderError),
    #[error("{name} exited: {words} (log: {})", log.display())]
    Ended {
        name: &'static str,
        words: String,
        log: PathBuf,
    },
    #[error("cannot start")]
    Start(#[source] io::Error),
    #[error(transparent)]
    Pki(Box<PkiError>),
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is larger than {most_bytes} bytes", path.display())]
    TooLarge { path: PathBuf, most_bytes: u64 },
    #[error("no audit files in {}", folder.display())]
    NothingWritten { folder: PathBuf },
    #[error("{}:{line}", path.display())]
    BrokenChain {
        path: PathBuf,
        line: usize,
        source: ChainError,
    },
    #[error(
        "no line in {} has the digest {digest}: it was changed or removed",
        folder.display()
    )]
    NotAmong { folder: PathBuf, digest: String },
    #[error("standard input can be read only once: use - for one file, and not in a sweep")]
    InputTwice,
    #[error("{} is not text", path.display())]
    NotText { path: PathBuf, source: Utf8Error },
    #[error(transparent)]
    Input(InputError),
    #[error("{}", path.display())]
    Profile { path: PathBuf, source: ProfileError },
    #[error("{}", path.display())]
    Operators {
        path: PathBuf,
        source: OperatorError,
    },
    #[error("{}", path.display())]
    Preset { path: PathBuf, source: PresetError },
    #[error("{0}")]
    Topology(TopologyError),
    #[error("{} is not output of `reweave plan --output json`", path.display())]
    NoPlan {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("{}{line}: {place} was edited after the plan was shown: plan again, and do not edit \
             the file", path.display())]
    Edited {
        path: PathBuf,
        /// Line number with a colon, if it is known.
        line: String,
        place: String,
    },
    #[error("{} has apiVersion {version}, but this program reads {ours}: write it again with this \
             release", path.display())]
    OtherApiVersion {
        path: PathBuf,
        /// As it stands there.
        version: String,
        ours: &'static str,
    },
    #[error("{} was made for {theirs}, but this certificate is of {ours}: plan again here", path.display())]
    OtherCluster {
        path: PathBuf,
        theirs: Box<Whose>,
        ours: Box<Whose>,
    },
    #[error(
        "no host has reported its links yet: start the agents that `reweave hosts` lists{instead}"
    )]
    NoneReported { instead: &'static str },
    #[error("too few hosts are reachable: {why}")]
    NotReached { why: String },
    #[error("there are no hosts")]
    NoHosts,
    #[error("{} has neither a cluster name nor a seal: apply a file written by `reweave plan \
             --out FILE`", path.display())]
    Unmarked { path: PathBuf },
    #[error("no plan to write to {}", path.display())]
    NothingToKeep { path: PathBuf },
    #[error("{} is a plan for another fabric", path.display())]
    OtherFabric { path: PathBuf, source: Unknown },
    #[error("{} is not output of `reweave plan topology --output json`", path.display())]
    BadPlan { path: PathBuf, source: Misread },
    #[error("{}: {problem}; plan again with `reweave plan topology`", path.display())]
    UntruePlan { path: PathBuf, problem: String },
    #[error("{} is not output of `reweave plan shard --output json`", path.display())]
    BadShards { path: PathBuf, source: Misread },
    #[error(
        "{}: {job} cannot continue: {problem}; plan without --after, or with the cluster of that \
         file",
        path.display()
    )]
    StaleShards {
        path: PathBuf,
        job: String,
        problem: String,
    },
    #[error("the fabric under --over has no host {name}: it must have all hosts of the cluster")]
    NotOver { name: String },
    #[error("{job}: {problem}")]
    Unfit { job: String, problem: String },
    #[error("only `reweave plan ranks` and `reweave job gate` print a hostfile")]
    NoHostfile,
    #[error("only `reweave pairs` prints CSV")]
    NoCsv,
    #[error(
        "only `reweave hosts`, `links`, `paths`, `jobs`, `policy show` and `cluster member list` \
         have more columns: use --output table"
    )]
    NoMoreColumns,
    #[error(
        "only lists print names: `reweave hosts`, `links`, `paths`, `jobs`, `history`, \
         `maintenance`, `policy show`, `cluster member list` and `context list`"
    )]
    NoNames,
    #[error("`reweave {name}` prints neither JSON nor YAML: leave --output out")]
    TextOnly { name: &'static str },
    #[error("{} has no line of nccl-tests", path.display())]
    NothingMeasured { path: PathBuf },
    #[error("{} is not an evidence file", path.display())]
    BadEvidence { path: PathBuf, source: Misread },
    #[error("{} does not fit the fabric", path.display())]
    UnfitEvidence {
        path: PathBuf,
        source: EvidenceError,
    },
    #[error("{job} has no large flows to other hosts now; `reweave paths` lists all flows")]
    NoTraffic { job: String },
    #[error(
        "{text:?} is not a flow: write two hosts, or one flow as in 'h0:40000 > h4:5001', with \
         ports from 1 to 65535"
    )]
    NoFlow { text: String },
    #[error(
        "no flow from {from} to {to} is known now; --source-port, --port and --refresh trace a flow \
         that does not exist yet"
    )]
    NothingFlows { from: String, to: String },
    #[error("{} has no collectives of job {job}", path.display())]
    NoSuchJob { job: String, path: PathBuf },
    #[error("no host {name}: hosts are h0 to h{}", hosts.saturating_sub(1))]
    NoSuchHost { name: String, hosts: usize },
    #[error("{host} has {ports} ports, but more are listed as broken")]
    DeadPorts { host: String, ports: usize },
    #[error("{panel}: a host has only {ports} ports")]
    ManyPanelPorts { panel: String, ports: usize },
    #[error("{cable} is not a pair of hosts: write it as h0-h1")]
    BadCable { cable: String },
    #[error("{panel} is not a panel: write HOST..HOST=PORTS, as in h0..h7=4")]
    BadPanel { panel: String },
    #[error("the fabric has no node {name}")]
    NoHost { name: String },
    #[error("map the NICs of {host} to its links with --nic, as in mlx5_0={}; links of {host}: {}",
        links.first().map_or("LINK", String::as_str), links.join(", "))]
    NoLinkOfNic { host: String, links: Vec<String> },
    #[error("--nic {nic}: it is for {}", purpose.name())]
    NotForTraining { nic: String, purpose: NicUse },
    #[error("{nic} is no NIC of {host} in the fabric file, by its interface or its GPU: name its link with --nic; \
             links without a NIC: {}", links.join(", "))]
    UnknownNic {
        nic: String,
        host: String,
        links: Vec<String>,
    },
    #[error("{} is not a topology file that NCCL can read", dump.display())]
    Topo { dump: PathBuf, source: TopoError },
    #[error("{} exists already; --force overwrites it", path.display())]
    IsThere { path: PathBuf },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{}", path.display())]
    TaskGraph {
        path: PathBuf,
        source: Box<TaskGraphError>,
    },
    #[error("a sweep of more than {most} points: split it")]
    TooManyPoints { most: usize },
    #[error("cannot use {url}")]
    Store {
        url: String,
        source: Box<ShelfError>,
    },
    #[error(
        "{from} has {}{}; use a folder that holds one sweep only",
        if *found == 0 { "no shards".to_owned() } else { format!("{found} shards") },
        if missing.is_empty() { String::new() } else { format!(" and lacks {missing}") }
    )]
    Shards {
        from: String,
        found: usize,
        missing: String,
    },
    #[error("{name} is not a shard of a sweep")]
    BadShard {
        name: String,
        source: serde_json::Error,
    },
    #[error("{0}")]
    Collective(CollectiveError),
    #[error("packets have no payload: --packet-bytes must exceed --header-bytes")]
    NoPayload,
    #[error("{files}")]
    Chakra { files: String, source: ChakraError },
    #[error("{}", path.display())]
    FlightRecorder {
        path: PathBuf,
        source: FlightRecorderError,
    },
    #[error("{}", path.display())]
    Inspector {
        path: PathBuf,
        source: nccl_inspector::Problem,
    },
    #[error("{files}")]
    Recorded {
        files: String,
        source: RecordedError,
    },
    #[error("{option} {} is out of range", figure(*value))]
    BadOption { option: &'static str, value: f64 },
    #[error(
        "--rate {} by flows of --flow-rate {} asks for more than {most} flows over each link",
        figure(*rate),
        figure(*flow_rate)
    )]
    TooManyFlows {
        rate: f64,
        flow_rate: f64,
        most: f64,
    },
    #[error("--lossy {text} is not LINK=SHARE, as in leaf0-spine1=0.01")]
    BadLoss { text: String },
    #[error(
        "--measured {text} is neither a file nor [ALGO/PROTO[/CHANNELS]=]FILE, as in ring/ll=FILE \
         or ring/ll/4=FILE"
    )]
    BadBound { text: String },
    #[error(
        "--linux needs --seed, the routers' net.ipv4.fib_multipath_hash_seed: with 0 they choose \
         a random key"
    )]
    NoKey,
    #[error("{host} has no address, which --linux hashes: add `address` to each host")]
    NoHostAddress { host: String },
    #[error(
        "the plan has no {name}; {}",
        if panels.is_empty() { "it has no panels: name a link or a host".to_owned() }
        else { format!("it has {}", panels.join(", ")) }
    )]
    NoSuchPanel { name: String, panels: Vec<String> },
    #[error("the plan has no link {name}; {host} has {}", links.join(", "))]
    NotLaid {
        name: String,
        host: String,
        links: Vec<String>,
    },
    #[error("the fabric has no link {name}; links are named as in leaf0-spine1")]
    NoSuchLink { name: String },
    #[error("--lossy names {name} twice")]
    LinkTwice { name: String },
    #[error(
        "{text:?} is not a time span: write 2026-11-20T14:00/10m (UTC), or 1h/10m for an hour ago"
    )]
    BadSpan { text: String },
    #[error("{text:?} ends too late: use a shorter span")]
    BeyondTime { text: String },
    #[error("{of} has no traffic between hosts of the recorded fabric")]
    NothingSent { of: String },
    #[error("the fabric has no host named {name:?}; name its replacement under [hosts]")]
    NotInFabric { name: String },
    #[error("cannot open the history")]
    Shelf(#[source] ShelfError),
    #[error("cannot read the history")]
    Past(#[source] Box<PastError>),
    /// An error in a fabric file.
    #[error("{}", path.display())]
    On { path: PathBuf, source: Box<Self> },
    #[error("{0}")]
    Replay(ReplayError),
    #[error("{0}")]
    Simulation(SimulationError),
    #[error("cannot print as JSON")]
    Json(#[source] serde_json::Error),
    #[error("cannot print")]
    Say(#[source] io::Error),
}

impl CliError {
    pub(crate) fn unexpected(answer: &Response) -> Self {
        Self::Unexpected {
            answer: format!("{answer:?}"),
        }
    }

    /// Returns the error for coordinators of which none has reported its state.
    pub(crate) fn without_standing(answers: &[Answer]) -> Self {
        let failures = answers.iter().filter_map(|(address, answer)| {
            let why = answer.as_ref().err()?;
            Some(format!("\n  {address}: {why}"))
        });
        Self::NoStanding {
            reasons: failures.collect(),
        }
    }

    /// Whether a new session may succeed.
    pub(crate) fn is_of_the_session(&self) -> bool {
        matches!(self, Self::Ask(_) | Self::NoAnswer { .. })
    }

    /// Whether a retry may succeed, because coordinators come and go.
    pub(crate) fn may_pass(&self) -> bool {
        self.is_of_the_session() || matches!(self, Self::Reach { .. })
    }

    /// Returns the error with all its sources in one line.
    pub(crate) fn error_chain(&self) -> String {
        error_chain(self)
    }

    /// Adds the fabric file to an error about invalid input.
    pub(crate) fn on(self, fabric: &Path) -> Self {
        let path = fabric.to_owned();
        match self {
            Self::Simulation(SimulationError::Network(_) | SimulationError::Collective { .. })
            | Self::Collective(
                CollectiveError::NoWay { .. }
                | CollectiveError::TooFewHosts { .. }
                | CollectiveError::SharedHost { .. },
            )
            | Self::Replay(ReplayError::NoWay { .. })
            | Self::NoSuchLink { .. }
            | Self::NoHost { .. }
            | Self::NoHosts
            | Self::NoLinkOfNic { .. }
            | Self::UnknownNic { .. }
            | Self::NoHostAddress { .. }
            | Self::NoTree(_)
            | Self::Kubernetes(_)
            | Self::NotInFabric { .. } => Self::On {
                path,
                source: Box::new(self),
            },
            other => other,
        }
    }

    /// Adds the fabric file, if there is one; otherwise the fabric is the coordinator's.
    pub(crate) fn on_any(self, fabric: Option<&Path>) -> Self {
        match fabric {
            Some(fabric) => self.on(fabric),
            None => self,
        }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::On { source, .. } => source.exit_code(),
            Self::Refused(refused) if names_nothing(refused) => BAD_USAGE,
            Self::NoIdentity
            | Self::NotForPeople { .. }
            | Self::Identity { .. }
            | Self::NoSuchAddress { .. }
            | Self::Token(_)
            | Self::Pki(_)
            | Self::BadOption { .. }
            | Self::TooManyFlows { .. }
            | Self::BadLoss { .. }
            | Self::BadBound { .. }
            | Self::NoKey
            | Self::NoHostAddress { .. }
            | Self::NoSuchLink { .. }
            | Self::LinkTwice { .. }
            | Self::NoSuchNode { .. }
            | Self::NotToRevoke { .. }
            | Self::NotFrozen { .. }
            | Self::NoHost { .. }
            | Self::NoLinkOfNic { .. }
            | Self::NotForTraining { .. }
            | Self::UnknownNic { .. }
            | Self::Topo { .. }
            | Self::NothingToRun { .. }
            | Self::NoVersion { .. }
            | Self::NothingWritten { .. }
            | Self::NoTree(_)
            | Self::Slurm(_)
            | Self::Nccl(_)
            | Self::Kubernetes(_)
            | Self::NoSuchPanel { .. }
            | Self::NoPlan { .. }
            | Self::OtherFabric { .. }
            | Self::Edited { .. }
            | Self::OtherCluster { .. }
            | Self::Unmarked { .. }
            | Self::BadPlan { .. }
            | Self::UntruePlan { .. }
            | Self::NotLaid { .. }
            | Self::BadShards { .. }
            | Self::NotOver { .. }
            | Self::Unfit { .. }
            | Self::StaleShards { .. }
            | Self::NoTerminal
            | Self::NoSuchHost { .. }
            | Self::DeadPorts { .. }
            | Self::ManyPanelPorts { .. }
            | Self::BadCable { .. }
            | Self::BadPanel { .. }
            | Self::NothingMeasured { .. }
            | Self::NoSuchJob { .. }
            | Self::NoFlow { .. }
            | Self::IsThere { .. }
            | Self::Replay(ReplayError::NoWay { .. })
            | Self::TooManyPoints { .. }
            | Self::Shards { .. }
            | Self::BadShard { .. } => BAD_USAGE,
            Self::Simulation(error) if is_bad_network(error) => BAD_USAGE,
            Self::Shelf(error) if error.is_bad_input() => BAD_USAGE,
            Self::Store { source, .. } if source.is_bad_input() => BAD_USAGE,
            Self::Collective(error) if is_bad_input(error) => BAD_USAGE,
            Self::Topology(error) if !matches!(error, TopologyError::Simulation(_)) => BAD_USAGE,
            _ if self.is_of_a_file() || self.is_of_what_is_asked() => BAD_USAGE,
            _ => FAILED,
        }
    }

    /// Whether the request asks for something that does not exist.
    fn is_of_what_is_asked(&self) -> bool {
        matches!(
            self,
            Self::NoPayload
                | Self::BadSpan { .. }
                | Self::BeyondTime { .. }
                | Self::NotInFabric { .. }
                | Self::NothingToExplain { .. }
                | Self::Unconfirmed { .. }
                | Self::NoHostfile
                | Self::NoCsv
                | Self::NoMoreColumns
                | Self::NoSuchContext { .. }
                | Self::SettingTwice { .. }
                | Self::NoContext
                | Self::NoCoordinators { .. }
                | Self::NoConfigFolder
                | Self::NoNames
                | Self::TextOnly { .. }
        )
    }

    /// Whether a given file is unreadable or invalid.
    fn is_of_a_file(&self) -> bool {
        matches!(
            self,
            Self::Read { .. }
                | Self::TooLarge { .. }
                | Self::OtherApiVersion { .. }
                | Self::BadEvidence { .. }
                | Self::UnfitEvidence { .. }
                | Self::InputTwice
                | Self::NotText { .. }
                | Self::DenyLists(_)
                | Self::Input(_)
                | Self::NoHosts
                | Self::Profile { .. }
                | Self::Operators { .. }
                | Self::Preset { .. }
                | Self::TaskGraph { .. }
                | Self::Chakra { .. }
                | Self::FlightRecorder { .. }
                | Self::Inspector { .. }
                | Self::Recorded { .. }
        )
    }
}

fn coordinators(addresses: &[SocketAddr]) -> String {
    match addresses {
        [only] => format!("the coordinator at {only}"),
        all => {
            let all: Vec<_> = all.iter().map(ToString::to_string).collect();
            format!("any coordinator at {}", all.join(", "))
        }
    }
}

/// Whether a given name is unknown to the cluster, or a given value is invalid.
fn names_nothing(refused: &Refused) -> bool {
    matches!(
        refused,
        Refused::NoSuchSwitch { .. }
            | Refused::NoSuchHost { .. }
            | Refused::NoSuchJob { .. }
            | Refused::NotRegistered { .. }
            | Refused::NotToMaintain { .. }
            | Refused::NoSuchLink { .. }
            | Refused::NoSuchMember { .. }
            | Refused::WhichAddress { .. }
            | Refused::TooLong { .. }
            | Refused::BadSetting { .. }
    )
}

/// Formats a value with as few characters as possible.
fn figure(value: f64) -> String {
    format!("{value:?}").trim_end_matches(".0").to_owned()
}

fn is_bad_network(error: &SimulationError) -> bool {
    matches!(
        error,
        SimulationError::Network(_)
            | SimulationError::Collective { .. }
            | SimulationError::Problem(_)
            | SimulationError::Course(SimError::TooLong)
    )
}

impl From<PkiError> for CliError {
    fn from(error: PkiError) -> Self {
        Self::Pki(Box::new(error))
    }
}
