//! Job files: a model of operators with its profile, or the name of a preset.

use std::collections::BTreeMap;

use reweave_common::ids::Rank;
use reweave_common::input::{Document, InputError, Table};
use reweave_common::units::{Bytes, Rate};
use serde::Deserialize;
use toml::Spanned;

use super::collectives::CollectivesTable;
use super::operators::{Model, Operator};
use super::preset::{self, Batch, Gpu, Parallelism, Preset, Zero, gpu};
use crate::workload::Choices;

/// More servers has no job.
const MAX_SERVERS: usize = 1 << 20;
const MAX_BATCH: i64 = 1 << 40;
const MAX_SEQ: i64 = 1 << 24;
const MAX_GPUS_PER_HOST: i64 = 1 << 7;
const MAX_TABLES: i64 = 1 << 16;
const MAX_TABLE_ROWS: i64 = 1 << 40;
/// No job deals a model out more finely.
const MAX_PARALLELISM: i64 = 1 << 16;
/// A petabyte.
const MAX_OPERATOR_BYTES: i64 = 1 << 50;

/// Content of a job file.
#[derive(Debug, Clone, PartialEq)]
pub enum JobFile {
    /// Timings are in a profile, whose name is relative to the file's folder.
    Operators {
        model: Model,
        profile: String,
        choices: Choices,
    },
    Preset(PresetJob),
}

/// A preset, and the hosts that it is for.
#[derive(Debug, Clone, PartialEq)]
pub struct PresetJob {
    pub preset: Preset,
    /// Rate of a GPU to the others on its host.
    pub inside: Option<Rate>,
    pub choices: Choices,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PresetFile {
    model: Spanned<String>,
    size: Option<Spanned<String>>,
    batch: Option<Spanned<i64>>,
    batch_per_replica: Option<Spanned<i64>>,
    seq: Option<Spanned<i64>>,
    gpu: Option<Spanned<String>>,
    gpus_per_host: Option<Spanned<i64>>,
    inside_gbps: Option<Spanned<f64>>,
    gradient_bytes: Option<Spanned<i64>>,
    #[serde(default)]
    recompute: bool,
    tables: Option<Spanned<i64>>,
    table_rows: Option<Spanned<i64>>,
    parallelism: Option<ParallelismTable>,
    collectives: Option<CollectivesTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ParallelismTable {
    data: Option<Spanned<i64>>,
    tensor: Option<Spanned<i64>>,
    pipeline: Option<Spanned<i64>>,
    interleave: Option<Spanned<i64>>,
    microbatches: Option<Spanned<i64>>,
    expert: Option<Spanned<i64>>,
    columns: Option<Spanned<i64>>,
    zero: Option<Spanned<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OperatorsHead {
    model: Spanned<String>,
    batch: Spanned<i64>,
    profile: Spanned<String>,
    collectives: Option<CollectivesTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OperatorEntry {
    name: Spanned<String>,
    timing: String,
    #[serde(default)]
    inputs: Vec<Spanned<String>>,
    weight_bytes: Spanned<i64>,
    out_bytes_per_sample: Spanned<i64>,
    servers: Option<Spanned<Vec<Spanned<i64>>>>,
}

impl JobFile {
    /// Reads a job file; `file` is the name that errors call it by.
    pub fn parse(file: &str, text: &str) -> Result<Self, InputError> {
        let mut table = Document::new(file, text).table()?;
        let operators = table.take_tables("operator")?;
        if operators.is_empty() {
            let document = table.document();
            return preset(&document, &table.finish()?).map(Self::Preset);
        }
        Self::operators(table, operators)
    }

    fn operators(table: Table<'_>, entries: Vec<Table<'_>>) -> Result<Self, InputError> {
        let document = table.document();
        let head: OperatorsHead = table.finish()?;
        let mut known = BTreeMap::new();
        let mut operators = Vec::new();
        for entry in entries {
            let operator = operator(document, entry.finish()?, &mut known)?;
            operators.push(operator);
        }
        Ok(Self::Operators {
            model: Model {
                name: head.model.into_inner(),
                batch: document.whole(&head.batch, 1..=MAX_BATCH)?,
                operators,
            },
            profile: head.profile.into_inner(),
            choices: choices(&document, head.collectives.as_ref())?,
        })
    }
}

fn operator(
    document: Document<'_>,
    entry: OperatorEntry,
    known: &mut BTreeMap<String, usize>,
) -> Result<Operator, InputError> {
    let input = |input: &Spanned<String>| {
        let named = known.get(input.get_ref()).copied();
        named.ok_or_else(|| {
            let problem = format!(
                "no operator before this one is called {:?}",
                input.get_ref()
            );
            document.error(input.span(), problem)
        })
    };
    let inputs = entry.inputs.iter().map(input).collect::<Result<_, _>>()?;
    let bytes = |value| {
        document
            .whole(value, 0..=MAX_OPERATOR_BYTES)
            .map(Bytes::new)
    };
    let operator = Operator {
        name: entry.name.get_ref().clone(),
        timing: entry.timing,
        inputs,
        weights: bytes(&entry.weight_bytes)?,
        output_per_sample: bytes(&entry.out_bytes_per_sample)?,
        servers: entry
            .servers
            .map(|list| servers(document, &list))
            .transpose()?,
    };
    let place = known.len();
    if known.insert(operator.name.clone(), place).is_some() {
        let problem = format!("there are two operators called {:?}", operator.name);
        return Err(document.error(entry.name.span(), problem));
    }
    Ok(operator)
}

fn servers(
    document: Document<'_>,
    list: &Spanned<Vec<Spanned<i64>>>,
) -> Result<Vec<Rank>, InputError> {
    let mut ranks = Vec::new();
    for server in list.get_ref() {
        let most = MAX_SERVERS as i64 - 1;
        let rank = Rank::from_index(document.whole(server, 0..=most)? as usize);
        if ranks.contains(&rank) {
            let problem = format!("server {rank} is named twice");
            return Err(document.error(server.span(), problem));
        }
        ranks.push(rank);
    }
    if ranks.is_empty() {
        Err(document.error(list.span(), "an operator needs at least one server"))
    } else {
        Ok(ranks)
    }
}

fn preset(document: &Document<'_>, file: &PresetFile) -> Result<PresetJob, InputError> {
    let batch = batch(document, file)?;
    let mut preset = named(document, file, batch)?;
    let count = |value: &Option<Spanned<i64>>, most| {
        let counted = value.as_ref().map(|value| document.whole(value, 1..=most));
        counted.transpose()
    };
    preset.seq = count(&file.seq, MAX_SEQ)?.map(|seq| seq as u32);
    preset.recompute = file.recompute;
    if let Some(name) = &file.gpu {
        preset.gpu = Gpu::named(name.get_ref()).ok_or_else(|| {
            let known = gpu::KNOWN_GPUS.map(|gpu| gpu.name);
            unknown(document, name, "processor", &known)
        })?;
    }
    if let Some(count) = count(&file.gpus_per_host, MAX_GPUS_PER_HOST)? {
        preset.gpus_per_host = count as usize;
    }
    if let Some(bytes) = count(&file.gradient_bytes, 8)? {
        preset.gradient_bytes = bytes;
    }
    if let Some(key) = file.tables.as_ref().or(file.table_rows.as_ref())
        && !preset.has_tables()
    {
        return Err(document.error(key.span(), "this model has no embedding tables"));
    }
    preset.tables = count(&file.tables, MAX_TABLES)?.map(|count| count as usize);
    preset.table_rows = count(&file.table_rows, MAX_TABLE_ROWS)?;
    if let Some(table) = &file.parallelism {
        preset.parallelism = parallelism(document, table)?;
    }
    let inside = file.inside_gbps.as_ref();
    Ok(PresetJob {
        preset,
        inside: inside.map(|gbps| document.rate(gbps)).transpose()?,
        choices: choices(document, file.collectives.as_ref())?,
    })
}

fn choices(
    document: &Document<'_>,
    table: Option<&CollectivesTable>,
) -> Result<Choices, InputError> {
    let choices = table.map(|table| table.choices(document)).transpose()?;
    Ok(choices.unwrap_or_default())
}

fn batch(document: &Document<'_>, file: &PresetFile) -> Result<Batch, InputError> {
    let samples = |value| document.whole(value, 1..=MAX_BATCH);
    match (&file.batch, &file.batch_per_replica) {
        (Some(whole), None) => samples(whole).map(Batch::Whole),
        (None, Some(each)) => samples(each).map(Batch::PerReplica),
        _ => {
            let problem = "a preset needs either `batch`, of the whole job, or `batch_per_replica`";
            Err(document.error(file.model.span(), problem))
        }
    }
}

fn named(document: &Document<'_>, file: &PresetFile, batch: Batch) -> Result<Preset, InputError> {
    let name = file.model.get_ref();
    let size = file.size.as_ref();
    let preset = Preset::named(name, size.map(|size| size.get_ref().as_str()), batch);
    preset.ok_or_else(|| {
        let names: Vec<_> = preset::names().collect();
        let sizes: Vec<_> = preset::sizes(name).collect();
        match size {
            Some(size) if names.contains(&name.as_str()) && sizes.is_empty() => {
                document.error(size.span(), "this model comes in one size only")
            }
            Some(size) if names.contains(&name.as_str()) => unknown(document, size, "size", &sizes),
            _ => {
                let mut error = unknown(document, &file.model, "preset", &names);
                error.problem += "; or name operators and a profile";
                error
            }
        }
    })
}

fn unknown(
    document: &Document<'_>,
    value: &Spanned<String>,
    what: &str,
    known: &[&str],
) -> InputError {
    let problem = format!(
        "{:?} is an unknown {what}; known are {}",
        value.get_ref(),
        known.join(", ")
    );
    document.error(value.span(), problem)
}

fn parallelism(
    document: &Document<'_>,
    table: &ParallelismTable,
) -> Result<Parallelism, InputError> {
    let count = |value: &Option<Spanned<i64>>| {
        let counted = value
            .as_ref()
            .map(|value| document.whole(value, 1..=MAX_PARALLELISM));
        counted
            .transpose()
            .map(|count| count.map(|count| count as usize))
    };
    let zero = table.zero.as_ref();
    let zero = zero.map(|zero| document.whole(zero, 0..=3)).transpose()?;
    Ok(Parallelism {
        data: count(&table.data)?,
        tensor: count(&table.tensor)?.unwrap_or(1),
        pipeline: count(&table.pipeline)?.unwrap_or(1),
        interleave: count(&table.interleave)?.unwrap_or(1),
        microbatches: count(&table.microbatches)?.unwrap_or(1),
        expert: count(&table.expert)?.unwrap_or(1),
        columns: count(&table.columns)?.unwrap_or(1),
        zero: zero.and_then(Zero::stage).unwrap_or_default(),
    })
}
