//! What Kubernetes needs to know of a network: where a node hangs, as labels, and which labels are levels, for Kueue.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use reweave_common::fabric::Fabric;
use reweave_common::tree::{Group, Members};
use thiserror::Error;

const LABEL_PREFIX: &str = "topology.reweave";
/// The longest value that Kubernetes takes.
const MAX_LABEL_CHARS: usize = 63;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KubernetesError {
    #[error(
        "{name} cannot be a label: Kubernetes takes letters, digits, -, _ and . between letters or digits, \
         at most {MAX_LABEL_CHARS} characters"
    )]
    Label { name: String },
    #[error("hosts are {least} to {most} levels deep; Kueue requires the same depth for all")]
    Uneven { least: usize, most: usize },
    #[error("{text} is not a release of Kueue; write it as 0.15")]
    Release { text: String },
    #[error("Kueue {is} has no Topology: it came with {TOPOLOGY_SINCE}")]
    TooOld { is: Kueue },
    #[error("{levels} levels with the single node, and Kueue {is} takes {most}")]
    TooDeep {
        is: Kueue,
        levels: usize,
        most: usize,
    },
}

/// A release of Kueue, as its tags tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kueue(u16, u16);

const TOPOLOGY_SINCE: Kueue = Kueue(0, 9);
const SIXTEEN_LEVELS_SINCE: Kueue = Kueue(0, 13);
/// Each from its first release on, the newest first: what a release does not serve, its API server refuses.
const API_VERSIONS: [(Kueue, &str); 3] = [
    (Kueue(0, 15), "v1beta2"),
    (Kueue(0, 14), "v1beta1"),
    (TOPOLOGY_SINCE, "v1alpha1"),
];

impl FromStr for Kueue {
    type Err = KubernetesError;

    fn from_str(text: &str) -> Result<Self, KubernetesError> {
        let bare = text.strip_prefix('v').unwrap_or(text);
        let mut numbers = bare.split('.').map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Ok(Self(major, minor)),
            _ => Err(KubernetesError::Release {
                text: text.to_owned(),
            }),
        }
    }
}

impl fmt::Display for Kueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl Kueue {
    fn version(self) -> Result<&'static str, KubernetesError> {
        let served = API_VERSIONS.iter().find(|(since, _)| self >= *since);
        let served = served.map(|(_, version)| *version);
        served.ok_or(KubernetesError::TooOld { is: self })
    }

    fn most_levels(self) -> usize {
        if self < SIXTEEN_LEVELS_SINCE { 8 } else { 16 }
    }
}

/// For `kubectl apply --server-side`: the nodes with a label for each level, the outermost first.
pub fn labels(fabric: &Fabric, tree: &Group) -> Result<String, KubernetesError> {
    levels(tree)?;
    let mut text = String::new();
    write_labels(fabric, tree, &mut Vec::new(), &mut text)?;
    Ok(text)
}

fn write_labels(
    fabric: &Fabric,
    group: &Group,
    above: &mut Vec<String>,
    text: &mut String,
) -> Result<(), KubernetesError> {
    above.push(checked(&group.name)?.to_owned());
    match &group.members {
        Members::Groups(groups) => {
            for group in groups {
                write_labels(fabric, group, above, text)?;
            }
        }
        Members::Hosts(hosts) => {
            for &host in hosts {
                let name = checked(fabric.name(host))?;
                let _ = write!(
                    text,
                    "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: {name:?}\n  labels:\n"
                );
                for (level, value) in above.iter().enumerate() {
                    let _ = writeln!(text, "    {}: {value:?}", label(level));
                }
            }
        }
    }
    above.pop();
    Ok(())
}

/// Kueue's description of the levels, down to the single node, as this release reads it.
pub fn kueue(tree: &Group, release: Kueue) -> Result<String, KubernetesError> {
    let version = release.version()?;
    let groups = levels(tree)?;
    let (levels, most) = (groups + 1, release.most_levels());
    if levels > most {
        return Err(KubernetesError::TooDeep {
            is: release,
            levels,
            most,
        });
    }
    let mut text = format!(
        "apiVersion: kueue.x-k8s.io/{version}\nkind: Topology\nmetadata:\n  name: reweave\nspec:\n  levels:\n"
    );
    for level in 0..groups {
        let _ = writeln!(text, "    - nodeLabel: {}", label(level));
    }
    text.push_str("    - nodeLabel: kubernetes.io/hostname\n");
    Ok(text)
}

fn label(level: usize) -> String {
    format!("{LABEL_PREFIX}/level-{}", level + 1)
}

fn levels(tree: &Group) -> Result<usize, KubernetesError> {
    let (least, most) = (shallowest(tree), tree.depth());
    if least == most {
        Ok(most)
    } else {
        Err(KubernetesError::Uneven { least, most })
    }
}

fn shallowest(group: &Group) -> usize {
    match &group.members {
        Members::Hosts(_) => 1,
        Members::Groups(groups) => 1 + groups.iter().map(shallowest).min().unwrap_or(0),
    }
}

fn checked(name: &str) -> Result<&str, KubernetesError> {
    let ends = [name.chars().next(), name.chars().next_back()];
    let firm = ends
        .iter()
        .all(|end| end.is_some_and(|c| c.is_ascii_alphanumeric()));
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if firm && name.chars().all(plain) && name.len() <= MAX_LABEL_CHARS {
        Ok(name)
    } else {
        Err(KubernetesError::Label {
            name: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_leaves() -> (Fabric, Group) {
        let text = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 1\n\
                    host_gbps = 1\nuplink_gbps = 1";
        let fabric = Fabric::parse("fabric.toml", text).unwrap();
        let tree = Group::of(&fabric).unwrap();
        (fabric, tree)
    }

    #[test]
    fn kubernetes_and_kueue_share_labels() {
        let (fabric, tree) = two_leaves();
        let text = labels(&fabric, &tree).unwrap();
        let second = "\
---
apiVersion: v1
kind: Node
metadata:
  name: \"h1\"
  labels:
    topology.reweave/level-1: \"spine0-spine1\"
    topology.reweave/level-2: \"leaf1\"
";
        assert!(text.ends_with(second), "{text}");
        let levels = "  levels:
    - nodeLabel: topology.reweave/level-1
    - nodeLabel: topology.reweave/level-2
    - nodeLabel: kubernetes.io/hostname
";
        let describe = |release: &str| kueue(&tree, release.parse().unwrap()).unwrap();
        assert!(describe("0.15").ends_with(levels));
        let versions = ["v0.19.1", "0.15", "0.14.2", "0.13", "0.9"].map(|release| {
            let text = describe(release);
            let line = text.lines().next().unwrap_or_default();
            line.trim_start_matches("apiVersion: kueue.x-k8s.io/")
                .to_owned()
        });
        assert_eq!(
            versions,
            ["v1beta2", "v1beta2", "v1beta1", "v1alpha1", "v1alpha1"]
        );
    }

    #[test]
    fn unsupported_kueue_release_is_refused() {
        let (_, mut tree) = two_leaves();
        let refused = |tree: &Group, release: &str| {
            let release: Kueue = release.parse().unwrap();
            kueue(tree, release).unwrap_err().to_string()
        };
        assert_eq!(
            refused(&tree, "0.8"),
            "Kueue 0.8 has no Topology: it came with 0.9"
        );
        for _ in 0..6 {
            tree = Group {
                name: "above".to_owned(),
                members: Members::Groups(vec![tree]),
            };
        }
        assert_eq!(
            refused(&tree, "0.12"),
            "9 levels with the single node, and Kueue 0.12 takes 8"
        );
        assert!(kueue(&tree, "0.13".parse().unwrap()).is_ok());
        assert!("newest".parse::<Kueue>().is_err() && "0".parse::<Kueue>().is_err());
    }

    #[test]
    fn invalid_kubernetes_labels_are_refused() {
        let (_, mut tree) = two_leaves();
        tree.name = "-spine".to_owned();
        let (fabric, _) = two_leaves();
        let message = labels(&fabric, &tree).unwrap_err().to_string();
        assert!(message.starts_with("-spine cannot be a label"), "{message}");
        let deep = Group {
            name: "deep".to_owned(),
            members: Members::Groups(vec![tree.clone()]),
        };
        let Members::Groups(leaves) = tree.members else {
            panic!("it has leaves");
        };
        let uneven = Group {
            name: "all".to_owned(),
            members: Members::Groups(vec![deep, leaves[0].clone()]),
        };
        let expected = KubernetesError::Uneven { least: 2, most: 4 };
        assert_eq!(kueue(&uneven, Kueue(0, 15)).unwrap_err(), expected);
    }
}
