//! A job file with what a variant changes of it.

use std::ops::Range;

use reweave_common::input::{Document, InputError};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::workload::job::JobFile;

/// Keys of which a job has one.
const EXCLUSIVE_KEYS: [[&str; 2]; 2] = [
    ["batch", "batch_per_replica"],
    ["batch_per_replica", "batch"],
];

/// The job file of this name and text, whose own mistakes are reported as its own.
pub(super) fn job(
    variant: Document<'_>,
    changes: &toml::Table,
    file: &str,
    text: &str,
) -> Result<JobFile, InputError> {
    JobFile::parse(file, text)?;
    let mut whole = Document::new(file, text).table()?.finish()?;
    merge(&mut whole, changes);
    let text = toml::to_string(&whole).unwrap_or_default();
    let changed = JobFile::parse(file, &text);
    changed.map_err(|InputError { key, problem, .. }| error(variant, &key, &problem))
}

fn merge(whole: &mut toml::Table, changes: &toml::Table) {
    for [said, other] in EXCLUSIVE_KEYS {
        if changes.contains_key(said) {
            whole.remove(other);
        }
    }
    for (key, value) in changes {
        match (whole.get_mut(key), value) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new)) => merge(old, new),
            _ => {
                whole.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Returns an error at this key in the variant's `[job]`, else at the table itself with the name of the key.
pub(super) fn error(variant: Document<'_>, key: &str, problem: &str) -> InputError {
    let content = DeTable::parse(variant.text()).ok();
    let content = content.as_ref().map(Spanned::get_ref);
    let table = content.and_then(|table| table.get_key_value("job"));
    let Some((head, value)) = table else {
        return variant.error(0..0, problem);
    };
    match find(value.get_ref(), key) {
        Some(span) => variant.error_about(key, span, problem),
        None if key == "job" => variant.error_about(key, head.span(), problem),
        None => variant.error_about("job", head.span(), format!("{key}: {problem}")),
    }
}

fn find(value: &DeValue<'_>, wanted: &str) -> Option<Range<usize>> {
    let DeValue::Table(table) = value else {
        return None;
    };
    let own = table.iter().find(|(key, _)| key.get_ref() == wanted);
    let own = own.map(|(key, _)| key.span());
    own.or_else(|| table.values().find_map(|it| find(it.get_ref(), wanted)))
}
