//! What NCCL's Inspector writes: one JSON object per collective that has ended.
//!
//! It numbers ranks within each communicator. The processes are distinguished by host and number,
//! and are ranked as the largest communicator ranks them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reweave_common::ids::Rank;
use reweave_common::iteration::Operation;
use reweave_common::recorded_exchange::{ExchangeKind, RecordedExchange};
use reweave_common::units::Bytes;
use serde::Deserialize;
use thiserror::Error;

/// What is wrong, and in which of the files.
#[derive(Debug, Error)]
#[error("file {file}")]
pub struct InspectorError {
    pub file: usize,
    pub source: Problem,
}

#[derive(Debug, Error)]
pub enum Problem {
    #[error("not what NCCL's Inspector writes")]
    Json(#[source] serde_json::Error),
    #[error("{coll:?} is not a known collective")]
    UnknownCollective { coll: String },
    #[error("communicator {id}: rank {rank} is not below {ranks}")]
    BadRank { id: String, rank: u32, ranks: u32 },
    #[error("communicator {id}: {host} {pid} and another process have the same rank {rank}")]
    TwoOfARank {
        id: String,
        rank: u32,
        host: String,
        pid: u64,
    },
    #[error("{host} {pid} is not in the largest communicator, so it has no rank")]
    Outside { host: String, pid: u64 },
}

#[derive(Deserialize)]
struct Line {
    header: Header,
    metadata: Metadata,
    /// Messages between two are reported otherwise.
    coll_perf: Option<Collective>,
}

#[derive(Deserialize)]
struct Header {
    id: String,
    rank: u32,
    n_ranks: u32,
}

#[derive(Deserialize)]
struct Metadata {
    hostname: String,
    pid: u64,
}

#[derive(Deserialize)]
struct Collective {
    coll: String,
    coll_msg_size_bytes: u64,
    coll_exec_time_us: Option<f64>,
}

type Process = (String, u64);

/// By communicator, its size and who has which rank in it.
type Communicators = BTreeMap<String, (u32, BTreeMap<u32, Process>)>;

/// What the files of all processes tell, file by file in their order. A communicator's members are
/// those that wrote something of it.
pub fn read(files: &[&str]) -> Result<Vec<RecordedExchange>, InspectorError> {
    let mut lines: Vec<(usize, Line)> = Vec::new();
    for (file, text) in files.iter().enumerate() {
        for line in serde_json::Deserializer::from_str(text).into_iter() {
            lines.push((file, line.map_err(in_file(file, Problem::Json))?));
        }
    }
    let communicators = communicators(&lines)?;
    let ranks = ranks(&communicators);
    let reports = lines.iter().filter_map(|(file, line)| {
        let recorded = line.recorded(&communicators, &ranks)?;
        Some(recorded.map_err(in_file(*file, |problem| problem)))
    });
    reports.collect()
}

fn in_file<E>(file: usize, problem: impl Fn(E) -> Problem) -> impl Fn(E) -> InspectorError {
    move |error| InspectorError {
        file,
        source: problem(error),
    }
}

impl Line {
    fn process(&self) -> Process {
        (self.metadata.hostname.clone(), self.metadata.pid)
    }

    /// Nothing where it is of no collective.
    fn recorded(
        &self,
        communicators: &Communicators,
        ranks: &BTreeMap<Process, Rank>,
    ) -> Option<Result<RecordedExchange, Problem>> {
        let collective = self.coll_perf.as_ref()?;
        let (_, members) = &communicators[&self.header.id];
        let rank = |process: &Process| {
            let rank = ranks.get(process).copied();
            rank.ok_or_else(|| Problem::Outside {
                host: process.0.clone(),
                pid: process.1,
            })
        };
        let recorded = || {
            Ok(RecordedExchange {
                rank: rank(&self.process())?,
                what: ExchangeKind::Collective {
                    operation: operation(&collective.coll)?,
                    group: members.values().map(rank).collect::<Result<_, _>>()?,
                    name: self.header.id.clone(),
                },
                bytes: Bytes::new(collective.coll_msg_size_bytes),
                asked_ns: None,
                took: collective
                    .coll_exec_time_us
                    .and_then(|us| Duration::try_from_secs_f64(us / 1e6).ok()),
            })
        };
        Some(recorded())
    }

    /// Among those of its communicator.
    fn join(&self, communicators: &mut Communicators) -> Result<(), Problem> {
        let Header { id, rank, n_ranks } = &self.header;
        let known = communicators.entry(id.clone());
        let (_, members) = known.or_insert_with(|| (*n_ranks, BTreeMap::new()));
        let process = self.process();
        let known = members.entry(*rank).or_insert_with(|| process.clone());
        if *known == process {
            Ok(())
        } else {
            Err(Problem::TwoOfARank {
                id: id.clone(),
                rank: *rank,
                host: process.0,
                pid: process.1,
            })
        }
    }

    fn check_rank(&self) -> Result<(), Problem> {
        let Header { id, rank, n_ranks } = &self.header;
        if rank < n_ranks {
            Ok(())
        } else {
            Err(Problem::BadRank {
                id: id.clone(),
                rank: *rank,
                ranks: *n_ranks,
            })
        }
    }
}

fn communicators(lines: &[(usize, Line)]) -> Result<Communicators, InspectorError> {
    let mut communicators = Communicators::new();
    for (file, line) in lines {
        let report = line
            .check_rank()
            .and_then(|()| line.join(&mut communicators));
        report.map_err(in_file(*file, |problem| problem))?;
    }
    Ok(communicators)
}

/// As the largest communicator has them; the first by its name where several are.
fn ranks(communicators: &Communicators) -> BTreeMap<Process, Rank> {
    let sizes: BTreeSet<_> = communicators.values().map(|(size, _)| size).collect();
    let largest = communicators
        .values()
        .find(|(size, _)| Some(&size) == sizes.last());
    let members = largest.into_iter().flat_map(|(_, members)| members);
    members
        .map(|(&rank, process)| (process.clone(), Rank::from_index(rank as usize)))
        .collect()
}

fn operation(coll: &str) -> Result<Operation, Problem> {
    Ok(match coll {
        "AllReduce" => Operation::AllReduce,
        "AllGather" => Operation::AllGather,
        "ReduceScatter" => Operation::ReduceScatter,
        "AlltoAll" | "AllToAll" => Operation::AllToAll,
        "Broadcast" | "Reduce" | "Gather" | "Scatter" => Operation::Broadcast,
        coll => {
            return Err(Problem::UnknownCollective {
                coll: coll.to_owned(),
            });
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutations;

    fn line(id: &str, rank: u32, ranks: u32, pid: u64, coll: &str) -> String {
        format!(
            r#"{{"header":{{"id":"{id}","rank":{rank},"n_ranks":{ranks},"nnodes":1}},
            "metadata":{{"inspector_output_format_version":"v4.0","hostname":"g1","pid":{pid}}},
            "coll_perf":{{"coll":"{coll}","coll_sn":7,"coll_msg_size_bytes":4096,
            "coll_exec_time_us":250,"coll_busbw_gbs":1.5}}}}
            "#
        )
    }

    /// Four processes; the two odd ones have a communicator of their own.
    fn files() -> Vec<String> {
        (0..4u32)
            .map(|rank| {
                let all = line("0xa", rank, 4, 100 + u64::from(rank), "AllReduce");
                let odd = line("0xb", rank / 2, 2, 100 + u64::from(rank), "AllGather");
                if rank % 2 == 1 { all + &odd } else { all }
            })
            .collect()
    }

    fn read_all(files: &[String]) -> Result<Vec<RecordedExchange>, InspectorError> {
        read(&files.iter().map(String::as_str).collect::<Vec<_>>())
    }

    #[test]
    fn largest_communicator_defines_ranks() {
        let recorded = read_all(&files()).unwrap();
        assert_eq!(recorded.len(), 6);
        let last = &recorded[5];
        assert_eq!(last.rank, Rank::from_index(3));
        let ExchangeKind::Collective {
            operation, group, ..
        } = &last.what
        else {
            panic!("{last:?}");
        };
        assert_eq!(*operation, Operation::AllGather);
        assert_eq!(*group, [1, 3].map(Rank::from_index));
        assert_eq!(last.took, Some(Duration::from_micros(250)));
    }

    #[test]
    fn impossible_inspector_records_are_refused() {
        let refused = |more: String| {
            let mut files = files();
            files.push(more);
            let error = read_all(&files).unwrap_err();
            format!("{error}: {}", error.source)
        };
        assert_eq!(
            refused(line("0xa", 2, 4, 999, "AllReduce")),
            "file 4: communicator 0xa: g1 999 and another process have the same rank 2"
        );
        assert_eq!(
            refused(line("0xc", 0, 1, 999, "AllReduce")),
            "file 4: g1 999 is not in the largest communicator, so it has no rank"
        );
        assert_eq!(
            refused(line("0xc", 5, 3, 101, "AllReduce")),
            "file 4: communicator 0xc: rank 5 is not below 3"
        );
        assert!(
            refused(line("0xa", 0, 4, 100, "Conjure"))
                .contains("\"Conjure\" is not a known collective")
        );
        assert!(refused("{".to_owned()).starts_with("file 4: not what NCCL's Inspector writes"));
    }

    #[test]
    fn damaged_files_are_read_or_refused() {
        let good = files().concat();
        mutations::survives(good.as_bytes(), 5_000, |bytes| {
            let _ = read(&[&String::from_utf8_lossy(bytes)]);
        });
    }
}
