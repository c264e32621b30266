//! The sandbox: traffic of the past, listed traffic, or a job, played as it was and as it might have been.
//!
//! It is a function of these and of a variant: nothing that is in force is asked or changed.

mod changed;
mod compared;
mod jobs;
mod lit;
#[cfg(test)]
mod tests;
mod traffic;
mod variant;

use std::fmt;

use reweave_common::fabric::Fabric;
use reweave_common::input::InputError;

use crate::engine::Progress;
use crate::engine::network::Costs;
use crate::workload::SimulationError;
use crate::workload::history::{ReplayError, Replayed, Routing, Seen, replay};

pub use compared::{Compared, Fared, Fullest, Outcome};
pub use jobs::{JobCompared, JobOutcome, compare_jobs};
pub use lit::as_seen;
pub use traffic::Traffic;
pub use variant::{Variant, VariantFile};

#[derive(Debug, Clone, PartialEq)]
pub enum SandboxError {
    /// Between hosts of the fabric that the history speaks of.
    NothingSent,
    /// The fabric of the variant.
    NotInFabric {
        name: String,
    },
    /// Two participating hosts are put in one place.
    OnePlace(InputError),
    /// On the fabric that the history speaks of.
    AsItWas(ReplayError),
    /// On the fabric of the variant.
    Otherwise(ReplayError),
    /// The same of a job.
    JobAsItWas(SimulationError),
    JobOtherwise(SimulationError),
}

impl fmt::Display for SandboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingSent => {
                f.write_str("there is no traffic between hosts of the recorded fabric")
            }
            Self::NotInFabric { name } => write!(
                f,
                "the fabric has no host named {name:?}; name its replacement under [hosts]"
            ),
            Self::OnePlace(error) => error.fmt(f),
            Self::AsItWas(error) => write!(f, "as it was: {error}"),
            Self::Otherwise(error) => error.fmt(f),
            Self::JobAsItWas(error) => write!(f, "as it was: {error}"),
            Self::JobOtherwise(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SandboxError {}

/// Work limit of a simulation, and its cancellation.
pub struct Effort<'e> {
    pub costs: Costs,
    /// Work limit of each of the two simulations.
    pub limit: u64,
    pub watch: &'e mut dyn FnMut(Progress) -> bool,
}

/// Simulates traffic in the original and in the variant.
pub fn compare(
    traffic: &Traffic,
    variant: &Variant,
    effort: &mut Effort<'_>,
) -> Result<Compared, SandboxError> {
    if traffic.is_empty() {
        return Err(SandboxError::NothingSent);
    }
    let (seen, routing) = traffic.as_it_was(&variant.recorded);
    let as_it_was = effort.replay(&seen, &variant.recorded, routing);
    let as_it_was = as_it_was.map_err(SandboxError::AsItWas)?;
    let ways_unknown = seen.iter().filter(|it| it.along.is_none()).count();
    let (seen, routing) = traffic.otherwise(variant)?;
    let otherwise = effort.replay(&seen, &variant.fabric, routing);
    let otherwise = otherwise.map_err(SandboxError::Otherwise)?;
    Ok(Compared {
        ways_unknown,
        ..Compared::new(traffic, variant, [&as_it_was, &otherwise])
    })
}

impl Effort<'_> {
    fn replay(
        &mut self,
        seen: &[Seen],
        fabric: &Fabric,
        routing: Routing,
    ) -> Result<Replayed, ReplayError> {
        let costs = self.costs.clone();
        replay(seen, fabric, routing, costs, self.limit, self.watch)
    }
}
