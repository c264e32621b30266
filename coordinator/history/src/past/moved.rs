//! What was written down of circuits that were moved.

use std::collections::BTreeMap;

use reweave_common::moment::Moment;

use super::{Past, PastError, Question};
use crate::kind::Kind;
use crate::resolution::Resolution;

/// As the history calls a command that moves circuits.
const CIRCUIT_COMMAND: &str = "circuit-intent";

impl Past {
    /// All commands that moved circuits before then, as far as they are still kept, in their order.
    pub fn circuits_moved(&self, before: Moment) -> Result<Vec<String>, PastError> {
        let mut moved = BTreeMap::new();
        for resolution in Resolution::ALL {
            let window = self.look(&Question {
                from: Moment::default(),
                to: before,
                resolution: Some(resolution),
                kinds: vec![Kind::Changes],
            })?;
            let moves = window
                .changes
                .into_iter()
                .filter(|it| it.what.what == CIRCUIT_COMMAND);
            // A coarse stretch that goes on after that moment may be about what came after it.
            let moves = moves.filter(|it| it.at + resolution.width() <= before);
            for it in moves {
                moved.entry(it.what.generation).or_insert(it.what.detail);
            }
        }
        Ok(moved.into_values().collect())
    }
}
