//! Job files: a model of operators with its profile, or the name of a preset.

use std::collections::BTreeMap;

use reweave_common::ids::Rank;
use reweave_common::input::{Document, InputError, Table};
use reweave_common::units::Bytes;
use serde::Deserialize;
use toml::Spanned;

use super::operators::{Model, Operator};

/// More servers has no job.
pub const MOST_SERVERS: usize = 1 << 20;
const MOST_BATCH: i64 = 1 << 40;
/// A petabyte.
const MOST_BYTES: i64 = 1 << 50;

/// What a job file holds.
#[derive(Debug, Clone, PartialEq)]
pub enum JobFile {
    /// Timings are in a profile, whose name is relative to the file's folder.
    Operators { model: Model, profile: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OperatorsHead {
    model: Spanned<String>,
    batch: Spanned<i64>,
    profile: Spanned<String>,
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
        Self::operators(table, operators)
    }

    fn operators(table: Table<'_>, entries: Vec<Table<'_>>) -> Result<Self, InputError> {
        if entries.is_empty() {
            return Err(table.lacks("operator"));
        }
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
                batch: document.whole(&head.batch, 1..=MOST_BATCH)?,
                operators,
            },
            profile: head.profile.into_inner(),
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
    let bytes = |value| document.whole(value, 0..=MOST_BYTES).map(Bytes::new);
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
        let most = MOST_SERVERS as i64 - 1;
        let rank = Rank::from_index(document.whole(server, 0..=most)? as usize);
        if ranks.contains(&rank) {
            let problem = format!("server {rank} is named twice");
            return Err(document.error(server.span(), problem));
        }
        ranks.push(rank);
    }
    match ranks.is_empty() {
        true => Err(document.error(list.span(), "an operator needs at least one server")),
        false => Ok(ranks),
    }
}
