//! From a scenario to work inside its running cluster: what all commands that need a lab share.

use std::fs;
use std::path::{Path, PathBuf};

use reweave_common::input::Document;
use reweave_common::scenario::Scenario;
use serde::de::IgnoredAny;

use crate::addressing::Addressing;
use crate::artifacts::KeptFile;
use crate::cluster::Cluster;
use crate::error::LabError;
use crate::progress::Progress;
use crate::sandbox::{Ending, FirstProcess};
use crate::signals::Interrupt;
use crate::state::{Claim, Record};
use crate::tools::Tools;

/// What is done inside a lab.
pub(crate) struct Inside<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) interrupt: &'a Interrupt,
}

/// A lab that is about to be: all that can be refused is checked before anything is made.
pub(crate) struct Launch {
    name: String,
    path: PathBuf,
    scenario: Scenario,
    files: Vec<KeptFile>,
    tools: Tools,
    claim: Claim,
}

impl Launch {
    /// Reads the scenario (or bare fabric) and takes the name, by default that of the file.
    pub(crate) fn prepare(path: &Path, name: Option<&str>) -> Result<Self, LabError> {
        let text = fs::read_to_string(path).map_err(|source| LabError::ReadScenario {
            path: path.to_owned(),
            source,
        })?;
        Self::prepare_text(path, text, name)
    }

    /// The same for a scenario whose text is at hand; `path` is what to call it.
    pub(crate) fn prepare_text(
        path: &Path,
        text: String,
        name: Option<&str>,
    ) -> Result<Self, LabError> {
        let (scenario, files) = read_scenario(path, text)?;
        Addressing::new(&scenario.fabric)?;
        let tools = Tools::find()?;
        let name = name.map_or_else(|| stem(path), str::to_owned);
        Ok(Self {
            claim: Claim::take(&name)?,
            path: fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
            name,
            scenario,
            files,
            tools,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The files that were read.
    pub(crate) fn files(&self) -> &[KeptFile] {
        &self.files
    }

    /// Brings the lab up, does `work` inside it, and takes it down. `begun` is called outside, when
    /// there is a lab to wait for. Returns what `work` returned, for use as exit code.
    pub(crate) fn run(
        &self,
        begun: impl FnOnce(),
        work: impl FnOnce(&Inside<'_>) -> Result<u8, LabError>,
    ) -> Result<u8, LabError> {
        let first = FirstProcess::start(|interrupt| {
            self.keep(interrupt, work).unwrap_or_else(|error| {
                eprintln!("error: {error}");
                error.exit_code()
            })
        })?;
        self.claim.record(&self.record(&first))?;
        begun();
        match first.supervise()? {
            Ending::Exited(code) if code < 128 => Ok(code),
            // A code from 128 tells of a signal that ended the keeper.
            Ending::Exited(_) | Ending::Killed => Err(LabError::Killed {
                name: self.name.clone(),
            }),
        }
    }

    fn keep(
        &self,
        interrupt: &Interrupt,
        work: impl FnOnce(&Inside<'_>) -> Result<u8, LabError>,
    ) -> Result<u8, LabError> {
        let progress = Progress::on_terminal();
        let cluster = Cluster::bring_up(&self.scenario, self.tools.clone(), &progress)?;
        self.claim.mark_ready()?;
        work(&Inside {
            cluster: &cluster,
            interrupt,
        })
    }

    fn record(&self, first: &FirstProcess) -> Record {
        let nodes = self.scenario.fabric.nodes();
        Record {
            scenario: self.path.display().to_string(),
            pid: first.pid().as_raw(),
            nodes: nodes.map(|(_, node)| node.name.clone()).collect(),
        }
    }
}

/// Reads a scenario, or a fabric as a scenario in which nothing happens. Also returns what was read.
fn read_scenario(path: &Path, text: String) -> Result<(Scenario, Vec<KeptFile>), LabError> {
    let file = path.display().to_string();
    // Only a fabric says at once what kind it is.
    let is_fabric = Document::new(&file, &text)
        .table()?
        .take::<IgnoredAny>("kind")?
        .is_some();
    if is_fabric {
        let kept = vec![("fabric.toml".to_owned(), text.clone().into_bytes())];
        return Ok((
            Scenario::parse(&file, &around_fabric(&file), |_| Ok(text))?,
            kept,
        ));
    }
    let mut kept = vec![("scenario.toml".to_owned(), text.clone().into_bytes())];
    let folder = path.parent().unwrap_or(Path::new(""));
    let read = |named: &str| {
        let text = fs::read_to_string(folder.join(named))
            .map_err(|error| format!("cannot read {named}: {error}"))?;
        kept.push(("fabric.toml".to_owned(), text.clone().into_bytes()));
        Ok(text)
    };
    Ok((Scenario::parse(&file, &text, read)?, kept))
}

/// A scenario in which nothing happens on the fabric in `file`.
fn around_fabric(file: &str) -> String {
    // A JSON string is a TOML string too.
    let quoted = serde_json::Value::from(file);
    format!("name = {quoted}\nfabric = {quoted}\n")
}

fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}
