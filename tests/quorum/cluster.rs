//! Coordinators c0, c1 and c2 on the hosts h0, h1 and h2, an agent on h3, and people on h4.

use std::process::Command;
use std::sync::Arc;

use reweave_common::error::error_chain;
use reweave_common::operator::{AgentState, Status};
use reweave_tests::{
    Labs, Program, STAGE_TIMEOUT, Setting, Stage, StageError, settings_of, term_led, wait_for,
};

use crate::needs::Need;
use crate::witness::Witness;

const FIVE_HOSTS: Setting<'static> = Setting {
    scenario: "name = 'quorum'\nmanagement = true\nfabric = 'two-leaves.toml'\n",
    fabric: "kind = 'ideal'\nhosts = 5\nnic_gbps = 0.1\n",
};

pub(crate) const LAB_NEEDS: &[Need] = &[Need::Lab];
pub(crate) const AGENT_HOST: &str = "h3";
pub(crate) const OPERATOR_HOST: &str = "h4";
/// The index of a coordinator: 0 to 2.
pub(crate) type Place = usize;

pub(crate) struct Quorum {
    witnesses: Vec<Witness>,
    running: [Option<Program>; 3],
    agent: Option<Program>,
    pub(crate) stage: Arc<Stage>,
}

impl Drop for Quorum {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for place in 0..3 {
                eprintln!("--- c{place}\n{}", self.said(place));
            }
            eprintln!("--- agent\n{}", self.stage.said("agent"));
        }
    }
}

/// Unwraps the value, or fails the test with the reason.
#[track_caller]
pub(crate) fn must<T>(outcome: Result<T, StageError>) -> T {
    outcome.unwrap_or_else(|error| panic!("{}", error_chain(&error)))
}

#[track_caller]
pub(crate) fn wait(what: &str, mut condition: impl FnMut() -> bool) {
    must(wait_for(what, STAGE_TIMEOUT, || {
        Ok(condition().then_some(()))
    }));
}

/// The first addresses belong to the station and the switch.
pub(crate) fn address(host: usize) -> String {
    format!("10.255.0.{}", host + 3)
}

fn port(place: Place) -> String {
    format!("{}:7332", address(place))
}

impl Quorum {
    /// Starts all coordinators and the agent, and waits until they know each other.
    pub(crate) fn up() -> Self {
        Self::up_with(|_| vec![])
    }

    /// The same, with a wrapper before each coordinator's command.
    pub(crate) fn up_with(wrapper: impl Fn(Place) -> Vec<String>) -> Self {
        let mut quorum = Self::empty();
        for place in 0..3 {
            quorum.start_under(place, &wrapper(place));
        }
        quorum.start_agent_under(&[]);
        quorum.wait_for_agent();
        quorum
    }

    fn empty() -> Self {
        let stage = must(Stage::up(FIVE_HOSTS, Labs::Hidden));
        for place in 0..3 {
            must(stage.certificate("coordinator", &format!("c{place}")));
            let name = format!("c{place}.toml");
            let addresses = [0, 1, 2].map(port);
            let identities = "certificates/coordinators/";
            let settings = settings_of(place, &addresses, "two-leaves.toml", identities);
            must(stage.write(&name, &settings));
        }
        Self {
            witnesses: Vec::new(),
            running: [None, None, None],
            agent: None,
            stage: Arc::new(stage),
        }
    }

    pub(crate) fn start(&mut self, place: Place) {
        self.start_under(place, &[]);
    }

    pub(crate) fn start_under(&mut self, place: Place, wrapper: &[String]) {
        let mut run = self.wrapped(place, wrapper, self.stage.programs().coordinator());
        run.args(["run", "--config"]);
        run.arg(self.stage.path(&format!("c{place}.toml")));
        let name = format!("c{place}");
        self.running[place] = Some(must(self.stage.start(&name, run)));
    }

    pub(crate) fn start_agent_under(&mut self, wrapper: &[String]) {
        self.agent = None;
        let mut run = self.wrapped(3, wrapper, self.stage.programs().agent());
        run.arg("run");
        for place in 0..3 {
            run.args(["--coordinator", &port(place)]);
        }
        run.arg("--identity");
        run.arg(self.stage.path("certificates/agents").join(AGENT_HOST));
        run.arg("--state").arg(self.stage.path("state"));
        self.agent = Some(must(self.stage.start("agent", run)));
    }

    fn wrapped(&self, host: usize, wrapper: &[String], program: std::path::PathBuf) -> Command {
        let words = wrapper.iter().map(Into::into);
        let mut words = words.chain([program]);
        let first = words.next().expect("the program itself");
        let mut command = self.stage.inside(&format!("h{host}"), first);
        command.args(words);
        command
    }

    pub(crate) fn kill(&mut self, place: Place) {
        self.running[place] = None;
    }

    pub(crate) fn program(&mut self, place: Place) -> &mut Program {
        self.running[place].as_mut().expect("it runs")
    }

    pub(crate) fn said(&self, place: Place) -> String {
        self.stage.said(&format!("c{place}"))
    }

    /// The coordinators whose last log line says that they lead, with their terms.
    pub(crate) fn leaders(&self) -> Vec<(Place, u64)> {
        let lead = (0..3).filter_map(|place| Some((place, term_led(&self.said(place))?)));
        lead.filter(|(place, _)| self.running[*place].is_some())
            .collect()
    }

    /// The leader in a later term than this one.
    #[track_caller]
    pub(crate) fn leader_after(&self, term: u64) -> (Place, u64) {
        must(wait_for("another leads", STAGE_TIMEOUT, || {
            let latest = self.leaders().into_iter().max_by_key(|(_, term)| *term);
            Ok(latest.filter(|(_, latest)| *latest > term))
        }))
    }

    pub(crate) fn leader(&self) -> (Place, u64) {
        self.leader_after(0)
    }

    /// An operator's command to the cluster, through any coordinator.
    pub(crate) fn reweave(&self) -> Command {
        reweave(&self.stage, &[0, 1, 2].map(port).join(","))
    }

    /// An operator's command to this coordinator alone.
    pub(crate) fn reweave_at(&self, place: Place) -> Command {
        reweave(&self.stage, &port(place))
    }

    pub(crate) fn status(&self) -> Option<Status> {
        status_of(&mut self.reweave())
    }

    /// Starts the operators that make decisions.
    pub(crate) fn decide(&mut self) {
        for name in ["ann", "ben"] {
            let witness = Witness::begin(name, Arc::clone(&self.stage), self.reweave());
            self.witnesses.push(witness);
        }
        self.decide_on();
    }

    /// Waits until each operator has made one more decision.
    #[track_caller]
    pub(crate) fn decide_on(&self) {
        for witness in &self.witnesses {
            let before = witness.count();
            wait("decisions are acknowledged", || witness.count() > before);
        }
    }

    /// Checks that every coordinator knows all acknowledged decisions.
    #[track_caller]
    pub(crate) fn nothing_is_lost(&mut self) {
        let witnesses = std::mem::take(&mut self.witnesses);
        let decided: Vec<_> = witnesses.into_iter().flat_map(Witness::end).collect();
        let status = must(wait_for("an answer", STAGE_TIMEOUT, || Ok(self.status())));
        for name in &decided {
            let is_known = status.revoked.iter().any(|member| member.name == *name);
            assert!(is_known, "{name} was acknowledged, and is lost");
        }
        eprintln!("{} decisions, all kept", decided.len());
    }

    #[track_caller]
    pub(crate) fn wait_for_agent(&self) {
        wait("the agent is there", || {
            let agents = self.status().map(|status| status.agents);
            let mut agents = agents.into_iter().flatten();
            agents.any(|agent| agent.node == AGENT_HOST && agent.state == AgentState::Up)
        });
    }

    /// Runs a command on this host; it must succeed.
    #[track_caller]
    pub(crate) fn on(&self, host: usize, words: &[&str]) {
        must(self.stage.output(&format!("h{host}"), words));
    }
}

pub(crate) fn status_of(reweave: &mut Command) -> Option<Status> {
    let output = reweave.arg("status").output().expect("it was built");
    serde_json::from_slice(&output.stdout).ok()
}

fn reweave(stage: &Stage, coordinators: &str) -> Command {
    let mut reweave = stage.inside(OPERATOR_HOST, stage.programs().reweave());
    reweave.args(["--output", "json", "--coordinator", coordinators]);
    reweave
        .arg("--identity")
        .arg(stage.path("certificates/operator"));
    reweave
}
