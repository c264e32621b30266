//! The plan to repair, as printed by `plan topology`.

use std::collections::BTreeSet;
use std::path::Path;

use reweave_design::routing::Routes;
use reweave_design::topology::{Altered, Design, Failed, Family, Pair, Wiring, pair};
use reweave_sim::workload::job::Losses;
use reweave_sim::workload::job::Work;
use serde::Deserialize;

use crate::error::CliError;
use crate::json;
use crate::plan::show::{self, Degrees, PlanInputs};
use crate::plan::summary::Patched;
use crate::plan::tables::{self, Tables};
use crate::plan::topology::hosts;
use crate::sim::input;
use crate::work::{Deal, Source};

/// Fields of the plan that are read.
#[derive(Debug, Deserialize)]
struct Plan {
    links: Vec<Pair>,
    iteration_ms: f64,
    family: Family,
    altered: Altered,
    rings: Vec<Vec<u32>>,
    #[serde(default)]
    splits: Vec<Vec<u32>>,
    #[serde(default)]
    patches: Vec<Patched>,
    parallelism: Option<Degrees>,
    tables: Tables,
    asked: PlanInputs,
}

pub(super) struct Given {
    links: Vec<Pair>,
    pub(super) iteration_ms: f64,
    family: Family,
    altered: Altered,
    rings: Vec<Vec<u32>>,
    patches: Vec<Patched>,
    pub(super) routes: Routes,
    source: Source,
    deal: Deal,
    pub(super) asked: PlanInputs,
}

impl Given {
    pub(super) fn read(path: &Path) -> Result<Self, CliError> {
        let bad = |source| CliError::BadPlan {
            path: path.to_owned(),
            source,
        };
        let bytes = input::bytes(path)?;
        let plan: Plan = json::read_printed(path, &bytes, bad)?;
        let untrue = |problem| CliError::UntruePlan {
            path: path.to_owned(),
            problem,
        };
        // Invalid host counts are reported like invalid options.
        plan.asked.ports.request()?;
        plan.check().map_err(untrue)?;
        let wiring = Wiring::of(plan.asked.ports.hosts, plan.links.iter().copied());
        Ok(Self {
            routes: tables::routes(&plan.tables, &wiring).map_err(untrue)?,
            source: Source::read(&plan.asked.job)?,
            deal: show::deal(plan.parallelism, &plan.splits),
            links: plan.links,
            iteration_ms: plan.iteration_ms,
            family: plan.family,
            altered: plan.altered,
            rings: plan.rings,
            patches: plan.patches,
            asked: plan.asked,
        })
    }

    pub(super) fn design(&self) -> Design {
        Design {
            family: self.family.clone(),
            altered: self.altered,
            wiring: Wiring::of(self.asked.ports.hosts, self.links.iter().copied()),
            rings: self.rings.clone(),
            patches: self.patches.iter().map(|it| it.patch()).collect(),
        }
    }

    pub(super) fn work(&self) -> Result<Work, CliError> {
        self.source.dealt(hosts(self.asked.ports.hosts), &self.deal)
    }

    pub(super) fn losses(&self, dead: &BTreeSet<u32>) -> Result<Losses, CliError> {
        self.source.losses(self.asked.ports.hosts, &self.deal, dead)
    }

    pub(super) fn failed(&self, name: &str) -> Result<Failed, CliError> {
        let ports = &self.asked.ports;
        if let Some(panel) = name.strip_prefix("panel") {
            let on = |nth: &usize| self.patches.iter().any(|it| it.patch().panel == *nth);
            let panel = panel.parse().ok().filter(on);
            return panel.map(Failed::Panel).ok_or_else(|| self.no_panel(name));
        }
        if let Some((of, towards)) = name.split_once(':') {
            if of.is_empty() || towards.is_empty() {
                let cable = name.to_owned();
                return Err(CliError::BadCable { cable });
            }
            let [of, towards] = [ports.host(of)?, ports.host(towards)?];
            self.laid(pair(of, towards), name)?;
            return Ok(Failed::Port { of, towards });
        }
        if !name.contains('-') {
            return ports.host(name).map(Failed::Host);
        }
        self.laid(ports.cable(name)?, name).map(Failed::Cable)
    }

    fn no_panel(&self, name: &str) -> CliError {
        let panels: BTreeSet<_> = self.patches.iter().map(|it| it.patch().panel).collect();
        CliError::NoSuchPanel {
            name: name.to_owned(),
            panels: panels.iter().map(|it| format!("panel{it}")).collect(),
        }
    }

    fn laid(&self, cable: Pair, name: &str) -> Result<Pair, CliError> {
        if self.links.contains(&cable) {
            return Ok(cable);
        }
        let [first, _] = cable;
        let others = self.links.iter().filter(|link| link.contains(&first));
        Err(CliError::NotLaid {
            name: name.to_owned(),
            host: tables::name(first),
            links: others.map(|[a, b]| format!("h{a}-h{b}")).collect(),
        })
    }
}

impl Plan {
    /// Rejects impossible plans: files may be edited.
    fn check(&self) -> Result<(), String> {
        let hosts = self.asked.ports.hosts;
        let is_there = |host: &u32| (*host as usize) < hosts;
        let no_host = |what: &str, host: u32| {
            Err(format!(
                "{what} names h{host}, but its hosts are h0 to h{}",
                hosts.saturating_sub(1)
            ))
        };
        let patched = self.patches.iter().flat_map(|it| it.patch().cable);
        let split = self.splits.iter().flatten();
        if let Some(link) = self.links.iter().find(|[a, b]| a >= b) {
            return Err(format!(
                "{link:?} is not a link: the smaller host comes first"
            ));
        }
        if let Some(&host) = self.links.iter().flatten().find(|it| !is_there(it)) {
            return no_host("a link", host);
        }
        if let Some(&host) = self.rings.iter().flatten().find(|it| !is_there(it)) {
            return no_host("a ring", host);
        }
        if let Some(host) = patched.into_iter().find(|it| !is_there(it)) {
            return no_host("a patch", host);
        }
        if let Some(&host) = split.into_iter().find(|it| !is_there(it)) {
            return no_host("a split", host);
        }
        if self.splits.iter().any(Vec::is_empty) {
            return Err("an operator is split over 0 servers".to_owned());
        }
        let panels = self.asked.ports.panels();
        if let Some(patch) = self.patches.iter().find(|it| it.patch().panel >= panels) {
            let panel = patch.patch().panel;
            return Err(format!(
                "a patch names panel{panel}, but the request has {panels}"
            ));
        }
        if self.parallelism.is_none_or(|it| it.are_some()) {
            Ok(())
        } else {
            Err("a degree of its parallelism is 0".to_owned())
        }
    }
}
