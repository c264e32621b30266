//! What PyTorch's flight recorder dumps: the last collectives of one rank, as a pickle or as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::ids::Rank;
use reweave_common::iteration::Operation;
use reweave_common::recorded_exchange::{ExchangeKind, RecordedExchange};
use reweave_common::units::Bytes;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use crate::pickle::{self, PickleError};

#[derive(Debug, Error)]
pub enum FlightRecorderError {
    #[error(transparent)]
    Pickle(PickleError),
    #[error("not a dump of the flight recorder")]
    Unfit(#[source] PickleError),
    #[error("not a dump of the flight recorder")]
    Json(#[from] serde_json::Error),
    #[error("entry {nth}: the process group {group:?} is not described")]
    UnknownGroup { nth: usize, group: String },
    #[error("entry {nth}: {name:?} is not a known collective")]
    UnknownName { nth: usize, name: String },
    #[error("entry {nth}: values of the type {dtype:?} have no known size")]
    UnknownType { nth: usize, dtype: String },
    #[error("entry {nth}: its sizes are invalid")]
    BadSizes { nth: usize },
    #[error("the process group {group:?} has no ranks that can be read")]
    BadRanks { group: String },
}

impl From<PickleError> for FlightRecorderError {
    fn from(error: PickleError) -> Self {
        match error {
            PickleError::Unfit { .. } => Self::Unfit(error),
            other => Self::Pickle(other),
        }
    }
}

#[derive(Deserialize)]
struct Dump {
    #[serde(default)]
    pg_config: BTreeMap<String, Group>,
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Group {
    /// A list, or a list written as text.
    ranks: Value,
}

#[derive(Deserialize)]
struct Entry {
    pg_id: Option<Value>,
    process_group: Option<(String, String)>,
    profiling_name: String,
    #[serde(default)]
    input_sizes: Vec<Vec<u64>>,
    #[serde(default)]
    input_dtypes: Value,
    #[serde(default)]
    output_sizes: Vec<Vec<u64>>,
    #[serde(default)]
    output_dtypes: Value,
    time_created_ns: Option<u64>,
    duration_ms: Option<f64>,
    time_discovered_started_ns: Option<u64>,
    time_discovered_completed_ns: Option<u64>,
}

/// What one rank dumped, in its order.
pub fn read(rank: Rank, bytes: &[u8]) -> Result<Vec<RecordedExchange>, FlightRecorderError> {
    let dump: Dump = match bytes.trim_ascii_start().first() {
        Some(b'{') => serde_json::from_slice(bytes)?,
        _ => pickle::read(bytes)?,
    };
    let groups = dump.pg_config.iter();
    let groups = groups.map(|(name, group)| Ok((name.as_str(), ranks(name, &group.ranks)?)));
    let groups: BTreeMap<_, _> = groups.collect::<Result<_, FlightRecorderError>>()?;
    let entries = dump.entries.iter().enumerate();
    let read = entries.map(|(nth, entry)| entry.recorded(nth, rank, &groups));
    read.filter_map(Result::transpose).collect()
}

fn ranks(group: &str, ranks: &Value) -> Result<Vec<Rank>, FlightRecorderError> {
    let bad = || FlightRecorderError::BadRanks {
        group: group.to_owned(),
    };
    let numbers: Vec<u32> = match ranks {
        Value::String(text) => serde_json::from_str(text).map_err(|_| bad())?,
        other => serde_json::from_value(other.clone()).map_err(|_| bad())?,
    };
    Ok(numbers
        .into_iter()
        .map(|rank| Rank::from_index(rank as usize))
        .collect())
}

/// What a name stands for.
enum Named {
    Collective(Operation),
    Sends,
    Receives,
    /// The bracket around several that follow as one.
    Bracket,
}

fn named(name: &str) -> Option<Named> {
    let plain = name.split_once(':').map_or(name, |(_, plain)| plain);
    let verb = plain.split(' ').next().unwrap_or_default();
    let verb = verb.trim_start_matches('_').to_ascii_lowercase();
    Some(match verb.as_str() {
        "send" => Named::Sends,
        "recv" => Named::Receives,
        "coalesced" => Named::Bracket,
        "all_reduce" | "all_reduce_barrier" | "allreduce_coalesced" | "barrier" => {
            Named::Collective(Operation::AllReduce)
        }
        "all_gather" | "all_gather_base" | "all_gather_into_tensor_coalesced" => {
            Named::Collective(Operation::AllGather)
        }
        "reduce_scatter" | "reduce_scatter_base" | "reduce_scatter_tensor_coalesced" => {
            Named::Collective(Operation::ReduceScatter)
        }
        "all_to_all" | "all_to_all_base" | "alltoall" | "alltoall_base" => {
            Named::Collective(Operation::AllToAll)
        }
        "broadcast" | "broadcast_oop" | "reduce" | "reduce_oop" | "gather" | "scatter" => {
            Named::Collective(Operation::Broadcast)
        }
        _ => return None,
    })
}

impl Entry {
    fn recorded(
        &self,
        nth: usize,
        rank: Rank,
        groups: &BTreeMap<&str, Vec<Rank>>,
    ) -> Result<Option<RecordedExchange>, FlightRecorderError> {
        let unknown = || FlightRecorderError::UnknownName {
            nth,
            name: self.profiling_name.clone(),
        };
        let named = named(&self.profiling_name).ok_or_else(unknown)?;
        let name = self.group();
        let group = groups.get(name.as_str());
        let group = group.ok_or_else(|| FlightRecorderError::UnknownGroup {
            nth,
            group: name.clone(),
        })?;
        let peer = || {
            let place = self.peer().and_then(|place| group.get(place).copied());
            place.ok_or_else(unknown)
        };
        let inputs = || self.bytes(nth, &self.input_sizes, &self.input_dtypes);
        let outputs = || self.bytes(nth, &self.output_sizes, &self.output_dtypes);
        let (what, bytes) = match named {
            Named::Bracket => return Ok(None),
            Named::Sends => (ExchangeKind::Sent { to: peer()? }, inputs()?),
            Named::Receives => (ExchangeKind::Received { from: peer()? }, outputs()?),
            Named::Collective(operation) => {
                let bytes = match operation {
                    Operation::AllGather => outputs()?,
                    _ => inputs()?,
                };
                let collective = ExchangeKind::Collective {
                    operation,
                    group: group.clone(),
                    name,
                };
                (collective, bytes)
            }
        };
        Ok(Some(RecordedExchange {
            rank,
            what,
            bytes,
            asked_ns: self.time_created_ns,
            took: self.took(),
        }))
    }

    /// The group is called by the first of its two names, or by its number.
    fn group(&self) -> String {
        if let Some((name, _)) = &self.process_group {
            return name.clone();
        }
        match &self.pg_id {
            Some(Value::String(name)) => name.clone(),
            Some(number) => number.to_string(),
            None => "0".to_owned(),
        }
    }

    /// `send 0->3` and `recv 0<-3` name the other end last, by its place in the group.
    fn peer(&self) -> Option<usize> {
        let (_, peer) = self.profiling_name.rsplit_once(['>', '-'])?;
        peer.trim().parse().ok()
    }

    fn bytes(
        &self,
        nth: usize,
        sizes: &[Vec<u64>],
        types: &Value,
    ) -> Result<Bytes, FlightRecorderError> {
        let mut sum = 0u64;
        for (at, size) in sizes.iter().enumerate() {
            // All of one type may be said once.
            let dtype = types.get(at).unwrap_or(types).as_str().unwrap_or_default();
            let each = value_bytes(dtype).ok_or_else(|| FlightRecorderError::UnknownType {
                nth,
                dtype: dtype.to_owned(),
            })?;
            let bytes = size
                .iter()
                .try_fold(each, |all, &side| all.checked_mul(side));
            let total = bytes.and_then(|bytes| sum.checked_add(bytes));
            sum = total.ok_or(FlightRecorderError::BadSizes { nth })?;
        }
        Ok(Bytes::new(sum))
    }

    fn took(&self) -> Option<Duration> {
        if let Some(ms) = self.duration_ms {
            return Duration::try_from_secs_f64(ms / 1e3).ok();
        }
        let began = self.time_discovered_started_ns?;
        let done = self.time_discovered_completed_ns?;
        done.checked_sub(began).map(Duration::from_nanos)
    }
}

fn value_bytes(dtype: &str) -> Option<u64> {
    Some(match dtype.to_ascii_lowercase().as_str() {
        "bool" | "byte" | "char" | "int8" | "uint8" => 1,
        eight if eight.starts_with("float8") => 1,
        "half" | "bfloat16" | "float16" | "short" | "int16" => 2,
        "float" | "float32" | "int" | "int32" => 4,
        "double" | "float64" | "long" | "int64" | "complexfloat" => 8,
        "complexdouble" => 16,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutations;

    const JSON_DUMP: &str = r#"{"version": "2.4",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"},
                      "7": {"name": "7", "desc": "mesh", "ranks": [1, 3]}},
        "entries": [
          {"record_id": 0, "pg_id": 0, "process_group": ["0", "default_pg"],
           "collective_seq_id": 1, "profiling_name": "nccl:all_reduce",
           "input_sizes": [[1024, 4], [8]], "input_dtypes": ["BFloat16", "Float"],
           "output_sizes": [[1024, 4]], "output_dtypes": ["BFloat16"],
           "state": "completed", "time_created_ns": 5000, "duration_ms": 1.5},
          {"pg_id": 7, "profiling_name": "nccl:_all_gather_base", "input_sizes": [[10]],
           "input_dtypes": "Float", "output_sizes": [[20]], "output_dtypes": "Float"},
          {"pg_id": 7, "profiling_name": "nccl:coalesced"},
          {"process_group": ["7", "mesh"], "profiling_name": "nccl:send 0->1",
           "input_sizes": [[6]], "input_dtypes": ["Half"], "time_created_ns": 9000,
           "time_discovered_started_ns": 100, "time_discovered_completed_ns": 400}]}"#;

    /// The same as Python writes it in its protocols 0, 1 and 4.
    const PICKLE_DUMPS: [&[u8]; 3] = [
        include_bytes!("../../../tests/fuzz/seeds/recorders/protocol-0"),
        include_bytes!("../../../tests/fuzz/seeds/recorders/protocol-1"),
        include_bytes!("../../../tests/fuzz/seeds/recorders/protocol-4"),
    ];

    fn rank(index: usize) -> Rank {
        Rank::from_index(index)
    }

    #[test]
    fn entries_have_groups_and_sizes() {
        let recorded = read(rank(1), JSON_DUMP.as_bytes()).unwrap();
        assert_eq!(recorded.len(), 3);
        let collective = |operation, group: &[usize], name: &str| ExchangeKind::Collective {
            operation,
            group: group.iter().map(|&it| rank(it)).collect(),
            name: name.to_owned(),
        };
        assert_eq!(
            recorded[0].what,
            collective(Operation::AllReduce, &[0, 1, 2, 3], "0")
        );
        assert_eq!(recorded[0].bytes, Bytes::new(8192 + 32));
        assert_eq!(recorded[0].asked_ns, Some(5000));
        assert_eq!(recorded[0].took, Some(Duration::from_micros(1500)));
        assert_eq!(
            recorded[1].what,
            collective(Operation::AllGather, &[1, 3], "7")
        );
        assert_eq!(recorded[1].bytes, Bytes::new(80));
        assert_eq!(recorded[2].what, ExchangeKind::Sent { to: rank(3) });
        assert_eq!(recorded[2].took, Some(Duration::from_nanos(300)));
    }

    #[test]
    fn pickle_equals_json() {
        let value: Value = serde_json::from_str(JSON_DUMP).unwrap();
        let pickled = pickle::tests::pickled(&value);
        let [json, pickle] =
            [JSON_DUMP.as_bytes(), &pickled].map(|dump| read(rank(1), dump).unwrap());
        assert_eq!(json, pickle);
        for dump in PICKLE_DUMPS {
            assert_eq!(json, read(rank(1), dump).unwrap());
        }
    }

    #[test]
    fn unknown_entry_is_refused() {
        let refused = |from: &str, to: &str| {
            let text = JSON_DUMP.replacen(from, to, 1);
            read(rank(1), text.as_bytes()).unwrap_err().to_string()
        };
        assert_eq!(
            refused("nccl:all_reduce", "nccl:conjure"),
            "entry 0: \"nccl:conjure\" is not a known collective"
        );
        assert_eq!(
            refused("\"BFloat16\"", "\"Quaternion\""),
            "entry 0: values of the type \"Quaternion\" have no known size"
        );
        assert_eq!(
            refused("\"pg_id\": 7", "\"pg_id\": 8"),
            "entry 1: the process group \"8\" is not described"
        );
        assert_eq!(
            refused("1024", "18446744073709551615"),
            "entry 0: its sizes are invalid"
        );
        assert!(refused("\"[0, 1, 2, 3]\"", "\"all\"").contains("no ranks"));
        assert!(refused("0->1", "0->9").contains("not a known collective"));
    }

    #[test]
    fn damaged_dumps_are_read_or_refused() {
        mutations::survives(JSON_DUMP.as_bytes(), 5_000, |bytes| {
            let _ = read(rank(0), bytes);
        });
        let value: Value = serde_json::from_str(JSON_DUMP).unwrap();
        let pickled = pickle::tests::pickled(&value);
        for dump in PICKLE_DUMPS.into_iter().chain([&pickled[..]]) {
            mutations::survives(dump, 20_000, |bytes| {
                let _ = read(rank(0), bytes);
            });
        }
    }
}
