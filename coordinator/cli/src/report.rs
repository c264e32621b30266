//! The answer of a command, and its forms of output.

use serde::Serialize;

use crate::page::Page;

/// Scripts get the serialized answer, with its version.
pub(crate) trait Report: Serialize {
    /// Lays out the answer as text.
    fn lay_out(&self, page: &mut Page);

    /// Lays out the answer with more columns, if there are more facts to show.
    fn lay_out_wide(&self, page: &mut Page) {
        self.lay_out(page);
    }

    /// The names of the listed things, in the form that other commands take.
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}
