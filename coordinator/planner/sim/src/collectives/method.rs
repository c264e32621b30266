//! Methods of algorithms: what the members of a collective do, in pieces of the best size, and the time on a network.

use std::collections::BTreeSet;

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::iteration::Operation;
use reweave_repair::paths::ecmp::Ecmp;

use super::pipelined::{self, Tree, TreeDirection};
use super::schedule::{Round, Schedule};
use super::{Algorithm, Collective, CollectiveError, Played, Watch, packing, patterns, play};
use crate::engine::SimTime;
use crate::engine::must_fit;
use crate::engine::network::Network;

/// Finer pieces than these cost more simulation time than they gain in accuracy.
const MAX_SENDS_IN_PIECES: usize = 1 << 19;
const MAX_PIECES: usize = 128;
/// Maximum ratio of times at which twice as many pieces are worth a further try.
const MAX_WORTHWHILE_RATIO: f64 = 0.998;

/// Returns the time of a collective by an algorithm, with all costs of sending.
pub fn time(
    collective: &Collective<'_>,
    algorithm: Algorithm,
    network: &Network,
    ecmp: &Ecmp,
    limit: u64,
    watch: Watch<'_>,
) -> Result<Played, CollectiveError> {
    let method = Method::of(collective, algorithm, limit)?;
    let parts = method.in_best_pieces(MAX_SENDS_IN_PIECES, |schedule| {
        let played = play(collective, &schedule, network, ecmp, limit, watch)?;
        Ok::<_, CollectiveError>((played.time, played))
    })?;
    let whole = parts.into_iter().reduce(|first, next| first.then(&next));
    whole.ok_or(CollectiveError::TooFewHosts { hosts: 0 })
}

/// Returns the fastest algorithm with its time. Algorithms that do not fit the hosts, or exceed the work limit, are
/// skipped.
pub fn fastest(
    collective: &Collective<'_>,
    algorithms: &[Algorithm],
    network: &Network,
    ecmp: &Ecmp,
    limit: u64,
    watch: Watch<'_>,
) -> Result<(Algorithm, Played), CollectiveError> {
    let mut best: Option<(Algorithm, Played)> = None;
    let mut refusal = CollectiveError::TooMuchWork { limit };
    for &algorithm in algorithms {
        match time(collective, algorithm, network, ecmp, limit, watch) {
            Ok(played) if best.as_ref().is_none_or(|(_, it)| played.is_faster(it)) => {
                best = Some((algorithm, played));
            }
            Ok(_) => {}
            Err(error) if error.is_of_algorithm() => refusal = error,
            Err(error) => return Err(error),
        }
    }
    best.ok_or(refusal)
}

impl Played {
    /// Whether it is faster by more than rounding errors.
    fn is_faster(&self, other: &Self) -> bool {
        self.time.seconds() < other.time.seconds() * 0.9999
    }
}

/// Actions of the members, part by part.
#[derive(Debug)]
pub(crate) struct Method {
    members: usize,
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    Rounds(Vec<Vec<Round>>),
    Trees {
        trees: Vec<Tree>,
        direction: TreeDirection,
    },
}

impl Method {
    /// More than `limit` units of work to find it are an error.
    pub(crate) fn of(
        collective: &Collective<'_>,
        algorithm: Algorithm,
        limit: u64,
    ) -> Result<Self, CollectiveError> {
        let Collective {
            operation, bytes, ..
        } = *collective;
        if !algorithm.does(operation) {
            return Err(CollectiveError::NotDone {
                operation,
                by: algorithm,
            });
        }
        let hosts = collective.hosts()?;
        let members = hosts.len();
        let trees = |trees, direction| vec![Part::Trees { trees, direction }];
        let parts = match algorithm {
            Algorithm::Tree => trees(pipelined::double_tree(members, bytes), direction(operation)),
            Algorithm::Optimal => packed(collective, &hosts, limit)?,
            Algorithm::Ring if operation == Operation::Broadcast => {
                trees(vec![pipelined::chain(members, bytes)], TreeDirection::Down)
            }
            _ => vec![Part::Rounds(lanes(collective, &hosts, algorithm)?)],
        };
        Ok(Self { members, parts })
    }

    /// The outcome of each part, in the pieces that `play` says take the least time.
    pub(crate) fn in_best_pieces<T, E>(
        &self,
        most_sends: usize,
        mut play: impl FnMut(Schedule) -> Result<(SimTime, T), E>,
    ) -> Result<Vec<T>, E> {
        self.parts
            .iter()
            .map(|part| match part {
                Part::Rounds(lanes) => Ok(play(Schedule::Rounds(lanes.clone()))?.1),
                Part::Trees { trees, direction } => {
                    let sends: usize = trees.iter().map(|tree| tree.edges.len() * 2).sum();
                    let most = (most_sends / sends.max(1)).min(MAX_PIECES);
                    in_pieces(most, |pieces| {
                        play(pipelined::schedule(trees, self.members, pieces, *direction))
                    })
                }
            })
            .collect()
    }
}

/// Sends that all move at one pace, as each passes on what the one before hands it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chain {
    pub(super) edges: Vec<[usize; 2]>,
    /// Over each of them, in all.
    pub(super) bytes: f64,
    /// Number of dependent sends.
    pub(super) steps: usize,
    /// Number of passes, which start one after another.
    pub(super) passes: usize,
    /// Whether what is sent may be cut into pieces that follow each other.
    pub(super) in_pieces: bool,
}

impl Method {
    /// Returns none if the method has no rings or trees.
    pub(super) fn chains(&self) -> Option<Vec<Chain>> {
        let chains = self.parts.iter().map(|part| match part {
            Part::Rounds(lanes) => lanes.iter().map(|lane| around(lane)).collect(),
            Part::Trees { trees, direction } => {
                let chains = trees.iter().map(|tree| along(tree, *direction));
                Some(chains.collect::<Vec<_>>())
            }
        });
        Some(chains.collect::<Option<Vec<_>>>()?.concat())
    }
}

fn around(lane: &[Round]) -> Option<Chain> {
    let [round] = lane else {
        return None;
    };
    let edges = round.sends.iter().map(|send| [send.from, send.to]);
    Some(Chain {
        edges: edges.collect(),
        bytes: round.sends.first()?.bytes * round.times as f64,
        steps: round.times,
        passes: 1,
        in_pieces: false,
    })
}

fn along(tree: &Tree, direction: TreeDirection) -> Chain {
    let down = tree.edges.iter().map(|edge| [edge.parent, edge.child]);
    let up = down.clone().map(|[parent, child]| [child, parent]);
    let edges: Vec<_> = match direction {
        TreeDirection::Down => down.collect(),
        TreeDirection::Up => up.collect(),
        TreeDirection::UpAndDown => up.chain(down).collect(),
    };
    let passes = edges.len() / tree.edges.len().max(1);
    Chain {
        edges,
        bytes: tree.bytes,
        steps: passes * tree.depth(),
        passes,
        in_pieces: true,
    }
}

/// Ever more pieces, as long as that is faster.
fn in_pieces<T, E>(
    most: usize,
    mut play: impl FnMut(usize) -> Result<(SimTime, T), E>,
) -> Result<T, E> {
    let mut pieces = 1;
    let mut best = play(pieces)?;
    while pieces * 2 <= most {
        pieces *= 2;
        let next = play(pieces)?;
        let gained = next.0.seconds() < best.0.seconds() * MAX_WORTHWHILE_RATIO;
        if next.0 < best.0 {
            best = next;
        }
        if !gained {
            break;
        }
    }
    Ok(best.1)
}

fn direction(operation: Operation) -> TreeDirection {
    match operation {
        Operation::AllReduce => TreeDirection::UpAndDown,
        Operation::ReduceScatter => TreeDirection::Up,
        _ => TreeDirection::Down,
    }
}

/// An all-reduce scatters even shares first and then gathers them: two bounds, each of which is
/// reached.
fn packed(
    collective: &Collective<'_>,
    hosts: &[NodeId],
    limit: u64,
) -> Result<Vec<Part>, CollectiveError> {
    let mut seen = BTreeSet::new();
    if let Some(shared) = hosts.iter().find(|host| !seen.insert(**host)) {
        let host = collective.fabric.name(*shared).to_owned();
        return Err(CollectiveError::SharedHost { host });
    }
    let trees = packing::trees(collective, limit)?;
    let directions = match direction(collective.operation) {
        TreeDirection::UpAndDown => vec![TreeDirection::Up, TreeDirection::Down],
        other => vec![other],
    };
    Ok(directions
        .into_iter()
        .map(|direction| Part::Trees {
            trees: trees.clone(),
            direction,
        })
        .collect())
}

fn lanes(
    collective: &Collective<'_>,
    hosts: &[NodeId],
    algorithm: Algorithm,
) -> Result<Vec<Vec<Round>>, CollectiveError> {
    let Collective {
        fabric,
        operation,
        bytes,
        ..
    } = *collective;
    let members = hosts.len();
    if matches!(algorithm, Algorithm::Direct | Algorithm::Shifted) {
        must_fit(members.saturating_mul(members))?;
    }
    let steps = patterns::ring_steps(operation, members);
    let in_order: Vec<_> = (0..members).collect();
    Ok(match algorithm {
        Algorithm::MultiRing => rings(fabric, hosts, bytes, steps),
        Algorithm::Recursive => vec![patterns::recursive(operation, members, bytes)],
        Algorithm::Hierarchical { group } => {
            let group = group_size(fabric, hosts, group)?;
            vec![patterns::hierarchical(operation, members, group, bytes)]
        }
        Algorithm::Direct => vec![patterns::direct(members, bytes)],
        Algorithm::Shifted => vec![patterns::shifted(members, bytes)],
        _ => vec![patterns::ring(&in_order, bytes, steps)],
    })
}

/// Returns a ring per stride that visits all hosts and uses neighbours only; if there are none, both directions around
/// the hosts in their order.
fn rings(fabric: &Fabric, hosts: &[NodeId], bytes: f64, steps: usize) -> Vec<Vec<Round>> {
    let members = hosts.len();
    let is_wired = |&stride: &usize| {
        let mut pairs = (0..members).map(|nth| [hosts[nth], hosts[(nth + stride) % members]]);
        pairs.all(|[a, b]| fabric.links_between(a, b).next().is_some())
    };
    let strides = (1..members).filter(|&stride| patterns::gcd(stride, members) == 1);
    let mut wired: Vec<_> = strides.filter(is_wired).collect();
    if wired.is_empty() {
        wired = vec![1, members - 1];
        wired.dedup();
    }
    let bytes = bytes / wired.len() as f64;
    let ring = |&stride| patterns::ring(&patterns::stride_ring(members, stride), bytes, steps);
    wired.iter().map(ring).collect()
}

/// Returns the requested group size, else the number of ranks per host, else the number of hosts per switch.
fn group_size(fabric: &Fabric, hosts: &[NodeId], asked: usize) -> Result<usize, CollectiveError> {
    let members = hosts.len();
    let group = match asked {
        0 => natural_group(fabric, hosts),
        asked => asked,
    };
    if members.is_multiple_of(group) {
        Ok(group)
    } else {
        Err(CollectiveError::BadGroup {
            group,
            hosts: members,
        })
    }
}

fn natural_group(fabric: &Fabric, hosts: &[NodeId]) -> usize {
    let on_first = hosts.iter().take_while(|&&host| host == hosts[0]).count();
    if on_first > 1 {
        return on_first;
    }
    let first_switch = |host| {
        let links = fabric.links_of(host).iter();
        links.map(|&link| fabric.link(link).far(host).node).min()
    };
    let of_first = first_switch(hosts[0]);
    let group = hosts
        .iter()
        .take_while(|&&host| first_switch(host) == of_first);
    group.count().max(1)
}
