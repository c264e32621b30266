//! Observations of the history, as values of the domain.

use std::net::Ipv4Addr;

use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::moment::Moment;
use reweave_common::plan::Generation;
use serde::Serialize;

use crate::kind::Kind;
use crate::place::written;
use crate::resolution::Resolution;
use crate::row::{Gauge, Row};

/// All rows of a time span. Each list is in the order of the subject and then of time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Window {
    pub resolution: Resolution,
    pub agents: Vec<Seen<AgentSeen>>,
    pub changes: Vec<Seen<Event>>,
    pub collectives: Vec<Seen<CollectivesSeen>>,
    pub findings: Vec<Seen<Event>>,
    pub flows: Vec<Seen<FlowSeen>>,
    /// Entries that were dropped. Without a gap, nothing is missing.
    pub gaps: Vec<Seen<GapSeen>>,
    pub imbalance: Vec<Seen<ImbalanceSeen>>,
    pub interfaces: Vec<Seen<InterfaceSeen>>,
    pub links: Vec<Seen<LinkSeen>>,
    pub paths: Vec<Seen<PathSeen>>,
    pub pins: Vec<Seen<PinsSeen>>,
    pub probes: Vec<Seen<ProbesSeen>>,
    pub health: Vec<Seen<HealthSeen>>,
    pub machines: Vec<Seen<MachineSeen>>,
    pub rhythms: Vec<Seen<RhythmSeen>>,
    pub states: Vec<Seen<StateSeen>>,
    pub traffic: Vec<Seen<TrafficSeen>>,
    /// Files that could not be read.
    pub warnings: Vec<String>,
}

/// A row over one time window of the resolution.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Seen<T> {
    /// The start of the window.
    #[serde(serialize_with = "as_text")]
    pub at: Moment,
    /// The number of readings.
    pub readings: u64,
    #[serde(flatten)]
    pub what: T,
}

/// Minimum, mean and maximum of a gauge.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figures {
    pub min: u64,
    pub mean: f64,
    pub max: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgentSeen {
    pub node: String,
    /// 1 while the agent had a session, 0 while it had none.
    pub connected: Option<Figures>,
    /// The number of readings in each of its reports.
    pub readings_sent: Option<Figures>,
}

/// An event, with its details as JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    pub what: String,
    /// The node or the hop of the event. Empty if there is none.
    pub place: String,
    pub generation: Option<Generation>,
    pub detail: String,
}

/// The traffic from ranks on one host to ranks on another one, by the reports of the ranks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CollectivesSeen {
    pub node: String,
    pub to_node: String,
    pub rate_bits_per_s: Option<Figures>,
}

/// A flow, by the report of its sender.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowSeen {
    pub node: String,
    /// The receiver, if it is known.
    pub to_node: Option<String>,
    pub flow: FlowKey,
    /// The rate while it was sending.
    pub rate_bits_per_s: Option<Figures>,
    pub rtt_ns: Option<Figures>,
    /// The bytes since the begin of the flow, at the end of this window.
    pub sent_bytes: u64,
    pub retransmits: u64,
    /// The hops of its path as `node/link`, if they are known.
    pub hops: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GapSeen {
    pub why: String,
    pub lost: Option<Figures>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InterfaceSeen {
    pub node: String,
    pub interface: String,
    pub addresses: Vec<Ipv4Addr>,
    pub gateways: Vec<Ipv4Addr>,
}

/// One end of a link.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkSeen {
    pub node: String,
    pub interface: String,
    /// The node at the other end and the link's index in the fabric, if they are known.
    pub to_node: Option<String>,
    pub link: Option<u64>,
    /// 1 while the link was up, 0 while it was down.
    pub up: Option<Figures>,
    pub send_bits_per_s: Option<Figures>,
    pub receive_bits_per_s: Option<Figures>,
    /// The counters of the interface at the end of this window.
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub dropped_packets: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathSeen {
    pub node: String,
    pub flow: FlowKey,
    /// The routers of the path. None for a router that did not answer.
    pub routers: Vec<Option<Ipv4Addr>>,
    /// Whether the receiver's agent saw this number of routers on the path.
    pub confirmed: bool,
    pub hops: Option<String>,
}

/// The pins in a switch's kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PinsSeen {
    pub node: String,
    pub generation: Generation,
    pub rules: u64,
}

/// The probe results of one flow. Each figure has one value per reading.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProbesSeen {
    pub node: String,
    pub to_node: Option<String>,
    pub flow: FlowKey,
    pub sent: Option<Figures>,
    pub lost: Option<Figures>,
    pub median_ns: Option<Figures>,
    pub p99_ns: Option<Figures>,
    pub most_ns: Option<Figures>,
}

/// A counter of errors: its growth between readings, and its value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HealthSeen {
    pub node: String,
    pub place: String,
    pub signal: String,
    pub grown: Option<Figures>,
    pub total: u64,
}

/// The imbalance of flows over equal links.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ImbalanceSeen {
    /// The job whose flows count. Empty for all flows.
    pub job: String,
    /// The layer. Empty for all layers.
    pub layer: String,
    pub mean_fim_permille: Option<Figures>,
    /// The imbalance of the links with the most uneven flows.
    pub worst_fim_permille: Option<Figures>,
    pub worst_floor_permille: Option<Figures>,
    pub max_over_mean_permille: Option<Figures>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MachineSeen {
    pub node: String,
    pub cpus: u64,
    pub cpu_busy_percent: Option<Figures>,
    pub memory_bytes: u64,
    pub memory_available_bytes: Option<Figures>,
}

/// The iteration period of a job on one host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RhythmSeen {
    pub node: String,
    pub period_ns: Option<Figures>,
    pub gap_ns: Option<Figures>,
    pub confidence_percent: Option<Figures>,
}

/// A report of a host about itself, as JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StateSeen {
    pub node: String,
    pub what: String,
    pub subject: String,
    pub detail: String,
}

/// The traffic between a host and a peer since the start of its agent, at the end of this window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrafficSeen {
    pub node: String,
    pub peer: Ipv4Addr,
    pub to_node: Option<String>,
    pub counted_by: Option<String>,
    pub sent_bytes: u64,
    pub received_bytes: u64,
}

fn as_text<S: serde::Serializer>(at: &Moment, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&written(*at))
}

impl Window {
    pub(super) fn new(resolution: Resolution, rows: &[Row], warnings: Vec<String>) -> Self {
        let mut window = Self {
            resolution,
            agents: vec![],
            changes: vec![],
            collectives: vec![],
            findings: vec![],
            flows: vec![],
            gaps: vec![],
            imbalance: vec![],
            interfaces: vec![],
            links: vec![],
            paths: vec![],
            pins: vec![],
            probes: vec![],
            health: vec![],
            machines: vec![],
            rhythms: vec![],
            states: vec![],
            traffic: vec![],
            warnings,
        };
        let strange = rows.iter().filter(|row| window.take(row).is_none()).count();
        if strange > 0 {
            let warning = format!("{strange} rows are left out: they name no flow or no address");
            window.warnings.push(warning);
        }
        window
    }

    /// Adds a row. None if the row cannot be decoded.
    fn take(&mut self, row: &Row) -> Option<()> {
        let fields = Fields(row);
        match row.series.kind {
            Kind::Agents => self.agents.push(fields.seen(fields.agent())),
            Kind::Changes => self.changes.push(fields.seen(fields.event("node"))),
            Kind::Collectives => self.collectives.push(fields.seen(fields.collectives())),
            Kind::Findings => self.findings.push(fields.seen(fields.event("hop"))),
            Kind::Flows => self.flows.push(fields.seen(fields.flow()?)),
            Kind::Gaps => self.gaps.push(fields.seen(fields.gap())),
            Kind::Imbalance => self.imbalance.push(fields.seen(fields.imbalance())),
            Kind::Interfaces => self.interfaces.push(fields.seen(fields.interface()?)),
            Kind::Links => self.links.push(fields.seen(fields.link())),
            Kind::Paths => self.paths.push(fields.seen(fields.path()?)),
            Kind::Pins => self.pins.push(fields.seen(fields.pins())),
            Kind::Probes => self.probes.push(fields.seen(fields.probes()?)),
            Kind::Health => self.health.push(fields.seen(fields.health())),
            Kind::Machines => self.machines.push(fields.seen(fields.machine())),
            Kind::Rhythms => self.rhythms.push(fields.seen(fields.rhythm())),
            Kind::States => self.states.push(fields.seen(fields.state())),
            Kind::Traffic => self.traffic.push(fields.seen(fields.traffic()?)),
        }
        Some(())
    }
}

/// The fields of a row, by the names of their columns.
struct Fields<'r>(&'r Row);

impl Fields<'_> {
    fn seen<T>(&self, what: T) -> Seen<T> {
        Seen {
            at: self.0.at,
            readings: self.0.measures.readings,
            what,
        }
    }

    fn agent(&self) -> AgentSeen {
        AgentSeen {
            node: self.key("node"),
            connected: self.gauge("connected"),
            readings_sent: self.gauge("readings_sent"),
        }
    }

    fn event(&self, place: &str) -> Event {
        Event {
            what: self.key("what"),
            place: self.key(place),
            generation: self.key("generation").parse().ok().map(Generation),
            detail: self.text("detail").unwrap_or_default(),
        }
    }

    fn collectives(&self) -> CollectivesSeen {
        CollectivesSeen {
            node: self.key("node"),
            to_node: self.key("to_node"),
            rate_bits_per_s: self.gauge("rate_bits_per_s"),
        }
    }

    fn flow(&self) -> Option<FlowSeen> {
        Some(FlowSeen {
            node: self.key("node"),
            to_node: self.text("to_node"),
            flow: self.flow_key()?,
            rate_bits_per_s: self.gauge("rate_bits_per_s"),
            rtt_ns: self.gauge("rtt_ns"),
            sent_bytes: self.count("sent_bytes"),
            retransmits: self.count("retransmits"),
            hops: self.text("hops"),
        })
    }

    fn gap(&self) -> GapSeen {
        GapSeen {
            why: self.key("why"),
            lost: self.gauge("lost"),
        }
    }

    fn interface(&self) -> Option<InterfaceSeen> {
        let list = |name| -> Option<Vec<Ipv4Addr>> {
            let text = self.text(name).unwrap_or_default();
            text.split_whitespace()
                .map(|part| part.parse().ok())
                .collect()
        };
        Some(InterfaceSeen {
            node: self.key("node"),
            interface: self.key("interface"),
            addresses: list("addresses")?,
            gateways: list("gateways")?,
        })
    }

    fn link(&self) -> LinkSeen {
        LinkSeen {
            node: self.key("node"),
            interface: self.key("interface"),
            to_node: self.text("to_node"),
            link: self.counter("link"),
            up: self.gauge("up"),
            send_bits_per_s: self.gauge("send_bits_per_s"),
            receive_bits_per_s: self.gauge("receive_bits_per_s"),
            sent_bytes: self.count("sent_bytes"),
            received_bytes: self.count("received_bytes"),
            dropped_packets: self.count("dropped_packets"),
        }
    }

    fn path(&self) -> Option<PathSeen> {
        let routers = self.text("routers").unwrap_or_default();
        let router = |part: &str| match part {
            "*" => Some(None),
            address => Some(Some(address.parse().ok()?)),
        };
        Some(PathSeen {
            node: self.key("node"),
            flow: self.flow_key()?,
            routers: routers
                .split_whitespace()
                .map(router)
                .collect::<Option<_>>()?,
            confirmed: self.count("confirmed") > 0,
            hops: self.text("hops"),
        })
    }

    fn pins(&self) -> PinsSeen {
        PinsSeen {
            node: self.key("node"),
            generation: Generation(self.count("generation")),
            rules: self.count("rules"),
        }
    }

    fn probes(&self) -> Option<ProbesSeen> {
        Some(ProbesSeen {
            node: self.key("node"),
            to_node: self.text("to_node"),
            flow: self.flow_key()?,
            sent: self.gauge("sent"),
            lost: self.gauge("lost"),
            median_ns: self.gauge("median_ns"),
            p99_ns: self.gauge("p99_ns"),
            most_ns: self.gauge("most_ns"),
        })
    }

    fn health(&self) -> HealthSeen {
        HealthSeen {
            node: self.key("node"),
            place: self.key("place"),
            signal: self.key("signal"),
            grown: self.gauge("grown"),
            total: self.count("total"),
        }
    }

    fn imbalance(&self) -> ImbalanceSeen {
        ImbalanceSeen {
            job: self.key("job"),
            layer: self.key("layer"),
            mean_fim_permille: self.gauge("mean_fim_permille"),
            worst_fim_permille: self.gauge("worst_fim_permille"),
            worst_floor_permille: self.gauge("worst_floor_permille"),
            max_over_mean_permille: self.gauge("max_over_mean_permille"),
        }
    }

    fn machine(&self) -> MachineSeen {
        MachineSeen {
            node: self.key("node"),
            cpus: self.count("cpus"),
            cpu_busy_percent: self.gauge("cpu_busy_percent"),
            memory_bytes: self.count("memory_bytes"),
            memory_available_bytes: self.gauge("memory_available_bytes"),
        }
    }

    fn rhythm(&self) -> RhythmSeen {
        RhythmSeen {
            node: self.key("node"),
            period_ns: self.gauge("period_ns"),
            gap_ns: self.gauge("gap_ns"),
            confidence_percent: self.gauge("confidence_percent"),
        }
    }

    fn state(&self) -> StateSeen {
        StateSeen {
            node: self.key("node"),
            what: self.key("what"),
            subject: self.key("subject"),
            detail: self.text("detail").unwrap_or_default(),
        }
    }

    fn traffic(&self) -> Option<TrafficSeen> {
        Some(TrafficSeen {
            node: self.key("node"),
            peer: self.key("peer").parse().ok()?,
            to_node: self.text("to_node"),
            counted_by: self.text("counted_by"),
            sent_bytes: self.count("sent_bytes"),
            received_bytes: self.count("received_bytes"),
        })
    }

    fn flow_key(&self) -> Option<FlowKey> {
        let protocol = match &*self.key("protocol") {
            "tcp" => Protocol::Tcp,
            "udp" => Protocol::Udp,
            _ => return None,
        };
        Some(FlowKey {
            protocol,
            source: self.key("source").parse().ok()?,
            destination: self.key("destination").parse().ok()?,
        })
    }

    fn key(&self, name: &str) -> String {
        let part = at(self.0.series.kind.shape().keys, name);
        let part = part.and_then(|index| self.0.series.parts().nth(index));
        part.unwrap_or_default().to_owned()
    }

    fn gauge(&self, name: &str) -> Option<Figures> {
        let index = at(self.0.series.kind.shape().gauges, name)?;
        self.0.measures.gauges[index].said().map(Figures::of)
    }

    fn counter(&self, name: &str) -> Option<u64> {
        let index = at(self.0.series.kind.shape().counters, name)?;
        let value = self.0.measures.counters[index]?;
        u64::try_from(value).ok()
    }

    fn count(&self, name: &str) -> u64 {
        self.counter(name).unwrap_or(0)
    }

    fn text(&self, name: &str) -> Option<String> {
        let index = at(self.0.series.kind.shape().texts, name)?;
        self.0.measures.texts[index].as_deref().map(str::to_owned)
    }
}

fn at(columns: &[&str], name: &str) -> Option<usize> {
    columns.iter().position(|column| *column == name)
}

impl Figures {
    fn of(gauge: &Gauge) -> Self {
        Self {
            min: u64::try_from(gauge.least).unwrap_or(0),
            mean: gauge.mean(),
            max: u64::try_from(gauge.most).unwrap_or(0),
        }
    }
}
