//! Simulates light in the kernel: packets that enter at one port leave at another, and a port without light is down.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use reweave_common::units::Loss;

use super::budget::Budget;
use crate::error::LabError;
use crate::tool_run::run_script;
use crate::tools::{Tool, Tools};

/// The one filter of a port that has light.
const LIGHT_FILTER: &str = "parent ffff: prio 1 handle 800::800 u32";

#[derive(Debug)]
pub(super) struct Light {
    tools: Tools,
    /// The ports that a fibre is plugged into.
    plugged: BTreeSet<u16>,
    budget: Budget,
    lit: BTreeSet<u16>,
}

impl Light {
    /// Creates all ports without light.
    pub(super) fn off(ports: u16, budget: Budget, tools: Tools) -> Result<Self, LabError> {
        let is_plugged = |port: &u16| Path::new(&format!("/sys/class/net/p{port}")).exists();
        let plugged: BTreeSet<_> = (1..=ports).filter(is_plugged).collect();
        let down: String = plugged.iter().map(|&port| carrier(port, false)).collect();
        let gates: String = plugged
            .iter()
            .map(|port| format!("qdisc replace dev p{port} ingress\n"))
            .collect();
        let light = Self {
            tools,
            plugged,
            budget,
            lit: BTreeSet::new(),
        };
        light.tell(Tool::Ip, &down)?;
        light.tell(Tool::Tc, &gates)?;
        Ok(light)
    }

    pub(super) fn darken(&mut self, ports: &BTreeSet<u16>) -> Result<(), LabError> {
        let lit: BTreeSet<_> = self.lit.intersection(ports).copied().collect();
        let filters: String = lit
            .iter()
            .map(|port| format!("filter del dev p{port} {LIGHT_FILTER}\n"))
            .collect();
        let down: String = lit.iter().map(|&port| carrier(port, false)).collect();
        self.lit.retain(|port| !lit.contains(port));
        self.tell(Tool::Tc, &filters)?;
        self.tell(Tool::Ip, &down)
    }

    /// Lights both ends of a circuit, or none. Light is seen only if enough of it gets through.
    pub(super) fn join(&mut self, a: u16, b: u16) -> Result<(), LabError> {
        let plugged = [a, b].iter().all(|port| self.plugged.contains(port));
        if !plugged || !self.budget.suffices(a, b) {
            return Ok(());
        }
        self.tell(Tool::Tc, &(redirect(a, b) + &redirect(b, a)))?;
        self.tell(Tool::Ip, &(carrier(a, true) + &carrier(b, true)))?;
        self.lit.extend([a, b]);
        Ok(())
    }

    pub(super) fn loss(&self, a: u16, b: u16) -> Loss {
        self.budget.loss(a, b)
    }

    pub(super) fn is_lit(&self, a: u16, b: u16) -> bool {
        [a, b].iter().all(|port| self.lit.contains(port))
    }

    /// Sets the loss at a port. The light of its circuit goes off if the loss exceeds the budget, and comes back when
    /// it no longer does.
    pub(super) fn set_loss(
        &mut self,
        port: u16,
        loss: Loss,
        circuit: Option<(u16, u16)>,
    ) -> Result<(), LabError> {
        let sufficed = circuit.is_some_and(|(a, b)| self.budget.suffices(a, b));
        self.budget.at_ports.insert(port, loss);
        match circuit {
            Some((a, b)) if sufficed && !self.budget.suffices(a, b) => self.darken(&[a, b].into()),
            Some((a, b)) if !sufficed => self.join(a, b),
            _ => Ok(()),
        }
    }

    fn tell(&self, tool: Tool, script: &str) -> Result<(), LabError> {
        if script.is_empty() {
            return Ok(());
        }
        let command = Command::new(self.tools.path(tool));
        run_script(command, tool, "the optical switch", script).map(drop)
    }
}

fn carrier(port: u16, up: bool) -> String {
    let state = if up { "up" } else { "down" };
    format!("link set p{port} {state}\n")
}

fn redirect(from: u16, to: u16) -> String {
    let mut line = String::new();
    let _ = writeln!(
        line,
        "filter replace dev p{from} {LIGHT_FILTER} match u32 0 0 action mirred egress redirect dev p{to}"
    );
    line
}
