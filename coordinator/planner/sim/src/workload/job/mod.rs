//! Jobs: what a job file says, and the iteration that follows.

mod collectives;
mod file;
mod losses;
pub mod operators;
pub mod preset;

use std::iter::repeat_n;

use reweave_common::ids::NodeId;
use reweave_common::iteration::Iteration;
use reweave_common::timings::Timings;

use super::{Choices, Settings};
use operators::{Model, OperatorError};
use preset::PresetError;

pub use file::{JobFile, PresetJob};
pub use losses::Losses;

/// An iteration, and where its ranks run.
#[derive(Debug)]
pub struct Work {
    pub iteration: Iteration,
    pub placement: Vec<NodeId>,
    pub settings: Settings,
}

impl PresetJob {
    /// On these hosts, each with as many ranks as it has processors.
    pub fn work(&self, hosts: &[NodeId]) -> Result<Work, PresetError> {
        let each = self.preset.gpus_per_host;
        let placement = hosts.iter().flat_map(|&host| repeat_n(host, each));
        let placement: Vec<_> = placement.collect();
        Ok(Work {
            iteration: self.preset.iteration(placement.len())?,
            placement,
            settings: self.settings(),
        })
    }

    /// Returns the algorithms of its collectives, and the rate between GPUs of a host.
    pub fn settings(&self) -> Settings {
        Settings {
            inside: self.inside,
            choices: self.choices.clone(),
            ..Settings::default()
        }
    }
}

impl Model {
    /// On these hosts, as far apart over all of them as it was measured.
    pub fn work(
        &self,
        timings: &Timings,
        hosts: Vec<NodeId>,
        choices: Choices,
    ) -> Result<Work, OperatorError> {
        let splits = self.data_parallel(timings, hosts.len())?;
        Ok(Work {
            iteration: self.iteration(timings, &splits, hosts.len())?,
            placement: hosts,
            settings: Settings {
                choices,
                ..Settings::default()
            },
        })
    }
}
