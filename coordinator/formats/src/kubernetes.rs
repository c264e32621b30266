//! What Kubernetes is told of a network: where a node hangs, as labels, and which labels are levels, for
//! Kueue.

use std::fmt::Write as _;

use reweave_common::fabric::Fabric;
use reweave_common::tree::{Group, Members};
use thiserror::Error;

const PREFIX: &str = "topology.reweave";
/// The longest value that Kubernetes takes.
const LONGEST: usize = 63;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KubernetesError {
    #[error(
        "{name} cannot be a label: Kubernetes takes letters, digits, -, _ and . between letters or digits, \
         at most {LONGEST} characters"
    )]
    Label { name: String },
    #[error("hosts hang {least} to {most} levels deep; Kueue wants the same number for all")]
    Uneven { least: usize, most: usize },
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

/// Kueue's description of the levels, down to the single node.
pub fn kueue(tree: &Group) -> Result<String, KubernetesError> {
    let mut text =
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: Topology\nmetadata:\n  name: reweave\n\
                    spec:\n  levels:\n"
            .to_owned();
    for level in 0..levels(tree)? {
        let _ = writeln!(text, "    - nodeLabel: {}", label(level));
    }
    text.push_str("    - nodeLabel: kubernetes.io/hostname\n");
    Ok(text)
}

fn label(level: usize) -> String {
    format!("{PREFIX}/level-{}", level + 1)
}

fn levels(tree: &Group) -> Result<usize, KubernetesError> {
    let (least, most) = (shallowest(tree), tree.depth());
    match least == most {
        true => Ok(most),
        false => Err(KubernetesError::Uneven { least, most }),
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
    match firm && name.chars().all(plain) && name.len() <= LONGEST {
        true => Ok(name),
        false => Err(KubernetesError::Label {
            name: name.to_owned(),
        }),
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
    fn each_node_has_a_label_per_level_and_kueue_the_same_labels() {
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
        assert!(kueue(&tree).unwrap().ends_with(levels));
    }

    #[test]
    fn what_kubernetes_would_refuse_is_refused_here() {
        let (_, mut tree) = two_leaves();
        tree.name = "-spine".to_owned();
        let (fabric, _) = two_leaves();
        let told = labels(&fabric, &tree).unwrap_err().to_string();
        assert!(told.starts_with("-spine cannot be a label"), "{told}");
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
        assert_eq!(kueue(&uneven).unwrap_err(), expected);
    }
}
