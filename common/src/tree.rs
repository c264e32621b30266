//! A fabric as a tree for schedulers: hosts below their switches, switches below the switches that join them, up to one
//! group of all.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;

use crate::fabric::{Fabric, Role};
use crate::ids::NodeId;

/// Hosts or groups that are closer to each other than to the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Name of the switch that joins them, or of the first and the last of several.
    pub name: String,
    pub members: Members,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Members {
    Hosts(Vec<NodeId>),
    Groups(Vec<Group>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoTree {
    NoHosts,
    NoSwitch { host: String },
}

impl Error for NoTree {}

impl fmt::Display for NoTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHosts => f.write_str("there are no hosts"),
            Self::NoSwitch { host } => {
                write!(f, "{host} has no switch: directly wired hosts form no tree")
            }
        }
    }
}

impl Group {
    /// Returns the tree of a fabric.
    pub fn of(fabric: &Fabric) -> Result<Self, NoTree> {
        let mut branches = lowest(fabric)?;
        let mut below = BTreeSet::new();
        while branches.len() > 1 {
            below.extend(branches.iter().flat_map(|branch| branch.switches.clone()));
            branches = joined(fabric, branches, &below);
        }
        let mut top = branches.remove(0).group;
        let mut taken = BTreeSet::new();
        top.name_apart(&mut taken);
        Ok(top)
    }

    /// Returns the number of levels, including this one.
    pub fn depth(&self) -> usize {
        match &self.members {
            Members::Hosts(_) => 1,
            Members::Groups(groups) => 1 + groups.iter().map(Self::depth).max().unwrap_or(0),
        }
    }

    /// Returns the groups that hold hosts, in order.
    pub fn lowest(&self) -> Vec<&Self> {
        match &self.members {
            Members::Hosts(_) => vec![self],
            Members::Groups(groups) => groups.iter().flat_map(Self::lowest).collect(),
        }
    }

    pub fn hosts(&self) -> Vec<NodeId> {
        match &self.members {
            Members::Hosts(hosts) => hosts.clone(),
            Members::Groups(groups) => groups.iter().flat_map(Self::hosts).collect(),
        }
    }

    /// Makes the names of groups unique.
    fn name_apart(&mut self, taken: &mut BTreeSet<String>) {
        let plain = self.name.clone();
        let numbered = (2..).map(|nth: u64| format!("{plain}.{nth}"));
        let mut names = [plain.clone()].into_iter().chain(numbered);
        if let Some(free) = names.find(|name| taken.insert(name.clone())) {
            self.name = free;
        }
        if let Members::Groups(groups) = &mut self.members {
            groups.iter_mut().for_each(|group| group.name_apart(taken));
        }
    }
}

/// A group, and the switches by which it reaches others.
struct Branch {
    group: Group,
    switches: BTreeSet<NodeId>,
}

/// Returns groups of hosts with the same switches.
fn lowest(fabric: &Fabric) -> Result<Vec<Branch>, NoTree> {
    let mut by_switches = BTreeMap::<_, Vec<_>>::new();
    for host in fabric.endpoints() {
        let switches = switches_at(fabric, host);
        if switches.is_empty() {
            let host = fabric.name(host).to_owned();
            return Err(NoTree::NoSwitch { host });
        }
        by_switches.entry(switches).or_default().push(host);
    }
    if by_switches.is_empty() {
        return Err(NoTree::NoHosts);
    }
    let branch = |(switches, hosts)| Branch {
        group: Group {
            name: name(fabric, &switches),
            members: Members::Hosts(hosts),
        },
        switches,
    };
    let mut branches: Vec<_> = by_switches.into_iter().map(branch).collect();
    branches.sort_by_key(|branch| branch.group.hosts().first().copied());
    Ok(branches)
}

fn switches_at(fabric: &Fabric, node: NodeId) -> BTreeSet<NodeId> {
    let links = fabric.links_of(node).iter();
    let far = links.map(|&link| fabric.link(link).far(node).node);
    far.filter(|&far| fabric.node(far).role == Role::Switch)
        .collect()
}

/// Joins branches that share a switch, one level up. If none do, joins all.
fn joined(fabric: &Fabric, branches: Vec<Branch>, below: &BTreeSet<NodeId>) -> Vec<Branch> {
    let count = branches.len();
    let above = branches.into_iter().map(|branch| {
        let up = branch.switches.iter();
        let up = up.flat_map(|&switch| switches_at(fabric, switch));
        let up: BTreeSet<_> = up.filter(|switch| !below.contains(switch)).collect();
        (branch, up)
    });
    let mut clusters: Vec<(Vec<Branch>, BTreeSet<NodeId>)> = Vec::new();
    for (branch, mut up) in above {
        let mut members = Vec::new();
        for (others, theirs) in std::mem::take(&mut clusters) {
            if theirs.is_disjoint(&up) {
                clusters.push((others, theirs));
            } else {
                members.extend(others);
                up.extend(theirs);
            }
        }
        members.push(branch);
        clusters.push((members, up));
    }
    let met = clusters.len() < count || clusters.iter().any(|(_, up)| !up.is_empty());
    if !met {
        let all = clusters.into_iter().flat_map(|(members, _)| members);
        return vec![merged(fabric, all.collect(), BTreeSet::new())];
    }
    let merge = |(members, up)| merged(fabric, members, up);
    clusters.into_iter().map(merge).collect()
}

/// Returns the joined branch. A single branch is not nested, only its switches change.
fn merged(fabric: &Fabric, mut members: Vec<Branch>, up: BTreeSet<NodeId>) -> Branch {
    let group = match members.len() {
        1 => members.remove(0).group,
        _ => {
            members.sort_by_key(|branch| branch.group.hosts().first().copied());
            Group {
                name: name(fabric, &up),
                members: Members::Groups(members.into_iter().map(|it| it.group).collect()),
            }
        }
    };
    Branch {
        group,
        switches: up,
    }
}

fn name(fabric: &Fabric, switches: &BTreeSet<NodeId>) -> String {
    let ends = [switches.first(), switches.last()].map(|it| it.map(|&node| fabric.name(node)));
    match ends {
        [Some(first), Some(last)] if first != last => format!("{first}-{last}"),
        [Some(only), _] => only.to_owned(),
        _ => "all".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fabric(text: &str) -> Fabric {
        Fabric::parse("fabric.toml", text).unwrap()
    }

    fn leaf_spine(leaves: u32, spines: u32) -> Fabric {
        fabric(&format!(
            "kind = \"leaf-spine\"\nleaves = {leaves}\nspines = {spines}\nhosts_per_leaf = 2\n\
             host_gbps = 1\nuplink_gbps = 1"
        ))
    }

    /// Formats a group as `leaf0(h0 h1)`, with all levels.
    fn outline(fabric: &Fabric, group: &Group) -> String {
        let members = match &group.members {
            Members::Hosts(hosts) => hosts.iter().map(|&it| fabric.name(it).to_owned()).collect(),
            Members::Groups(groups) => groups
                .iter()
                .map(|it| outline(fabric, it))
                .collect::<Vec<_>>(),
        };
        format!("{}({})", group.name, members.join(" "))
    }

    fn tree(fabric: &Fabric) -> String {
        outline(fabric, &Group::of(fabric).unwrap())
    }

    #[test]
    fn leaves_join_at_spines() {
        let expected = "spine0-spine1(leaf0(h0 h1) leaf1(h2 h3))";
        assert_eq!(tree(&leaf_spine(2, 2)), expected);
        assert_eq!(tree(&leaf_spine(1, 2)), "leaf0(h0 h1)");
    }

    fn graph(links: &[[&str; 2]]) -> Fabric {
        let names: BTreeSet<_> = links.iter().flatten().collect();
        let node = |name: &&&str| {
            let role = if name.starts_with('h') {
                "host"
            } else {
                "switch"
            };
            format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n")
        };
        let link = |[a, b]: &[&str; 2]| format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\ngbps = 1\n");
        let nodes: String = names.iter().map(node).collect();
        let links: String = links.iter().map(link).collect();
        fabric(&format!("kind = \"graph\"\n{nodes}{links}"))
    }

    #[test]
    fn three_tiers_are_three_levels() {
        let pods = graph(&[
            ["h0", "a0"],
            ["h1", "a1"],
            ["h2", "b0"],
            ["h3", "b1"],
            ["a0", "p0"],
            ["a1", "p0"],
            ["b0", "q0"],
            ["b1", "q0"],
            ["p0", "t0"],
            ["q0", "t0"],
        ]);
        assert_eq!(tree(&pods), "t0(p0(a0(h0) a1(h1)) q0(b0(h2) b1(h3)))");
    }

    #[test]
    fn hosts_of_same_rails_are_grouped() {
        let rails = graph(&[
            ["h0", "r0"],
            ["h0", "r1"],
            ["h1", "r0"],
            ["h1", "r1"],
            ["h2", "r2"],
            ["h2", "r3"],
            ["r0", "s"],
            ["r1", "s"],
            ["r2", "s"],
            ["r3", "s"],
        ]);
        assert_eq!(tree(&rails), "s(r0-r1(h0 h1) r2-r3(h2))");
    }

    #[test]
    fn disconnected_hosts_share_one_root() {
        let apart = graph(&[["h0", "a"], ["h1", "b"]]);
        assert_eq!(tree(&apart), "all(a(h0) b(h1))");
        let overlapping = graph(&[["h0", "a"], ["h0", "b"], ["h1", "b"]]);
        assert_eq!(tree(&overlapping), "all(a-b(h0) b(h1))");
    }

    #[test]
    fn hosts_without_switches_are_no_tree() {
        let ring = fabric("kind = \"direct\"\nhosts = 4\nlink_gbps = 25\nstrides = [1]");
        let message = Group::of(&ring).unwrap_err().to_string();
        assert!(message.starts_with("h0 has no switch"), "{message}");
    }

    #[test]
    fn tree_reports_depth_hosts_and_racks() {
        let group = Group::of(&leaf_spine(3, 2)).unwrap();
        assert_eq!(
            (group.depth(), group.hosts().len(), group.lowest().len()),
            (2, 6, 3)
        );
    }
}
