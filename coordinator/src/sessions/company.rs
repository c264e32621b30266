//! How many of each role are here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use reweave_common::lock::lock;
use reweave_common::member::Role;

#[derive(Debug, Clone, Default)]
pub(crate) struct Company(Arc<Mutex<BTreeMap<Role, usize>>>);

/// One more, until it is dropped.
#[derive(Debug)]
pub(super) struct Here {
    of: Company,
    role: Role,
}

impl Company {
    pub(super) fn enter(&self, role: Role) -> Here {
        *lock(&self.0).entry(role).or_default() += 1;
        let of = self.clone();
        Here { of, role }
    }

    pub(crate) fn by_role(&self) -> BTreeMap<Role, usize> {
        lock(&self.0).clone()
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        if let Some(here) = lock(&self.of.0).get_mut(&self.role) {
            *here -= 1;
        }
    }
}
