//! Files below a root that stands for `/`.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use reweave_agent_core::counters::texts;

/// The limit is larger than any file of facts or counters. A longer file is ignored.
const MAX_FILE_BYTES: u64 = 256 * 1024;

#[derive(Debug, Clone)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// The interfaces of the network namespace whose /sys this is, but loopback.
    pub fn interfaces(&self) -> Vec<String> {
        let mut names = self.names("sys/class/net");
        names.retain(|name| !self.is_loopback(name));
        names
    }

    pub(crate) fn is_loopback(&self, name: &str) -> bool {
        self.number(&format!("sys/class/net/{name}/type")) == Some(ARPHRD_LOOPBACK)
    }

    /// Whether this tree speaks of the interface with that name and index. A /sys that was mounted
    /// in another network namespace speaks of that one's.
    pub(crate) fn has_interface(&self, name: &str, index: u32) -> bool {
        self.number(&format!("sys/class/net/{name}/ifindex")) == Some(index.into())
    }

    /// Whether an interface is but a view of others: a bond, a bridge, a VLAN.
    pub(crate) fn is_stacked(&self, name: &str) -> bool {
        let entries = self.names(&format!("sys/class/net/{name}"));
        entries.iter().any(|entry| entry.starts_with("lower_"))
    }

    /// What is not there, or cannot be read, is not known: links without carrier refuse to tell
    /// their speed.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        let file = File::open(self.root.join(path)).ok()?;
        let mut text = String::new();
        file.take(MAX_FILE_BYTES).read_to_string(&mut text).ok()?;
        Some(text)
    }

    pub(super) fn number(&self, path: &str) -> Option<u64> {
        texts::number(&self.text(path)?)
    }

    /// The names in a folder, in order.
    pub(super) fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(folder));
        let entries = entries.into_iter().flatten().filter_map(Result::ok);
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        names
    }

    /// The name of what a link leads to.
    pub(super) fn target(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.root.join(path)).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }

    /// Where a path leads with all links followed, relative to the root. Links that lead in circles or out of the root
    /// lead nowhere.
    pub(super) fn real_path(&self, path: &str) -> Option<PathBuf> {
        let root = fs::canonicalize(&self.root).ok()?;
        let real = fs::canonicalize(root.join(path)).ok()?;
        Some(real.strip_prefix(root).ok()?.to_owned())
    }
}

/// `ARPHRD_LOOPBACK`
const ARPHRD_LOOPBACK: u64 = 772;
