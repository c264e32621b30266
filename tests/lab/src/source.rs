//! Input of a lab: the text of its scenario, and of its fabric file, if any.

use std::fs;
use std::path::Path;

use reweave_common::input::{Document, InputError};
use reweave_common::scenario::Scenario;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::artifacts::KeptFile;
use crate::error::LabError;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Source {
    /// Name in error messages.
    file: String,
    /// Absent when the file is a fabric alone.
    scenario: Option<String>,
    /// Absent when the fabric stands in the scenario.
    fabric: Option<String>,
}

impl Source {
    /// Reads a scenario, or a fabric as a scenario in which nothing happens.
    pub(crate) fn read(path: &Path) -> Result<(Self, Scenario), LabError> {
        let text = fs::read_to_string(path).map_err(|source| LabError::ReadScenario {
            path: path.to_owned(),
            source,
        })?;
        let file = path.display().to_string();
        let mut source = if is_fabric(&file, &text)? {
            Self {
                file,
                scenario: None,
                fabric: Some(text),
            }
        } else {
            Self {
                file,
                scenario: Some(text),
                fabric: None,
            }
        };
        let scenario = source.parse_with(path.parent().unwrap_or(Path::new("")))?;
        Ok((source, scenario))
    }

    /// Returns the default name of the lab.
    pub(crate) fn own_name(&self, scenario: &Scenario, path: &Path) -> String {
        let stem = || path.file_stem().unwrap_or_default().to_string_lossy();
        match self.scenario {
            Some(_) => scenario.name.clone(),
            None => stem().into_owned(),
        }
    }

    /// The same scenario again.
    pub(crate) fn scenario(&self) -> Result<Scenario, LabError> {
        let fabric = self.fabric.clone().unwrap_or_default();
        Ok(Scenario::parse(&self.file, &self.text(), |_| Ok(fabric))?)
    }

    /// The files that were read.
    pub(crate) fn files(&self) -> Vec<KeptFile> {
        let file = |name: &str, text: &String| (name.to_owned(), text.clone().into_bytes());
        let scenario = self.scenario.iter().map(|text| file("scenario.toml", text));
        let fabric = self.fabric.iter().map(|text| file("fabric.toml", text));
        scenario.chain(fabric).collect()
    }

    /// A fabric file that the scenario names is looked for in `folder`.
    fn parse_with(&mut self, folder: &Path) -> Result<Scenario, LabError> {
        let (file, text) = (self.file.clone(), self.text());
        let fabric = &mut self.fabric;
        let read = |named: &str| match fabric {
            Some(text) => Ok(text.clone()),
            None => {
                let text = fs::read_to_string(folder.join(named));
                let text = text.map_err(|error| format!("cannot read {named}: {error}"))?;
                Ok(fabric.insert(text).clone())
            }
        };
        Ok(Scenario::parse(&file, &text, read)?)
    }

    fn text(&self) -> String {
        let around = || around_fabric(&self.file);
        self.scenario.clone().unwrap_or_else(around)
    }
}

/// Only a fabric says at once what kind it is.
fn is_fabric(file: &str, text: &str) -> Result<bool, InputError> {
    let kind = Document::new(file, text)
        .table()?
        .take::<IgnoredAny>("kind")?;
    Ok(kind.is_some())
}

/// A scenario in which nothing happens on the fabric in `file`.
fn around_fabric(file: &str) -> String {
    // A JSON string is a TOML string too.
    let quoted = serde_json::Value::from(file);
    format!("name = \"fabric\"\nfabric = {quoted}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lab_name_is_scenario_or_file() {
        let fabric = "kind = \"ideal\"\nhosts = 2\nnic_gbps = 1\n".to_owned();
        let own_name = |scenario: Option<String>| {
            let file = "some/file.toml".to_owned();
            let source = Source {
                file,
                scenario,
                fabric: Some(fabric.clone()),
            };
            source.own_name(&source.scenario().unwrap(), Path::new("some/file.toml"))
        };
        assert_eq!(
            own_name(Some("name = \"mine\"\nfabric = \"f\"".to_owned())),
            "mine"
        );
        assert_eq!(own_name(None), "file");
    }
}
