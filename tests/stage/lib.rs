//! A stage for the whole product: a virtual cluster with a coordinator and an agent on every node,
//! and jobs that run on it. The system's tests and the demo play on it.
//!
//! Everything is driven from outside, by the commands that people use. What the product claims is
//! held against what the lab's own ranks and kernels say.

mod coordinators;
mod error;
mod job;
mod loss;
mod notifier;
mod operator;
mod program;
mod programs;
mod wait;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use reweave_common::fabric::{Fabric, Role};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::time_span::TimeSpan;
use serde_json::Value;
use tempfile::TempDir;

pub use coordinators::{settings_of, term_led};
pub use error::StageError;
pub use job::{FlowProgress, FlowReport, Job, JobReport, Progress};
pub use loss::Loss;
use notifier::CLUSTER_EVENTS;
pub use operator::{Applied, Operator};
pub use program::{FrozenNode, Program};
pub use programs::Programs;
pub use wait::{STAGE_TIMEOUT, wait_for};

/// Where the coordinator listens.
const COORDINATOR_ADDRESS: &str = "10.255.0.1:7332";

/// What a stage is built from.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'t> {
    /// A scenario with `management = true` that names the fabric file `two-leaves.toml`.
    pub scenario: &'t str,
    pub fabric: &'t str,
}

impl Setting<'static> {
    /// Two flows that collide, and a job that may come later.
    pub const DEMO_SETTING: Self = Self {
        scenario: include_str!("../lab/scenarios/demo.toml"),
        fabric: include_str!("../lab/scenarios/two-leaves.toml"),
    };
}

/// Whose labs these are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Labs {
    /// Known to no other: tests run side by side.
    Hidden,
    /// The user's, who may look around in them.
    Users,
}

/// How the coordinator is started.
#[derive(Debug, Clone, Default)]
pub struct Leadership {
    /// Whether it carries plans out by itself.
    pub auto: bool,
    /// The file name of a recording to make.
    pub record: Option<String>,
    /// Lines for the `[policy]` table.
    pub policy: String,
    /// Tables of its file besides.
    pub tables: String,
    /// Lines at the head of its file, before all tables.
    pub head: String,
}

/// Rates vary on a busy machine: plans are not rolled back for a lower rate, there is time for all readings, and
/// instructions are not resent early. What the flows of a plan gain on the average of its readings counts all the same.
pub const NO_RATE_ROLLBACK_POLICY: &str =
    "tolerance = 1.0\nverify_within_ms = 60000\nanswer_within_ms = 10000\n";

impl Leadership {
    /// For tests that are not about the verification of plans.
    pub fn without_rate_rollback() -> Self {
        Self {
            policy: NO_RATE_ROLLBACK_POLICY.to_owned(),
            ..Self::default()
        }
    }
}

/// A cluster that is up. It goes when this is dropped, and so does everything on it.
#[derive(Debug)]
pub struct Stage {
    programs: Programs,
    /// What coordinators and agents are started from.
    daemons: Programs,
    home: TempDir,
    labs: Labs,
    name: String,
    fabric: Fabric,
    bring_up: Duration,
    /// Where the FRR of a switch listens, of those whose routes one makes.
    frr: BTreeMap<String, String>,
    coordinator: Option<Program>,
    /// Those that lead together, if it is not one alone.
    trio: Vec<Program>,
    /// `reweave watch`: its lines are the cluster's events.
    watch: Option<Program>,
    agents: BTreeMap<String, Program>,
}

impl Stage {
    /// Where the coordinator runs, and operators are.
    pub const STATION_NAME: &str = "station";

    /// Brings up the cluster and makes certificates for all of its nodes; nothing runs on it yet.
    pub fn up(setting: Setting<'_>, labs: Labs) -> Result<Self, StageError> {
        let home = tempfile::Builder::new().prefix("reweave-stage-").tempdir();
        let home = home.map_err(|source| StageError::Files {
            path: std::env::temp_dir(),
            source,
        })?;
        let fabric = Fabric::parse("two-leaves.toml", setting.fabric)?;
        let programs = Programs::beside_this()?;
        let mut stage = Self {
            daemons: programs.clone(),
            programs,
            name: String::new(),
            home,
            labs,
            fabric,
            bring_up: Duration::ZERO,
            frr: BTreeMap::new(),
            coordinator: None,
            trio: Vec::new(),
            watch: None,
            agents: BTreeMap::new(),
        };
        stage.write("two-leaves.toml", setting.fabric)?;
        let scenario = stage.write("demo.toml", setting.scenario)?;
        stage.bring_up(&scenario)?;
        stage.make_certificates()?;
        Ok(stage)
    }

    /// How long the cluster took to come up.
    pub fn took(&self) -> Duration {
        self.bring_up
    }

    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// A place in the folder that goes with the stage.
    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Coordinators and agents that start from now on are these.
    pub fn run_daemons(&mut self, daemons: Programs) {
        self.daemons = daemons;
    }

    /// Where the FRR of a switch listens, if one makes its routes.
    pub fn frr(&self, switch: &str) -> Option<&str> {
        self.frr.get(switch).map(String::as_str)
    }

    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.fabric.nodes().map(|(_, node)| node.name.as_str())
    }

    /// Starts the coordinator, or starts it again, and waits until it answers.
    pub fn lead(&mut self, leadership: &Leadership) -> Result<(), StageError> {
        let config = format!(
            "{}fabric = \"two-leaves.toml\"\nlisten = \"{COORDINATOR_ADDRESS}\"\nidentity = \
             \"certificates/coordinator\"\ndata = \"data\"\n\n[policy]\n{}\n{}\n{}",
            leadership.head,
            leadership.policy,
            leadership.tables,
            self.driver_tables()
        );
        let config = self.write("coordinator.toml", &config)?;
        let mut command = self.inside(Self::STATION_NAME, self.daemons.coordinator());
        command.arg("run").arg("--config").arg(config);
        if leadership.auto {
            command.args(["--mode", "auto"]);
        }
        if let Some(name) = &leadership.record {
            command.arg("--record").arg(self.path(name));
        }
        // The old one first lets go of its address.
        drop(self.coordinator.take());
        let mut coordinator = self.start("coordinator", command)?;
        wait_for("the coordinator answers", STAGE_TIMEOUT, || {
            coordinator.expect_running()?;
            Ok(self.operator().status().ok())
        })?;
        self.coordinator = Some(coordinator);
        self.watch_events()
    }

    /// From now on the cluster's events wake `wait_for`, across restarts and elections of coordinators.
    pub(crate) fn watch_events(&mut self) -> Result<(), StageError> {
        let coordinators = self.coordinated_at().join(",");
        self.watch_events_at(&coordinators)
    }

    /// The same for the cluster that these coordinators lead.
    pub fn watch_events_at(&mut self, coordinators: &str) -> Result<(), StageError> {
        if self.watch.is_none() {
            let words = ["--output", "json", "watch", "--every-ms", "100"];
            let mut command = self.operator().command_at(coordinators, &words);
            command.stderr(self.log("watch")?);
            let notify = |_line| CLUSTER_EVENTS.notify();
            self.watch = Some(Program::start_reading("watch", command, notify)?);
        }
        Ok(())
    }

    pub fn coordinator(&mut self) -> Result<&mut Program, StageError> {
        let name = "the coordinator";
        self.coordinator
            .as_mut()
            .ok_or(StageError::NotStarted { name })
    }

    /// Starts an agent on every node.
    pub fn start_agents(&mut self) -> Result<(), StageError> {
        let nodes: Vec<_> = self.nodes().map(str::to_owned).collect();
        nodes.iter().try_for_each(|node| self.start_agent(node))
    }

    /// In place of the one that may be running there.
    pub fn start_agent(&mut self, node: &str) -> Result<(), StageError> {
        self.start_agent_under(node, &[])
    }

    /// The same with a program in front that takes something from it.
    pub fn start_agent_under(&mut self, node: &str, wrapper: &[&str]) -> Result<(), StageError> {
        let identity = self.path("certificates/agents").join(node);
        let command = self.agent_command(node, wrapper, &identity);
        self.replace_agent(node, command)
    }

    /// The agent of a node, with a certificate from elsewhere.
    pub fn start_agent_as(&mut self, node: &str, identity: &Path) -> Result<(), StageError> {
        let command = self.agent_command(node, &[], identity);
        self.replace_agent(node, command)
    }

    pub fn agent(&mut self, node: &str) -> Result<&mut Program, StageError> {
        let name = "the agent";
        self.agents
            .get_mut(node)
            .ok_or(StageError::NotStarted { name })
    }

    /// Ends the agent of a node, and waits until it is gone.
    pub fn end_agent(&mut self, node: &str) {
        drop(self.agents.remove(node));
    }

    /// Waits until every agent reports and every link is known.
    pub fn wait_until_known(&self) -> Result<(), StageError> {
        wait_for(
            "all agents report and all links are known",
            STAGE_TIMEOUT,
            || {
                let status = self.operator().status()?;
                let known = status.agents.iter().all(|agent| {
                    agent.state == reweave_common::operator::AgentState::Up
                        && agent.known_links == agent.links
                });
                Ok(known.then_some(()))
            },
        )
    }

    /// Starts the driver of an optical switch, and waits until a coordinator knows that it is there.
    pub fn start_driver(&self, optical: &str) -> Result<Program, StageError> {
        let identity = self.certificate("driver", "d0")?;
        let ports = self.fabric.opticals().map(|(_, switch)| switch.ports);
        let config = format!(
            "state = {:?}\n[[optical]]\nname = \"{optical}\"\nports = {}\nspeaks.restconf.url = \
             \"http://{optical}.mgmt\"\n",
            self.path("driver"),
            ports.sum::<u16>()
        );
        let config = self.write("driver.toml", &config)?;
        let mut run = self.inside(Self::STATION_NAME, self.programs.driver());
        run.arg("--config").arg(config).arg("run");
        run.arg("--identity").arg(identity);
        for place in self.coordinated_at() {
            run.args(["--coordinator", &place]);
        }
        let driver = self.start("driver", run)?;
        wait_for("the optical switch is driven", STAGE_TIMEOUT, || {
            let opticals = self.operator().status()?.opticals;
            Ok(opticals.iter().all(|it| it.is_driven).then_some(()))
        })?;
        Ok(driver)
    }

    /// Asks the coordinator, with an operator's certificate.
    pub fn operator(&self) -> Operator<'_> {
        Operator::new(self)
    }

    /// Starts a job of the scenario; it runs until it is stopped.
    pub fn job(&self, name: &str) -> Result<Job, StageError> {
        let mut command = self.lab(&["job", "--lab", &self.name, name, "--output", "json"]);
        command.stderr(self.log(&format!("job-{name}"))?);
        Job::start(name, command)
    }

    /// What a command prints in a node; it must succeed.
    pub fn output(&self, node: &str, words: &[&str]) -> Result<String, StageError> {
        let mut command = self.inside(node, words.first().map_or("true", |word| word));
        command.args(words.iter().skip(1));
        program::output(&mut command)
    }

    /// What the port of a node that leads to a neighbour has sent so far, by its kernel.
    pub fn sent_bytes(&self, node: &str, to: &str) -> Result<u64, StageError> {
        let file = format!("/sys/class/net/{}/statistics/tx_bytes", self.port(node, to));
        let said = self.output(node, &["cat", &file])?;
        Ok(said.trim().parse().expect("a count"))
    }

    /// The near end of the link between a switch and another node goes down.
    pub fn sever(&self, switch: &str, other: &str) -> Result<(), StageError> {
        self.turn(switch, other, "down")
    }

    /// And up again, without the routes that led there.
    pub fn join(&self, switch: &str, other: &str) -> Result<(), StageError> {
        self.turn(switch, other, "up")
    }

    fn turn(&self, switch: &str, other: &str, to: &str) -> Result<(), StageError> {
        let port = self.port(switch, other);
        let words = ["ip", "link", "set", "dev", &port, to];
        self.output(switch, &words).map(drop)
    }

    /// The name of a node's interface towards its neighbour.
    pub fn port(&self, node: &str, to: &str) -> String {
        let fabric = &self.fabric;
        let [near, far] = [node, to].map(|name| fabric.find(name).expect("it is there"));
        let link = fabric.links_between(near, far).next();
        self.port_of(near, link.expect("they are joined"))
    }

    /// What a node calls its end of this link.
    pub fn port_of(&self, near: NodeId, link: LinkId) -> String {
        let fabric = &self.fabric;
        if let Some(fibre) = fabric.fibre_of(near, link) {
            return fibre.interface.clone();
        }
        let port = fabric.link(link).ports();
        let port = port.into_iter().find(|port| port.node == near);
        let kind = match fabric.node(near).role {
            Role::Switch => "swp",
            Role::Host | Role::Relay => "eth",
        };
        format!("{kind}{}", port.expect("it ends there").index)
    }

    /// All rules and routes of all nodes, as the kernels have them.
    pub fn routing(&self) -> Result<BTreeMap<String, String>, StageError> {
        let ask = ["sh", "-c", "ip rule && ip -d route show table all"];
        let of_node = |node: &str| Ok((node.to_owned(), self.output(node, &ask)?));
        self.nodes().map(of_node).collect()
    }

    /// A program that will run in a node.
    pub fn inside(&self, node: &str, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.enter(node);
        command.arg(program);
        command
    }

    /// What enters a node, and wants a program to run there.
    pub fn enter(&self, node: &str) -> Command {
        self.lab(&["exec", "--lab", &self.name, node, "--"])
    }

    /// A script that stands for a long command, for people; it goes with the stage.
    pub fn shortcut(&self, name: &str, command: &Command) -> Result<PathBuf, StageError> {
        let set = command
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?)));
        let set = set.map(|(name, value)| format!("{}={} ", name.display(), quoted(value)));
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<_> = words.map(quoted).collect();
        let line = set.collect::<String>() + &words.join(" ");
        let path = self.write(name, &format!("#!/bin/sh\n{line} \"$@\"\n"))?;
        let executable = fs::set_permissions(&path, Permissions::from_mode(0o755));
        executable.map_err(|source| StageError::Files {
            path: path.clone(),
            source,
        })?;
        Ok(path)
    }

    /// Makes certificates that the cluster's own authority did not sign.
    pub fn strangers_certificate(&self, node: &str) -> Result<PathBuf, StageError> {
        let dir = self.path("strangers");
        let mut init = Command::new(self.programs.reweave());
        program::output(init.args(["cluster", "init", "--name", "lab"]).arg(&dir))?;
        self.issue(&dir, "agent", &[node])?;
        Ok(dir.join("agents").join(node))
    }

    /// A further certificate of this cluster.
    pub fn certificate(&self, role: &str, name: &str) -> Result<PathBuf, StageError> {
        let dir = self.path("certificates");
        self.issue(&dir, role, &[name])?;
        Ok(dir.join(format!("{role}s")).join(name))
    }

    /// What a program that was started here has said on standard error.
    pub fn said(&self, name: &str) -> String {
        fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default()
    }

    fn replace_agent(&mut self, node: &str, command: Command) -> Result<(), StageError> {
        self.end_agent(node);
        let agent = self.start(&format!("agent-{node}"), command)?;
        self.agents.insert(node.to_owned(), agent);
        Ok(())
    }

    fn agent_command(&self, node: &str, wrapper: &[&str], identity: &Path) -> Command {
        let agent = self.daemons.agent();
        let mut command = match wrapper.split_first() {
            None => self.inside(node, agent),
            Some((program, arguments)) => {
                let mut command = self.inside(node, program);
                command.args(arguments).arg(agent);
                command
            }
        };
        command.arg("run");
        for place in self.coordinated_at() {
            command.args(["--coordinator", &place]);
        }
        command.arg("--identity").arg(identity);
        command.arg("--state").arg(self.path("state").join(node));
        command.args(self.role(node));
        if let Some(folder) = self.frr.get(node) {
            command.args(["--routes-by", "frr", "--vty", folder]);
        }
        command
    }

    /// The option that an agent needs, since its kernel forwards as a switch's does.
    fn role(&self, node: &str) -> &'static [&'static str] {
        let role = self.fabric.find(node).map(|it| self.fabric.node(it).role);
        match role {
            Some(Role::Relay) => &["--role", "relay"],
            _ => &[],
        }
    }

    fn bring_up(&mut self, scenario: &Path) -> Result<(), StageError> {
        let mut up = self.lab(&["up", "--detach", "--output", "json"]);
        let came_up = program::output(up.arg(scenario))?;
        let came_up: Value = serde_json::from_str(&came_up).map_err(StageError::Json)?;
        self.name = came_up["lab"].as_str().unwrap_or("demo").to_owned();
        let millis = came_up["elapsed_ms"].as_f64().unwrap_or(0.0);
        self.bring_up = TimeSpan::from_secs_f64(millis / 1e3).get();
        let nodes = came_up["nodes"].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let by_frr = nodes.filter_map(|node| Some((text(&node["name"])?, text(&node["frr"])?)));
        self.frr = by_frr.collect();
        Ok(())
    }

    fn make_certificates(&self) -> Result<(), StageError> {
        let dir = self.path("certificates");
        let mut init = Command::new(self.programs.reweave());
        program::output(init.args(["cluster", "init", "--name", "lab"]).arg(&dir))?;
        let nodes: Vec<_> = self.nodes().collect();
        self.issue(&dir, "agent", &nodes)
    }

    fn issue(&self, dir: &Path, role: &str, names: &[&str]) -> Result<(), StageError> {
        let mut issue = Command::new(self.programs.reweave());
        issue.args(["cluster", "issue", "--role", role, "--dir"]);
        issue.arg(dir).arg("--name").args(names);
        program::output(&mut issue).map(drop)
    }

    /// `reweave-lab` with these arguments.
    fn lab(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.programs.lab());
        command.args(arguments).stdin(Stdio::null());
        if self.labs == Labs::Hidden {
            command.env("XDG_RUNTIME_DIR", self.home.path());
        }
        command
    }

    /// Starts a program in the background; what it says is kept under this name.
    pub fn start(&self, name: &str, mut command: Command) -> Result<Program, StageError> {
        command.stdout(Stdio::null()).stderr(self.log(name)?);
        Program::start(name, command)
    }

    /// What it writes to standard output is what it says, too.
    pub fn start_heard(&self, name: &str, mut command: Command) -> Result<Program, StageError> {
        command.stdout(self.log(name)?).stderr(self.log(name)?);
        Program::start(name, command)
    }

    /// All that was ever said under this name, one run after the other.
    fn log(&self, name: &str) -> Result<File, StageError> {
        let path = self.path(&format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&path);
        file.map_err(|source| StageError::Files { path, source })
    }

    /// A file in the folder that goes with the stage.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, StageError> {
        let path = self.path(name);
        match fs::write(&path, text) {
            Ok(()) => Ok(path),
            Err(source) => Err(StageError::Files { path, source }),
        }
    }

    /// What all programs said, to find out why something went wrong.
    fn write_all_lines(&self) {
        let names = (0..self.trio.len()).map(coordinators::name);
        let names = ["coordinator", "watch"]
            .map(str::to_owned)
            .into_iter()
            .chain(names);
        let agents = self.nodes().map(|node| format!("agent-{node}"));
        for name in names.chain(agents).chain(self.started_jobs()) {
            let said = self.said(&name);
            let lines: Vec<_> = said.lines().collect();
            let last = &lines[lines.len().saturating_sub(12)..];
            eprintln!("--- {name}\n{}", last.join("\n"));
        }
    }

    /// By the names of their logs, in the order of these.
    fn started_jobs(&self) -> Vec<String> {
        let files = fs::read_dir(self.home.path()).into_iter().flatten();
        let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
        let logs = names.filter_map(|name| name.strip_suffix(".log").map(str::to_owned));
        let mut jobs: Vec<_> = logs.filter(|log| log.starts_with("job-")).collect();
        jobs.sort();
        jobs
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.write_all_lines();
        }
        self.watch = None;
        self.agents.clear();
        self.coordinator = None;
        self.trio.clear();
        if !self.name.is_empty() {
            let _ = program::output(&mut self.lab(&["down", &self.name]));
        }
    }
}

/// As a shell reads it: as one word, of any content.
fn quoted(word: &OsStr) -> String {
    format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"))
}
