//! An answer, and how it is shown.

use serde::Serialize;

use crate::page::Page;

pub(crate) trait Report: Serialize {
    /// For people.
    fn lay_out(&self, page: &mut Page);

    /// With more columns, where there are more facts to show.
    fn lay_out_wide(&self, page: &mut Page) {
        self.lay_out(page);
    }

    /// Of what is listed, as other commands take it.
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}
