//! Reasons why there is no topology, with the nearest alternative.

use std::fmt;

use reweave_common::fabric::WiringError;
use reweave_common::iteration::IterationError;
use reweave_common::units::Bytes;
use reweave_sim::workload::SimulationError;
use reweave_sim::workload::job::operators::OperatorError;
use reweave_sim::workload::job::preset::PresetError;

use crate::parallel::operators::Crowded;
use crate::parallel::presets::{NoRoom, spelled};

/// `1 link`, `2 links`.
pub fn counted(count: usize, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

#[derive(Debug, Clone, PartialEq)]
pub enum TopologyError {
    FewHosts {
        hosts: usize,
    },
    ManyHosts {
        hosts: usize,
        most: usize,
    },
    NoPorts {
        hosts: usize,
        least: usize,
    },
    ManyPorts {
        hosts: usize,
        degree: usize,
    },
    /// Number of hosts before the failures.
    NoHostLeft {
        hosts: usize,
    },
    OutOfPlaces {
        ranks: usize,
        each: usize,
        hosts: usize,
    },
    UnknownHost {
        host: u32,
        hosts: usize,
    },
    Apart {
        host: u32,
        reached: usize,
        hosts: usize,
        /// Size of the largest connected part.
        largest: usize,
    },
    Wiring(WiringError),
    Iteration(IterationError),
    Operators(OperatorError),
    Preset(PresetError),
    /// No spread of a preset fits.
    NoRoom(NoRoom),
    /// The parallelism of the job file does not fit, and another would.
    KeptNoRoom {
        needed: Bytes,
        memory: Bytes,
        instead: String,
    },
    /// No splits of operators fit.
    Crowded(Crowded),
    Simulation(SimulationError),
}

impl TopologyError {
    /// Returns none if the time was up.
    pub(crate) fn unless_stopped<T>(found: Result<T, Self>) -> Result<Option<T>, Self> {
        match found {
            Err(Self::Simulation(error)) if error.is_stop() => Ok(None),
            found => found.map(Some),
        }
    }
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FewHosts { hosts } => {
                write!(f, "a topology joins two hosts or more, not {hosts}; take 2")
            }
            Self::ManyHosts { hosts, most } => {
                write!(
                    f,
                    "{hosts} hosts are more than the {most} that are planned for; take {most}"
                )
            }
            Self::NoPorts { hosts, least } => write!(
                f,
                "{hosts} hosts cannot all reach each other with so few ports; take a degree of {least}"
            ),
            Self::NoHostLeft { hosts } => {
                write!(f, "all {hosts} hosts have failed; plan for other hosts")
            }
            Self::ManyPorts { hosts, degree } => write!(
                f,
                "a host has only {} to be wired to, and a degree of {degree} is more; take a degree of {}",
                counted(hosts - 1, "other"),
                hosts - 1
            ),
            Self::OutOfPlaces { ranks, each, hosts } => write!(
                f,
                "the job has {ranks} ranks, and {hosts} hosts take {each} each; take {} hosts",
                ranks.div_ceil(*each)
            ),
            Self::UnknownHost { host, hosts } => write!(
                f,
                "the job sends to h{host}, and there are {hosts} hosts: h0 to h{}; take {} hosts",
                hosts - 1,
                host + 1
            ),
            Self::Apart {
                host,
                reached,
                hosts,
                largest,
            } => write!(
                f,
                "what has failed or is out of reach leaves h{host} among {} that no cable can \
                 join to the other {}; {}",
                counted(*reached, "host"),
                hosts - reached,
                instead(*largest, [*reached, hosts - reached])
            ),
            Self::Wiring(error) => error.fmt(f),
            Self::Iteration(error) => error.fmt(f),
            Self::Operators(error) => error.fmt(f),
            Self::Preset(error) => error.fmt(f),
            Self::NoRoom(error) => error.fmt(f),
            Self::KeptNoRoom {
                needed,
                memory,
                instead,
            } => write!(
                f,
                "spread as the job's file says, the fullest must hold {} and has {}; spread over \
                 {instead} it fits",
                spelled(*needed),
                spelled(*memory)
            ),
            Self::Crowded(error) => error.fmt(f),
            Self::Simulation(error) => error.fmt(f),
        }
    }
}

/// Describes what can still be planned when the hosts are disconnected.
fn instead(largest: usize, parts: [usize; 2]) -> String {
    match largest {
        0 | 1 => "no two hosts are joined: repair ports, or use longer cables".to_owned(),
        _ if parts.contains(&largest) => {
            format!("plan only for those {largest}, or repair a port between them")
        }
        _ => format!(
            "the others are disconnected, too: plan for the {largest} that are connected, or \
             repair ports between them"
        ),
    }
}

impl std::error::Error for TopologyError {}

impl From<WiringError> for TopologyError {
    fn from(error: WiringError) -> Self {
        Self::Wiring(error)
    }
}

impl From<SimulationError> for TopologyError {
    fn from(error: SimulationError) -> Self {
        Self::Simulation(error)
    }
}
