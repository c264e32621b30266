//! A fleet of empty machines, and the playbooks that are played to it from the station.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use reweave_tests::{Job, Labs, Program, STAGE_TIMEOUT, Setting, Stage, wait_for};
use serde_json::Value;

use super::machine::Machine;
use super::system;

const COORDINATOR_NODES: [&str; 3] = ["h1", "h2", "h3"];
const AGENT_NODES: [&str; 4] = ["h0", "h4", "h5", "leaf0"];
const PACKAGED_PROGRAMS: [&str; 4] = [
    "reweave",
    "reweave-agent",
    "reweave-coordinator",
    "libnccl_profiler_reweave.so",
];
/// Without those at their other ends, links of a leaf are not known: agents run there as they would by hand.
const MANUAL_AGENT_NODES: [&str; 3] = ["leaf1", "spine0", "spine1"];
/// A system of this many services is up within this, also beside others.
const BOOT_TIMEOUT: Duration = Duration::from_secs(120);

const FLEET_SETTING: Setting<'_> = Setting {
    scenario: include_str!("fleet.toml"),
    fabric: Setting::DEMO_SETTING.fabric,
};

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/ansible")
}

/// What lies in the folder that the programs are taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Release {
    First,
    /// The same programs with a byte behind their end.
    Second,
    /// Its agent ends at once.
    WithoutAnAgent,
}

#[derive(Debug)]
pub(crate) struct Fleet {
    // Machines go before the networks they are in.
    _machines: Vec<Machine>,
    stage: Stage,
}

impl Fleet {
    /// When this returns, all of them let the station in.
    pub(crate) fn of_empty_machines() -> Self {
        let system = system::made();
        let stage = Stage::up(FLEET_SETTING, Labs::Hidden).expect("a lab");
        let mut make_key = Command::new("ssh-keygen");
        make_key.args(["-q", "-t", "ed25519", "-N", "", "-f"]);
        done(make_key.arg(stage.path("key")));
        let key = stage.path("key.pub");
        let nodes = COORDINATOR_NODES.iter().chain(&AGENT_NODES);
        let machines = nodes.map(|node| Machine::boot(&stage, node, &system, &key));
        let fleet = Self {
            _machines: machines.collect(),
            stage,
        };
        fleet.offer(Release::First);
        fleet.write_inventory();
        for node in COORDINATOR_NODES.iter().chain(&AGENT_NODES) {
            let up = || Ok(fleet.reach(node, "true").status.success().then_some(()));
            wait_for(&format!("{node} is up"), BOOT_TIMEOUT, up).expect("it boots");
        }
        fleet
    }

    pub(crate) fn offer(&self, release: Release) {
        let folder = self.stage.path("programs");
        fs::create_dir_all(&folder).expect("a folder of our own");
        let built = self.stage.programs().agent();
        for program in PACKAGED_PROGRAMS {
            let offered = folder.join(program);
            let mut strip = Command::new("strip");
            done(
                strip
                    .arg("-o")
                    .arg(&offered)
                    .arg(built.with_file_name(program)),
            );
            if release == Release::Second {
                let mut content = fs::read(&offered).expect("it was just written");
                content.push(0);
                fs::write(&offered, content).expect("a file of our own");
            }
        }
        if release == Release::WithoutAnAgent {
            fs::write(folder.join("reweave-agent"), "#!/bin/false\n").expect("a file of our own");
        }
    }

    fn write_inventory(&self) {
        let path = |name: &str| self.stage.path(name).display().to_string();
        let host = |node: &&str| (node.to_string(), self.facts(node));
        let group = |nodes: &[&str]| nodes.iter().map(host).collect::<serde_json::Map<_, _>>();
        let inventory = serde_json::json!({ "reweave": {
            "vars": {
                "ansible_user": "root",
                "ansible_ssh_private_key_file": path("key"),
                "ansible_ssh_common_args": SSH_OPTIONS.join(" "),
                "ansible_python_interpreter": "/usr/bin/python3",
                "reweave_programs": path("programs"),
                "reweave_cluster": "fleet",
                "reweave_authority": path("authority"),
                "reweave_fabric": path("two-leaves.toml"),
                "reweave_agents_at_once": 2,
            },
            "children": {
                "reweave_coordinators": { "hosts": group(&COORDINATOR_NODES) },
                "reweave_agents": { "hosts": group(&AGENT_NODES) },
            },
        }});
        // What is JSON is YAML too.
        let written = self.stage.write("inventory.yml", &inventory.to_string());
        written.expect("a file of our own");
    }

    fn facts(&self, node: &str) -> Value {
        let address = self.address(node);
        serde_json::json!({ "ansible_host": address, "reweave_address": address })
    }

    fn address(&self, node: &str) -> String {
        let shown = ["ip", "-4", "-o", "address", "show", "dev", "mgmt0"];
        let shown = self.stage.output(node, &shown).expect("an address");
        let address = shown.split_whitespace().nth(3).expect("an address");
        address.split('/').next().unwrap_or(address).to_owned()
    }

    pub(crate) fn play(&self, playbook: &str, more: &[&str]) -> Played {
        let mut ansible = self.stage.inside(Stage::STATION_NAME, "ansible-playbook");
        ansible.arg("-i").arg(self.stage.path("inventory.yml"));
        ansible.arg(playbook).args(more).current_dir(folder());
        ansible
            .env("HOME", self.stage.path("home"))
            .env("ANSIBLE_FORKS", "4");
        eprintln!("playing {playbook} {}", more.join(" "));
        Played(ansible.output().expect("it starts"))
    }

    /// What a machine says to this line of a shell.
    pub(crate) fn on(&self, node: &str, line: &str) -> String {
        let output = self.reach(node, line);
        assert!(output.status.success(), "{node}: {line}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn reach(&self, node: &str, line: &str) -> Output {
        let mut ssh = self.stage.inside(Stage::STATION_NAME, "ssh");
        ssh.args(SSH_OPTIONS).arg("-i").arg(self.stage.path("key"));
        ssh.arg(format!("root@{node}.mgmt")).arg(line);
        ssh.output().expect("ssh starts")
    }

    pub(crate) fn release_in_use(&self, node: &str) -> String {
        let now = self.on(node, "readlink /usr/lib/reweave/now");
        now.trim().to_owned()
    }

    pub(crate) fn coordinators_processes(&self) -> Vec<String> {
        let of = |node: &&str| self.on(node, &shown("MainPID"));
        COORDINATOR_NODES.iter().map(of).collect()
    }

    /// From when each was asked to end until it was ready again, in the order in which that was, in microseconds of the
    /// clock that all machines have in common.
    pub(crate) fn times_without_a_coordinator(&self) -> Vec<Range<u64>> {
        let at = |node: &str, property: &str| {
            let said = self.on(node, &shown(property));
            let at = said.trim().parse::<u64>();
            at.unwrap_or_else(|_| panic!("{node}: {property} is {said:?}"))
        };
        let away = |node: &&str| {
            at(node, "ActiveExitTimestampMonotonic")..at(node, "ActiveEnterTimestampMonotonic")
        };
        let mut times: Vec<_> = COORDINATOR_NODES.iter().map(away).collect();
        times.sort_by_key(|away| away.start);
        for away in &times {
            assert!(0 < away.start && away.start < away.end, "{times:?}");
        }
        times
    }

    pub(crate) fn pins_of(&self, node: &str) -> String {
        self.on(node, "ip rule show proto 213")
    }

    /// As the cluster's operator, whose certificate was made with its authority.
    fn ask(&self, words: &[&str]) -> Option<Value> {
        let all = COORDINATOR_NODES.map(|node| self.address(node)).join(",");
        let program = self.stage.programs().reweave();
        let mut ask = self.stage.inside(Stage::STATION_NAME, program);
        ask.arg(format!("--coordinator={all}"));
        ask.arg("--identity")
            .arg(self.stage.path("authority/operator"));
        let output = ask.args(["--output", "json"]).args(words).output();
        serde_json::from_slice(&output.expect("it starts").stdout).ok()
    }

    /// Until all agents that belong to the fleet report.
    pub(crate) fn await_agents(&self) {
        let all_up = || {
            let hosts = self.ask(&["hosts"]).unwrap_or_default();
            Ok(AGENT_NODES
                .iter()
                .all(|node| is_up(&hosts, node))
                .then_some(()))
        };
        wait_for("all agents report", STAGE_TIMEOUT, all_up).expect("a whole fleet");
    }

    /// Agents on switches that are no machines of the fleet, with certificates of its authority.
    pub(crate) fn agents_by_hand(&self) -> Vec<Program> {
        let authority = self.stage.path("authority");
        let programs = self.stage.programs();
        let mut issue = Command::new(programs.reweave());
        issue.args(["cluster", "issue", "--role", "agent", "--dir"]);
        done(issue.arg(&authority).arg("--name").args(MANUAL_AGENT_NODES));
        let started = MANUAL_AGENT_NODES.map(|node| {
            let mut agent = self.stage.inside(node, programs.agent());
            agent.arg("run").arg("--identity");
            agent.arg(authority.join("agents").join(node));
            agent
                .arg("--state")
                .arg(self.stage.path(&format!("state-{node}")));
            for coordinator in COORDINATOR_NODES {
                agent.arg("--coordinator").arg(self.address(coordinator));
            }
            let started = self.stage.start(&format!("by-hand-{node}"), agent);
            started.expect("the node is there")
        });
        started.into()
    }

    /// A job whose two flows met on one uplink, and do not any longer.
    pub(crate) fn job_in_two_flows_apart(&self) -> Job {
        let job = self.stage.job("train").expect("it starts");
        let plan = || {
            Ok(self
                .ask(&["plan"])
                .and_then(|plan| plan["plan"]["generation"].as_u64()))
        };
        let plan = wait_for("a plan is offered", STAGE_TIMEOUT, plan).expect("a plan");
        self.ask(&["apply", &plan.to_string()]);
        let pins = self.pins_of("leaf0");
        assert!(pins.contains("lookup"), "plan {plan} left no pin: {pins}");
        job
    }
}

const SSH_OPTIONS: [&str; 6] = [
    "-oStrictHostKeyChecking=no",
    "-oUserKnownHostsFile=/dev/null",
    "-oLogLevel=ERROR",
    "-oConnectTimeout=5",
    "-oBatchMode=yes",
    "-oIdentitiesOnly=yes",
];

fn shown(property: &str) -> String {
    format!("systemctl show --property={property} --value reweave-coordinator")
}

fn is_up(hosts: &Value, node: &str) -> bool {
    let agents = hosts["hosts"].as_array().into_iter().flatten();
    agents
        .filter(|agent| agent["node"] == node)
        .any(|agent| agent["state"] == "up")
}

fn done(command: &mut Command) {
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// What came of a playbook.
#[derive(Debug)]
pub(crate) struct Played(Output);

impl Played {
    pub(crate) fn succeeds(&self) {
        assert!(self.0.status.success(), "{}", self.said());
    }

    pub(crate) fn tells(&self, words: &str) {
        self.succeeds();
        let said = self.said();
        assert!(said.contains(words), "no {words}: {said}");
    }

    pub(crate) fn changes_nothing(&self) {
        self.succeeds();
        let said = self.said();
        let recap = said.lines().filter(|line| line.contains("unreachable="));
        let idle = recap.filter(|line| line.contains(" changed=0 ")).count();
        assert_eq!(idle, COORDINATOR_NODES.len() + AGENT_NODES.len(), "{said}");
    }

    pub(crate) fn fails_with(&self, reason: &str) {
        let said = self.said();
        assert!(!self.0.status.success() && said.contains(reason), "{said}");
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }
}
