//! Plans that cannot be carried out: a switch refuses, or the flow is gone.

use libtest_mimic::Trial;
use reweave_common::operator::{Outcome, Record};
use reweave_tests::{Labs, Leadership, Setting, Stage};

use crate::needs::{Need, trial};
use crate::play::{STAGE_NEEDS, collide, ended, led, must, planned, taking_back};

/// Takes from a program that runs as root what routes are changed with.
const NO_NET_ADMIN_COMMAND: &[&str] = &[
    "setpriv",
    "--bounding-set=-net_admin",
    "--inh-caps=-net_admin",
    "--",
];

pub(crate) fn tests() -> Vec<Trial> {
    let unprivileged = &[Need::Lab, Need::Program("setpriv")];
    vec![
        trial(
            "refusing_switch_rolls_plan_back",
            unprivileged,
            a_switch_refuses,
        ),
        trial(
            "flow_ended_before_apply_withdraws_plan",
            STAGE_NEEDS,
            the_flow_ends_before,
        ),
        trial(
            "flow_ended_before_pin_rolls_back",
            STAGE_NEEDS,
            the_flow_ends_meanwhile,
        ),
    ]
}

fn a_switch_refuses() {
    let mut stage = must(Stage::up(Setting::DEMO_SETTING, Labs::Hidden));
    must(stage.lead(&Leadership::default()));
    let nodes: Vec<_> = stage.nodes().map(str::to_owned).collect();
    for node in &nodes {
        match node.as_str() {
            "leaf0" => must(stage.start_agent_under(node, NO_NET_ADMIN_COMMAND)),
            _ => must(stage.start_agent(node)),
        }
    }
    must(stage.wait_until_known());
    let job = collide(&stage);
    let plan = planned(&stage);
    assert_eq!(plan.pins[0].hop.from, "leaf0", "{plan:#?}");
    let routing = must(stage.routing());
    let applied = must(stage.operator().apply(&plan));
    assert_eq!(applied.code, Some(1), "{applied:#?}");
    let reasons = rolled_back(&applied.record.expect("it is on record"));
    assert!(
        reasons
            .iter()
            .any(|reason| reason.starts_with("leaf0 refused: its kernel")),
        "{reasons:?}"
    );
    assert_eq!(must(stage.routing()), routing);
    assert!(must(job.stop()).kept_all_sessions());
}

fn rolled_back(record: &Record) -> Vec<String> {
    match &record.outcome {
        Outcome::RolledBack { reasons, .. } => reasons.clone(),
        other => panic!("{other:#?}"),
    }
}

fn the_flow_ends_before() {
    let stage = led(&Leadership::default());
    let job = collide(&stage);
    let plan = planned(&stage);
    let routing = must(stage.routing());
    must(job.stop());
    let record = ended(&stage);
    assert_eq!(record.plan.generation, plan.generation);
    let Outcome::Abandoned { reasons } = &record.outcome else {
        panic!("{record:#?}");
    };
    assert!(
        reasons.iter().any(|reason| reason.ends_with("has ended")),
        "{reasons:?}"
    );
    let applied = must(stage.operator().apply(&plan));
    assert_eq!(applied.code, Some(1));
    assert!(
        applied
            .words
            .contains("it was aborted before anything changed"),
        "{}",
        applied.words
    );
    assert_eq!(must(stage.routing()), routing);
}

/// The switch is slow, and the job is over before it acts.
fn the_flow_ends_meanwhile() {
    let (mut stage, routing) = taking_back();
    must(must(stage.agent("leaf0")).thaw());
    let reasons = rolled_back(&ended(&stage));
    assert!(
        reasons.iter().any(|reason| reason.ends_with("has ended")),
        "{reasons:?}"
    );
    assert_eq!(must(stage.routing()), routing);
}
