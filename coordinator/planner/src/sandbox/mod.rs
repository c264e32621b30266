//! The sandbox: what was sent in a stretch of time, played again as it was and as it might have been.
//!
//! It is a function of the history and of a variant: nothing that is in force is asked or changed.

mod compared;
#[cfg(test)]
mod tests;
mod variant;

use std::fmt;
use std::time::Duration;

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::traffic::Burst;
use reweave_common::units::Bytes;

use crate::sim::Progress;
use crate::sim::network::Costs;
use crate::workload::history::{ReplayError, Replayed, Routing, Seen, replay};

pub use compared::{Compared, Fared, Fullest, Outcome};
pub use variant::{Variant, VariantFile};

#[derive(Debug, Clone, PartialEq)]
pub enum SandboxError {
    /// Between hosts of the fabric that the history speaks of.
    NothingSent,
    /// The fabric of the variant.
    NotInFabric { name: String },
    /// On the fabric that the history speaks of.
    AsItWas(ReplayError),
    /// On the fabric of the variant.
    Otherwise(ReplayError),
}

impl fmt::Display for SandboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingSent => f.write_str(
                "the history knows of no traffic between hosts of the recorded fabric at that time",
            ),
            Self::NotInFabric { name } => write!(
                f,
                "the fabric has no host named {name:?}; say under [hosts] which one takes its place"
            ),
            Self::AsItWas(error) => write!(f, "as it was: {error}"),
            Self::Otherwise(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SandboxError {}

/// What playing may cost, and who may end it.
pub struct Effort<'e> {
    pub costs: Costs,
    /// In units of work, for each of both plays.
    pub limit: u64,
    pub watch: &'e mut dyn FnMut(Progress) -> bool,
}

/// Plays what was sent from this moment on, as it was and as the variant has it.
pub fn compare(
    bursts: &[Burst],
    from: Moment,
    variant: &Variant,
    effort: &mut Effort<'_>,
) -> Result<Compared, SandboxError> {
    let known = Known::of(bursts, &variant.recorded, from);
    if known.0.is_empty() {
        return Err(SandboxError::NothingSent);
    }
    let seen = known.as_it_was(variant);
    let as_it_was = effort.replay(&seen, &variant.recorded, Routing::Even);
    let as_it_was = as_it_was.map_err(SandboxError::AsItWas)?;
    let routing = variant.routing.unwrap_or(Routing::Even);
    let otherwise = effort.replay(&known.otherwise(variant)?, &variant.fabric, routing);
    let otherwise = otherwise.map_err(SandboxError::Otherwise)?;
    Ok(Compared {
        left_out: bursts.len() - known.0.len(),
        ways_unknown: seen.iter().filter(|it| it.along.is_none()).count(),
        ..Compared::new(&known, variant, [&as_it_was, &otherwise])
    })
}

impl Effort<'_> {
    fn replay(
        &mut self,
        seen: &[Seen],
        fabric: &Fabric,
        routing: Routing,
    ) -> Result<Replayed, ReplayError> {
        let costs = self.costs.clone();
        replay(seen, fabric, routing, costs, self.limit, self.watch)
    }
}

/// A burst between hosts of the recorded fabric.
struct Played<'k> {
    burst: &'k Burst,
    ends: [&'k str; 2],
    at: Duration,
}

struct Known<'k>(Vec<Played<'k>>);

impl<'k> Known<'k> {
    fn of(bursts: &'k [Burst], recorded: &Fabric, from: Moment) -> Self {
        let is_host = |name: &str| {
            let node = recorded.find(name);
            node.is_some_and(|node| recorded.node(node).role.is_endpoint())
        };
        let played = bursts.iter().filter_map(|burst| {
            let ends = [&*burst.node, burst.to_node.as_deref()?];
            ends.into_iter().all(is_host).then(|| Played {
                burst,
                ends,
                at: burst.at.since(from),
            })
        });
        Self(played.collect())
    }

    fn as_it_was(&self, variant: &Variant) -> Vec<Seen> {
        let seen = |it: &Played<'_>| {
            let ends = it.ends.map(|name| variant.recorded.find(name));
            let [from, to] = [ends[0]?, ends[1]?];
            let along = it.way(&variant.recorded, to);
            Some(it.seen([from, to], along))
        };
        self.0.iter().filter_map(seen).collect()
    }

    /// With the hosts, and over the ways, of the variant.
    fn otherwise(&self, variant: &Variant) -> Result<Vec<Seen>, SandboxError> {
        let fabric = &variant.fabric;
        let host = |name: &str| {
            let name = variant.hosts.get(name).map_or(name, String::as_str);
            let node = fabric.find(name);
            let node = node.filter(|&node| fabric.node(node).role.is_endpoint());
            node.ok_or_else(|| SandboxError::NotInFabric {
                name: name.to_owned(),
            })
        };
        let seen = |it: &Played<'_>| {
            let [from, to] = [host(it.ends[0])?, host(it.ends[1])?];
            let given = variant.ways.get(&(from, to)).cloned();
            let seen = || it.way(fabric, to).filter(|_| variant.routing.is_none());
            Ok(it.seen([from, to], given.or_else(seen)))
        };
        self.0.iter().map(seen).collect()
    }
}

impl Played<'_> {
    fn seen(&self, [from, to]: [NodeId; 2], along: Option<Vec<NodeId>>) -> Seen {
        Seen {
            at: self.at,
            from,
            to,
            flow: self.burst.flow,
            bytes: Bytes::new(self.burst.bytes),
            along,
        }
    }

    /// The nodes on its way as it was seen, where that is known from end to end.
    fn way(&self, fabric: &Fabric, to: NodeId) -> Option<Vec<NodeId>> {
        let hops = self.burst.hops.as_ref()?.iter();
        let mut nodes: Vec<_> = hops.map(|name| fabric.find(name)).collect::<Option<_>>()?;
        nodes.push(to);
        let linked = |pair: &[NodeId]| fabric.links_between(pair[0], pair[1]).next().is_some();
        (nodes.len() > 1 && nodes.windows(2).all(linked)).then_some(nodes)
    }
}
