//! What an operator does: the commands of `reweave`, with answers as scripts get them.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use reweave_common::operator::{Findings, Plan, Record, Status};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::StageError;
use crate::{Stage, program};

#[derive(Debug, Clone, Copy)]
pub struct Operator<'s> {
    stage: &'s Stage,
}

/// What came of `reweave apply`.
#[derive(Debug)]
pub struct Applied {
    pub code: Option<i32>,
    /// Absent when it was refused.
    pub record: Option<Record>,
    /// What it said on standard error.
    pub words: String,
}

#[derive(Deserialize)]
struct PlanAnswer {
    plan: Option<Plan>,
}

#[derive(Deserialize)]
struct HistoryAnswer {
    history: Vec<Record>,
}

impl<'s> Operator<'s> {
    pub(crate) fn new(stage: &'s Stage) -> Self {
        Self { stage }
    }

    pub fn status(self) -> Result<Status, StageError> {
        self.ask(&["status"])
    }

    pub fn diagnose(self) -> Result<Findings, StageError> {
        self.ask(&["diagnose"])
    }

    pub fn plan(self) -> Result<Option<Plan>, StageError> {
        self.ask(&["plan"]).map(|answer: PlanAnswer| answer.plan)
    }

    /// What would take the latest change back.
    pub fn way_back(self) -> Result<Option<Plan>, StageError> {
        let answer: PlanAnswer = self.ask(&["rollback"])?;
        Ok(answer.plan)
    }

    /// The newest first.
    pub fn history(self) -> Result<Vec<Record>, StageError> {
        self.ask(&["history"])
            .map(|answer: HistoryAnswer| answer.history)
    }

    /// Carries a plan out and waits until it has ended.
    pub fn apply(self, plan: &Plan) -> Result<Applied, StageError> {
        self.apply_with(plan, &[])
    }

    /// Returns as soon as the coordinator has taken it over.
    pub fn begin(self, plan: &Plan) -> Result<Applied, StageError> {
        self.apply_with(plan, &["--no-wait"])
    }

    /// The same, and it is kept though flows become slower by it.
    pub fn begin_anyway(self, plan: &Plan) -> Result<Applied, StageError> {
        self.apply_with(plan, &["--no-wait", "--force"])
    }

    fn apply_with(self, plan: &Plan, options: &[&str]) -> Result<Applied, StageError> {
        self.apply_what(OsStr::new(&plan.generation.to_string()), options)
    }

    /// Writes the plan on offer to a file.
    pub fn keep(self, file: &Path) -> Result<(), StageError> {
        let mut command = self.command(&["plan", "--force", "--out"]);
        program::output(command.arg(file)).map(drop)
    }

    /// Carries a plan out that a file holds.
    pub fn apply_from(self, file: &Path) -> Result<Applied, StageError> {
        self.apply_what(file.as_os_str(), &[])
    }

    fn apply_what(self, plan: &OsStr, options: &[&str]) -> Result<Applied, StageError> {
        let mut command = self.command(&["--output", "json", "apply"]);
        command.args(options).arg(plan);
        let output = program::finish(&mut command)?;
        Ok(Applied {
            code: output.status.code(),
            record: serde_json::from_slice(&output.stdout).ok(),
            words: program::text(&output.stderr),
        })
    }

    /// `reweave` with these arguments.
    pub fn command(self, words: &[&str]) -> Command {
        self.command_at(&self.stage.coordinated_at().join(","), words)
    }

    /// The same for these coordinators.
    pub fn command_at(self, coordinators: &str, words: &[&str]) -> Command {
        let mut command = self
            .stage
            .inside(Stage::STATION_NAME, self.stage.programs.reweave());
        command.args(["--coordinator", coordinators, "--identity"]);
        command
            .arg(self.stage.path("certificates/operator"))
            .args(words);
        command
    }

    /// A link to the dashboard, for a browser that reaches it there.
    pub fn dashboard(self, http: SocketAddr) -> Result<String, StageError> {
        let link = self.shown(&["dashboard", "--http", &http.to_string()])?;
        Ok(link.trim_end().to_owned())
    }

    /// What a person sees.
    pub fn shown(self, words: &[&str]) -> Result<String, StageError> {
        program::output(&mut self.command(words))
    }

    /// What a command answers a script.
    pub fn ask<T: DeserializeOwned>(self, words: &[&str]) -> Result<T, StageError> {
        let words = [&["--output", "json"], words].concat();
        let answer = program::output(&mut self.command(&words))?;
        serde_json::from_str(&answer).map_err(StageError::Json)
    }
}
