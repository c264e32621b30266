//! Files with the results of shards, and their merge.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use reweave_history::{Files, ShelfError};
use serde_json::Value;

use super::PointAnswer;
use super::axis::Shard;
use crate::error::CliError;
use crate::{Output, document, json, print_data};

/// Writes a file atomically, and returns its location.
pub(super) fn write(to: &str, file: &str, content: String) -> Result<String, CliError> {
    let failed = |source| store_failed(to, source);
    let files = Files::open(to).map_err(failed)?;
    files.put(file, content.into_bytes()).map_err(failed)?;
    Ok(format!("{}/{file}", to.trim_end_matches('/')))
}

fn store_failed(url: &str, source: ShelfError) -> CliError {
    CliError::Store {
        url: url.to_owned(),
        source: Box::new(source),
    }
}

/// Merge the shards of a sweep, in the order of its points
#[derive(Debug, Args)]
pub(crate) struct Gather {
    /// Location of the shards: a folder or a URL
    #[arg(value_name = "FOLDER|URL")]
    from: String,
}

impl Gather {
    pub(crate) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        let files = Files::open_to_read(&self.from).map_err(|it| store_failed(&self.from, it))?;
        let mut failed = false;
        for answer in in_order(self.answers(&files)?) {
            failed |= answer.get("error").is_some();
            print_data(&document(output, &PointAnswer(&answer))?)?;
        }
        Ok(if failed {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }

    /// Reads the answers of each shard.
    fn answers(&self, files: &Files) -> Result<Vec<Vec<Value>>, CliError> {
        let failed = |source| store_failed(&self.from, source);
        let mut shards = BTreeMap::new();
        for name in files.names().map_err(failed)? {
            if let Some(shard) = Shard::of_file(&name) {
                shards.insert((shard.of, shard.nth), name);
            }
        }
        let of = shards.keys().next_back().map_or(0, |&(of, _)| of);
        let missing = (0..of.max(1)).filter(|&nth| !shards.contains_key(&(of, nth)));
        let missing: Vec<_> = missing.map(|nth| format!("{nth}/{of}")).collect();
        if of == 0 || !missing.is_empty() || shards.len() != of {
            return Err(CliError::Shards {
                from: self.from.clone(),
                found: shards.len(),
                missing: missing.join(", "),
            });
        }
        let read = |name: &String| {
            let content = files.get(name).map_err(failed)?;
            lines(name, &content.unwrap_or_default())
        };
        shards.values().map(read).collect()
    }
}

fn lines(name: &str, content: &[u8]) -> Result<Vec<Value>, CliError> {
    let lines = content
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty());
    lines.map(|line| point(name, line)).collect()
}

/// One line, without its version: the answer that is printed gets it again.
fn point(name: &str, line: &[u8]) -> Result<Value, CliError> {
    let answer: Value = serde_json::from_slice(line).map_err(|source| CliError::BadShard {
        name: name.to_owned(),
        source,
    })?;
    json::has_our_version(Path::new(name), &answer)?;
    Ok(json::without_version(answer))
}

/// Merges the shards: shard `k` of `n` has the points `k`, `k + n` and so on.
fn in_order(shards: Vec<Vec<Value>>) -> Vec<Value> {
    let longest = shards.iter().map(Vec::len).max().unwrap_or(0);
    let mut shards: Vec<_> = shards.into_iter().map(Vec::into_iter).collect();
    let mut answers = Vec::new();
    for _ in 0..longest {
        answers.extend(shards.iter_mut().filter_map(Iterator::next));
    }
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_created_and_file_replaced_atomically() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("deep/er").display().to_string();
        for content in ["first", "second"] {
            let written = write(&folder, "shard-0-of-1.jsonl", content.to_owned()).unwrap();
            assert_eq!(std::fs::read_to_string(written).unwrap(), content);
        }
    }

    #[test]
    fn unknown_store_scheme_is_refused() {
        let error = write("gopher://hole", "shard-0-of-1.jsonl", String::new()).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        let message = error.error_chain();
        assert!(
            message
                .starts_with("cannot use gopher://hole: gopher://hole is not a supported location"),
            "{message}"
        );
    }

    #[test]
    fn shard_of_other_api_version_refused() {
        let ours = point("a.jsonl", b"{\"apiVersion\": \"reweave/v1\", \"point\": 1}");
        assert_eq!(ours.unwrap(), serde_json::json!({ "point": 1 }));
        let other = point("a.jsonl", b"{\"apiVersion\": \"reweave/v2\", \"point\": 1}");
        let error = other.unwrap_err();
        assert_eq!(error.exit_code(), 2);
        let message = error.error_chain();
        assert!(message.starts_with("a.jsonl has apiVersion"), "{message}");
    }

    #[test]
    fn shards_merge_in_order_missing_named() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().display().to_string();
        let gather = Gather {
            from: folder.clone(),
        };
        let files = Files::open(&folder).unwrap();
        let describe = || gather.answers(&files).unwrap_err().error_chain();
        assert!(describe().contains("no shards"), "{}", describe());
        write(&folder, "shard-0-of-2.jsonl", "0\n2\n4\n".to_owned()).unwrap();
        assert!(describe().contains("1/2"), "{}", describe());
        write(&folder, "shard-1-of-2.jsonl", "1\n3\n".to_owned()).unwrap();
        let answers = in_order(gather.answers(&files).unwrap());
        assert_eq!(answers, [0, 1, 2, 3, 4].map(Value::from));
        // A file of another sweep.
        write(&folder, "shard-1-of-3.jsonl", String::new()).unwrap();
        assert!(describe().contains("0/3, 2/3"), "{}", describe());
        std::fs::remove_file(scratch.path().join("shard-1-of-3.jsonl")).unwrap();
        write(&folder, "shard-1-of-2.jsonl", "1\n{".to_owned()).unwrap();
        assert!(
            describe().starts_with("shard-1-of-2.jsonl"),
            "{}",
            describe()
        );
    }
}
