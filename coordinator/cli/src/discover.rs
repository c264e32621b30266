//! `reweave discover`: writes a fabric file from what agents see.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use reweave_common::fabric::{Fabric, Role};
use reweave_common::names::{MAX_NAME_BYTES, is_interface, is_plain};
use reweave_common::operator::{
    Discovered, DiscoveredLink, DiscoveredNode, LinkEnd, Request, Response,
};
use serde::Serialize;

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::page::Page;
use crate::report::Report;
use crate::{Output, out_file, print_report};

/// Write a fabric file from what agents see
///
/// Write a fabric file from agent data: interfaces and speeds, LLDP, routes and traces
///
/// A coordinator with a fabric file that lists only nodes is enough to begin with. Uncertain entries carry a comment;
/// implausible entries are commented out. The cluster is not changed: review the file, and start coordinators with it
/// in a new data folder.
#[derive(Debug, Args)]
pub(crate) struct Discover {
    /// Write the fabric to this file and print a summary
    #[arg(long = "out", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long, requires = "file")]
    force: bool,
}

#[derive(Serialize)]
struct Written<'w> {
    file: &'w Path,
    nodes: usize,
    links: usize,
    unsure: Vec<String>,
}

impl Discover {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        if let Some(file) = &self.file {
            out_file::expect_free(file, self.force)?;
        }
        let found = ask(&mut Coordinator::reach(reach)?)?;
        let text = text(&found);
        let fabric = Fabric::parse("the fabric", &text).map_err(CliError::Input)?;
        match &self.file {
            Some(file) => {
                out_file::write(file, &text, self.force)?;
                let written = Written {
                    file,
                    nodes: fabric.nodes().len(),
                    links: fabric.links().len(),
                    unsure: unsure(&found),
                };
                print_report(output, &written)
            }
            None => print_report(output, &FabricAnswer { found, text }),
        }
    }
}

/// The observations for scripts, and the text of the fabric file.
#[derive(Serialize)]
#[serde(transparent)]
struct FabricAnswer {
    found: Discovered,
    #[serde(skip)]
    text: String,
}

impl Report for FabricAnswer {
    fn lay_out(&self, page: &mut Page) {
        page.text.push_str(&self.text);
    }
}

pub(crate) fn ask(coordinator: &mut Coordinator) -> Result<Discovered, CliError> {
    let mut found = part(coordinator, 0)?;
    while found.links.len() < found.all_links {
        let more = part(coordinator, found.links.len())?.links;
        if more.is_empty() {
            break;
        }
        found.links.extend(more);
    }
    Ok(found)
}

fn part(coordinator: &mut Coordinator, from_link: usize) -> Result<Discovered, CliError> {
    let from_link = u32::try_from(from_link).unwrap_or(u32::MAX);
    match coordinator.ask(&Request::Discover { from_link })? {
        Response::Discovered(found) => Ok(found),
        Response::Refused(refused) => Err(CliError::Refused(refused)),
        other => Err(CliError::unexpected(&other)),
    }
}

impl Report for Written<'_> {
    fn lay_out(&self, page: &mut Page) {
        page.line(&format!(
            "{}: {} nodes, {} links; check it with `reweave config check` once a coordinator's \
             settings name it",
            self.file.display(),
            self.nodes,
            self.links
        ));
        if !self.unsure.is_empty() {
            page.heading("Not sure");
        }
        for doubt in &self.unsure {
            page.line(&format!("  {doubt}"));
        }
    }
}

/// Returns one line for each entry that an operator must review.
fn unsure(found: &Discovered) -> Vec<String> {
    let nodes = found.nodes.iter().filter(|node| !node.doubts.is_empty());
    let nodes = nodes.map(|node| {
        format!(
            "{}: {}",
            plainly(&node.name),
            plainly(&node.doubts.join("; "))
        )
    });
    let links = found.links.iter().filter(|link| !link.doubts.is_empty());
    let links = links.map(|link| format!("{}: {}", ends(link), plainly(&link.doubts.join("; "))));
    let loose = found.loose.iter().map(|end| {
        let rate = end.rate_bits_per_s;
        let rate = rate.map_or(String::new(), |rate| format!(" ({rate})"));
        let (interface, node) = (plainly(&end.interface), plainly(&end.node));
        format!("{interface} of {node}{rate} is up, but its neighbour is unknown")
    });
    let doubts = found.doubts.iter().map(|doubt| plainly(doubt));
    nodes.chain(links).chain(loose).chain(doubts).collect()
}

/// Removes line breaks from names that come from other machines.
fn plainly(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

fn ends(link: &DiscoveredLink) -> String {
    link.ends
        .each_ref()
        .map(|LinkEnd { node, interface }| match interface {
            Some(interface) => format!("{} of {}", plainly(interface), plainly(node)),
            None => plainly(node),
        })
        .join(" to ")
}

/// Rail of each NIC of a host with several links.
pub(crate) type Rails = BTreeMap<LinkEnd, u16>;

/// Returns the rails of all NICs with known interfaces, in the order of these on each host.
pub(crate) fn rails(found: &Discovered) -> Rails {
    let links: Vec<_> = found.links.iter().collect();
    let nics = NicEnds::of(found, &links, &Rails::new());
    let mut of_hosts: BTreeMap<&str, Vec<(usize, &LinkEnd)>> = BTreeMap::new();
    let ends = links.iter().copied();
    for [host, _] in ends.filter_map(|link| nics.of_link(link)) {
        if let Some(interface) = &host.interface {
            // eth10 follows eth9.
            let end = (interface.len(), host);
            of_hosts.entry(&host.node).or_default().push(end);
        }
    }
    let mut rails = Rails::new();
    for ends in of_hosts.values_mut() {
        ends.sort_unstable();
        let ends = ends.iter().map(|&(_, end)| end.clone());
        rails.extend(ends.zip(0..));
    }
    rails
}

/// Returns the text of the fabric file. Every line that is no comment was observed.
pub(crate) fn text(found: &Discovered) -> String {
    text_on_rails(found, &Rails::new())
}

/// The same with the rails of NICs, if some of their links may be left out.
pub(crate) fn text_on_rails(found: &Discovered, of_nics: &Rails) -> String {
    let mut text = String::from("# As agents see it.\nkind = \"graph\"\n");
    let (nodes, unfit): (Vec<_>, Vec<_>) = found
        .nodes
        .iter()
        .partition(|node| is_plain(&node.name, MAX_NAME_BYTES));
    for node in &nodes {
        write_node(&mut text, node);
    }
    let is_sound = |link: &&DiscoveredLink| {
        let unfit = unfit.iter().map(|node| &node.name);
        let strange = unfit.filter(|name| link.ends.iter().any(|end| end.node == **name));
        link.rate_bits_per_s.is_some() && !link.is_guess && strange.count() == 0
    };
    let (sound, unsound): (Vec<_>, Vec<_>) = found.links.iter().partition(is_sound);
    let rails = NicEnds::of(found, &sound, of_nics);
    let (mut nics, links): (Vec<_>, Vec<_>) = sound
        .into_iter()
        .partition(|link| rails.of_link(link).is_some());
    cables(&links).for_each(|cables| write_cables(&mut text, &cables));
    nics.sort_by_key(|&link| rails.of_link(link).map(|[host, _]| &host.node));
    let sound_ends = nics.iter().copied();
    let sound_ends = sound_ends.filter_map(|link| rails.of_link(link));
    let sound_ends: Vec<_> = sound_ends.map(|[host, _]| host).collect();
    for link in nics {
        if let Some(ends) = rails.of_link(link) {
            write_nic(&mut text, link, ends);
            if let Some(rail) = shared_rail(ends[0], &sound_ends, of_nics) {
                let _ = writeln!(text, "rail = {rail}");
            }
        }
    }
    unsound
        .iter()
        .for_each(|link| write_unsound(&mut text, link));
    text.push('\n');
    let unfit = unfit.iter().map(|node| {
        let name = plainly(&node.name);
        format!("{name:?}: {}", plainly(&node.doubts.join("; ")))
    });
    let loose = Discovered {
        nodes: vec![],
        links: vec![],
        ..found.clone()
    };
    for doubt in unfit.chain(unsure(&loose)) {
        let _ = writeln!(text, "# {doubt}");
    }
    text
}

fn write_node(text: &mut String, node: &DiscoveredNode) {
    let role = match node.role {
        Role::Host => "host",
        Role::Switch => "switch",
        Role::Relay => "relay",
    };
    let _ = writeln!(text, "\n[[node]]{}", comment(&node.doubts));
    let _ = writeln!(text, "name = \"{}\"\nrole = \"{role}\"", node.name);
}

/// The ends of links that are NICs in the file: hosts with several links, and switches.
struct NicEnds<'f> {
    hosts: BTreeSet<&'f str>,
    switches: BTreeSet<&'f str>,
}

impl<'f> NicEnds<'f> {
    fn of(found: &'f Discovered, links: &[&'f DiscoveredLink], rails: &Rails) -> Self {
        let of_role = |role: Role| {
            let nodes = found.nodes.iter().filter(move |node| node.role == role);
            nodes.map(|node| &node.name[..])
        };
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for end in links.iter().flat_map(|link| &link.ends) {
            *counts.entry(&end.node).or_default() += 1;
        }
        let on_rails: BTreeSet<_> = rails.keys().map(|end| &end.node[..]).collect();
        let has_several = |host: &&str| {
            let count = counts.get(host).copied().unwrap_or_default();
            count > 1 || on_rails.contains(host)
        };
        Self {
            hosts: of_role(Role::Host).filter(has_several).collect(),
            switches: of_role(Role::Switch).collect(),
        }
    }

    /// Returns the host's end and the switch's, if the link is between two such nodes.
    fn of_link<'l>(&self, link: &'l DiscoveredLink) -> Option<[&'l LinkEnd; 2]> {
        let [a, b] = &link.ends;
        let mut orders = [[a, b], [b, a]].into_iter();
        orders.find(|[host, switch]| {
            self.hosts.contains(&host.node[..]) && self.switches.contains(&switch.node[..])
        })
    }
}

/// Writes a NIC with its interface. Its rail follows from the order of the host's NICs.
fn write_nic(text: &mut String, link: &DiscoveredLink, [host, switch]: [&LinkEnd; 2]) {
    let Some(rate) = link.rate_bits_per_s else {
        return;
    };
    text.push('\n');
    write_because(text, link);
    let _ = writeln!(text, "[[nic]]{}", comment(&link.doubts));
    let _ = writeln!(text, "host = \"{}\"\nto = \"{}\"", host.node, switch.node);
    let _ = writeln!(text, "gbps = {:?}", rate.gbps());
    let interface = host.interface.as_deref();
    if let Some(interface) = interface.filter(|name| is_interface(name)) {
        let _ = writeln!(text, "interface = {interface:?}");
    }
}

/// Returns the rail of a NIC, if another host has it too: a file with a rail of one host is refused.
fn shared_rail(end: &LinkEnd, ends: &[&LinkEnd], rails: &Rails) -> Option<u16> {
    let rail = *rails.get(end)?;
    let mut others = ends.iter().filter(|other| other.node != end.node);
    others
        .any(|&other| rails.get(other) == Some(&rail))
        .then_some(rail)
}

/// Groups parallel links, as the file lists them together.
fn cables<'l>(links: &[&'l DiscoveredLink]) -> impl Iterator<Item = Vec<&'l DiscoveredLink>> {
    let mut cables: BTreeMap<[&str; 2], Vec<_>> = BTreeMap::new();
    for &link in links {
        let mut ends = link.ends.each_ref().map(|end| &end.node[..]);
        ends.sort_unstable();
        cables.entry(ends).or_default().push(link);
    }
    cables.into_values()
}

/// Writes all links between two nodes as one entry, at the rate of the slowest.
fn write_cables(text: &mut String, cables: &[&DiscoveredLink]) {
    text.push('\n');
    cables.iter().for_each(|link| write_because(text, link));
    let rates = cables.iter().filter_map(|link| link.rate_bits_per_s);
    let rates: BTreeSet<_> = rates.collect();
    let doubts = cables.iter().flat_map(|link| link.doubts.clone());
    let mut doubts: Vec<_> = doubts.collect();
    doubts.dedup();
    if rates.len() > 1 {
        doubts.push("these links report different speeds".to_owned());
    }
    let (Some(first), Some(rate)) = (cables.first(), rates.first()) else {
        return;
    };
    let _ = writeln!(text, "[[link]]{}", comment(&doubts));
    for (key, end) in ["a", "b"].into_iter().zip(&first.ends) {
        let _ = writeln!(text, "{key} = \"{}\"", end.node);
    }
    let _ = writeln!(text, "gbps = {:?}", rate.gbps());
    if cables.len() > 1 {
        let _ = writeln!(text, "count = {}", cables.len());
    }
}

fn write_because(text: &mut String, link: &DiscoveredLink) {
    let because = plainly(&link.because.join(", "));
    let _ = writeln!(text, "# {}: {because}", ends(link));
}

/// Writes an implausible link as a comment, to be corrected by hand.
fn write_unsound(text: &mut String, link: &DiscoveredLink) {
    text.push('\n');
    write_because(text, link);
    let _ = writeln!(text, "# [[link]]{}", comment(&link.doubts));
    for (key, end) in ["a", "b"].into_iter().zip(&link.ends) {
        let _ = writeln!(text, "# {key} = \"{}\"", plainly(&end.node));
    }
    let gbps = link
        .rate_bits_per_s
        .map(|rate| format!("{:?}", rate.gbps()));
    let _ = writeln!(text, "# gbps = {}", gbps.unwrap_or_default());
}

fn comment(doubts: &[String]) -> String {
    match doubts {
        [] => String::new(),
        doubts => format!("  # unsure: {}", plainly(&doubts.join("; "))),
    }
}

#[cfg(test)]
mod tests {
    use reweave_common::operator::LooseEnd;
    use reweave_common::units::Rate;

    use super::*;

    fn end(node: &str, interface: &str) -> LinkEnd {
        LinkEnd {
            node: node.to_owned(),
            interface: Some(interface.to_owned()),
        }
    }

    fn link(ends: [LinkEnd; 2], gbps: Option<f64>) -> DiscoveredLink {
        DiscoveredLink {
            ends,
            rate_bits_per_s: gbps.and_then(Rate::from_gbps),
            because: vec!["LLDP at h0".to_owned()],
            doubts: vec![],
            is_guess: false,
        }
    }

    fn node(name: &str, role: Role) -> DiscoveredNode {
        DiscoveredNode {
            name: name.to_owned(),
            role,
            doubts: vec![],
        }
    }

    fn found(links: Vec<DiscoveredLink>) -> Discovered {
        Discovered {
            nodes: vec![
                node("h0", Role::Host),
                node("h1", Role::Host),
                node("leaf0", Role::Switch),
            ],
            all_links: links.len(),
            links,
            loose: vec![],
            doubts: vec![],
        }
    }

    fn read(found: &Discovered) -> Fabric {
        let text = text(found);
        Fabric::parse("f.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    #[test]
    fn certain_links_roundtrip_as_fabric() {
        let links = vec![
            link([end("h0", "eth0"), end("leaf0", "swp1")], Some(400.0)),
            link([end("h0", "eth1"), end("leaf0", "swp2")], Some(400.0)),
            link([end("h1", "eth0"), end("leaf0", "swp3")], Some(0.1)),
        ];
        let fabric = read(&found(links));
        let names: Vec<_> = fabric
            .links()
            .map(|(link, _)| fabric.link_name(link))
            .collect();
        assert_eq!(names, ["h1-leaf0", "h0-leaf0", "h0-leaf0.1"]);
        let rates: Vec<_> = fabric.links().map(|(_, link)| link.rate.gbps()).collect();
        assert_eq!(rates, [0.1, 400.0, 400.0]);
    }

    #[test]
    fn hosts_of_several_links_have_nics() {
        let links = vec![
            link([end("leaf0", "swp2"), end("h0", "a \"b")], Some(100.0)),
            link([end("h0", "eth\"1"), end("leaf0", "swp1")], Some(400.0)),
            link([end("h1", "eth0"), end("leaf0", "swp3")], Some(0.1)),
        ];
        let fabric = read(&found(links));
        let nics = fabric.nics().map(|(_, nic)| {
            let place = (fabric.name(nic.host), fabric.link_name(nic.link));
            (place.0, place.1, nic.rail, nic.interface.clone())
        });
        let expected = [
            ("h1", "h1-leaf0".to_owned(), 0, None),
            ("h0", "h0-leaf0".to_owned(), 0, None),
            ("h0", "h0-leaf0.1".to_owned(), 1, Some("eth\"1".to_owned())),
        ];
        assert_eq!(nics.collect::<Vec<_>>(), expected);
        assert!(fabric.has_declared_nics());
    }

    #[test]
    fn uncertain_links_are_commented_out() {
        let guess = DiscoveredLink {
            is_guess: true,
            doubts: vec!["equal evidence for another end".to_owned()],
            ..link([end("h1", "eth0"), end("leaf0", "swp3")], Some(1.0))
        };
        let slow = link([end("h0", "eth0"), end("leaf0", "swp1")], None);
        let found = found(vec![guess, slow]);
        assert_eq!(read(&found).links().len(), 0);
        let text = text(&found);
        assert!(
            text.contains("# [[link]]  # unsure: equal evidence"),
            "{text}"
        );
        assert!(text.contains("\n# gbps = \n"), "{text}");
    }

    /// Names come from the network, and any node can send any name.
    #[test]
    fn discovered_names_stay_within_their_lines() {
        let evil = "x\"\n[[node]]\nname = \"y\u{1b}[2J";
        let mut found = found(vec![DiscoveredLink {
            because: vec![format!("LLDP at {evil}")],
            doubts: vec![format!("no agent reports for {evil}")],
            ..link([end("h0", evil), end(evil, evil)], Some(1.0))
        }]);
        found.nodes.push(DiscoveredNode {
            doubts: vec!["its own name is not a valid name for a node".to_owned()],
            ..node(evil, Role::Switch)
        });
        found.loose.push(LooseEnd {
            node: "h0".to_owned(),
            interface: evil.to_owned(),
            rate_bits_per_s: None,
        });
        found.doubts.push(evil.to_owned());
        let fabric = read(&found);
        assert_eq!((fabric.nodes().len(), fabric.links().len()), (3, 0));
        let text = text(&found);
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    /// The first link of h0 is left out. Its other NIC would be on rail 0 by its place.
    #[test]
    fn remaining_nic_keeps_its_rail() {
        let mut nodes = found(vec![]);
        nodes.nodes.push(node("leaf1", Role::Switch));
        let cable = |host: &str, rail: usize| {
            let leaf = format!("leaf{rail}");
            link(
                [end(host, &format!("eth{rail}")), end(&leaf, "swp")],
                Some(1.0),
            )
        };
        nodes.links = vec![
            cable("h0", 1),
            cable("h0", 0),
            cable("h1", 0),
            cable("h1", 1),
        ];
        let rails = rails(&nodes);
        nodes.links.remove(1);
        let text = text_on_rails(&nodes, &rails);
        let fabric = Fabric::parse("f.toml", &text).unwrap();
        let [h0, h1] = ["h0", "h1"].map(|name| fabric.find(name).unwrap());
        let pairs = fabric.rail_pairs(h0, h1);
        let links = pairs
            .iter()
            .map(|pair| pair.map(|nic| fabric.link_name(fabric.nic(nic).link)));
        let expected = [["h0-leaf1", "h1-leaf1"].map(str::to_owned)];
        assert_eq!(links.collect::<Vec<_>>(), expected, "{text}");
    }
}
