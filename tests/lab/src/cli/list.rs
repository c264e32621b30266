//! `reweave-lab list`: which labs are running.

use std::fmt::Write;

use serde::Serialize;

use super::{Output, show};
use crate::error::LabError;
use crate::state::Running;

/// List the labs that are running
#[derive(Debug, clap::Args)]
pub struct List {
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Serialize)]
struct Lab {
    name: String,
    ready: bool,
    /// The lab's first process.
    pid: Option<i32>,
    scenario: Option<String>,
    nodes: usize,
}

impl List {
    pub fn run(self) -> Result<u8, LabError> {
        let labs: Vec<_> = Running::all()?.iter().map(Lab::of).collect();
        if labs.is_empty() && self.output == Output::Text {
            eprintln!("{}", LabError::NoLab);
            return Ok(0);
        }
        show(self.output, &table(&labs), &labs)?;
        Ok(0)
    }
}

impl Lab {
    fn of(lab: &Running) -> Self {
        let record = lab.record();
        Self {
            name: lab.name.clone(),
            ready: lab.is_ready(),
            nodes: record.as_ref().map_or(0, |record| record.nodes.len()),
            pid: record.as_ref().map(|record| record.pid),
            scenario: record.map(|record| record.scenario),
        }
    }
}

fn table(labs: &[Lab]) -> String {
    let mut text = format!(
        "{:20} {:9} {:>5}  {}\n",
        "LAB", "STATE", "NODES", "SCENARIO"
    );
    for lab in labs {
        let state = if lab.ready { "up" } else { "starting" };
        let scenario = lab.scenario.as_deref().unwrap_or("-");
        let _ = writeln!(
            text,
            "{:20} {state:9} {:>5}  {scenario}",
            lab.name, lab.nodes
        );
    }
    text
}
