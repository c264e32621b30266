//! `reweave-lab up`: a lab that stays until it is told to go.

use std::path::PathBuf;
use std::time::Instant;

use serde::Serialize;

use super::{Output, show};
use crate::error::LabError;
use crate::launch::{Inside, Launch};

/// Bring up a lab, and keep it until Ctrl-C or `reweave-lab down`
#[derive(Debug, clap::Args)]
pub struct Up {
    /// A scenario file, or a fabric file alone
    scenario: PathBuf,
    /// What to call the lab; by default, the name of the file
    #[arg(long)]
    name: Option<String>,
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Serialize)]
struct CameUp<'a> {
    lab: &'a str,
    nodes: usize,
    links: usize,
    elapsed_ms: f64,
}

impl Up {
    pub fn run(self) -> Result<u8, LabError> {
        let started = Instant::now();
        let launch = Launch::prepare(&self.scenario, self.name.as_deref())?;
        launch.run(
            || {},
            |inside| {
                self.announce(inside, launch.name(), started)?;
                inside.interrupt.wait();
                Ok(0)
            },
        )
    }

    fn announce(&self, inside: &Inside<'_>, name: &str, started: Instant) -> Result<(), LabError> {
        let fabric = inside.cluster.fabric();
        let came_up = CameUp {
            lab: name,
            nodes: fabric.nodes().len(),
            links: fabric.links().len(),
            elapsed_ms: started.elapsed().as_secs_f64() * 1e3,
        };
        let text = format!(
            "lab {name} is up: {} nodes, {} links in {:.2} s\n\
             enter a host:  reweave-lab exec h0 -- bash\n\
             end the lab:   Ctrl-C, or reweave-lab down {name}\n",
            came_up.nodes,
            came_up.links,
            came_up.elapsed_ms / 1e3
        );
        show(self.output, &text, &came_up)
    }
}
