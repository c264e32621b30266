//! What the program is asked on its command line.

mod bandwidth;
mod collectives;
mod counters;
mod facts;
mod flows;
mod interrupt;
mod nccl;
mod out;
mod preflight;
mod probe;
mod rdma;
mod rhythm;
mod show;
mod switch;
mod table;
mod trace;
mod traffic;
mod transport;
mod ways;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use reweave_agent::error::AgentError;
use reweave_agent::fibres::Fibres;
use reweave_agent::role::Role;
use reweave_agent::switch::Software;
use reweave_common::error::told;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::printable::shown;
use reweave_common::probing::PROBE_PORT;
use reweave_link::join::Token;
use reweave_link::line;

pub(crate) use out::instead;
pub(crate) use show::show;
use ways::End;

/// Measures a host or switch, traces its flows, and holds the pins it is told to.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Cli {
    /// How to write the log, to standard error
    #[arg(long, value_enum, default_value_t = Log::Text, global = true)]
    pub(crate) log: Log,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Log {
    /// For people
    Text,
    /// One JSON object per line, with the time
    Json,
}

impl Log {
    pub(crate) fn start(self) {
        let log = tracing_subscriber::fmt()
            .with_writer(std::io::stderr)
            // It would tell of them where it cannot write, and panic.
            .log_internal_errors(false);
        match self {
            Self::Text => log.with_target(false).without_time().init(),
            Self::Json => log.json().init(),
        }
    }

    /// The last that is said.
    pub(crate) fn end(self, error: &AgentError) {
        // Words of files and of the command line may be in it.
        let error = shown(&told(error), |_| false).to_string();
        match self {
            Self::Text => out::tell(format_args!("error: {error}")),
            Self::Json => tracing::error!("{error}"),
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serves a coordinator until told to end; goes on without one, and looks for it again
    Run(Box<Run>),
    /// What a switch holds of ours, by hand: read, diff, apply, revert
    Switch(switch::OnSwitch),
    /// Source ports, DSCP and priority of what this host sends: read, check, apply, revert
    Transport(transport::OnTransport),
    /// What NCCL is told on this host: check, apply, revert
    Nccl(nccl::OnNccl),
    #[command(flatten)]
    Show(Show),
    /// The manual: a page for each command, in a folder from which `man` reads
    Man {
        /// Where to write them
        #[arg(long, value_name = "DIR")]
        into: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Where coordinators listen, also several after commas; tried in this order
    #[arg(
        long,
        required = true,
        value_name = "ADDRESS[:PORT]",
        value_delimiter = ',',
        value_parser = line::coordinator
    )]
    pub(crate) coordinator: Vec<SocketAddr>,
    /// Folder with this agent's certificate and key, and the cluster's authority
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/var/lib/reweave/agent/identity"
    )]
    pub(crate) identity: PathBuf,
    /// What `reweave cluster token` printed: the certificate is had with it, unless there is one
    #[arg(
        long,
        value_name = "TOKEN",
        env = "REWEAVE_JOIN",
        hide_env_values = true
    )]
    pub(crate) join: Option<Token>,
    /// Where coordinators hear newcomers [default: the port after that of --coordinator]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) door: Vec<SocketAddr>,
    /// Folder for what must not be forgotten
    #[arg(long, value_name = "DIR", default_value = "/var/lib/reweave/agent")]
    pub(crate) state: PathBuf,
    /// What this node is; by default a switch if its kernel forwards, and a host if not
    #[arg(long)]
    pub(crate) role: Option<Role>,
    #[command(flatten)]
    pub(crate) software: Software,
    #[command(flatten)]
    pub(crate) fibres: Fibres,
    /// Where jobs on this host tell of their collectives [default: /run/reweave/collectives, where that folder is]
    #[arg(long, value_name = "PATH")]
    pub(crate) collectives: Option<PathBuf>,
    /// How often to read everything; what comes up or goes down is told at once
    #[arg(long, value_name = "MS", default_value = "500", value_parser = millis(50..=60_000))]
    pub(crate) interval_ms: Duration,
    /// For trials of faults that their machine's hardware has not: what NICs, drivers and the machine are and count
    /// is read below DIR, as `facts` and `counters` do it, and anew each time; all else is this node's own
    #[arg(long, value_name = "DIR", value_parser = copy_of_a_machine, hide = true)]
    pub(crate) root: Option<PathBuf>,
}

/// What can be looked at, with or without an agent running.
#[derive(Debug, Subcommand)]
pub(crate) enum Show {
    /// Interfaces, their addresses and gateways, NICs and the machine
    Facts(Facts),
    /// What interfaces carry, and what their counters say of their health
    Counters(Counters),
    /// With whom this host exchanges how much
    Traffic(Traffic),
    /// What jobs on this host tell of their collectives
    Collectives(collectives::Collectives),
    /// Whether this host's traffic repeats itself, as that of training does
    Rhythm(Watched),
    /// The flows this host sends that matter, and how they are doing
    Flows(Watched),
    /// The routers a flow of this host passes, or may pass
    Trace(Trace),
    /// Latency and loss to hosts on which an agent runs, or `probe --respond`
    Probe(Probe),
    /// How much passes to hosts on which an agent runs, or `probe --respond`, by short trains of packets
    Bandwidth(Bandwidth),
    /// How fast hosts can be sent to, by sending as fast as can be; says first what that costs
    PreFlight(PreFlight),
    /// What there is of RDMA, and latency and bandwidth over it
    #[command(subcommand)]
    Rdma(Rdma),
    /// What can be measured here, and how to allow the rest
    Abilities(Output),
    /// The pins the kernel holds
    Pins(Output),
    /// The routes the kernel holds for Reweave
    Routes(Output),
}

#[derive(Debug, Args)]
pub(crate) struct Facts {
    #[command(flatten)]
    pub(crate) recorded: Recorded,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Counters {
    #[command(flatten)]
    pub(crate) recorded: Recorded,
    #[command(flatten)]
    pub(crate) watched: Watched,
}

#[derive(Debug, Args)]
pub(crate) struct Recorded {
    /// Reads a copy of another machine's /sys and /proc below DIR; DIR/ethtool/NAME is what
    /// `ethtool -S NAME` printed there
    #[arg(long, value_name = "DIR", value_parser = copy_of_a_machine)]
    pub(crate) root: Option<PathBuf>,
}

fn copy_of_a_machine(text: &str) -> Result<PathBuf, &'static str> {
    let root = PathBuf::from(text);
    let holds = ["sys", "proc"].map(|name| root.join(name).is_dir());
    holds
        .contains(&true)
        .then_some(root)
        .ok_or("no folder with a copy of /sys or /proc in it")
}

#[derive(Debug, Args)]
pub(crate) struct Watched {
    /// How long to watch before telling
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = millis(200..=60_000))]
    pub(crate) over_ms: Duration,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Traffic {
    /// Goes on until interrupted, telling each time what was exchanged meanwhile
    #[arg(long)]
    pub(crate) watch: bool,
    /// The best way of counting to try; by default the best there is
    #[arg(long, value_enum, default_value = "ebpf")]
    pub(crate) source: Source,
    #[command(flatten)]
    pub(crate) watched: Watched,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Source {
    Ebpf,
    Nftables,
    Sockets,
}

#[derive(Debug, Args)]
pub(crate) struct Trace {
    #[arg(value_enum)]
    protocol: FlowProtocol,
    /// Names or IPv4 addresses; the first is this host's
    #[arg(value_name = "SOURCE:PORT")]
    source: End,
    #[arg(value_name = "DESTINATION:PORT")]
    destination: End,
    /// Find all ways that flows like this one may take, whatever their source port
    #[arg(long, conflicts_with = "over_ms")]
    pub(crate) all: bool,
    /// For how long to go on, telling each change
    #[arg(long, value_name = "MS", default_value = "0", value_parser = millis(0..=86_400_000))]
    pub(crate) over_ms: Duration,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Probe {
    /// Names or IPv4 addresses
    #[arg(required = true, value_name = "HOST")]
    pub(crate) hosts: Vec<String>,
    /// Answer the probes of these hosts until told to end, and send none
    #[arg(long, conflicts_with_all = ["over_ms", "rate", "paths", "source_port"])]
    pub(crate) respond: bool,
    /// For how long to probe
    #[arg(long, value_name = "MS", default_value = "5000", value_parser = millis(1000..=3_600_000))]
    pub(crate) over_ms: Duration,
    /// How many probes each host is sent in a second
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..=5_000))]
    pub(crate) rate: u32,
    /// How many source ports to probe from, each of which may take another path
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) paths: u16,
    /// The first of the source ports
    #[arg(long, value_name = "PORT", default_value = "7500", value_parser = clap::value_parser!(u16).range(1024..=65_000))]
    pub(crate) source_port: u16,
    /// The UDP port that probes are answered on
    #[arg(long, value_name = "PORT", default_value_t = PROBE_PORT)]
    pub(crate) port: u16,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Bandwidth {
    /// Names or IPv4 addresses
    #[arg(required = true, value_name = "HOST")]
    pub(crate) hosts: Vec<String>,
    /// How many trains to send to each host by each source port, once they are long enough
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(6..=60))]
    pub(crate) trains: u32,
    /// No train has more packets
    #[arg(long, value_name = "N", default_value = "1024", value_parser = clap::value_parser!(u32).range(32..=2048))]
    pub(crate) most_packets: u32,
    /// Bytes of each packet's UDP datagram
    #[arg(long, value_name = "BYTES", default_value = "1472", value_parser = clap::value_parser!(u16).range(64..=8972))]
    pub(crate) packet_bytes: u16,
    /// All trains together send no more
    #[arg(long, value_name = "MB", default_value = "64", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) most_mb: u64,
    /// How many source ports to send from, each of which may take another path
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) paths: u16,
    /// The first of the source ports
    #[arg(long, value_name = "PORT", default_value = "7800", value_parser = clap::value_parser!(u16).range(1024..=65_000))]
    pub(crate) source_port: u16,
    /// The UDP port that trains are taken on
    #[arg(long, value_name = "PORT", default_value_t = PROBE_PORT)]
    pub(crate) port: u16,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct PreFlight {
    /// Names or IPv4 addresses; one is pressed after the other
    #[arg(required = true, value_name = "HOST")]
    pub(crate) hosts: Vec<String>,
    /// How long to press each
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=60))]
    pub(crate) seconds: u32,
    /// How many TCP streams to press with, each of which may take another path
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u8).range(1..=32))]
    pub(crate) streams: u8,
    /// It may cost what was announced; without, nothing is sent
    #[arg(long)]
    pub(crate) yes: bool,
    /// Though a job may be running, here or there
    #[arg(long)]
    pub(crate) force: bool,
    /// For how long to listen for a job on this host before
    #[arg(long, value_name = "MS", default_value = "5000", value_parser = millis(3500..=60_000))]
    pub(crate) listen_ms: Duration,
    /// The UDP port that is asked
    #[arg(long, value_name = "PORT", default_value_t = PROBE_PORT)]
    pub(crate) port: u16,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Rdma {
    /// Ports with their addresses, what they have carried, queue pairs, and counters that point at faults
    Facts(Output),
    /// To a host on which an agent runs, or `rdma respond`
    Latency(RdmaLatencyOf),
    /// To such a host, by writing into a buffer of its helper
    Bandwidth {
        /// Name or IPv4 address
        host: String,
        /// How much to write
        #[arg(long, value_name = "MIB", default_value = "16", value_parser = clap::value_parser!(u64).range(1..=1024))]
        budget_mib: u64,
        #[command(flatten)]
        output: Output,
    },
    /// Answers the measurements of these hosts until told to end
    Respond {
        /// Names or IPv4 addresses
        #[arg(required = true, value_name = "HOST")]
        hosts: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RdmaLatencyOf {
    /// Name or IPv4 address
    pub(crate) host: String,
    /// How many messages to send, by datagrams and as many over a connection
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) count: u32,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Output {
    #[arg(long = "output", value_enum, default_value = "table")]
    pub(crate) form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    Table,
    Json,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum FlowProtocol {
    Tcp,
    Udp,
}

impl Trace {
    pub(crate) fn flow(&self) -> Result<FlowKey, AgentError> {
        Ok(FlowKey {
            protocol: match self.protocol {
                FlowProtocol::Tcp => Protocol::Tcp,
                FlowProtocol::Udp => Protocol::Udp,
            },
            source: self.source.find()?,
            destination: self.destination.find()?,
        })
    }
}

fn millis(
    range: std::ops::RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| match text.parse() {
        Ok(ms) if range.contains(&ms) => Ok(Duration::from_millis(ms)),
        _ => Err(format!("give {} to {} ms", range.start(), range.end())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, clap::Error> {
        Cli::try_parse_from(line.split(' ')).map(|cli| cli.command)
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn coordinators_are_named_one_by_one_or_after_commas() {
        let coordinators = |line: &str| match parsed(line) {
            Ok(Command::Run(run)) => run.coordinator,
            _ => panic!("{line} is not understood"),
        };
        let one_by_one = "reweave-agent run --coordinator 10.0.0.1 --coordinator 10.0.0.2:7000";
        let after_commas = "reweave-agent run --coordinator 10.0.0.1,10.0.0.2:7000";
        assert_eq!(coordinators(one_by_one), coordinators(after_commas));
        assert_eq!(coordinators(after_commas).len(), 2);
    }

    #[test]
    fn a_flow_is_named_as_it_is_shown() {
        let line = "reweave-agent trace tcp 10.0.0.1:40000 10.1.0.1:5001 --output json";
        let Ok(Command::Show(Show::Trace(trace))) = parsed(line) else {
            panic!("{line} is not understood");
        };
        assert_eq!(
            trace.flow().expect("addresses are known").to_string(),
            "tcp 10.0.0.1:40000 > 10.1.0.1:5001"
        );
        assert_eq!(trace.output.form, Form::Json);
    }

    #[test]
    fn an_end_of_a_flow_is_a_host_and_a_port() {
        for wrong in ["10.0.0.1", "10.0.0.1:", ":5001", "10.0.0.1:70000"] {
            let error = parsed(&format!("reweave-agent trace tcp {wrong} 10.1.0.1:5001"));
            let words = error.expect_err("no end of a flow").to_string();
            assert!(words.contains("give HOST:PORT"), "{words}");
        }
        let named = "reweave-agent trace udp localhost:4791 localhost:4791";
        let Ok(Command::Show(Show::Trace(trace))) = parsed(named) else {
            panic!("{named} is not understood");
        };
        let flow = trace.flow().expect("everybody knows that host");
        assert_eq!(flow.to_string(), "udp 127.0.0.1:4791 > 127.0.0.1:4791");
    }

    #[test]
    fn a_coordinator_is_at_its_usual_port_unless_another_is_named() {
        let line = "reweave-agent run --coordinator 10.0.9.1 --coordinator [fd00::1]:99";
        let Ok(Command::Run(run)) = parsed(line) else {
            panic!("{line} is not understood");
        };
        let listening = run.coordinator.iter().map(ToString::to_string);
        assert_eq!(
            listening.collect::<Vec<_>>(),
            ["10.0.9.1:7332", "[fd00::1]:99"]
        );
        assert!(parsed("reweave-agent run --coordinator nowhere").is_err());
    }

    #[test]
    fn times_have_limits_that_are_named() {
        let line = "reweave-agent counters --over-ms";
        assert!(parsed(&format!("{line} 200")).is_ok());
        let error = parsed(&format!("{line} 100"))
            .expect_err("too short")
            .to_string();
        assert!(error.contains("give 200 to 60000 ms"), "{error}");
    }
}
