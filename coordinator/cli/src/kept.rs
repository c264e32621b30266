//! Plans that are kept in files: written as they were shown, and read to be judged or carried out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use reweave_common::api_version::{API_VERSION_KEY, Versioned};
use reweave_common::operator::{NotSeen, Plan, mark};
use reweave_link::Identity;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::CliError;
use crate::json;
use crate::out_file;
use crate::sim::input;

/// Where a plan that is put on offer is written down as well.
#[derive(Debug, Default, Args)]
pub(crate) struct Keep {
    /// Also write the plan to this file, for `reweave apply FILE` and `reweave check FILE`
    #[arg(long = "out", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long, requires = "file")]
    force: bool,
}

impl Keep {
    /// Refuses a file that exists, before a plan is requested.
    pub(crate) fn expect_free(&self) -> Result<(), CliError> {
        let file = self.file.as_deref();
        file.map_or(Ok(()), |file| out_file::expect_free(file, self.force))
    }

    pub(crate) fn keep(&self, shown: &Shown<'_>) -> Result<(), CliError> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        if shown.plan.is_none() {
            let path = file.clone();
            return Err(CliError::NothingToKeep { path });
        }
        let text = serde_json::to_string_pretty(&Versioned::new(shown));
        let text = text.map_err(CliError::Json)? + "\n";
        out_file::write(file, &text, self.force)
    }
}

/// Which cluster, under any names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Whose {
    name: String,
    /// Of its authority's certificate.
    authority_sha256: String,
}

impl Whose {
    pub(crate) fn of(identity: &Identity) -> Self {
        let digest = identity.authority_digest().0;
        Self {
            name: identity.cluster().to_string(),
            authority_sha256: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            authority_sha256,
        } = self;
        write!(f, "{name} (authority {authority_sha256})")
    }
}

/// A plan as it is printed and written down.
#[derive(Serialize)]
pub(crate) struct Shown<'a> {
    cluster: Whose,
    pub(crate) plan: Option<&'a Plan>,
    pub(crate) not_seen: &'a NotSeen,
    /// Of each part of the above, so that a reader can tell what was edited.
    marks: BTreeMap<String, String>,
}

impl<'a> Shown<'a> {
    pub(crate) fn new(
        cluster: Whose,
        plan: Option<&'a Plan>,
        not_seen: &'a NotSeen,
    ) -> Result<Self, CliError> {
        let mut shown = Self {
            cluster,
            plan,
            not_seen,
            marks: BTreeMap::new(),
        };
        shown.marks = marks(&serde_json::to_value(&shown).map_err(CliError::Json)?);
        Ok(shown)
    }
}

const MARKS_KEY: &str = "marks";
/// A reader compares the version with its own.
const UNMARKED_KEYS: [&str; 2] = [MARKS_KEY, API_VERSION_KEY];

/// Of all that it holds but its version and the marks themselves: each part of the plan has its own.
fn marks(whole: &Value) -> BTreeMap<String, String> {
    let mut marks = BTreeMap::new();
    let parts = whole.as_object().into_iter().flatten();
    for (name, part) in parts.filter(|(name, _)| !UNMARKED_KEYS.contains(&name.as_str())) {
        match (name.as_str(), part) {
            ("plan", Value::Object(parts)) => {
                marks.extend(
                    parts
                        .iter()
                        .map(|(of, it)| (format!("plan.{of}"), mark(it))),
                );
            }
            _ => drop(marks.insert(name.clone(), mark(part))),
        }
    }
    marks
}

/// What a file of a plan holds.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) plan: Plan,
    /// Where it is as it was shown, to the last part.
    cluster: Option<Whose>,
}

/// What was shown must be unchanged since. By itself it may be of any origin.
pub(crate) fn read(path: &Path) -> Result<Read, CliError> {
    let bytes = input::bytes(path)?;
    json::has_each_key_once(path, &bytes)?;
    let bad = |source| CliError::NoPlan {
        path: path.to_owned(),
        source,
    };
    let whole: Value = serde_json::from_slice(&bytes).map_err(bad)?;
    json::has_our_version(path, &whole)?;
    let is_marked = whole.get(MARKS_KEY).is_some();
    if let Some(place) = edited(&whole) {
        let text = String::from_utf8_lossy(&bytes);
        let line = line_of(&text, &place).map_or_else(String::new, |line| format!(":{line}"));
        let path = path.to_owned();
        return Err(CliError::Edited { path, line, place });
    }
    let of = |key| whole.get(key).cloned();
    let cluster = of("cluster").filter(|_| is_marked);
    let cluster = cluster.map(serde_json::from_value).transpose();
    let plan = of("plan").unwrap_or(whole);
    Ok(Read {
        plan: serde_json::from_value(plan).map_err(bad)?,
        cluster: cluster.map_err(bad)?,
    })
}

/// The first part that is not what it was. What has no marks has a seal at best.
fn edited(whole: &Value) -> Option<String> {
    let Some(report) = whole.get(MARKS_KEY) else {
        let plan = whole.get("plan").unwrap_or(whole);
        let plan = serde_json::from_value::<Plan>(plan.clone()).ok()?;
        let is_whole = plan.seal.is_empty() || plan.is_as_sealed();
        return (!is_whole).then(|| "the content of plan.seal".to_owned());
    };
    let report = serde_json::from_value(report.clone());
    let Ok::<BTreeMap<String, String>, _>(report) = report else {
        return Some(MARKS_KEY.to_owned());
    };
    let found = marks(whole);
    let names: BTreeSet<_> = report.keys().chain(found.keys()).collect();
    let is_other = |name: &&&String| report.get(**name) != found.get(**name);
    names.iter().find(is_other).map(|name| (*name).clone())
}

/// Where a part begins in a file that is laid out as it was written.
fn line_of(text: &str, place: &str) -> Option<usize> {
    let (indent, key) = match place.split_once('.') {
        Some((_, part)) => ("    ", part),
        None => ("  ", place),
    };
    let begins = format!("{indent}\"{key}\":");
    Some(text.lines().position(|line| line.starts_with(&begins))? + 1)
}

/// One that is to be carried out is known to the last part, and made for this cluster.
pub(crate) fn read_for(path: &Path, ours: &Whose) -> Result<Plan, CliError> {
    let Read { plan, cluster } = read(path)?;
    let path = path.to_owned();
    match cluster {
        None => Err(CliError::Unmarked { path }),
        Some(theirs) if theirs != *ours => Err(CliError::OtherCluster {
            path,
            theirs: Box::new(theirs),
            ours: Box::new(ours.clone()),
        }),
        Some(_) => Ok(plan),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use reweave_common::operator::NotSeen;
    use tempfile::TempDir;

    use super::*;

    fn plan() -> Plan {
        let plan = serde_json::json!({
            "generation": 3, "parent": 2, "takes_back": null, "pins": [], "tables": {}, "circuits": {}, "changes": [],
            "seal": "", "hindered_by": [], "touched": [{ "job": "a", "flows": 4, "moved": 1, "slowed": 0 }],
            "migration": null, "moves": [], "predictions": [],
            "base": { "pins": [], "tables": {}, "circuits": {}, "down": [], "capacity_floor": 0.7, "lossless": false },
            "iterations": [{ "job": "a", "before_ms": 0.1, "after_ms": 0.3, "low_ms": 0.2, "high_ms": 1.1 }],
            "report": { "findings": [], "slowest_before_bits_per_s": 7, "slowest_after_bits_per_s": 8, "alternatives": [] },
        });
        serde_json::from_value::<Plan>(plan).unwrap().sealed()
    }

    fn ours() -> Whose {
        Whose {
            name: "lab".to_owned(),
            authority_sha256: "00ff".to_owned(),
        }
    }

    fn kept(plan: Option<&Plan>) -> (TempDir, PathBuf, Result<(), CliError>) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plan.json");
        let keep = Keep {
            file: Some(file.clone()),
            force: false,
        };
        let kept = keep.keep(&Shown::new(ours(), plan, &NotSeen::default()).unwrap());
        (folder, file, kept)
    }

    /// What is said where this stands in the file in place of that, to every reader.
    fn after_an_edit(of: &str, to: &str) -> String {
        let (_folder, file, _) = kept(Some(&plan()));
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(of), "{text}");
        fs::write(&file, text.replacen(of, to, 1)).unwrap();
        let (carried, judged) = (read_for(&file, &ours()), read(&file));
        let [carried, judged] = [carried.err(), judged.err()].map(Option::unwrap);
        assert_eq!(
            (carried.exit_code(), carried.error_chain()),
            (2, judged.error_chain())
        );
        judged.error_chain()
    }

    #[test]
    fn saved_plan_loads_unless_edited() {
        let (_folder, file, _) = kept(Some(&plan()));
        assert_eq!(read_for(&file, &ours()).unwrap(), plan());
        assert_eq!(read(&file).unwrap().plan, plan());
        for (of, to, place) in [
            ("\"parent\": 2", "\"parent\": 1", "plan.parent"),
            (
                "\"capacity_floor\": 0.7",
                "\"capacity_floor\": 0.0",
                "plan.base",
            ),
            (
                "\"slowest_after_bits_per_s\": 8",
                "\"slowest_after_bits_per_s\": 9",
                "plan.report",
            ),
            ("\"flows\": 4", "\"flows\": 5", "plan.touched"),
            (
                "\"parent\": 2",
                "\"parent\": 2, \"note\": \"mine\"",
                "plan.note",
            ),
            ("\"name\": \"lab\"", "\"name\": \"dc\"", "cluster"),
            ("\"plan.report\":", "\"plan.rapport\":", "plan.rapport"),
        ] {
            let message = after_an_edit(of, to);
            assert!(
                message.contains(&format!("{place} was edited after the plan was shown")),
                "{message}"
            );
        }
        let message = after_an_edit("\"parent\": 2", "\"parent\": 1");
        assert!(message.contains("plan.json:9: plan.parent"), "{message}");
    }

    #[test]
    fn plan_of_other_api_version_refused() {
        let message = after_an_edit("reweave/v1", "reweave/v2");
        let expected = "plan.json has apiVersion \"reweave/v2\", but this program reads reweave/v1";
        assert!(message.contains(expected), "{message}");
    }

    /// A release that printed no version wrote it.
    #[test]
    fn plan_without_api_version_loads() {
        let (_folder, file, _) = kept(Some(&plan()));
        let text = fs::read_to_string(&file).unwrap();
        let version = "  \"apiVersion\": \"reweave/v1\",\n";
        assert!(text.starts_with(&format!("{{\n{version}")), "{text}");
        fs::write(&file, text.replacen(version, "", 1)).unwrap();
        assert_eq!(read_for(&file, &ours()).unwrap(), plan());
    }

    /// A reader may take either of both.
    #[test]
    fn duplicate_plan_key_is_refused() {
        for (of, to, place) in [
            (
                "\"parent\": 2",
                "\"parent\": 2,\n\"parent\": 2",
                "10: plan.parent",
            ),
            (
                "\"parent\": 2",
                "\"parent\": 1,\n\"parent\": 2",
                "10: plan.parent",
            ),
            (
                "\"flows\": 4",
                "\"flows\": 4, \"flows\": 4",
                ": plan.touched[0].flows",
            ),
        ] {
            let message = after_an_edit(of, to);
            assert!(
                message.contains(&format!("{place}: this key is a duplicate")),
                "{message}"
            );
        }
    }

    #[test]
    fn reformatted_plan_is_same() {
        let (_folder, file, _) = kept(Some(&plan()));
        let whole: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        fs::write(&file, whole.to_string()).unwrap();
        assert_eq!(read_for(&file, &ours()).unwrap(), plan());
    }

    #[test]
    fn same_named_cluster_plan_is_refused() {
        let (_folder, file, _) = kept(Some(&plan()));
        let other = Whose {
            authority_sha256: "ff00".to_owned(),
            ..ours()
        };
        let error = read_for(&file, &other).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        let words = error.error_chain();
        assert!(words.contains("made for lab (authority 00ff)"), "{words}");
        assert!(
            words.contains("certificate is of lab (authority ff00)"),
            "{words}"
        );
    }

    /// A judge takes its seal for what it is; the plan is not applied.
    #[test]
    fn bare_plan_needs_only_its_seal() {
        let (_folder, file, _) = kept(Some(&plan()));
        let by_itself = |plan: &Plan| fs::write(&file, serde_json::to_string(plan).unwrap());
        by_itself(&plan()).unwrap();
        assert_eq!(read(&file).unwrap().plan, plan());
        let error = read_for(&file, &ours()).unwrap_err();
        assert!(error.exit_code() == 2 && error.error_chain().contains("reweave plan --out"));
        let parent = plan().generation;
        by_itself(&Plan { parent, ..plan() }).unwrap();
        assert_eq!(read(&file).unwrap_err().exit_code(), 2);
        fs::write(&file, "{}").unwrap();
        assert_eq!(read(&file).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn no_plan_writes_no_file() {
        let (_folder, file, kept) = kept(None);
        let error = kept.unwrap_err();
        assert!(error.exit_code() == 1 && error.error_chain().contains("no plan to write"));
        assert!(!file.exists());
        let nothing = NotSeen::default();
        let shown = Shown::new(ours(), None, &nothing).unwrap();
        Keep::default().keep(&shown).unwrap();
    }
}
