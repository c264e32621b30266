//! What is kept, and in which columns: one table for each kind of observation.

/// One table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Agents,
    Changes,
    Findings,
    Flows,
    Gaps,
    Interfaces,
    Links,
    Paths,
    Pins,
    RoundTrips,
}

/// The columns of a kind, besides the moment and the number of readings that each has.
#[derive(Debug)]
pub(crate) struct Shape {
    /// What tells one series from another.
    pub(crate) keys: &'static [&'static str],
    /// What varies: each becomes its least, mean and most.
    pub(crate) gauges: &'static [&'static str],
    /// What counts up, or is a state: the last is kept.
    pub(crate) counters: &'static [&'static str],
    pub(crate) texts: &'static [&'static str],
}

impl Kind {
    pub const ALL: [Self; 10] = [
        Self::Agents,
        Self::Changes,
        Self::Findings,
        Self::Flows,
        Self::Gaps,
        Self::Interfaces,
        Self::Links,
        Self::Paths,
        Self::Pins,
        Self::RoundTrips,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Agents => "agents",
            Self::Changes => "changes",
            Self::Findings => "findings",
            Self::Flows => "flows",
            Self::Gaps => "gaps",
            Self::Interfaces => "interfaces",
            Self::Links => "links",
            Self::Paths => "paths",
            Self::Pins => "pins",
            Self::RoundTrips => "round_trips",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    pub(crate) fn shape(self) -> &'static Shape {
        match self {
            Self::Agents => &AGENTS,
            Self::Changes => &CHANGES,
            Self::Findings => &FINDINGS,
            Self::Flows => &FLOWS,
            Self::Gaps => &GAPS,
            Self::Interfaces => &INTERFACES,
            Self::Links => &LINKS,
            Self::Paths => &PATHS,
            Self::Pins => &PINS,
            Self::RoundTrips => &ROUND_TRIPS,
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

/// What was not kept, since there was too much of it.
const GAPS: Shape = Shape {
    keys: &["why"],
    gauges: &["lost"],
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

const PATHS: Shape = Shape {
    keys: &["node", "protocol", "source", "destination"],
    gauges: &[],
    counters: &[],
    texts: &["routers", "hops"],
};

const PINS: Shape = Shape {
    keys: &["node"],
    gauges: &[],
    counters: &["generation", "rules"],
    texts: &[],
};

const ROUND_TRIPS: Shape = Shape {
    keys: &["node", "peer"],
    gauges: &["rtt_ns"],
    counters: &[],
    texts: &["to_node"],
};
