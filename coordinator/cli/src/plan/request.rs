//! Options for the ports, cables and panels of a topology.

use clap::Args;
use reweave_common::units::{Bytes, Rate};
use reweave_design::topology::{Limits, Pair, Panel, Reach, Request, TopologyError, pair};
use serde::{Deserialize, Serialize};

use super::tables;
use crate::error::CliError;
use crate::sim::MAX_SIMULATION_WORK;
use crate::sim::replay::rate;

/// Maximum number of hosts.
const MAX_HOSTS: usize = 1 << 14;

#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(crate) struct Ports {
    /// Number of hosts of the job, called h0, h1, ...
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) hosts: usize,
    /// Ports per host for circuits, without those for storage and control
    #[arg(long, value_name = "D", allow_negative_numbers = true)]
    pub(crate) degree: usize,
    /// Rate of a port
    #[arg(long, value_name = "B", value_parser = rate, allow_negative_numbers = true)]
    pub(crate) gbps: Rate,
    /// Seed; another seed may find another topology that is as good
    #[arg(
        long,
        value_name = "S",
        default_value_t = 1,
        allow_negative_numbers = true
    )]
    pub(crate) seed: u64,
    /// Host with a broken port; may be repeated
    #[arg(long, value_name = "HOST")]
    dead_port: Vec<String>,
    /// Two hosts that cannot be joined; may be repeated
    #[arg(long, value_name = "HOST-HOST")]
    cut: Vec<String>,
    /// Maximum length of a cable, for hosts in a row
    #[arg(long, value_name = "M", requires = "spacing_m", value_parser = length, allow_negative_numbers = true)]
    reach_m: Option<f64>,
    /// Distance between neighbouring hosts
    #[arg(long, value_name = "M", value_parser = length, allow_negative_numbers = true)]
    spacing_m: Option<f64>,
    /// Patch panel or optical switch with this number of ports for each of these hosts, as in h0..h7=4; may be
    /// repeated, and then only hosts of one panel are joined
    #[arg(long, value_name = "HOST..HOST=PORTS")]
    panel: Vec<String>,
    /// Total forwarding rate of a host [default: the rate of its ports]
    #[arg(long, value_name = "G", value_parser = rate, allow_negative_numbers = true)]
    pub(crate) relay_gbps: Option<Rate>,
    /// Memory of a server, or of a GPU for presets
    #[arg(long, value_name = "GB", allow_negative_numbers = true)]
    memory_gb: Option<f64>,
}

/// Parses a length in metres.
fn length(text: &str) -> Result<f64, String> {
    let metres = text.parse().ok();
    let known = metres.filter(|metres: &f64| metres.is_finite() && *metres >= 0.0);
    known.ok_or_else(|| "not a length".to_owned())
}

impl Ports {
    pub(crate) fn request(&self) -> Result<Request, CliError> {
        Ok(Request {
            limits: self.limits()?,
            degree: self.degree,
            rate: self.gbps,
            seed: self.seed,
            work: MAX_SIMULATION_WORK,
            relay: self.relay_gbps,
            interval: false,
        })
    }

    pub(crate) fn memory(&self) -> Result<Option<Bytes>, CliError> {
        let option = "--memory-gb";
        self.memory_gb
            .map(|gb| {
                if gb > 0.0 && gb < 1e6 {
                    Ok(Bytes::new((gb * 1e9) as u64))
                } else {
                    Err(CliError::BadOption { option, value: gb })
                }
            })
            .transpose()
    }

    pub(crate) fn panels(&self) -> usize {
        self.panel.len()
    }

    fn limits(&self) -> Result<Limits, CliError> {
        if self.hosts > MAX_HOSTS {
            let (hosts, most) = (self.hosts, MAX_HOSTS);
            return Err(CliError::Topology(TopologyError::ManyHosts { hosts, most }));
        }
        if self.hosts < 2 {
            let hosts = self.hosts;
            return Err(CliError::Topology(TopologyError::FewHosts { hosts }));
        }
        let mut limits = Limits::plain(self.hosts, self.degree);
        for name in &self.dead_port {
            let ports = &mut limits.ports[self.host(name)? as usize];
            *ports = ports.checked_sub(1).ok_or_else(|| CliError::DeadPorts {
                host: name.clone(),
                ports: self.degree,
            })?;
        }
        let cut = self.cut.iter().map(|ends| self.cable(ends));
        limits.cut = cut.collect::<Result<_, _>>()?;
        limits.reach = self.reach();
        let panels = self.panel.iter().map(|panel| self.one_panel(panel));
        limits.panels = panels.collect::<Result<_, _>>()?;
        Ok(limits)
    }

    fn reach(&self) -> Option<Reach> {
        let (most_m, spacing_m) = (self.reach_m?, self.spacing_m?);
        Some(Reach {
            places_m: (0..self.hosts)
                .map(|host| host as f64 * spacing_m)
                .collect(),
            most_m,
        })
    }

    /// Parses `h3`; rejects `h03` and `h+3`.
    pub(crate) fn host(&self, name: &str) -> Result<u32, CliError> {
        let number = name
            .strip_prefix('h')
            .and_then(|digits| digits.parse::<u32>().ok());
        let is_there = |&host: &u32| (host as usize) < self.hosts && tables::name(host) == name;
        number.filter(is_there).ok_or_else(|| CliError::NoSuchHost {
            name: name.to_owned(),
            hosts: self.hosts,
        })
    }

    /// Parses `h3-h7`.
    pub(crate) fn cable(&self, ends: &str) -> Result<Pair, CliError> {
        let bad = || CliError::BadCable {
            cable: ends.to_owned(),
        };
        let (a, b) = ends.split_once('-').ok_or_else(bad)?;
        if a == b || a.is_empty() || b.is_empty() {
            return Err(bad());
        }
        Ok(pair(self.host(a)?, self.host(b)?))
    }

    /// Parses `h0..h7=4`.
    fn one_panel(&self, text: &str) -> Result<Panel, CliError> {
        let (hosts, ports) = text.split_once('=').unwrap_or((text, ""));
        let (first, last) = hosts.split_once("..").unwrap_or((hosts, hosts));
        let range = self.host(first)?..=self.host(last)?;
        let count = ports.parse::<usize>().ok();
        let joins = |count: &usize| *count > 0 && !range.is_empty();
        let count = count.filter(joins).ok_or_else(|| CliError::BadPanel {
            panel: text.to_owned(),
        })?;
        if count > self.degree {
            return Err(CliError::ManyPanelPorts {
                panel: text.to_owned(),
                ports: self.degree,
            });
        }
        let on = |host: u32| if range.contains(&host) { count } else { 0 };
        let counts: Vec<_> = (0..self.hosts as u32).map(on).collect();
        Ok(Panel::numbered(text.to_owned(), &counts))
    }
}
