//! Three coordinators, an agent on every host, and the driver of the optical switch.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use reweave_common::operator::{AgentState, Outcome, Plan, Record, RunningChange, Status};
use reweave_tests::{Program, STAGE_TIMEOUT, Stage, settings_of, term_led, wait_for};
use serde::Deserialize;

use crate::scene::{Over, Scene, Thirds};

/// Addresses on the station, each with a port of its own.
const COORDINATOR_ADDRESSES: [&str; 3] = ["10.255.0.1:7332", "10.255.0.1:7342", "10.255.0.1:7352"];
/// Ports of the station for health and metrics.
pub(crate) const PAGE_PORTS: [u16; 3] = [7334, 7344, 7354];
/// Rates on a machine with few processors are unreliable, so rollback by rate is off; held plans are retried soon.
const POLICY_TOML: &str =
    "[policy]\ntolerance = 1.0\nretry_held_after_ms = 3000\nsettle_ms = 100\nreadings = 1\n";
/// The folder of the running driver; commands by hand use another one.
const DRIVER_FOLDER: &str = "driver-in-service";

pub(crate) struct Cluster {
    pub(crate) scene: Scene,
    coordinators: [Option<Program>; 3],
    agents: BTreeMap<String, Program>,
    driver: Option<Program>,
    /// Arguments of every agent.
    words: &'static [&'static str],
}

#[derive(Deserialize)]
struct Answer {
    plan: Plan,
}

impl Cluster {
    /// Starts all programs, and waits until they know each other.
    pub(crate) fn up(over: Over) -> Self {
        Self::on(Scene::up(over))
    }

    pub(crate) fn on(scene: Scene) -> Self {
        Self::of_agents(scene, &[])
    }

    /// The same, with these arguments for all agents.
    pub(crate) fn of_agents(scene: Scene, words: &'static [&'static str]) -> Self {
        let mut cluster = Self {
            scene,
            coordinators: [None, None, None],
            agents: BTreeMap::new(),
            driver: None,
            words,
        };
        for place in 0..COORDINATOR_ADDRESSES.len() {
            cluster.prepare_coordinator(place);
            cluster.start_coordinator(place);
        }
        let nodes: Vec<_> = cluster.stage().nodes().map(str::to_owned).collect();
        nodes.iter().for_each(|node| cluster.start_agent(node));
        cluster
            .stage()
            .certificate("driver", "d0")
            .expect("a certificate");
        let config =
            std::fs::read_to_string(cluster.stage().path("driver.toml")).expect("it is there");
        let config = config.replace("/driver\"", &format!("/{DRIVER_FOLDER}\""));
        cluster
            .stage()
            .write("service.toml", &config)
            .expect("a file");
        cluster.start_driver();
        let watching = cluster
            .scene
            .0
            .watch_events_at(&COORDINATOR_ADDRESSES.join(","));
        watching.expect("it watches");
        cluster.wait_until_known();
        cluster
    }

    fn stage(&self) -> &Stage {
        &self.scene.0
    }

    fn prepare_coordinator(&self, place: usize) {
        let stage = self.stage();
        stage
            .certificate("coordinator", &format!("c{place}"))
            .expect("a certificate");
        let addresses = COORDINATOR_ADDRESSES.map(str::to_owned);
        let identities = "certificates/coordinators/";
        let settings = settings_of(place, &addresses, "two-leaves.toml", identities);
        let page = format!("http = \"127.0.0.1:{}\"\n", PAGE_PORTS[place]);
        let settings = page + &settings + POLICY_TOML + &stage.driver_tables();
        stage
            .write(&format!("c{place}.toml"), &settings)
            .expect("a file");
    }

    pub(crate) fn start_coordinator(&mut self, place: usize) {
        let stage = self.stage();
        let mut run = stage.inside(Stage::STATION_NAME, stage.programs().coordinator());
        run.args(["run", "--config"]);
        run.arg(stage.path(&format!("c{place}.toml")));
        let started = stage.start(&format!("c{place}"), run);
        self.coordinators[place] = Some(started.expect("it starts"));
    }

    pub(crate) fn start_agent(&mut self, node: &str) {
        self.start_agent_with(node, self.words);
    }

    pub(crate) fn start_agent_with(&mut self, node: &str, words: &[&str]) {
        let stage = self.stage();
        let mut run = stage.inside(node, stage.programs().agent());
        run.args(["run", "--interval-ms", "100", "--identity"]);
        run.arg(stage.path("certificates/agents").join(node));
        run.arg("--state").arg(stage.path("state").join(node));
        run.args(words);
        coordinators(&mut run);
        let started = stage.start(&format!("agent-{node}"), run);
        let started = started.expect("it starts");
        self.agents.insert(node.to_owned(), started);
    }

    pub(crate) fn start_driver(&mut self) {
        let stage = self.stage();
        let mut run = stage.inside(Stage::STATION_NAME, stage.programs().driver());
        run.arg("--config").arg(stage.path("service.toml"));
        run.args(["run", "--identity"]);
        run.arg(stage.path("certificates/drivers/d0"));
        coordinators(&mut run);
        let started = stage.start("driver", run);
        self.driver = Some(started.expect("it starts"));
    }

    pub(crate) fn kill_driver(&mut self) {
        self.driver = None;
    }

    pub(crate) fn agent(&self, node: &str) -> &Program {
        &self.agents[node]
    }

    pub(crate) fn kill_agent(&mut self, node: &str) {
        self.agents.remove(node);
    }

    /// Kills the leader, and returns its index.
    pub(crate) fn kill_leader(&mut self) -> usize {
        let place = wait_for("a coordinator leads", STAGE_TIMEOUT, || Ok(self.leader()));
        let place = place.expect("a coordinator leads");
        self.coordinators[place] = None;
        place
    }

    pub(crate) fn kill_coordinators(&mut self) {
        self.coordinators = [None, None, None];
    }

    pub(crate) fn start_coordinators(&mut self) {
        (0..COORDINATOR_ADDRESSES.len()).for_each(|place| self.start_coordinator(place));
    }

    /// Waits for a leader: only an elected one answers.
    pub(crate) fn wait_until_led(&self) {
        wait_for("a coordinator leads", STAGE_TIMEOUT, || {
            Ok(self.status().map(drop))
        })
        .expect("a coordinator leads");
    }

    fn leader(&self) -> Option<usize> {
        let term = |place: usize| term_led(&self.stage().said(&format!("c{place}")));
        let led =
            (0..COORDINATOR_ADDRESSES.len()).filter(|place| self.coordinators[*place].is_some());
        let led = led.filter_map(|place| Some((term(place)?, place)));
        led.max().map(|(_, place)| place)
    }

    #[track_caller]
    pub(crate) fn wait_until_known(&self) {
        wait_for("agents and the driver are there", STAGE_TIMEOUT, || {
            let status = self.status();
            let is_complete = |status: &Status| {
                let mut agents = status.agents.iter();
                let mut driven = status.opticals.iter().map(|optical| optical.is_driven);
                agents.all(|it| it.state == AgentState::Up) && driven.all(|is_driven| is_driven)
            };
            Ok(status.filter(is_complete).map(drop))
        })
        .unwrap_or_else(|error| {
            panic!(
                "{error}: {:?}\n{}",
                self.status(),
                self.stage().said("driver")
            )
        });
    }

    pub(crate) fn status(&self) -> Option<Status> {
        let output = self.reweave(&["status"]);
        serde_json::from_slice(&output.stdout).ok()
    }

    /// An operator's command to the cluster, through any coordinator.
    pub(crate) fn reweave(&self, words: &[&str]) -> Output {
        let words = [&["--output", "json"], words].concat();
        let operator = self.stage().operator();
        let mut command = operator.command_at(&COORDINATOR_ADDRESSES.join(","), &words);
        command.output().expect("it was built")
    }

    /// The plan that leads to this state.
    #[track_caller]
    pub(crate) fn plan(&self, thirds: Thirds) -> Plan {
        answered(&self.offer(thirds))
    }

    /// The plan that repairs what was found.
    #[track_caller]
    pub(crate) fn plan_repair(&self) -> Plan {
        answered(&self.reweave(&["plan"]))
    }

    #[track_caller]
    pub(crate) fn wait_until_alarms(&self, what: &str, is_so: impl Fn(&[String]) -> bool) {
        let found = || {
            let alarms = self.status().map(|it| it.alarms);
            Ok(alarms.filter(|alarms| is_so(alarms)).map(drop))
        };
        wait_for(what, STAGE_TIMEOUT, found)
            .unwrap_or_else(|error| panic!("{error}: {:?}", self.status()));
    }

    pub(crate) fn offer(&self, thirds: Thirds) -> Output {
        let wish = format!("ocs0={}", thirds.circuits());
        self.reweave(&["plan", "circuits", &wish])
    }

    /// Applies the plan, and returns its record.
    #[track_caller]
    pub(crate) fn apply(&self, plan: &Plan) -> Record {
        let output = self.reweave(&["apply", &plan.generation.to_string()]);
        let record = serde_json::from_slice(&output.stdout);
        record.unwrap_or_else(|_| panic!("{output:?}\n{}", self.stage().said("driver")))
    }

    /// Starts the plan, and returns as soon as the cluster has accepted it.
    #[track_caller]
    pub(crate) fn begin(&self, plan: &Plan) {
        let output = self.reweave(&["apply", &plan.generation.to_string(), "--no-wait"]);
        assert!(output.status.success(), "{output:?}");
    }

    /// Holds, resumes or aborts the plan as an operator.
    #[track_caller]
    pub(crate) fn steer(&self, how: &str, plan: &Plan) {
        let output = self.reweave(&[how, &plan.generation.to_string()]);
        assert!(output.status.success(), "{output:?}");
    }

    #[track_caller]
    pub(crate) fn wait_until_change(&self, plan: &Plan, is_so: impl Fn(&RunningChange) -> bool) {
        let found = || {
            let changes = self.status().map(|it| it.changes).unwrap_or_default();
            let mut changes = changes.iter();
            let own = changes.find(|it| it.generation == plan.generation);
            Ok(own.is_some_and(&is_so).then_some(()))
        };
        wait_for("the plan is so far", STAGE_TIMEOUT, found)
            .unwrap_or_else(|error| panic!("{error}: {:?}", self.status()));
    }

    /// The outcome of a started plan, or that it is held.
    #[track_caller]
    pub(crate) fn outcome(&self, plan: &Plan) -> Outcome {
        self.outcome_that(plan, |outcome| *outcome != Outcome::Running)
    }

    #[track_caller]
    pub(crate) fn ended(&self, plan: &Plan) -> Outcome {
        let is_over = |it: &Outcome| !it.is_open() && !matches!(it, Outcome::Held { .. });
        self.outcome_that(plan, is_over)
    }

    #[track_caller]
    fn outcome_that(&self, plan: &Plan, is_it: impl Fn(&Outcome) -> bool) -> Outcome {
        let awaited = wait_for("what comes of the plan", STAGE_TIMEOUT, || {
            Ok(self.record(plan).map(|it| it.outcome).filter(&is_it))
        });
        awaited.unwrap_or_else(|error| panic!("{error}: {:#?}", self.record(plan)))
    }

    fn record(&self, plan: &Plan) -> Option<Record> {
        let output = self.reweave(&["history"]);
        let history: History = serde_json::from_slice(&output.stdout).ok()?;
        let mut records = history.history.into_iter();
        records.find(|record| record.plan.generation == plan.generation)
    }

    /// How often the driver's log has these words.
    pub(crate) fn driver_said(&self, words: &str) -> usize {
        let said = self.stage().said("driver");
        said.lines().filter(|line| line.contains(words)).count()
    }

    pub(crate) fn wait_until_driver_said(&self, words: &str, times: usize) {
        let enough = || Ok((self.driver_said(words) >= times).then_some(()));
        wait_for("the driver says so", STAGE_TIMEOUT, enough).expect("it does");
    }
}

#[derive(Deserialize)]
struct History {
    history: Vec<Record>,
}

#[track_caller]
fn answered(output: &Output) -> Plan {
    let answer = serde_json::from_slice::<Answer>(&output.stdout);
    answer.unwrap_or_else(|_| panic!("{output:?}")).plan
}

fn coordinators(run: &mut Command) {
    for address in COORDINATOR_ADDRESSES {
        run.args(["--coordinator", address]);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for name in [
                "c0", "c1", "c2", "driver", "agent-h0", "agent-h1", "agent-h2", "agent-h3",
            ] {
                let said = self.stage().said(name);
                let lines: Vec<_> = said.lines().collect();
                let last = &lines[lines.len().saturating_sub(12)..];
                eprintln!("--- {name}\n{}", last.join("\n"));
            }
        }
    }
}
