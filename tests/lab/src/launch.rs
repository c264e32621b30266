//! Starts a cluster from a scenario and runs work inside it, for all commands that need a lab.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use reweave_common::scenario::Scenario;

use crate::artifacts::KeptFile;
use crate::cluster::Cluster;
use crate::error::LabError;
use crate::frr;
use crate::limits;
use crate::progress::Progress;
use crate::sandbox::{Ending, FirstProcess};
use crate::signals::Interrupt;
use crate::source::Source;
use crate::state::{Claim, Record};
use crate::tools::Tools;

/// Work inside a lab.
pub(crate) struct Inside<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) interrupt: &'a Interrupt,
    claim: &'a Claim,
}

impl Inside<'_> {
    pub(crate) fn bind_control_socket(&self) -> Result<UnixListener, LabError> {
        self.claim.bind_control_socket()
    }
}

/// A lab that is about to be: all that can be refused is checked before anything is made.
pub(crate) struct Launch {
    name: String,
    path: PathBuf,
    scenario: Scenario,
    source: Source,
    tools: Tools,
    claim: Claim,
}

impl Launch {
    /// Reads the scenario (or bare fabric) and takes the name, by default the scenario's own.
    pub(crate) fn prepare(path: &Path, name: Option<&str>) -> Result<Self, LabError> {
        let (source, scenario) = Source::read(path)?;
        limits::check(&scenario).map_err(|source| LabError::BeyondLab {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        let own_name = source.own_name(&scenario, path);
        let tools = Tools::find()?;
        frr::check(&scenario)?;
        let name = name.map_or(own_name, str::to_owned);
        Ok(Self {
            claim: Claim::take(&name)?,
            path: fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
            name,
            scenario,
            source,
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
    pub(crate) fn files(&self) -> Vec<KeptFile> {
        self.source.files()
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
            // An exit code of 128 or more means that a signal ended the keeper.
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
            claim: &self.claim,
        })
    }

    fn record(&self, first: &FirstProcess) -> Record {
        let fabric = &self.scenario.fabric;
        let nodes = fabric.nodes().map(|(_, node)| &node.name);
        let opticals = fabric.opticals().map(|(_, optical)| &optical.name);
        Record {
            scenario: self.path.display().to_string(),
            pid: first.pid().as_raw(),
            nodes: nodes.chain(opticals).cloned().collect(),
            station: self.scenario.management,
            source: self.source.clone(),
        }
    }
}
