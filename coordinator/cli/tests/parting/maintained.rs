//! Two operators and one switch: what `reweave maintenance` does while another operator has it.

use std::process::Output;

use reweave_common::member::{Member, Role};
use reweave_common::operator::{
    Findings,
    MaintenanceStage::{self, Draining, Returning, Working},
    MaintenanceStatus, NotSeen, Refused, Request, Response, Status,
};
use reweave_common::plan::Generation;
use reweave_link::Channel;
use serde_json::Value;

use crate::orders::{reweave, text};
use crate::printed::status;
use crate::scene::{Scene, request};

/// A coordinator that holds maintenance of spine0. The asking operator is ann.
#[derive(Default)]
struct Desk {
    held: Option<MaintenanceStatus>,
    /// Bob takes the switch over when ann's command may run.
    is_lost: bool,
    asked: Vec<Request>,
}

fn held(by: &str, stage: MaintenanceStage) -> MaintenanceStatus {
    MaintenanceStatus {
        name: "spine0".to_owned(),
        stage,
        by: by.to_owned(),
        age_ms: 7_000,
        links: vec![],
        not_empty: vec![],
    }
}

impl Desk {
    fn answer(&mut self, request: Request) -> Response {
        let response = match &request {
            Request::Status => Response::Status(Box::new(Status {
                maintenance: self.held.iter().cloned().collect(),
                ..status()
            })),
            Request::Diagnose => Response::Findings(Findings {
                generation: Generation(6),
                findings: vec![],
                not_seen: NotSeen::default(),
            }),
            Request::WhoAmI => Response::You(Member::new(Role::Operator, "ann")),
            Request::TakeOver { .. } => {
                self.held = self.held.take().map(|it| held("ann", it.stage));
                noted()
            }
            Request::Maintain { stage, .. } => self.maintain(*stage),
            other => panic!("{other:?}"),
        };
        self.asked.push(request);
        response
    }

    fn maintain(&mut self, stage: Option<MaintenanceStage>) -> Response {
        let second = self.held.as_ref().is_some_and(|it| it.stage == Working);
        if second && stage == Some(Working) {
            return Response::Refused(Refused::UnderMaintenance {
                name: "spine0".to_owned(),
                by: "ann".to_owned(),
                stage: Working,
                age_s: 7,
            });
        }
        let by = if self.is_lost && stage == Some(Working) {
            "bob"
        } else {
            "ann"
        };
        self.held = stage.map(|stage| held(by, stage));
        noted()
    }

    fn stages(&self) -> Vec<Option<MaintenanceStage>> {
        let stages = self.asked.iter().filter_map(|request| match request {
            Request::Maintain { stage, .. } => Some(*stage),
            _ => None,
        });
        stages.collect()
    }
}

fn noted() -> Response {
    Response::Plan {
        plan: None,
        not_seen: NotSeen::default(),
    }
}

async fn serve(scene: &mut Scene, desk: &mut Desk) {
    loop {
        let session = scene.listener.accept().await.unwrap().unwrap();
        while let Ok(request) = request(&session).await {
            let response = desk.answer(request);
            // A command that has ended takes no answer.
            let _ = session.send(Channel::Commands, &response).await;
        }
    }
}

async fn maintained(desk: &mut Desk, words: &[&str]) -> Output {
    let mut scene = Scene::new();
    let first = ["--output", "json", "maintenance", "spine0", "--no-agent"];
    let mut command = reweave(&scene, &[&first[..], words].concat());
    let mut ended = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = tokio::select! {
        biased;
        () = serve(&mut scene, desk) => ended.await,
        output = &mut ended => output,
    };
    output.unwrap()
}

/// How it stopped, and what the operator is advised to do.
fn stopped(output: &Output) -> [String; 2] {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report = serde_json::from_slice::<Value>(&output.stdout).unwrap();
    ["stopped_because", "what_to_do"].map(|key| report[key].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn other_operators_maintenance_is_refused() {
    for words in [&["--", "true"][..], &["--finish"]] {
        let mut desk = Desk {
            held: Some(held("bob", Working)),
            ..Desk::default()
        };
        let output = maintained(&mut desk, words).await;
        assert_eq!(output.status.code(), Some(1));
        let refusal = "error: bob has spine0 under maintenance, working for 7 s: wait until that \
                       ends, or use --take-over\n";
        assert_eq!(text(&output.stderr), refusal);
        assert_eq!(desk.stages(), [], "{words:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn second_command_needs_take_over() {
    let working = || Desk {
        held: Some(held("ann", Working)),
        ..Desk::default()
    };
    let mut desk = working();
    let output = maintained(&mut desk, &["--", "true"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("use --take-over"));
    let words = ["--take-over", "--watch-s", "0", "--", "true"];
    let mut desk = working();
    let output = maintained(&mut desk, &words).await;
    assert!(output.status.success(), "{output:?}");
    let taken = desk.asked.iter();
    let taken = taken.filter(|it| matches!(it, Request::TakeOver { .. }));
    assert_eq!(taken.count(), 1);
    let steps = [Some(Draining), Some(Working), Some(Returning), None];
    assert_eq!(desk.stages(), steps);
}

/// The command of the first operator has run, and the switch is no longer hers to return.
#[tokio::test(flavor = "multi_thread")]
async fn taken_over_operator_learns_it() {
    let mut desk = Desk {
        is_lost: true,
        ..Desk::default()
    };
    let output = maintained(&mut desk, &["--", "true"]).await;
    let [why, what_to_do] = stopped(&output);
    assert!(why.starts_with("bob has spine0 under maintenance"), "{why}");
    let advice =
        "the command has run; spine0 is left as it is: `reweave maintenance` lists who has it";
    assert_eq!(what_to_do, advice);
    assert_eq!(desk.stages(), [Some(Draining), Some(Working)]);
}

/// A call may be repeated after a failure, since its command runs no more.
#[tokio::test(flavor = "multi_thread")]
async fn failed_command_is_let_go() {
    let mut desk = Desk::default();
    let [why, what_to_do] = stopped(&maintained(&mut desk, &["--", "false"]).await);
    assert!(why.starts_with("false failed: "), "{why}");
    assert!(!what_to_do.contains("--take-over"), "{what_to_do}");
    assert_eq!(desk.stages(), [Draining, Working, Draining].map(Some));
}
