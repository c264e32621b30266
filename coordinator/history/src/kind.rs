//! The kinds of observations. Each has a table with its own columns.

/// A kind of observation, with its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Agents,
    Changes,
    Collectives,
    Findings,
    Flows,
    Gaps,
    Health,
    Imbalance,
    Interfaces,
    Links,
    Machines,
    Paths,
    Pins,
    Probes,
    Rhythms,
    States,
    Traffic,
}

/// The columns of a kind, in addition to the time and the number of readings.
#[derive(Debug)]
pub(crate) struct Shape {
    /// The key that identifies a series.
    pub(crate) keys: &'static [&'static str],
    /// Gauges: each becomes minimum, mean and maximum.
    pub(crate) gauges: &'static [&'static str],
    /// Counters and states: the last value is kept.
    pub(crate) counters: &'static [&'static str],
    pub(crate) texts: &'static [&'static str],
}

/// The maximum number of columns of each sort.
pub(crate) const MAX_GAUGES: usize = 5;
pub(crate) const MAX_COUNTERS: usize = 4;
pub(crate) const MAX_TEXTS: usize = 2;

impl Kind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Self; 17] = [
        Self::Agents,
        Self::Changes,
        Self::Collectives,
        Self::Findings,
        Self::Flows,
        Self::Gaps,
        Self::Health,
        Self::Imbalance,
        Self::Interfaces,
        Self::Links,
        Self::Machines,
        Self::Paths,
        Self::Pins,
        Self::Probes,
        Self::Rhythms,
        Self::States,
        Self::Traffic,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Agents => "agents",
            Self::Changes => "changes",
            Self::Collectives => "collectives",
            Self::Findings => "findings",
            Self::Flows => "flows",
            Self::Gaps => "gaps",
            Self::Health => "health",
            Self::Imbalance => "imbalance",
            Self::Interfaces => "interfaces",
            Self::Links => "links",
            Self::Machines => "machines",
            Self::Paths => "paths",
            Self::Pins => "pins",
            Self::Probes => "probes",
            Self::Rhythms => "rhythms",
            Self::States => "states",
            Self::Traffic => "traffic",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    pub(crate) fn shape(self) -> &'static Shape {
        match self {
            Self::Agents => &AGENTS,
            Self::Changes => &CHANGES,
            Self::Collectives => &COLLECTIVES,
            Self::Findings => &FINDINGS,
            Self::Flows => &FLOWS,
            Self::Gaps => &GAPS,
            Self::Health => &HEALTH,
            Self::Imbalance => &IMBALANCE,
            Self::Interfaces => &INTERFACES,
            Self::Links => &LINKS,
            Self::Machines => &MACHINES,
            Self::Paths => &PATHS,
            Self::Pins => &PINS,
            Self::Probes => &PROBES,
            Self::Rhythms => &RHYTHMS,
            Self::States => &STATES,
            Self::Traffic => &TRAFFIC,
        }
    }
}

const AGENTS: Shape = Shape {
    keys: &["node"],
    gauges: &["connected", "readings_sent"],
    counters: &[],
    texts: &[],
};

const CHANGES: Shape = Shape {
    keys: &["what", "node", "generation"],
    gauges: &[],
    counters: &[],
    texts: &["detail"],
};

/// The traffic from ranks on one host to ranks on another one, by the reports of the ranks.
const COLLECTIVES: Shape = Shape {
    keys: &["node", "to_node"],
    gauges: &["rate_bits_per_s"],
    counters: &[],
    texts: &[],
};

const FINDINGS: Shape = Shape {
    keys: &["generation", "what", "hop"],
    gauges: &[],
    counters: &[],
    texts: &["detail"],
};

const FLOWS: Shape = Shape {
    keys: &["node", "protocol", "source", "destination"],
    gauges: &["rate_bits_per_s", "rtt_ns"],
    counters: &["sent_bytes", "retransmits"],
    texts: &["to_node", "hops"],
};

/// Entries that were dropped because there were too many.
const GAPS: Shape = Shape {
    keys: &["why"],
    gauges: &["lost"],
    counters: &[],
    texts: &[],
};

/// Counters of errors and other problems.
const HEALTH: Shape = Shape {
    keys: &["node", "place", "signal"],
    gauges: &["grown"],
    counters: &["total"],
    texts: &[],
};

/// The imbalance of flows: of all flows, by layer, and of each job alone. Figures are in thousandths.
const IMBALANCE: Shape = Shape {
    keys: &["job", "layer"],
    gauges: &[
        "mean_fim_permille",
        "worst_fim_permille",
        "worst_floor_permille",
        "max_over_mean_permille",
    ],
    counters: &[],
    texts: &[],
};

const INTERFACES: Shape = Shape {
    keys: &["node", "interface"],
    gauges: &[],
    counters: &[],
    texts: &["addresses", "gateways"],
};

const LINKS: Shape = Shape {
    keys: &["node", "interface"],
    gauges: &["up", "send_bits_per_s", "receive_bits_per_s"],
    counters: &["sent_bytes", "received_bytes", "dropped_packets", "link"],
    texts: &["to_node"],
};

const MACHINES: Shape = Shape {
    keys: &["node"],
    gauges: &["cpu_busy_percent", "memory_available_bytes"],
    counters: &["memory_bytes", "cpus"],
    texts: &[],
};

const PATHS: Shape = Shape {
    keys: &["node", "protocol", "source", "destination"],
    gauges: &[],
    counters: &["confirmed"],
    texts: &["routers", "hops"],
};

const PINS: Shape = Shape {
    keys: &["node"],
    gauges: &[],
    counters: &["generation", "rules"],
    texts: &[],
};

/// The probe results of one flow, reading by reading.
const PROBES: Shape = Shape {
    keys: &["node", "protocol", "source", "destination"],
    gauges: &["sent", "lost", "median_ns", "p99_ns", "most_ns"],
    counters: &[],
    texts: &["to_node"],
};

/// The iteration period of a job, by the traffic of a host.
const RHYTHMS: Shape = Shape {
    keys: &["node"],
    gauges: &["period_ns", "gap_ns", "confidence_percent"],
    counters: &[],
    texts: &[],
};

/// Reports of a host about itself that are neither gauges nor counters, as JSON.
const STATES: Shape = Shape {
    keys: &["node", "what", "subject"],
    gauges: &[],
    counters: &[],
    texts: &["detail"],
};

/// The traffic of a host by peer, since the start of its agent.
const TRAFFIC: Shape = Shape {
    keys: &["node", "peer"],
    gauges: &[],
    counters: &["sent_bytes", "received_bytes"],
    texts: &["to_node", "counted_by"],
};
