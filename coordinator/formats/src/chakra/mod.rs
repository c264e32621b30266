//! Chakra execution traces: one file per rank, each a sequence of length-delimited messages of
//! protocol buffers, metadata first and then a node each.
//!
//! A collective is written by each of its members; the n-th of a process group on one rank is the
//! n-th of that group on every other. A message has a node where it is sent and one where it is
//! received; of the same pair and tag, they meet in order.

mod node;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::ids::Rank;
use reweave_common::iteration::{
    Iteration, IterationBuilder, IterationError, Operation, TaskId, TaskWork,
};
use reweave_common::units::Bytes;
use thiserror::Error;

use crate::protobuf::{ProtobufError, Reader};
use node::{Kind, Node};

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ChakraError {
    #[error("the trace of rank {rank}")]
    Trace {
        rank: usize,
        source: Box<ChakraError>,
    },
    #[error("not an execution trace")]
    Malformed(#[from] ProtobufError),
    #[error("an execution trace has at least its metadata")]
    Empty,
    #[error("node {id} is of the type {kind}, which is unknown")]
    UnknownKind { id: u64, kind: u64 },
    #[error("rank {rank}: two nodes have the id {id}")]
    Duplicate { rank: usize, id: u64 },
    #[error("rank {rank}: node {id} waits for node {after}, which does not exist")]
    UnknownNode { rank: usize, id: u64, after: u64 },
    #[error("rank {rank}: node {id} is a collective of the type {comm_type}, which is unknown")]
    UnknownCollective {
        rank: usize,
        id: u64,
        comm_type: u64,
    },
    #[error("rank {rank}: node {id} names rank {peer}, and there are {ranks} traces")]
    UnknownRank {
        rank: usize,
        id: u64,
        peer: u64,
        ranks: usize,
    },
    #[error(
        "the {nth}. collective of group {group:?} is not the same everywhere: ranks {a} and {b} differ"
    )]
    Unlike {
        group: String,
        nth: usize,
        a: usize,
        b: usize,
    },
    #[error("rank {rank}: the message of node {id} has no other end")]
    OneEnded { rank: usize, id: u64 },
    #[error(transparent)]
    Iteration(#[from] IterationError),
}

impl ChakraError {
    /// Whose traces are wrong, where it is known.
    pub fn ranks(&self) -> Vec<usize> {
        match *self {
            Self::Trace { rank, .. }
            | Self::Duplicate { rank, .. }
            | Self::UnknownNode { rank, .. }
            | Self::UnknownCollective { rank, .. }
            | Self::UnknownRank { rank, .. }
            | Self::OneEnded { rank, .. } => vec![rank],
            Self::Unlike { a, b, .. } => vec![a, b],
            Self::Malformed(_) | Self::Empty | Self::UnknownKind { .. } | Self::Iteration(_) => {
                vec![]
            }
        }
    }
}

/// The traces of all ranks, in order of ranks, as one iteration.
pub fn read(traces: &[&[u8]]) -> Result<Iteration, ChakraError> {
    let nodes: Vec<_> = traces
        .iter()
        .enumerate()
        .map(|(rank, trace)| {
            read_nodes(trace).map_err(|source| ChakraError::Trace {
                rank,
                source: Box::new(source),
            })
        })
        .collect::<Result<_, _>>()?;
    let mut joining = Joining {
        builder: IterationBuilder::new(nodes.len()),
        tasks: vec![BTreeMap::new(); nodes.len()],
        nodes,
    };
    joining.alone()?;
    joining.collectives()?;
    joining.messages()?;
    joining.arrows()?;
    Ok(joining.builder.build()?)
}

fn read_nodes(trace: &[u8]) -> Result<Vec<Node>, ChakraError> {
    let mut reader = Reader::new(trace);
    if reader.is_at_end() {
        return Err(ChakraError::Empty);
    }
    // What the metadata says does not change any time.
    for field in Reader::new(reader.delimited()?) {
        field?;
    }
    let mut nodes = Vec::new();
    while !reader.is_at_end() {
        nodes.push(Node::read(reader.delimited()?)?);
    }
    Ok(nodes)
}

/// What a collective does, where Chakra's number for it is known. Those to one member or from one
/// cost the others' ports as a broadcast does.
fn operation(comm_type: u64) -> Option<Operation> {
    Some(match comm_type {
        0 | 9 => Operation::AllReduce,
        1 | 3 | 4 | 5 => Operation::Broadcast,
        2 => Operation::AllGather,
        6 => Operation::AllToAll,
        7 | 8 => Operation::ReduceScatter,
        _ => return None,
    })
}

struct Joining {
    builder: IterationBuilder,
    nodes: Vec<Vec<Node>>,
    /// By rank and id.
    tasks: Vec<BTreeMap<u64, TaskId>>,
}

/// Where a node stands: its rank and its place in the trace.
type Place = (usize, usize);

impl Joining {
    fn places(&self, kinds: &[Kind]) -> Vec<Place> {
        let of_rank = |(rank, nodes): (usize, &Vec<Node>)| {
            let fits = |(_, node): &(usize, &Node)| kinds.contains(&node.kind);
            let fitting = nodes.iter().enumerate().filter(fits);
            fitting.map(|(at, _)| (rank, at)).collect::<Vec<_>>()
        };
        self.nodes.iter().enumerate().flat_map(of_rank).collect()
    }

    fn node(&self, (rank, at): Place) -> &Node {
        &self.nodes[rank][at]
    }

    fn add(&mut self, places: &[Place], name: &str, work: TaskWork) -> Result<(), ChakraError> {
        let name = self.builder.name(name);
        let task = self.builder.add(name, work);
        for &(rank, at) in places {
            let id = self.nodes[rank][at].id;
            if self.tasks[rank].insert(id, task).is_some() {
                return Err(ChakraError::Duplicate { rank, id });
            }
        }
        Ok(())
    }

    /// What a rank does by itself.
    fn alone(&mut self) -> Result<(), ChakraError> {
        for place in self.places(&[Kind::Metadata, Kind::Memory, Kind::Compute]) {
            let node = self.node(place);
            let time = Duration::from_micros(node.duration_us);
            let on_processor = node.kind == Kind::Compute && !node.on_cpu;
            let (name, work) = if on_processor {
                let rank = Rank::from_index(place.0);
                ("compute", TaskWork::Compute { rank, time })
            } else {
                ("host", TaskWork::Delay { time })
            };
            self.add(&[place], name, work)?;
        }
        Ok(())
    }

    fn collectives(&mut self) -> Result<(), ChakraError> {
        // By group and how many of it came before on the same rank.
        let mut met: BTreeMap<(String, usize), Vec<Place>> = BTreeMap::new();
        let mut passed: BTreeMap<(usize, String), usize> = BTreeMap::new();
        for place in self.places(&[Kind::Collective]) {
            let group = self.node(place).group.clone();
            let nth = passed.entry((place.0, group.clone())).or_default();
            met.entry((group, *nth)).or_default().push(place);
            *nth += 1;
        }
        for ((group, nth), places) in met {
            self.collective(&group, nth, &places)?;
        }
        Ok(())
    }

    fn collective(&mut self, group: &str, nth: usize, places: &[Place]) -> Result<(), ChakraError> {
        let first = self.node(places[0]);
        let alike = |&&place: &&Place| {
            let node = self.node(place);
            (node.comm_type, node.comm_bytes) != (first.comm_type, first.comm_bytes)
        };
        if let Some(&(b, _)) = places.iter().find(alike) {
            return Err(ChakraError::Unlike {
                group: group.to_owned(),
                nth: nth + 1,
                a: places[0].0,
                b,
            });
        }
        let comm_type = first.comm_type.unwrap_or_default();
        let operation = operation(comm_type).ok_or(ChakraError::UnknownCollective {
            rank: places[0].0,
            id: first.id,
            comm_type,
        })?;
        let bytes = match operation {
            // The size is that of what each member brings.
            Operation::AllGather => first.comm_bytes.saturating_mul(places.len() as u64),
            _ => first.comm_bytes,
        };
        let members: Vec<_> = places
            .iter()
            .map(|(rank, _)| Rank::from_index(*rank))
            .collect();
        let work = TaskWork::Collective {
            operation,
            group: self.builder.group(&members),
            bytes: Bytes::new(bytes),
            local: Duration::ZERO,
        };
        self.add(places, operation.name(), work)
    }

    fn messages(&mut self) -> Result<(), ChakraError> {
        let mut sent: BTreeMap<(u64, u64, u64), Vec<Place>> = BTreeMap::new();
        for place in self.places(&[Kind::Send]) {
            sent.entry(self.ends(place)?).or_default().push(place);
        }
        sent.values_mut().for_each(|places| places.reverse());
        for place in self.places(&[Kind::Receive]) {
            let ends = self.ends(place)?;
            let sender = sent.get_mut(&ends).and_then(Vec::pop);
            let sender = sender.ok_or_else(|| self.one_ended(place))?;
            let [from, to] = [ends.0, ends.1].map(|rank| Rank::from_index(rank as usize));
            let bytes = Bytes::new(self.node(sender).comm_bytes);
            self.add(
                &[sender, place],
                "message",
                TaskWork::Transfer { from, to, bytes },
            )?;
        }
        match sent.values().flatten().next() {
            Some(&place) => Err(self.one_ended(place)),
            None => Ok(()),
        }
    }

    fn one_ended(&self, place: Place) -> ChakraError {
        ChakraError::OneEnded {
            rank: place.0,
            id: self.node(place).id,
        }
    }

    /// Who sends to whom, and the tag. What is not said is the rank itself.
    fn ends(&self, place: Place) -> Result<(u64, u64, u64), ChakraError> {
        let node = self.node(place);
        let own = place.0 as u64;
        let ends = [node.source.unwrap_or(own), node.destination.unwrap_or(own)];
        let ranks = self.nodes.len();
        match ends.iter().find(|&&peer| peer >= ranks as u64) {
            Some(&peer) => Err(ChakraError::UnknownRank {
                rank: place.0,
                id: node.id,
                peer,
                ranks,
            }),
            None => Ok((ends[0], ends[1], node.tag)),
        }
    }

    fn arrows(&mut self) -> Result<(), ChakraError> {
        for (rank, nodes) in self.nodes.iter().enumerate() {
            for node in nodes {
                let task = self.tasks[rank][&node.id];
                for &after in &node.after {
                    let unknown = ChakraError::UnknownNode {
                        rank,
                        id: node.id,
                        after,
                    };
                    let before = self.tasks[rank].get(&after).ok_or(unknown)?;
                    self.builder.then(*before, task);
                }
            }
        }
        Ok(())
    }
}
