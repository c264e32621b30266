//! Two machines with one certificate, as when a disk was copied: one of them is heard, and operators learn of both.

use libtest_mimic::Trial;
use reweave_common::operator::{AgentState, AgentStatus, RefusedPeer, Status};
use reweave_tests::Leadership;

use crate::needs::trial;
use crate::play::{STAGE_NEEDS, led, must, status_when};

const FIRST_ADDRESS: &str = "10.255.0.2";
const SECOND_ADDRESS: &str = "10.255.0.3";

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "duplicate_agent_waits_for_first",
        STAGE_NEEDS,
        a_second_machine_waits,
    )]
}

fn a_second_machine_waits() {
    let mut stage = led(&Leadership::default());
    stage.end_agent("h1");
    let copied = stage.path("certificates/agents/h0");
    must(stage.start_agent_as("h1", &copied));
    // Often enough that the two would have thrown each other out, could they.
    let report = status_when(&stage, "the second is refused", |status| {
        refused(status).is_some_and(|it| it.times >= 4)
    });
    let why = &refused(&report).expect("that was waited for").why;
    assert!(
        why.contains("agent h0") && why.contains(FIRST_ADDRESS),
        "{why}"
    );
    assert_eq!(agent(&report, "h0").state, AgentState::Up);
    let log = stage.said("coordinator");
    assert!(!log.contains("agent h0 disconnected"), "{log}");
    let own = agent(&report, "h0").addresses.clone();
    stage.end_agent("h0");
    status_when(&stage, "the second has its place", |status| {
        let h0 = agent(status, "h0");
        h0.state == AgentState::Up && h0.addresses != own
    });
}

fn agent<'s>(status: &'s Status, node: &str) -> &'s AgentStatus {
    let mut agents = status.agents.iter();
    agents
        .find(|agent| agent.node == node)
        .expect("there is one for each node")
}

fn refused(status: &Status) -> Option<&RefusedPeer> {
    let mut refused = status.refused.iter();
    refused.find(|it| it.from == SECOND_ADDRESS)
}
