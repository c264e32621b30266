//! Checks whether each item of evidence is possible.

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;

use super::error::EvidenceError;
use super::evidence::{
    FlowFacts, HostFacts, JobFacts, KNOWN_SERIES, PairFacts, PortFacts, Probed, Series, Trace,
    UnsentFacts, hops, node,
};
use super::passages::{Passage, passage, passages};
use super::routes::rate;

/// Maximum of the hop count field in a packet.
const MAX_HOPS: u32 = 255;
/// No network of IPv4 takes less.
const MIN_MTU_BYTES: u32 = 68;
/// Maximum of a counter of bits per second.
const MAX_RATE_GBPS: f64 = 2e10;
/// Maximum of a counter of microseconds.
const MAX_SKEW_MS: f64 = 1e16;
/// No network has seen this many probes, or collectives, of one kind; of more, sums would be wrong.
const MAX_COUNT: f64 = 1e12;
/// Nothing is measured of which there is more.
const MAX_VALUE: f64 = 1e15;

pub(super) type Checked = Result<(), EvidenceError>;

/// One thing that was measured.
pub(super) trait EvidenceItem {
    /// Name of the list in the evidence.
    const LIST_NAME: &'static str;

    /// Whether it fits the fabric, and can be at all.
    fn check(&self, fabric: &Fabric) -> Checked;

    /// Checks that the rate does not exceed that of its link. A rate counted over a moment may do so, because a queue
    /// takes in what the link carries later.
    fn check_rate(&self, _: &Fabric) -> Checked {
        Ok(())
    }

    /// Returns the subject that only one item may describe, if there is one.
    fn of(&self, _: &Fabric) -> Option<String> {
        None
    }

    /// Whether both say the same of it.
    fn agrees(&self, _: &Self) -> bool {
        true
    }
}

fn at_least_nothing(what: &'static str, of: impl Fn() -> String, value: f64) -> Checked {
    within(what, of, value, MAX_VALUE)
}

fn more_than_nothing(what: &'static str, of: impl Fn() -> String, value: f64) -> Checked {
    if value == 0.0 {
        impossible(what, of, value)
    } else {
        at_least_nothing(what, of, value)
    }
}

fn counted(what: &'static str, of: impl Fn() -> String, count: u64) -> Checked {
    within(what, of, count as f64, MAX_COUNT)
}

fn within(what: &'static str, of: impl Fn() -> String, value: f64, most: f64) -> Checked {
    if (0.0..=most).contains(&value) {
        Ok(())
    } else {
        impossible(what, of, value)
    }
}

fn impossible(what: &'static str, of: impl Fn() -> String, value: f64) -> Checked {
    let of = of();
    Err(EvidenceError::NotPossible { what, of, value })
}

/// Not a switch.
fn host(fabric: &Fabric, name: &str) -> Result<NodeId, EvidenceError> {
    let node = node(fabric, name)?;
    let no_host = || EvidenceError::NoHost {
        name: name.to_owned(),
    };
    let is_host = fabric.node(node).role.is_endpoint();
    is_host.then_some(node).ok_or_else(no_host)
}

/// Over one link, or the widest of the links that it may take.
fn carried(of: impl Fn() -> String, gbps: f64, way: Passage, fabric: &Fabric) -> Checked {
    let links = way.each(fabric).map(|hop| hop.link);
    let widest = links.max_by_key(|&link| fabric.link(link).rate);
    let widest = widest.filter(|&link| fabric.link(link).rate.is_exceeded_by(gbps));
    match widest {
        Some(link) => Err(EvidenceError::BeyondLink {
            of: of(),
            claimed: rate(gbps),
            link: fabric.link_name(link),
            most: fabric.link(link).rate,
        }),
        None => Ok(()),
    }
}

impl EvidenceItem for PortFacts {
    const LIST_NAME: &'static str = "ports";

    fn check(&self, fabric: &Fabric) -> Checked {
        node(fabric, &self.node)?;
        node(fabric, &self.peer)?;
        self.incoming(fabric)?;
        let of = || self.place();
        let shares = [
            ("the share of broken frames", self.frame_error_share),
            ("the share of corrected bits", self.corrected_bit_share),
            ("the share of time paused", self.paused_share),
        ];
        for (what, share) in shares {
            within(what, of, share.unwrap_or(0.0), 1.0)?;
        }
        for (what, gbps) in [("the load", self.sent_gbps), ("the speed", self.speed_gbps)] {
            within(what, of, gbps.unwrap_or(0.0), MAX_RATE_GBPS)?;
        }
        match self.mtu_bytes.filter(|bytes| *bytes < MIN_MTU_BYTES) {
            Some(bytes) => impossible("the MTU", of, bytes.into()),
            None => Ok(()),
        }
    }

    fn check_rate(&self, fabric: &Fabric) -> Checked {
        let of = || format!("what {} sends", self.place());
        let sent = self.sent_gbps.unwrap_or(0.0);
        carried(of, sent, self.incoming(fabric)?, fabric)
    }

    /// Between some there are several links, each with a port of its own.
    fn of(&self, fabric: &Fabric) -> Option<String> {
        let way = self.incoming(fabric).ok().filter(|it| it.is_sure)?;
        let link = way.hop.link;
        let by = if fabric.is_parallel(link) {
            format!(" by {}", fabric.link_name(link))
        } else {
            String::new()
        };
        Some(format!("the port of {}{by}", self.place()))
    }

    /// An item that names the only link is equal to one that names none.
    fn agrees(&self, other: &Self) -> bool {
        let link = other.link.clone();
        Self {
            link,
            ..self.clone()
        } == *other
    }
}

impl PortFacts {
    fn place(&self) -> String {
        format!("{} towards {}", self.node, self.peer)
    }
}

impl EvidenceItem for Probed {
    const LIST_NAME: &'static str = "probes";

    fn check(&self, fabric: &Fabric) -> Checked {
        passages(fabric, &self.path, &self.links)?;
        let of = || self.path.join(">");
        let mut sent = [self.sent, self.large_sent].into_iter();
        sent.try_for_each(|sent| counted("the number of probes", of, sent))?;
        let is_possible = self.lost <= self.sent && self.large_lost <= self.large_sent;
        if is_possible {
            Ok(())
        } else {
            Err(EvidenceError::MoreLostThanSent {
                path: self.path.join(">"),
            })
        }
    }
}

impl EvidenceItem for HostFacts {
    const LIST_NAME: &'static str = "hosts";

    fn check(&self, fabric: &Fabric) -> Checked {
        host(fabric, &self.host)?;
        self.unsent.iter().try_for_each(|it| it.check(fabric))?;
        let of = || self.host.clone();
        let busy = self.cpu_busy_share.unwrap_or(0.0);
        within("the share of time that is busy", of, busy, 1.0)?;
        let skew_ms = self.clock_skew_ms.unwrap_or(0.0);
        if skew_ms.abs() > MAX_SKEW_MS {
            return impossible("the error of the clock", of, skew_ms);
        }
        let lanes = [self.pcie_lanes, self.pcie_most_lanes].map(|it| it.map(f64::from));
        let speeds = [self.pcie_gts, self.pcie_most_gts].map(|it| ("the speed of the bus", it));
        for (what, value) in speeds
            .into_iter()
            .chain(lanes.map(|it| ("the width of the bus", it)))
        {
            more_than_nothing(what, of, value.unwrap_or(1.0))?;
        }
        Ok(())
    }

    fn of(&self, _: &Fabric) -> Option<String> {
        Some(self.host.clone())
    }

    fn agrees(&self, other: &Self) -> bool {
        self == other
    }
}

impl HostFacts {
    pub(super) fn runs_beyond_itself(&self) -> bool {
        let is_faster = self.pcie_gts > self.pcie_most_gts && self.pcie_most_gts.is_some();
        let is_wider = self.pcie_lanes > self.pcie_most_lanes && self.pcie_most_lanes.is_some();
        is_faster || is_wider
    }
}

impl EvidenceItem for Trace {
    const LIST_NAME: &'static str = "traces";

    /// No node is any hops from itself, or none from another.
    fn check(&self, fabric: &Fabric) -> Checked {
        let ends = [node(fabric, &self.from)?, node(fabric, &self.to)?];
        let of = || format!("{} to {}", self.from, self.to);
        let possible = if ends[0] == ends[1] {
            0..=0
        } else {
            1..=MAX_HOPS
        };
        let hops = [self.hops_there, self.hops_back].into_iter();
        let mut strange = hops.filter(|hops| !possible.contains(hops));
        match strange.next() {
            None => Ok(()),
            Some(hops) => impossible("the number of hops", of, hops.into()),
        }
    }

    fn of(&self, _: &Fabric) -> Option<String> {
        Some(format!("the path of {} to {}", self.from, self.to))
    }

    fn agrees(&self, other: &Self) -> bool {
        let hops = |it: &Self| (it.hops_there, it.hops_back);
        hops(self) == hops(other)
    }
}

impl UnsentFacts {
    fn check(&self, fabric: &Fabric) -> Checked {
        node(fabric, &self.to)?;
        let of = || format!("probes to {}", self.to);
        counted("the number due", of, self.due)?;
        within(
            "the number not sent",
            of,
            self.count() as f64,
            self.due as f64,
        )
    }
}

impl EvidenceItem for PairFacts {
    const LIST_NAME: &'static str = "pairs";

    fn check(&self, fabric: &Fabric) -> Checked {
        let ends = [host(fabric, &self.from)?, host(fabric, &self.to)?];
        let of = || format!("{} to {}", self.from, self.to);
        let most = if ends[0] == ends[1] {
            0.0
        } else {
            MAX_RATE_GBPS
        };
        within("the bandwidth", of, self.gbps, most)
    }

    /// One rail is as quick as its link, of which this does not say which it is.
    fn check_rate(&self, fabric: &Fabric) -> Checked {
        let ends = [node(fabric, &self.from)?, node(fabric, &self.to)?];
        let most = fabric.most_between(ends[0], ends[1]);
        match most.filter(|most| most.is_exceeded_by(self.gbps)) {
            Some(most) => Err(EvidenceError::BeyondHosts {
                hosts: [self.from.clone(), self.to.clone()],
                claimed: rate(self.gbps),
                most,
            }),
            None => Ok(()),
        }
    }

    fn of(&self, _: &Fabric) -> Option<String> {
        let Self { from, to, rail, .. } = self;
        Some(format!("the bandwidth of {from} to {to} on rail {rail}"))
    }

    fn agrees(&self, other: &Self) -> bool {
        self.gbps == other.gbps
    }
}

impl EvidenceItem for FlowFacts {
    const LIST_NAME: &'static str = "flows";

    fn check(&self, fabric: &Fabric) -> Checked {
        passages(fabric, &self.path, &self.links)?;
        let of = || self.path.join(">");
        within(
            "the highest rate",
            of,
            self.most_gbps.unwrap_or(0.0),
            MAX_RATE_GBPS,
        )?;
        within("the rate", of, self.gbps, MAX_RATE_GBPS)
    }

    fn check_rate(&self, fabric: &Fabric) -> Checked {
        let of = || format!("a flow over {}", self.path.join(">"));
        let way = passages(fabric, &self.path, &self.links)?;
        let mut way = way.iter();
        way.try_for_each(|it| carried(of, self.gbps, *it, fabric))
    }
}

impl EvidenceItem for Series {
    const LIST_NAME: &'static str = "series";

    fn check(&self, fabric: &Fabric) -> Checked {
        if !KNOWN_SERIES.contains(&&self.of[..]) {
            return Err(EvidenceError::NoSuchSeries {
                of: self.of.clone(),
            });
        }
        for name in &self.at {
            node(fabric, name)?;
        }
        let of = || self.place();
        match self.at.len() {
            1 | 2 => {}
            places => return impossible("the number of places", of, places as f64),
        }
        if let [end, peer] = &self.at[..] {
            passage(fabric, [peer, end], self.link.as_deref())?;
        }
        more_than_nothing("the time between values", of, self.every_s)?;
        // A rate may exceed its usual value.
        let most = match &self.of[..] {
            "latency_us" | "errors" => MAX_VALUE,
            _ => 1.0,
        };
        let mut sizes = self.values.iter().map(|value| match &self.of[..] {
            "latency_us" => value.abs(),
            _ => *value,
        });
        sizes.try_for_each(|value| within("a value", || self.place(), value, most))
    }

    /// As for ports of parallel links.
    fn of(&self, fabric: &Fabric) -> Option<String> {
        let by = match &self.at[..] {
            [end, peer] => {
                let way = passage(fabric, [peer, end], self.link.as_deref()).ok();
                let link = way.filter(|it| it.is_sure)?.hop.link;
                let name = || format!(" by {}", fabric.link_name(link));
                fabric.is_parallel(link).then(name).unwrap_or_default()
            }
            _ => String::new(),
        };
        Some(format!("the series of {}{by}", self.place()))
    }

    fn agrees(&self, other: &Self) -> bool {
        (self.every_s, &self.values) == (other.every_s, &other.values)
    }
}

impl Series {
    pub(super) fn place(&self) -> String {
        format!("{} at {}", self.of, self.at.join("-"))
    }
}

impl JobFacts {
    /// Lists by rank must be complete or empty.
    fn check_by_rank(&self) -> Checked {
        let lists = [
            ("first", self.first.len()),
            ("compute_ms", self.compute_ms.len()),
            ("communicate_ms", self.communicate_ms.len()),
        ];
        let ranks = self.ranks.len();
        let mut lists = lists.into_iter();
        match lists.find(|(_, values)| ![0, ranks].contains(values)) {
            Some((list, values)) => Err(EvidenceError::OtherRanks {
                job: self.job.clone(),
                ranks,
                list,
                values,
            }),
            None => Ok(()),
        }
    }

    fn check_figures(&self, fabric: &Fabric) -> Checked {
        let of = || format!("job {}", self.job);
        within("the share of rest", of, self.rest_share.unwrap_or(0.0), 1.0)?;
        for demand in &self.will_send {
            hops(fabric, &demand.path)?;
            within("what is to come", of, demand.gbps, MAX_RATE_GBPS)?;
        }
        let mut first = self.first.iter();
        first.try_for_each(|&times| counted("the number of collectives", of, times))?;
        let collectives = self.collectives.iter();
        let pairs = collectives.clone().flat_map(|it| &it.pairs);
        if let Some(pair) = pairs.clone().find(|pair| pair.from == pair.to) {
            let of = || format!("rank {} of {}", pair.from, of());
            return impossible("the partner", of, pair.to as f64);
        }
        let sizes = self.allreduce_ms.iter().flat_map(|(size, ms)| [*size, *ms]);
        let own = self.compute_ms.iter().chain(&self.communicate_ms).copied();
        let times = collectives.map(|it| it.ms).chain(pairs.map(|it| it.ms));
        let mut all = times.chain(sizes).chain(own);
        all.try_for_each(|ms| at_least_nothing("a time", of, ms))
    }
}

impl EvidenceItem for JobFacts {
    const LIST_NAME: &'static str = "jobs";

    fn check(&self, fabric: &Fabric) -> Checked {
        for rank in &self.ranks {
            host(fabric, rank)?;
        }
        self.check_figures(fabric)?;
        self.check_by_rank()?;
        let groups = self.tensor_groups.iter().chain(&self.pipeline_stages);
        let ring = self.ring.iter().copied();
        let pairs = self.collectives.iter().flat_map(|it| &it.pairs);
        let pairs = pairs.flat_map(|pair| [pair.from, pair.to]);
        let mut all = groups.flatten().copied().chain(ring).chain(pairs);
        match all.find(|&rank| rank >= self.ranks.len()) {
            Some(rank) => Err(EvidenceError::NoSuchRank {
                job: self.job.clone(),
                rank,
            }),
            None => Ok(()),
        }
    }

    fn of(&self, _: &Fabric) -> Option<String> {
        Some(format!("job {}", self.job))
    }

    fn agrees(&self, other: &Self) -> bool {
        self.ranks == other.ranks
    }
}
