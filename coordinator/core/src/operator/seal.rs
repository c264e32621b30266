//! What was seen is what is approved: a short text that stands for all that is shown of a plan.

use std::fmt::{self, Write};

use reweave_common::operator::{Plan, Refused};
use reweave_common::plan::Generation;

use super::offered;
use crate::rollout::Turn;

/// How many flows of a job are sending just now is no part of it, or nobody could approve anything.
pub(super) fn sealed(plan: Plan) -> Plan {
    let jobs: Vec<_> = plan.touched.iter().map(|it| &it.job).collect();
    let (does, hindered) = (
        (&plan.tables, &plan.circuits, &plan.pins),
        &plan.hindered_by,
    );
    let (changes, course) = (&plan.changes, &plan.course);
    let promised = (&plan.moves, &plan.predictions, &plan.iterations);
    let of = (plan.generation, plan.parent, plan.takes_back);
    let mut hash = Fnv::default();
    // A hash takes whatever it is given.
    let _ = write!(
        hash,
        "{:?}",
        (of, does, changes, course, promised, jobs, hindered)
    );
    Plan {
        seal: format!("{:016x}", hash.0),
        ..plan
    }
}

/// Whoever approves has seen something else; one that is not on offer is told of by whoever carries it out.
pub(super) fn objection(
    turn: &Turn<'_>,
    generation: Generation,
    seals: &[String],
) -> Option<Refused> {
    let rollout = offered(turn, generation).ok()?;
    let shown = turn.reviewed(&rollout.plan).seal;
    (!seals.contains(&shown)).then_some(Refused::ChangedMeanwhile { generation })
}

/// FNV-1a, which is the same everywhere.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}
