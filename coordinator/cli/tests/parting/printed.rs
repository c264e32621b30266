//! Commands that ask a coordinator print one object for scripts, with its version before all other fields.

use std::process::Output;

use reweave_common::fabric::Role;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::operator::{
    Discovered, DiscoveredNode, Findings, Imbalances, JobOrder, Matrix, MeasuredPairs, Mode,
    NotSeen, Outcome, PairTraffics, Plan, PolicyStatus, ProbeStatus, Record, Request, Response,
    Status, TracedFlow,
};
use reweave_common::plan::Generation;
use reweave_link::Channel;
use serde_json::{Map, Value, json};

use crate::orders::{gated, reweave, text};
use crate::running::{registered, started};
use crate::scene::{Scene, request};
use crate::session_commands::SESSION_COMMANDS;

fn plan() -> Plan {
    let plan = json!({
        "generation": 7, "parent": 6, "takes_back": null, "pins": [], "tables": {}, "circuits": {}, "changes": [],
        "seal": "", "hindered_by": [], "touched": [], "migration": null, "moves": [], "predictions": [],
        "base": null, "iterations": [],
        "report": { "findings": [], "slowest_before_bits_per_s": 7, "slowest_after_bits_per_s": 8, "alternatives": [] },
    });
    serde_json::from_value(plan).unwrap()
}

fn record() -> Record {
    Record {
        plan: plan(),
        proposed_by: "ann".to_owned(),
        approved_by: None,
        age_ms: 1,
        ended_age_ms: None,
        outcome: Outcome::Offered,
        flows: vec![],
        iterations: vec![],
    }
}

pub(crate) fn status() -> Status {
    Status {
        generation: Generation(6),
        mode: Mode::Manual,
        alarms: vec![],
        waits_because: None,
        changes: vec![],
        agents: vec![],
        links: vec![],
        flows: vec![],
        pins: vec![],
        useless_pins: vec![],
        flow_imbalance: None,
        warnings: vec![],
        coordinators: vec![],
        refused: vec![],
        invitations: vec![],
        revoked: vec![],
        opticals: vec![],
        probes: ProbeStatus::default(),
        bandwidths: vec![],
        rdma: vec![],
        lacks: vec![],
        maintenance: vec![],
        frozen: vec![],
    }
}

fn traced() -> TracedFlow {
    TracedFlow {
        flow: FlowKey {
            protocol: Protocol::Tcp,
            source: "10.0.0.1:40000".parse().unwrap(),
            destination: "10.0.0.2:5001".parse().unwrap(),
        },
        from: "h0".to_owned(),
        to: "h1".to_owned(),
        there: None,
        back: None,
        is_symmetric: None,
    }
}

fn discovered() -> Discovered {
    let node = |name: &str, role| DiscoveredNode {
        name: name.to_owned(),
        role,
        doubts: vec![],
    };
    Discovered {
        nodes: vec![node("h0", Role::Host), node("leaf0", Role::Switch)],
        ..Discovered::default()
    }
}

/// The least that a coordinator may answer.
fn answer(request: Request) -> Response {
    let not_seen = NotSeen::default();
    match request {
        Request::Status => Response::Status(Box::new(status())),
        Request::Diagnose => Response::Findings(Findings {
            generation: Generation(6),
            findings: vec![],
            not_seen,
        }),
        Request::Plan
        | Request::Drain { .. }
        | Request::Weigh { .. }
        | Request::Rewire { .. }
        | Request::Reorder { .. }
        | Request::TakeBack { .. } => Response::Plan {
            plan: Some(Box::new(plan())),
            not_seen,
        },
        Request::Apply { generation } => Response::ApplyStarted { generation },
        Request::Steer { generation, how } => Response::Steered { generation, how },
        Request::Record { .. } => Response::Record(Some(Box::new(record()))),
        Request::History { .. } => Response::History(vec![]),
        Request::Audit { .. } => Response::Audit(vec![]),
        Request::Imbalance => Response::Imbalances(Imbalances::default()),
        Request::Pairs { .. } => Response::Pairs(MeasuredPairs::default()),
        Request::Matrix { .. } | Request::RailMatrix { .. } => Response::Matrix(Matrix::default()),
        Request::Nics { .. } => Response::Nics(vec![]),
        Request::Traffic { .. } => Response::Traffic(PairTraffics::default()),
        Request::Explain { .. } => Response::Explanation(Some(Box::default())),
        Request::Jobs => Response::Jobs(vec![]),
        Request::Gate { .. } => gated(true),
        Request::Freeze { hosts } | Request::Thaw { hosts } => Response::Froze { hosts },
        Request::Policy | Request::PolicySet { .. } => Response::Policy(PolicyStatus {
            revision: 1,
            settings: vec![],
        }),
        Request::Trace { .. } => Response::Traced(vec![traced()]),
        Request::Discover { .. } => Response::Discovered(discovered()),
        Request::ClusterVersion { .. } => Response::ClusterVersion {
            minor: 1,
            lowered_by: None,
        },
        Request::Coordinators | Request::ChangeMembers(_) => Response::Coordinators(vec![]),
        Request::Invite { .. } => Response::Invited { expires_in_ms: 1 },
        Request::Revoke { member } => Response::Revoked { member },
        Request::Visit { .. } => Response::MayVisit {
            expires_in_ms: 1,
            http: None,
            https: None,
        },
        Request::Registered => Response::Registered(vec![]),
        Request::Job { job, order } => match order {
            JobOrder::Register { .. } => registered(&job),
            JobOrder::Start { .. } => started(),
            // Of a job that is over, a coordinator has nothing to say.
            JobOrder::Phase { .. } | JobOrder::End => Response::Registered(vec![]),
        },
        other => panic!("{other:?}"),
    }
}

async fn serve(scene: &mut Scene) {
    loop {
        let session = scene.listener.accept().await.unwrap().unwrap();
        while let Ok(request) = request(&session).await {
            // A command that has ended takes no answer.
            let _ = session.send(Channel::Commands, &answer(request)).await;
        }
    }
}

async fn printed(scene: &mut Scene, words: &str) -> String {
    let words: Vec<_> = words.split(' ').collect();
    let mut command = reweave(scene, &words);
    let mut ended = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = tokio::select! {
        biased;
        () = serve(scene) => ended.await,
        output = &mut ended => output,
    };
    let Output {
        status,
        stdout,
        stderr,
    } = output.unwrap();
    assert!(status.success(), "{words:?}: {}", text(&stderr));
    text(&stdout)
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_print_api_version_first() {
    let mut scene = Scene::new();
    for words in SESSION_COMMANDS {
        let json = printed(&mut scene, &format!("{words} --output json")).await;
        let begins = json.starts_with("{\"apiVersion\":\"reweave/v1\"");
        assert!(begins, "{words}: {json}");
        assert_eq!(json.lines().count(), 1, "{words}: {json}");
        let object = serde_json::from_str::<Map<String, Value>>(&json);
        assert!(object.is_ok(), "{words}: {json}");
        let yaml = printed(&mut scene, &format!("{words} --output yaml")).await;
        let begins = yaml.starts_with("apiVersion: reweave/v1\n");
        assert!(begins, "{words}: {yaml}");
    }
}
