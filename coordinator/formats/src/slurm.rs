//! What Slurm reads of a network: topology.conf for its plugins tree and block, topology.yaml.

use std::fmt::Write as _;
use std::str::FromStr;

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::tree::{Group, Members};
use thiserror::Error;

use crate::hostlist::fold;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plugin {
    /// `topology/tree` in topology.conf.
    Tree,
    /// `topology/block` in topology.conf.
    Block,
    /// Either, in topology.yaml.
    Yaml,
}

/// As `scontrol --version` tells it: a year and a month.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(u16, u16);

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SlurmError {
    #[error("{text} is not a release of Slurm; write it as 23.11")]
    Release { text: String },
    #[error("Slurm {}.{:02} would not read this, it came with {}.{:02}; {instead}", is.0, is.1, needs.0, needs.1)]
    TooOld {
        is: Release,
        needs: Release,
        instead: &'static str,
    },
}

impl FromStr for Release {
    type Err = SlurmError;

    fn from_str(text: &str) -> Result<Self, SlurmError> {
        let bad = || SlurmError::Release {
            text: text.to_owned(),
        };
        let mut numbers = text.split('.').map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(year)), Some(Ok(month))) if (1..=12).contains(&month) => Ok(Self(year, month)),
            _ => Err(bad()),
        }
    }
}

impl Plugin {
    /// An older Slurm ignores what it does not know, or dies of it.
    fn since(self) -> (Release, &'static str) {
        match self {
            Self::Tree => (Release(0, 0), ""),
            Self::Block => (Release(23, 11), "export slurm-tree"),
            Self::Yaml => (Release(25, 5), "export slurm-tree or slurm-block"),
        }
    }

    /// The file, for a Slurm of this release or newer.
    pub fn emit(
        self,
        fabric: &Fabric,
        tree: &Group,
        release: Release,
    ) -> Result<String, SlurmError> {
        let (needs, instead) = self.since();
        if release < needs {
            return Err(SlurmError::TooOld {
                is: release,
                needs,
                instead,
            });
        }
        let mut text = String::new();
        match self {
            Self::Tree => switches(fabric, tree, &mut text),
            Self::Block => blocks(fabric, tree, &mut text),
            Self::Yaml => yaml(fabric, tree, &mut text),
        }
        Ok(text)
    }
}

/// Slurm wants to know of a switch before one above it names it.
fn switches(fabric: &Fabric, group: &Group, text: &mut String) {
    let below = match &group.members {
        Members::Hosts(hosts) => format!("Nodes={}", list(fabric, hosts)),
        Members::Groups(groups) => {
            groups
                .iter()
                .for_each(|group| switches(fabric, group, text));
            format!("Switches={}", fold(groups.iter().map(|group| &*group.name)))
        }
    };
    let _ = writeln!(text, "SwitchName={} {below}", group.name);
}

fn list(fabric: &Fabric, hosts: &[NodeId]) -> String {
    fold(hosts.iter().map(|&host| fabric.name(host)))
}

fn blocks(fabric: &Fabric, tree: &Group, text: &mut String) {
    for group in tree.lowest() {
        let _ = writeln!(
            text,
            "BlockName={} Nodes={}",
            group.name,
            list(fabric, &group.hosts())
        );
    }
    let sizes: Vec<_> = sizes(tree).iter().map(ToString::to_string).collect();
    let _ = writeln!(text, "BlockSizes={}", sizes.join(","));
}

/// The least block, and then twice that for as long as there are this many hosts: Slurm takes no others.
fn sizes(tree: &Group) -> Vec<usize> {
    let lowest = tree.lowest();
    let least = lowest
        .iter()
        .map(|group| group.hosts().len())
        .min()
        .unwrap_or(1);
    let most = least * lowest.len();
    std::iter::successors(Some(least), |size| Some(size * 2))
        .take_while(|&size| size <= most)
        .collect()
}

fn yaml(fabric: &Fabric, tree: &Group, text: &mut String) {
    text.push_str("---\n- topology: network\n  cluster_default: true\n  tree:\n    switches:\n");
    yaml_switches(fabric, tree, text);
}

fn yaml_switches(fabric: &Fabric, group: &Group, text: &mut String) {
    let (key, below) = match &group.members {
        Members::Hosts(hosts) => ("nodes", list(fabric, hosts)),
        Members::Groups(groups) => {
            groups
                .iter()
                .for_each(|group| yaml_switches(fabric, group, text));
            ("children", fold(groups.iter().map(|group| &*group.name)))
        }
    };
    let _ = writeln!(
        text,
        "      - switch: {:?}\n        {key}: {below:?}",
        group.name
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emitted(plugin: Plugin, release: &str) -> Result<String, SlurmError> {
        let text = "kind = \"leaf-spine\"\nleaves = 3\nspines = 2\nhosts_per_leaf = 4\n\
                    host_gbps = 1\nuplink_gbps = 1";
        let fabric = Fabric::parse("fabric.toml", text).unwrap();
        let tree = Group::of(&fabric).unwrap();
        plugin.emit(&fabric, &tree, release.parse()?)
    }

    #[test]
    fn slurm_tree_is_written() {
        let expected = "\
SwitchName=leaf0 Nodes=h[0-3]
SwitchName=leaf1 Nodes=h[4-7]
SwitchName=leaf2 Nodes=h[8-11]
SwitchName=spine0-spine1 Switches=leaf[0-2]
";
        assert_eq!(emitted(Plugin::Tree, "22.05").unwrap(), expected);
    }

    #[test]
    fn slurm_blocks_are_written() {
        let expected = "\
BlockName=leaf0 Nodes=h[0-3]
BlockName=leaf1 Nodes=h[4-7]
BlockName=leaf2 Nodes=h[8-11]
BlockSizes=4,8
";
        assert_eq!(emitted(Plugin::Block, "23.11").unwrap(), expected);
    }

    #[test]
    fn slurm_yaml_is_written() {
        let text = emitted(Plugin::Yaml, "25.05").unwrap();
        assert!(
            text.contains("      - switch: \"leaf1\"\n        nodes: \"h[4-7]\"\n"),
            "{text}"
        );
        assert!(
            text.ends_with("        children: \"leaf[0-2]\"\n"),
            "{text}"
        );
    }

    #[test]
    fn unsupported_slurm_release_is_refused() {
        let describe = |plugin, release| emitted(plugin, release).unwrap_err().to_string();
        assert_eq!(
            describe(Plugin::Block, "22.05"),
            "Slurm 22.05 would not read this, it came with 23.11; export slurm-tree"
        );
        assert!(describe(Plugin::Yaml, "24.11").contains("it came with 25.05"));
        assert_eq!(
            describe(Plugin::Tree, "new"),
            "new is not a release of Slurm; write it as 23.11"
        );
    }
}
