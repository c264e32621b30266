//! The cluster as it is now, for what is planned on it: its links as agents see them, what hosts have measured
//! of each other, and less of what is found wrong.

use std::collections::BTreeMap;
use std::path::Path;

use reweave_common::cause::{Cause, Class, Subject};
use reweave_common::fabric::{Fabric, Role};
use reweave_common::operator::{
    Discovered, DiscoveredLink, Finding, LinkStatus, MeasuredPairs, Request, Response,
};
use reweave_common::units::Rate;
use reweave_planner::placement::{self, Pairs};
use reweave_planner::rebalance::worth;

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::sim::input;
use crate::{discover, pairs};

/// What a link is taken to lose that was found to lose packets, or soon will.
const LOSS: f64 = 0.01;

pub(super) struct Cluster {
    pub(super) fabric: Fabric,
    pub(super) pairs: Pairs,
    /// What counts for less than it seems, and why.
    pub(super) remarks: Vec<String>,
}

impl Cluster {
    /// Of a file, or of the coordinator where there is none.
    pub(super) fn of(file: Option<&Path>, reach: &Reach) -> Result<Self, CliError> {
        let Some(file) = file else {
            return Self::ask(reach);
        };
        Ok(Self {
            fabric: input::fabric(file)?,
            pairs: Pairs::new(),
            remarks: Vec::new(),
        })
    }

    fn ask(reach: &Reach) -> Result<Self, CliError> {
        let mut coordinator = Coordinator::reach(reach)?;
        let mut found = discover::ask(&mut coordinator)?;
        let links = coordinator.status()?.links;
        let remarks = weigh(&mut found, &links, &causes(&mut coordinator)?);
        let fabric = Fabric::parse("the cluster", &discover::text(&found));
        let fabric = fabric.map_err(CliError::Input)?;
        let measured = pairs::ask(&mut coordinator)?;
        Ok(Self {
            pairs: pairs_on(&fabric, measured)?,
            fabric,
            remarks,
        })
    }
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

/// As they would be read from a table.
fn pairs_on(fabric: &Fabric, mut measured: MeasuredPairs) -> Result<Pairs, CliError> {
    let is_there = |name: &String| fabric.find(name).is_some();
    measured
        .pairs
        .retain(|pair| is_there(&pair.from) && is_there(&pair.to));
    let table = pairs::csv(&measured);
    placement::read_pairs("the measured pairs", &table, fabric).map_err(CliError::Input)
}

/// What a link that is known by name is good for.
struct Known {
    name: String,
    capacity: Rate,
    carries: bool,
    is_lossy: bool,
}

/// Takes links out that carry nothing, and hosts that no link is left of; makes others as narrow as they are.
fn weigh(found: &mut Discovered, links: &[LinkStatus], causes: &[Cause]) -> Vec<String> {
    let mut known = known(links, causes);
    let mut remarks = Vec::new();
    found.links.retain_mut(|link| {
        // Parallel ones are in the same order.
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
            remarks.push(format!("{} is left out: no link leads to it", node.name));
        }
        stays
    });
    remarks
}

/// By ends: the links between them, in the order of their names.
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
    let loses = matches!(
        cause.class,
        Class::LossyLink | Class::BadOptic | Class::DyingOptic
    );
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
    /// Whether it counts at all; and as what.
    fn counts(&self, link: &mut DiscoveredLink, remarks: &mut Vec<String>) -> bool {
        let name = &self.name;
        if !self.carries {
            remarks.push(format!("{name} is left out: it is down, or drained"));
            return false;
        }
        let seen = link.rate_bits_per_s.unwrap_or(self.capacity);
        let rate = seen.min(self.capacity);
        let worth = if self.is_lossy {
            let worth = worth(rate, LOSS);
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
    use reweave_common::operator::{DiscoveredNode, Hop, LinkEnd, MeasuredPair};

    use super::*;

    const LINKS: [[&str; 2]; 6] = [
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
        LINKS[nth].join("-") + again
    }

    /// Interfaces say that they are much faster than what is behind them.
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
            role: match name.starts_with('h') {
                true => Role::Host,
                false => Role::Switch,
            },
            doubts: vec![],
        };
        Discovered {
            nodes: ["h0", "h1", "h2", "leaf0", "leaf1", "spine0"]
                .map(node)
                .into(),
            links: LINKS.iter().map(link).collect(),
            all_links: LINKS.len(),
            ..Discovered::default()
        }
    }

    /// Both ways of each.
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
        let mut all: Vec<_> = LINKS.iter().enumerate().flat_map(of).collect();
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

    #[test]
    fn links_are_as_wide_as_they_are_known_to_be() {
        assert_eq!(weighed(&[], &[]), (vec![10.0; 6], vec![]));
        assert_eq!(weighed(&status(|_, _| ()), &[]), (vec![1.0; 6], vec![]));
    }

    #[test]
    fn what_is_drained_or_down_is_left_out_with_the_hosts_behind_it() {
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
            "h1 is left out: no link leads to it",
        ];
        assert_eq!(remarks, said);
    }

    #[test]
    fn what_loses_packets_is_worth_less() {
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
    fn pairs_of_hosts_that_are_not_there_are_no_evidence() {
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
