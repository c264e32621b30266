//! Does the cluster come together, and is no member heard that does not belong?

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reweave_common::operator::AgentState;
use reweave_tests::{Labs, Leadership, STAGE_TIMEOUT, Setting, Stage, wait_for};

use crate::needs::trial;
use crate::play::{STAGE_NEEDS, led, must, status_when};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "wrong_certificate_is_refused",
            STAGE_NEEDS,
            wrong_certificates_are_refused,
        ),
        trial(
            "agents_reconnect_to_restarted_coordinator",
            STAGE_NEEDS,
            agents_come_back,
        ),
        trial(
            "one_command_starts_single_machine_cluster",
            STAGE_NEEDS,
            a_cluster_of_one,
        ),
    ]
}

/// One of another authority of the same name, one for a node that the fabric does not have, and one
/// for a member that is no agent.
fn wrong_certificates_are_refused() {
    let mut stage = must(Stage::up(Setting::DEMO_SETTING, Labs::Hidden));
    must(stage.lead(&Leadership::default()));
    let nodes: Vec<_> = stage.nodes().map(str::to_owned).collect();
    for node in nodes.iter().filter(|node| *node != "h3") {
        must(stage.start_agent(node));
    }
    let is_up = |node: &str, status: &reweave_common::operator::Status| {
        let agent = status.agents.iter().find(|agent| agent.node == node);
        agent.is_some_and(|agent| agent.state == AgentState::Up)
    };
    status_when(&stage, "all others are up", |status| {
        nodes.iter().all(|node| node == "h3" || is_up(node, status))
    });
    let before = must(stage.routing());
    let strangers = must(stage.strangers_certificate("h3"));
    refused(&mut stage, &strangers, "peer refused");
    let nobodys = must(stage.certificate("agent", "h99"));
    refused(&mut stage, &nobodys, "the fabric has no node named \"h99\"");

    let operators = stage.path("certificates/operator");
    must(stage.start_agent_as("h3", &operators));
    must(wait_for(
        "h3's agent will not be an operator",
        STAGE_TIMEOUT,
        || {
            Ok(stage
                .said("agent-h3")
                .contains("this program needs one of role agent")
                .then_some(()))
        },
    ));

    let status = must(stage.operator().status());
    assert_eq!(state_of("h3", &status), AgentState::Unseen);
    assert!(must(stage.operator().history()).is_empty());
    assert_eq!(must(stage.routing()), before);
    must(stage.start_agent("h3"));
    status_when(&stage, "h3 is up with its own", |status| {
        is_up("h3", status)
    });
}

/// Until both sides have said so, h3's agent runs with this certificate.
fn refused(stage: &mut Stage, identity: &Path, words: &str) {
    let report = stage.said("coordinator").matches(words).count();
    must(stage.start_agent_as("h3", identity));
    let what = format!("the coordinator says {words:?} of {}", identity.display());
    must(wait_for(&what, STAGE_TIMEOUT, || {
        let said = stage.said("coordinator");
        Ok((said.matches(words).count() > report).then_some(()))
    }));
    assert_eq!(
        state_of("h3", &must(stage.operator().status())),
        AgentState::Unseen
    );
    stage.end_agent("h3");
}

fn state_of(node: &str, status: &reweave_common::operator::Status) -> AgentState {
    let agent = status.agents.iter().find(|agent| agent.node == node);
    agent.expect("the status tells of every node").state
}

fn agents_come_back() {
    let mut stage = led(&Leadership::default());
    let code = must(must(stage.coordinator()).end());
    assert_eq!(code, 0, "asked to end, it ends well");
    must(stage.lead(&Leadership::default()));
    must(stage.wait_until_known());
}

/// Without settings, in a folder that it makes; it ends with its two programs.
fn a_cluster_of_one() {
    let stage = must(Stage::up(Setting::DEMO_SETTING, Labs::Hidden));
    let folder = stage.path("dev");
    let mut dev = stage.inside("h0", stage.programs().reweave());
    dev.args(["dev", "--dir"])
        .arg(&folder)
        .stdout(Stdio::piped());
    let mut dev = dev.spawn().expect("it starts");
    let mut link = String::new();
    let said = dev.stdout.take().expect("it is piped");
    let read = BufReader::new(said).read_line(&mut link);
    assert!(read.is_ok() && link.contains("/#token="), "{link:?}");
    let identity = folder.join("certificates/operator");
    let reweave = stage.programs().reweave().display().to_string();
    let identity = identity.display().to_string();
    let ask = [&reweave, "--identity", &identity, "status"];
    must(wait_for("its agent reports", STAGE_TIMEOUT, || {
        let status = stage.output("h0", &ask)?;
        Ok(status.contains("agents: 1/1 up").then_some(()))
    }));
    let asked = kill(Pid::from_raw(dev.id().cast_signed()), Signal::SIGTERM);
    asked.expect("it runs");
    dev.wait().expect("it ends");
    must(wait_for("no coordinator answers", STAGE_TIMEOUT, || {
        Ok(stage.output("h0", &ask).is_err().then_some(()))
    }));
}
