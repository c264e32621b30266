//! `reweave-lab up`: a lab that stays until it is asked to go.

use std::env;
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use reweave_common::fabric::{OpticalSwitch, Role};
use reweave_common::scenario::Scenario;
use serde::Serialize;

use super::{Output, show};
use crate::artifacts;
use crate::capture;
use crate::cluster::Cluster;
use crate::detach::{Background, Side, detach};
use crate::error::LabError;
use crate::faults::{Event, Stage, play_during, play_stepped};
use crate::features::Feature;
use crate::launch::{Inside, Launch};
use crate::sandbox::silence;
use crate::state::Running;

/// Bring up a lab, and keep it until Ctrl-C or `down`
#[derive(Debug, clap::Args)]
pub struct Up {
    /// A scenario file, or a fabric file alone
    scenario: PathBuf,
    /// Name of the lab [default: the name of the scenario; for a bare fabric, of its file]
    #[arg(long)]
    name: Option<String>,
    /// Return when the lab is ready, and leave it running
    #[arg(long)]
    detach: bool,
    /// Begin and end the scenario's faults by `step` instead of at their times
    #[arg(long)]
    stepped: bool,
    /// When the lab ends, keep what its nodes know and what was recorded, under ./artifacts
    #[arg(long)]
    keep: bool,
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

impl Up {
    pub fn run(self) -> Result<u8, LabError> {
        let started = Instant::now();
        if !self.detach {
            return self.keep_up(started, None);
        }
        match detach()? {
            Side::Front(code) => Ok(code),
            Side::Back(background) => self.keep_up(started, Some(&background)),
        }
    }

    fn keep_up(self, started: Instant, background: Option<&Background>) -> Result<u8, LabError> {
        let launch = Launch::prepare(&self.scenario, self.name.as_deref())?;
        let alone = Running::all()?.len() == 1;
        let begun = || {
            if background.is_some() {
                silence();
            }
        };
        let code = launch.run(begun, |inside| {
            let control = self.stepped.then(|| inside.bind_control_socket());
            let control = control.transpose()?;
            let came_up = CameUp::new(launch.name(), inside.cluster, started.elapsed());
            show(self.output, &came_up.text(alone), &came_up)?;
            if let Some(background) = background {
                background.let_front_go();
            }
            let captures = capture::start_all(inside.cluster, &launch.scenario().captures)?;
            let events = play_until_interrupted(inside, launch.scenario(), control.as_ref());
            if self.keep {
                let events = vec![("events.txt".to_owned(), events.into_bytes())];
                let files = [launch.files(), events].concat();
                let kept = artifacts::keep(launch.name(), inside.cluster, &captures, &files)?;
                eprintln!("kept in {}", kept.display());
            }
            Ok(0)
        })?;
        if code == 0 {
            eprintln!("lab {} is down", launch.name());
        }
        Ok(code)
    }
}

/// Plays the scenario's faults until the lab is asked to end; returns what happened.
fn play_until_interrupted(
    inside: &Inside<'_>,
    scenario: &Scenario,
    control: Option<&UnixListener>,
) -> String {
    let stage = Stage {
        cluster: inside.cluster,
        scenario,
        // A lab that is only up has no jobs running.
        process_of: &|_, _| None,
    };
    let mut events = String::new();
    let mut log = |line: &str| {
        eprintln!("{line}");
        events.push_str(line);
        events.push('\n');
    };
    let mut log_event = |event: &Event| log(&event.to_string());
    match control {
        Some(control) => play_stepped(&stage, control, inside.interrupt, log_event),
        // A lab that is asked to end does not wait for the faults that were still to come.
        None => {
            let _ = play_during(
                &stage,
                |event| log_event(&event),
                || inside.interrupt.wait(),
            );
        }
    }
    let account = inside.cluster.wires().account(inside.cluster.fabric());
    account.iter().for_each(|line| log(line));
    events
}

/// Result of `up`.
#[derive(Serialize)]
struct CameUp<'a> {
    lab: &'a str,
    elapsed_ms: f64,
    nodes: Vec<Node<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    opticals: Vec<Optical<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    station: Option<Ipv4Addr>,
    links: usize,
    features: &'a [Feature],
    missing: Vec<Feature>,
    means: Vec<String>,
}

#[derive(Serialize)]
struct Node<'a> {
    name: &'a str,
    role: Role,
    address: Ipv4Addr,
    /// Address on the management network.
    #[serde(skip_serializing_if = "Option::is_none")]
    management: Option<Ipv4Addr>,
    /// Folder of the FRR that sets its routes, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    frr: Option<PathBuf>,
}

#[derive(Serialize)]
struct Optical<'a> {
    name: &'a str,
    ports: u16,
    /// Address on the management network.
    #[serde(skip_serializing_if = "Option::is_none")]
    management: Option<Ipv4Addr>,
}

impl<'a> CameUp<'a> {
    fn new(lab: &'a str, cluster: &'a Cluster, elapsed: Duration) -> Self {
        let node = |(id, node): (_, &'a reweave_common::fabric::Node)| Node {
            name: &node.name,
            role: node.role,
            address: cluster.address(id),
            management: cluster.management_address(id),
            frr: cluster.frr_folder(id),
        };
        let optical = |(id, optical): (_, &'a OpticalSwitch)| Optical {
            name: &optical.name,
            ports: optical.ports,
            management: cluster.optical_address(id),
        };
        Self {
            lab,
            elapsed_ms: elapsed.as_secs_f64() * 1e3,
            nodes: cluster.fabric().nodes().map(node).collect(),
            opticals: cluster.fabric().opticals().map(optical).collect(),
            station: cluster.station_address(),
            links: cluster.fabric().links().len(),
            features: cluster.features().found(),
            missing: cluster.features().missing(),
            means: cluster.wires().means(),
        }
    }

    /// Formats the text output. `alone` says whether commands need not name the lab.
    fn text(&self, alone: bool) -> String {
        let (hosts, switches) = self.split();
        let mut text = format!(
            "lab {} is up in {:.2} s: {} hosts, {} switches, {} links\n\n",
            self.lab,
            self.elapsed_ms / 1e3,
            hosts.len(),
            switches.len(),
            self.links
        );
        for (title, nodes) in [("hosts", &hosts), ("switches", &switches)] {
            if let Some(range) = range(nodes) {
                let _ = writeln!(text, "  {title:<9} {range}");
            }
        }
        if let Some(station) = self.station {
            let _ = writeln!(
                text,
                "  {:<9} {station}, from which all are reached as NODE.mgmt",
                "station"
            );
        }
        text.push_str(&self.kernel());
        text.push_str(&self.hints(hosts.first().map_or("h0", |host| host.name), alone));
        text
    }

    fn split(&self) -> (Vec<&Node<'a>>, Vec<&Node<'a>>) {
        let nodes = self.nodes.iter();
        nodes.partition(|node| node.role.is_endpoint())
    }

    fn kernel(&self) -> String {
        let found: Vec<_> = self.features.iter().map(Feature::to_string).collect();
        let mut text = format!("  {:<9} has {}\n", "kernel", found.join(", "));
        for feature in &self.missing {
            let _ = writeln!(text, "  {:<9} lacks {feature}: {}", "", feature.advice());
        }
        let _ = writeln!(text, "  {:<9} {}", "means", self.means.join(", "));
        text
    }

    fn hints(&self, host: &str, alone: bool) -> String {
        let program = env::args().next().unwrap_or_else(|| "reweave-lab".into());
        let lab = self.lab;
        let which = if alone {
            String::new()
        } else {
            format!("--lab {lab} ")
        };
        format!(
            "\n  enter a host:  {program} exec {which}{host} -- bash\n  \
             end the lab:   {program} down {lab}\n"
        )
    }
}

/// `h0 10.0.0.0 ... h3 10.0.0.3`
fn range(nodes: &[&Node<'_>]) -> Option<String> {
    let one = |node: &Node<'_>| format!("{} {}", node.name, node.address);
    match nodes {
        [] => None,
        [only] => Some(one(only)),
        [first, last] => Some(format!("{}, {}", one(first), one(last))),
        [first, .., last] => Some(format!("{} ... {}", one(first), one(last))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, role: Role) -> Node<'_> {
        Node {
            name,
            role,
            address: Ipv4Addr::new(10, 0, 0, 7),
            management: None,
            frr: None,
        }
    }

    #[test]
    fn up_reports_nodes_and_missing_means() {
        let came_up = CameUp {
            lab: "small",
            elapsed_ms: 123.4,
            nodes: vec![node("alpha", Role::Relay), node("leaf0", Role::Switch)],
            opticals: vec![],
            links: 1,
            station: Some(Ipv4Addr::new(10, 255, 0, 1)),
            features: &[Feature::Tbf],
            missing: vec![Feature::Netem],
            means: vec!["rate: tbf".into(), "loss: nft numgen on 1 link".into()],
        };
        let text = came_up.text(false);
        for part in [
            "lab small is up in 0.12 s: 1 hosts, 1 switches, 1 links",
            "hosts     alpha 10.0.0.7\n",
            "station   10.255.0.1, from",
            "has tbf\n",
            "lacks netem: a program",
            "means     rate: tbf, loss: nft numgen on 1 link\n",
            "exec --lab small alpha -- bash",
            "down small\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!came_up.text(true).contains("--lab"));
    }
}
