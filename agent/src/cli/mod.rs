//! The command line.

mod bandwidth;
mod collectives;
mod counters;
mod facts;
mod flows;
mod interrupt;
mod iterations;
mod nccl;
mod out;
mod preflight;
mod probe;
mod rdma;
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
use reweave_common::error::error_chain;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::printable::shown;
use reweave_common::probing::PROBE_PORT;
use reweave_link::join::Token;
use reweave_link::log::LogOptions;
use reweave_link::uplink;

pub(crate) use out::instead;
pub(crate) use show::show;
use ways::End;

/// Measure a host or switch, trace its flows, and hold pins and routes for a coordinator.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) log: LogOptions,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Logs the error with which the program ends.
pub(crate) fn end(log: &LogOptions, error: &AgentError) {
    // It may contain text of files and of the command line.
    let error = shown(&error_chain(error), |_| false).to_string();
    if log.is_json() {
        tracing::error!("{error}");
    } else {
        out::tell(format_args!("error: {error}"));
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve a coordinator until stopped; without one, keep running and reconnect
    Run(Box<Run>),
    /// Reweave's pins and routes of a switch, by hand: read, diff, apply, revert
    Switch(switch::OnSwitch),
    /// Source ports, DSCP and priority of what this host sends: read, check, apply, revert
    Transport(transport::OnTransport),
    /// NCCL settings of this host: check, apply, revert
    Nccl(nccl::OnNccl),
    #[command(flatten)]
    Show(Show),
    /// Write the manual pages, one per command, into a folder for `man`
    Man {
        /// Output folder
        #[arg(long, value_name = "DIR")]
        into: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Addresses of the coordinators, separated by commas; tried in this order
    #[arg(
        long,
        required = true,
        value_name = "ADDRESS[:PORT]",
        value_delimiter = ',',
        value_parser = uplink::coordinator
    )]
    pub(crate) coordinator: Vec<SocketAddr>,
    /// Folder with the agent's certificate and key, and the certificate of the authority
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/var/lib/reweave/agent/identity"
    )]
    pub(crate) identity: PathBuf,
    /// Join token printed by `reweave cluster token`; used only if there is no certificate
    #[arg(
        long,
        value_name = "TOKEN",
        env = "REWEAVE_JOIN",
        hide_env_values = true
    )]
    pub(crate) join: Option<Token>,
    /// Join address of the coordinators [default: the port after that of --coordinator]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) door: Vec<SocketAddr>,
    /// Folder for persistent state
    #[arg(long, value_name = "DIR", default_value = "/var/lib/reweave/agent")]
    pub(crate) state: PathBuf,
    /// Role of this node [default: switch if the kernel forwards, else host]
    #[arg(long)]
    pub(crate) role: Option<Role>,
    #[command(flatten)]
    pub(crate) software: Software,
    #[command(flatten)]
    pub(crate) fibres: Fibres,
    /// Socket for collective reports of jobs [default: /run/reweave/collectives, if that folder exists]
    #[arg(long, value_name = "PATH")]
    pub(crate) collectives: Option<PathBuf>,
    /// Interval of full readings; link up and down is reported at once
    #[arg(long, value_name = "MS", default_value = "500", value_parser = millis(50..=60_000))]
    pub(crate) interval_ms: Duration,
    /// For fault tests without the hardware: read facts and counters of NICs, drivers and machine below DIR, as `facts`
    /// and `counters` do, for every reading; everything else is from this node
    #[arg(long, value_name = "DIR", value_parser = copy_of_a_machine, hide = true)]
    pub(crate) root: Option<PathBuf>,
}

/// Measurements and facts, with or without a running agent.
#[derive(Debug, Subcommand)]
pub(crate) enum Show {
    /// Interfaces with addresses and gateways, NICs, and the machine
    Facts(Facts),
    /// Load and health counters of interfaces
    Counters(Counters),
    /// Traffic of this host, per peer
    Traffic(Traffic),
    /// Collectives that jobs on this host report
    Collectives(collectives::Collectives),
    /// Iteration period of this host's traffic, as of a training job
    Rhythm(Watched),
    /// Large flows of this host, with their state
    Flows(Watched),
    /// Routers that a flow of this host passes, or may pass
    Trace(Trace),
    /// Latency and loss to hosts that run an agent or `probe --respond`
    Probe(Probe),
    /// Bandwidth to hosts that run an agent or `probe --respond`, by short packet trains
    Bandwidth(Bandwidth),
    /// Bandwidth to hosts by saturating load; prints the cost before it starts
    PreFlight(PreFlight),
    /// RDMA facts, latency and bandwidth
    #[command(subcommand)]
    Rdma(Rdma),
    /// Measurements available here, and how to enable the others
    Abilities(Output),
    /// Pins in the kernel
    Pins(Output),
    /// Reweave's routes in the kernel
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
    /// Read a copy of another machine's /sys and /proc below DIR; DIR/ethtool/NAME is the output of `ethtool -S NAME`
    /// there
    #[arg(long, value_name = "DIR", value_parser = copy_of_a_machine)]
    pub(crate) root: Option<PathBuf>,
}

fn copy_of_a_machine(text: &str) -> Result<PathBuf, &'static str> {
    let root = PathBuf::from(text);
    let holds = ["sys", "proc"].map(|name| root.join(name).is_dir());
    holds
        .contains(&true)
        .then_some(root)
        .ok_or("not a folder with a copy of /sys or /proc")
}

#[derive(Debug, Args)]
pub(crate) struct Watched {
    /// Measurement time before the output
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = millis(200..=60_000))]
    pub(crate) over_ms: Duration,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Traffic {
    /// Repeat until interrupted; each output covers the time since the one before
    #[arg(long)]
    pub(crate) watch: bool,
    /// Best counting method to try
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
    /// Find all paths of flows like this one, for any source port
    #[arg(long, conflicts_with = "over_ms")]
    pub(crate) all: bool,
    /// Keep tracing for this time, and print each change
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
    /// Answer probes of these hosts until stopped, and send none
    #[arg(long, conflicts_with_all = ["over_ms", "rate", "paths", "source_port"])]
    pub(crate) respond: bool,
    /// Duration
    #[arg(long, value_name = "MS", default_value = "5000", value_parser = millis(1000..=3_600_000))]
    pub(crate) over_ms: Duration,
    /// Probes per second to each host
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..=5_000))]
    pub(crate) rate: u32,
    /// Number of source ports; each may take another path
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) paths: u16,
    /// First source port
    #[arg(long, value_name = "PORT", default_value = "7500", value_parser = clap::value_parser!(u16).range(1024..=65_000))]
    pub(crate) source_port: u16,
    /// UDP port for probes
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
    /// Trains per host and source port, once they are long enough
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(6..=60))]
    pub(crate) trains: u32,
    /// Maximum packets per train
    #[arg(long, value_name = "N", default_value = "1024", value_parser = clap::value_parser!(u32).range(32..=2048))]
    pub(crate) most_packets: u32,
    /// UDP payload of each packet
    #[arg(long, value_name = "BYTES", default_value = "1472", value_parser = clap::value_parser!(u16).range(64..=8972))]
    pub(crate) packet_bytes: u16,
    /// Maximum data of all trains together
    #[arg(long, value_name = "MB", default_value = "64", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) most_mb: u64,
    /// Number of source ports; each may take another path
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) paths: u16,
    /// First source port
    #[arg(long, value_name = "PORT", default_value = "7800", value_parser = clap::value_parser!(u16).range(1024..=65_000))]
    pub(crate) source_port: u16,
    /// UDP port for trains
    #[arg(long, value_name = "PORT", default_value_t = PROBE_PORT)]
    pub(crate) port: u16,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct PreFlight {
    /// Names or IPv4 addresses; tested one after the other
    #[arg(required = true, value_name = "HOST")]
    pub(crate) hosts: Vec<String>,
    /// Test time per host
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=60))]
    pub(crate) seconds: u32,
    /// Number of TCP streams; each may take another path
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u8).range(1..=32))]
    pub(crate) streams: u8,
    /// Accept the announced cost; without it, nothing is sent
    #[arg(long)]
    pub(crate) yes: bool,
    /// Test even if a job may be running, here or on the target
    #[arg(long)]
    pub(crate) force: bool,
    /// How long to watch for a job on this host before the test
    #[arg(long, value_name = "MS", default_value = "5000", value_parser = millis(3500..=60_000))]
    pub(crate) listen_ms: Duration,
    /// UDP port of the request
    #[arg(long, value_name = "PORT", default_value_t = PROBE_PORT)]
    pub(crate) port: u16,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Rdma {
    /// Ports with addresses, traffic, queue pairs and fault counters
    Facts(Output),
    /// Latency to a host that runs an agent or `rdma respond`
    Latency(RdmaLatencyOf),
    /// Bandwidth to such a host, by writes into a buffer of its helper
    Bandwidth {
        /// Name or IPv4 address
        host: String,
        /// Amount to write
        #[arg(long, value_name = "MIB", default_value = "16", value_parser = clap::value_parser!(u64).range(1..=1024))]
        budget_mib: u64,
        #[command(flatten)]
        output: Output,
    },
    /// Answer the measurements of these hosts until stopped
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
    /// Number of messages, as datagrams and again over a connection
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
    fn command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn coordinators_by_repetition_or_comma() {
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
    fn flow_argument_parses_as_displayed() {
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
    fn flow_end_is_host_and_port() {
        for wrong in ["10.0.0.1", "10.0.0.1:", ":5001", "10.0.0.1:70000"] {
            let error = parsed(&format!("reweave-agent trace tcp {wrong} 10.1.0.1:5001"));
            let words = error.expect_err("no end of a flow").to_string();
            assert!(words.contains("give HOST:PORT"), "{words}");
        }
        let named = "reweave-agent trace udp localhost:4791 localhost:4791";
        let Ok(Command::Show(Show::Trace(trace))) = parsed(named) else {
            panic!("{named} is not understood");
        };
        let flow = trace.flow().expect("that host is known to all");
        assert_eq!(flow.to_string(), "udp 127.0.0.1:4791 > 127.0.0.1:4791");
    }

    #[test]
    fn coordinator_port_has_default() {
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
    fn duration_limits_are_named() {
        let line = "reweave-agent counters --over-ms";
        assert!(parsed(&format!("{line} 200")).is_ok());
        let error = parsed(&format!("{line} 100"))
            .expect_err("too short")
            .to_string();
        assert!(error.contains("give 200 to 60000 ms"), "{error}");
    }
}
