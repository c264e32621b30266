//! Names of registered jobs, by their hosts.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::ids::NodeId;

use crate::log::registered::Registered;

/// Names that orchestrators gave the jobs of hosts. None if several jobs are registered on the same hosts, since their
/// traffic cannot be distinguished.
#[derive(Debug, Clone, Default)]
pub(crate) struct JobNames(BTreeMap<BTreeSet<NodeId>, Option<String>>);

impl JobNames {
    pub(crate) fn of(registered: &BTreeMap<String, Registered>) -> Self {
        let mut names = BTreeMap::new();
        for (job, report) in registered {
            let hosts = report.hosts.iter().copied().collect();
            let name = names.entry(hosts).and_modify(|first| *first = None);
            name.or_insert_with(|| Some(job.clone()));
        }
        Self(names)
    }

    pub(crate) fn find(&self, hosts: &BTreeSet<NodeId>) -> Option<&str> {
        self.0.get(hosts)?.as_deref()
    }
}
