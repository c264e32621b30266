//! Algorithms of collectives in a job file.

use reweave_common::input::{Document, InputError};
use reweave_common::iteration::Operation;
use serde::Deserialize;
use toml::Spanned;

use crate::collectives::{Algorithm, algorithms_of};
use crate::workload::{Choice, Choices, algorithms};

/// No job has a larger one.
const MAX_GROUP_RANKS: i64 = 1 << 20;
const AUTO_ALGORITHM: &str = "auto";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CollectivesTable {
    all_reduce: Option<Spanned<String>>,
    reduce_scatter: Option<Spanned<String>>,
    all_gather: Option<Spanned<String>>,
    broadcast: Option<Spanned<String>>,
    all_to_all: Option<Spanned<String>>,
    group: Option<Spanned<i64>>,
}

impl CollectivesTable {
    pub(super) fn choices(&self, document: &Document<'_>) -> Result<Choices, InputError> {
        let group = self.group.as_ref();
        let group = group.map(|group| document.whole(group, 1..=MAX_GROUP_RANKS));
        let group = group.transpose()?.unwrap_or(0) as usize;
        let named = [
            (Operation::AllReduce, &self.all_reduce),
            (Operation::ReduceScatter, &self.reduce_scatter),
            (Operation::AllGather, &self.all_gather),
            (Operation::Broadcast, &self.broadcast),
            (Operation::AllToAll, &self.all_to_all),
        ];
        let given = named.into_iter().filter_map(|(operation, name)| {
            let name = name.as_ref()?;
            let choice = choice(operation, name.get_ref(), group);
            let choice = choice.ok_or_else(|| unknown(document, operation, name));
            Some(choice.map(|choice| (operation, choice)))
        });
        Ok(Choices(given.collect::<Result<_, _>>()?))
    }
}

fn choice(operation: Operation, name: &str, group: usize) -> Option<Choice> {
    if name == AUTO_ALGORITHM {
        return Some(Choice::Fastest(algorithms(operation, group)));
    }
    let algorithm = Algorithm::named(name)?;
    let mut able = algorithms(operation, group).into_iter();
    able.find(|it| it.is_like(algorithm)).map(Choice::Given)
}

fn unknown(document: &Document<'_>, operation: Operation, name: &Spanned<String>) -> InputError {
    let able = algorithms_of(operation).map(|it| it.to_string());
    let able: Vec<_> = able.chain([AUTO_ALGORITHM.to_owned()]).collect();
    let problem = format!(
        "{:?} is not an algorithm for {}; use {}",
        name.get_ref(),
        operation.name(),
        able.join(", ")
    );
    document.error(name.span(), problem)
}
