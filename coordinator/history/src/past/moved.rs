//! The recorded commands that moved circuits.

use std::collections::BTreeMap;

use reweave_common::moment::Moment;

use super::{Past, PastError, Question};
use crate::kind::Kind;
use crate::resolution::Resolution;

/// The name of circuit commands in the history.
const CIRCUIT_COMMAND: &str = "circuit-intent";

impl Past {
    /// Returns all commands before a moment that moved circuits and are still kept, in their order.
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
            // A coarse window that ends after that moment may have commands after it.
            let moves = moves.filter(|it| it.at + resolution.width() <= before);
            for it in moves {
                moved.entry(it.what.generation).or_insert(it.what.detail);
            }
        }
        Ok(moved.into_values().collect())
    }
}
