//! The cluster as it is now, for planning: links as agents see them, measured bandwidth between hosts, and findings
//! that reduce links.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use reweave_common::cause::{Cause, Subject};
use reweave_common::fabric::{Fabric, Role};
use reweave_common::operator::{
    AgentStatus, Discovered, DiscoveredLink, Finding, LinkStatus, MeasuredPairs, Request, Response,
};
use reweave_common::units::Rate;
use reweave_design::placement::{self, Pairs};
use reweave_repair::rebalance::worth;

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::page::first_of;
use crate::sim::input;
use crate::{discover, pairs};

/// Assumed loss of a link with a finding of present or expected loss.
const ASSUMED_LOSS: f64 = 0.01;
/// Maximum number of reasons that are printed.
const MAX_REASONS: usize = 8;

pub(crate) struct Cluster {
    pub(crate) fabric: Fabric,
    pub(super) pairs: Pairs,
    /// Reductions of links and hosts, with reasons.
    pub(crate) remarks: Vec<String>,
}

impl Cluster {
    /// Reads the fabric from a file, or from the coordinator if there is none.
    pub(super) fn of(file: Option<&Path>, reach: &Reach) -> Result<Self, CliError> {
        let Some(file) = file else {
            return Self::ask(reach, None);
        };
        Ok(Self {
            fabric: input::lit(file)?,
            pairs: Pairs::new(),
            remarks: Vec::new(),
        })
    }

    /// Returns the coordinator's fabric, reduced to these hosts and all switches.
    pub(crate) fn among(hosts: &[String], reach: &Reach) -> Result<Self, CliError> {
        Self::ask(reach, Some(hosts))
    }

    fn ask(reach: &Reach, hosts: Option<&[String]>) -> Result<Self, CliError> {
        let mut coordinator = Coordinator::reach(reach)?;
        let mut found = discover::ask(&mut coordinator)?;
        if let Some(hosts) = hosts {
            keep_hosts(&mut found, hosts);
        }
        let wanted = Wanted::of(&found, hosts.is_some());
        let rails = discover::rails(&found);
        let status = coordinator.status()?;
        let remarks = weigh(&mut found, &status.links, &causes(&mut coordinator)?);
        wanted.are_reached(&found, &status.agents, &remarks)?;
        let fabric = Fabric::parse("the cluster", &discover::text_on_rails(&found, &rails));
        let fabric = fabric.map_err(CliError::Input)?;
        let measured = pairs::ask(&mut coordinator)?;
        Ok(Self {
            pairs: pairs_on(&fabric, measured)?,
            fabric,
            remarks,
        })
    }
}

/// Hosts that take part.
struct Wanted {
    names: BTreeSet<String>,
    /// The operator named the hosts, so they must reach each other.
    are_named: bool,
}

impl Wanted {
    fn of(found: &Discovered, are_named: bool) -> Self {
        let names = endpoints(found).map(ToOwned::to_owned).collect();
        Self { names, are_named }
    }

    /// Fails with a reason if too few of the wanted hosts are usable.
    fn are_reached(
        &self,
        found: &Discovered,
        agents: &[AgentStatus],
        left_out: &[String],
    ) -> Result<(), CliError> {
        let least = if self.are_named {
            self.names.len().min(2)
        } else {
            1
        };
        if endpoints(found).count() >= least.max(1) {
            return Ok(());
        }
        let theirs = agents.iter().filter(|it| self.names.contains(&it.node));
        let mut reported = theirs.filter(|it| it.age_ms.is_some());
        Err(match reported.next() {
            Some(_) => CliError::NotReached {
                why: first_of(left_out, MAX_REASONS, "; "),
            },
            None => CliError::NoneReported {
                instead: if self.are_named {
                    ""
                } else {
                    ", or name a file by --fabric"
                },
            },
        })
    }
}

fn endpoints(found: &Discovered) -> impl Iterator<Item = &str> {
    let nodes = found.nodes.iter().filter(|node| node.role.is_endpoint());
    nodes.map(|node| &*node.name)
}

/// Removes other hosts, except those that forward for others.
fn keep_hosts(found: &mut Discovered, hosts: &[String]) {
    let nodes = found.nodes.iter();
    let others = nodes.filter(|node| node.role == Role::Host && !hosts.contains(&node.name));
    let others: BTreeSet<_> = others.map(|node| node.name.clone()).collect();
    found.nodes.retain(|node| !others.contains(&node.name));
    let leads_to_another =
        |link: &DiscoveredLink| link.ends.iter().any(|end| others.contains(&end.node));
    found.links.retain(|link| !leads_to_another(link));
}

fn causes(coordinator: &mut Coordinator) -> Result<Vec<Cause>, CliError> {
    let findings = match coordinator.ask(&Request::Diagnose)? {
        Response::Findings(findings) => findings.findings.into_iter(),
        Response::Refused(refused) => return Err(CliError::Refused(refused)),
        other => return Err(CliError::unexpected(&other)),
    };
    let causes = findings.filter_map(|finding| match finding {
        Finding::Cause(cause) => Some(cause),
        _ => None,
    });
    Ok(causes.collect())
}

/// Returns the measured pairs as if read from a table, capped at the rates of their links.
fn pairs_on(fabric: &Fabric, mut measured: MeasuredPairs) -> Result<Pairs, CliError> {
    measured.pairs.retain_mut(|pair| {
        let [Some(from), Some(to)] = [&pair.from, &pair.to].map(|name| fabric.find(name)) else {
            return false;
        };
        let most = fabric.most_between(from, to);
        let rate = pair.rate_bits_per_s;
        pair.rate_bits_per_s = most.map_or(rate, |most| rate.min(most));
        true
    });
    let table = pairs::csv(&measured);
    placement::read_pairs("the measured pairs", &table, fabric).map_err(CliError::Input)
}

/// State of a known link.
struct Known {
    name: String,
    capacity: Rate,
    carries: bool,
    is_lossy: bool,
}

/// Removes dead links and isolated hosts, and lowers the rates of degraded links. Returns remarks.
fn weigh(found: &mut Discovered, links: &[LinkStatus], causes: &[Cause]) -> Vec<String> {
    let mut known = known(links, causes);
    let mut remarks = Vec::new();
    found.links.retain_mut(|link| {
        // Parallel links are listed in the same order.
        let of_ends = known.get_mut(&ends(link));
        let next = of_ends.filter(|it| !it.is_empty()).map(|it| it.remove(0));
        next.is_none_or(|known| known.counts(link, &mut remarks))
    });
    let has_link = |name: &String| {
        let mut ends = found.links.iter().flat_map(|link| &link.ends);
        ends.any(|end| end.node == *name)
    };
    found.nodes.retain(|node| {
        let stays = node.role == Role::Switch || has_link(&node.name);
        if !stays {
            remarks.push(format!("{} is left out: it has no link", node.name));
        }
        stays
    });
    remarks
}

/// Returns the links between each pair of nodes, in the order of their names.
fn known(links: &[LinkStatus], causes: &[Cause]) -> BTreeMap<[String; 2], Vec<Known>> {
    let mut known: BTreeMap<[String; 2], Vec<Known>> = BTreeMap::new();
    for status in links {
        let between = known.entry(sorted([&status.hop.from, &status.hop.to]));
        let between = between.or_default();
        let carries = status.up && !status.drained;
        match between.iter_mut().find(|it| it.name == status.hop.link) {
            Some(other_way) => other_way.carries &= carries,
            None => between.push(Known {
                name: status.hop.link.clone(),
                capacity: status.capacity_bits_per_s,
                carries,
                is_lossy: causes.iter().any(|it| is_lossy(it, &status.hop.link)),
            }),
        }
    }
    for between in known.values_mut() {
        between.sort_by(|a, b| (a.name.len(), &a.name).cmp(&(b.name.len(), &b.name)));
    }
    known
}

fn is_lossy(cause: &Cause, name: &str) -> bool {
    let loses = cause.class.drain_confidence().is_some();
    let (Subject::Hop { link, .. } | Subject::Link { link, .. }) = &cause.subject else {
        return false;
    };
    loses && link == name
}

fn ends(link: &DiscoveredLink) -> [String; 2] {
    let [a, b] = &link.ends;
    sorted([&a.node, &b.node])
}

fn sorted(ends: [&String; 2]) -> [String; 2] {
    let mut ends = ends.map(Clone::clone);
    ends.sort();
    ends
}

impl Known {
    /// Whether the link is usable. Lowers its rate if it is degraded.
    fn counts(&self, link: &mut DiscoveredLink, remarks: &mut Vec<String>) -> bool {
        let name = &self.name;
        if !self.carries {
            remarks.push(format!("{name} is left out: it is down, or drained"));
            return false;
        }
        let seen = link.rate_bits_per_s.unwrap_or(self.capacity);
        let rate = seen.min(self.capacity);
        let worth = if self.is_lossy {
            let worth = worth(rate, ASSUMED_LOSS);
            remarks.push(format!(
                "{name} counts for {worth} of {rate}: it loses packets"
            ));
            worth
        } else {
            rate
        };
        link.rate_bits_per_s = Some(worth);
        true
    }
}

#[cfg(test)]
mod tests {
    use reweave_common::cause::Class;
    use reweave_common::operator::{AgentState, DiscoveredNode, Hop, LinkEnd, MeasuredPair};

    use super::*;

    const LINK_ENDS: [[&str; 2]; 6] = [
        ["h0", "leaf0"],
        ["h1", "leaf1"],
        ["h2", "leaf1"],
        ["leaf0", "spine0"],
        ["leaf1", "spine0"],
        ["leaf0", "spine0"],
    ];

    fn gbps(gbps: f64) -> Rate {
        Rate::from_gbps(gbps).unwrap()
    }

    fn name(nth: usize) -> String {
        let again = if nth == 5 { ".1" } else { "" };
        LINK_ENDS[nth].join("-") + again
    }

    /// Interface speeds far above the real rates of the links.
    fn found() -> Discovered {
        let end = |node: &str| LinkEnd {
            node: node.to_owned(),
            interface: None,
        };
        let link = |ends: &[&str; 2]| DiscoveredLink {
            ends: ends.map(end),
            rate_bits_per_s: Some(gbps(10.0)),
            because: vec![],
            doubts: vec![],
            is_guess: false,
        };
        let node = |name: &str| DiscoveredNode {
            name: name.to_owned(),
            role: if name.starts_with('h') {
                Role::Host
            } else {
                Role::Switch
            },
            doubts: vec![],
        };
        Discovered {
            nodes: ["h0", "h1", "h2", "leaf0", "leaf1", "spine0"]
                .map(node)
                .into(),
            links: LINK_ENDS.iter().map(link).collect(),
            all_links: LINK_ENDS.len(),
            ..Discovered::default()
        }
    }

    /// Returns the status of each link in both directions.
    fn status(change: impl Fn(&str, &mut LinkStatus)) -> Vec<LinkStatus> {
        let of = |(nth, [a, b]): (usize, &[&str; 2])| {
            [[a, b], [b, a]].map(|[from, to]| LinkStatus {
                hop: Hop {
                    from: (*from).to_owned(),
                    to: (*to).to_owned(),
                    link: name(nth),
                },
                up: true,
                drained: false,
                rate_bits_per_s: gbps(0.5),
                capacity_bits_per_s: gbps(1.0),
                spare_bits_per_s: None,
                age_ms: 0,
            })
        };
        let mut all: Vec<_> = LINK_ENDS.iter().enumerate().flat_map(of).collect();
        all.iter_mut()
            .for_each(|it| change(&it.hop.link.clone(), it));
        all
    }

    fn weighed(links: &[LinkStatus], causes: &[Cause]) -> (Vec<f64>, Vec<String>) {
        let mut found = found();
        let remarks = weigh(&mut found, links, causes);
        let fabric = Fabric::parse("f", &discover::text(&found)).unwrap();
        let rates = fabric.links().map(|(_, link)| link.rate.gbps());
        (rates.collect(), remarks)
    }

    fn agent(node: &str, age_ms: Option<u64>) -> AgentStatus {
        AgentStatus {
            node: node.to_owned(),
            addresses: vec![],
            state: AgentState::Up,
            age_ms,
            generation: None,
            known_links: 0,
            links: 0,
            discarded_readings: 0,
            strays: None,
            build: None,
            protocol: None,
            certificate_left_s: None,
            clock_skew_ms: None,
        }
    }

    /// Returns the error when `asked` hosts are requested, `reported` ones are known, and `cut_off` ones have no link
    /// left.
    fn error_of(asked: Option<&[&str]>, reported: &[&str], cut_off: &[&str]) -> Option<String> {
        let asked = asked.map(|names| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
        let mut found = found();
        if let Some(hosts) = &asked {
            keep_hosts(&mut found, hosts);
        }
        let wanted = Wanted::of(&found, asked.is_some());
        found
            .links
            .retain(|link| !cut_off.contains(&&*link.ends[0].node));
        let left_out = weigh(&mut found, &[], &[]);
        let nodes = ["h0", "h1", "h2", "leaf0"];
        let agents = nodes.map(|node| agent(node, reported.contains(&node).then_some(7)));
        let judged = wanted.are_reached(&found, &agents, &left_out);
        judged.err().map(|error| error.error_chain())
    }

    #[test]
    fn missing_reports_are_named_with_remedy() {
        let all = ["h0", "h1", "h2"];
        for (asked, reported, instead) in [
            (None, &[][..], ", or name a file by --fabric"),
            (None, &["leaf0"], ", or name a file by --fabric"),
            (Some(&["h0", "h1"][..]), &["h2"], ""),
        ] {
            let expected = format!(
                "no host has reported its links yet: start the agents that `reweave hosts` \
                 lists{instead}"
            );
            assert_eq!(error_of(asked, reported, &all), Some(expected));
        }
    }

    #[test]
    fn too_few_reached_hosts_are_explained() {
        assert_eq!(error_of(None, &["h0"], &["h1", "h2"]), None);
        let alone = error_of(Some(&["h0", "h1"]), &["h0"], &["h1"]);
        let expected = "too few hosts are reachable: h1 is left out: it has no link";
        assert_eq!(alone.as_deref(), Some(expected));
        assert_eq!(error_of(Some(&["h0"]), &["h0"], &["h1"]), None);
    }

    #[test]
    fn other_hosts_are_removed() {
        let mut found = found();
        keep_hosts(&mut found, &["h0".to_owned(), "h2".to_owned()]);
        let names: Vec<_> = found.nodes.iter().map(|node| &node.name[..]).collect();
        assert_eq!(names, ["h0", "h2", "leaf0", "leaf1", "spine0"]);
        assert_eq!(found.links.len(), LINK_ENDS.len() - 1);
    }

    #[test]
    fn links_use_known_speeds() {
        assert_eq!(weighed(&[], &[]), (vec![10.0; 6], vec![]));
        assert_eq!(weighed(&status(|_, _| ()), &[]), (vec![1.0; 6], vec![]));
    }

    #[test]
    fn drained_or_down_links_are_excluded() {
        let links = status(|link, it| match link {
            "leaf0-spine0.1" => it.drained = true,
            "h1-leaf1" if it.hop.from == "h1" => it.up = false,
            _ => {}
        });
        let (rates, remarks) = weighed(&links, &[]);
        assert_eq!(rates, [1.0; 4]);
        let said = [
            "h1-leaf1 is left out: it is down, or drained",
            "leaf0-spine0.1 is left out: it is down, or drained",
            "h1 is left out: it has no link",
        ];
        assert_eq!(remarks, said);
    }

    #[test]
    fn lossy_links_weigh_less() {
        let link = name(4);
        let subject = Subject::Hop {
            from: "spine0".to_owned(),
            to: "leaf1".to_owned(),
            link,
        };
        let cause = Class::LossyLink.cause(subject, 0.9, "it was seen".to_owned());
        let (rates, remarks) = weighed(&status(|_, _| ()), &[cause]);
        let narrow: Vec<_> = rates.iter().filter(|&&rate| rate < 0.9).collect();
        assert_eq!(narrow.len(), 1, "{rates:?}");
        assert!(
            remarks[0].starts_with("leaf1-spine0 counts for "),
            "{remarks:?}"
        );
    }

    #[test]
    fn pairs_of_absent_hosts_are_ignored() {
        let pair = |from: &str, to: &str, rail, rate| MeasuredPair {
            from: from.to_owned(),
            to: to.to_owned(),
            rail,
            in_rack: false,
            rate_bits_per_s: gbps(rate),
            usual_bits_per_s: gbps(rate),
            peers: 1,
            is_slow: false,
            age_ms: 0,
        };
        let fabric = Fabric::parse("f", &discover::text(&found())).unwrap();
        let measured = MeasuredPairs {
            pairs: vec![
                pair("h0", "h1", 0, 0.4),
                pair("h0", "h1", 1, 0.3),
                pair("h0", "gone", 0, 0.1),
            ],
        };
        let pairs = pairs_on(&fabric, measured).unwrap();
        let rates: Vec<_> = pairs.into_values().collect();
        assert_eq!(
            rates,
            [0.6e9],
            "both rails, each as quick as the slower one"
        );
    }
}
