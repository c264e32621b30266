//! A plan that would send packets in a circle, planted into a run as it really was.

use std::sync::Arc;

use libtest_mimic::Trial;
use reweave_common::fabric::Fabric;
use reweave_common::member::{Member, Role};
use reweave_common::moment::Moment;
use reweave_common::operator::{Refused, Request, Response};
use reweave_common::plan::{Pin, Plan};
use reweave_core::{Change, Command, Core, Effect, Input, Policy, Recorded};
use reweave_tests::Leadership;
use serde_json::Value;

use crate::needs::trial;
use crate::play::{STAGE_NEEDS, collide, led, must, planned};

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "looping_plan_is_refused",
        STAGE_NEEDS,
        a_loop_is_refused,
    )]
}

/// Up to the moment the plan was proposed, everything is as it was recorded. Only the plan's pins
/// are others: leaf1 sends what it should deliver back to the spine it came from.
fn a_loop_is_refused() {
    let mut stage = led(&Leadership {
        record: Some("run.jsonl".to_owned()),
        ..Leadership::default()
    });
    let job = collide(&stage);
    planned(&stage);
    must(job.stop());
    assert_eq!(must(must(stage.coordinator()).end()), 0);
    let recording = std::fs::read_to_string(stage.path("run.jsonl")).expect("it was made");

    let [sound, looping] = [false, true].map(|planted| {
        let mut run = Run::new(stage.fabric().clone());
        run.live_until_planned(&recording, |plan| {
            if planted {
                bend(plan, stage.fabric());
            }
        });
        run.apply()
    });
    assert!(matches!(sound, Response::ApplyStarted { .. }), "{sound:?}");
    let Response::Refused(Refused::Unfit { reasons }) = &looping else {
        panic!("{looping:?}");
    };
    assert!(
        reasons
            .iter()
            .any(|reason| reason.contains("loop") || reason.contains("circle")),
        "{reasons:?}"
    );
    eprintln!("refused: {}", reasons.join("; "));
}

fn bend(plan: &mut Plan, fabric: &Fabric) {
    let [leaf, spine] = ["leaf1", "spine0"].map(|name| fabric.find(name).expect("it is there"));
    let back = fabric
        .links_between(leaf, spine)
        .next()
        .expect("they are joined");
    let flow = plan.moves[0].flow;
    let first = fabric.find("leaf0").expect("it is there");
    let out = fabric
        .links_between(first, spine)
        .next()
        .expect("they are joined");
    plan.pins = vec![
        Pin {
            flow,
            at: first,
            link: out,
        },
        Pin {
            flow,
            at: leaf,
            link: back,
        },
    ];
}

/// A core that lives through a recording.
struct Run {
    core: Core,
    now: Moment,
}

impl Run {
    fn new(fabric: Fabric) -> Self {
        Self {
            core: Core::new(Policy::default(), Arc::new(fabric)),
            now: Moment::default(),
        }
    }

    /// Stops when a plan is proposed, which `change` may change.
    fn live_until_planned(&mut self, recording: &str, change: impl Fn(&mut Plan)) {
        for line in recording.lines() {
            let line: Value = serde_json::from_str(line).expect("a line is JSON");
            let Ok(Recorded { at, input }) = serde_json::from_value(line["input"].clone()) else {
                continue;
            };
            self.now = at;
            self.core.handle(at, input);
            if self.carry_out(&change) {
                return;
            }
        }
        panic!("no plan was proposed");
    }

    fn carry_out(&mut self, change: &impl Fn(&mut Plan)) -> bool {
        let mut proposed = false;
        while let Some(effect) = self.core.poll_effect() {
            let Effect::Append(mut command) = effect else {
                continue;
            };
            if let Command {
                change: Change::PlanProposed { plan, claims, .. },
                ..
            } = &mut command
            {
                change(plan);
                // What a plan does not claim it may not even propose.
                claims.nodes.extend(plan.pins.iter().map(|pin| pin.at));
                proposed = true;
            }
            self.core.apply(command);
        }
        proposed
    }

    fn apply(&mut self) -> Response {
        let plan = &self
            .core
            .state()
            .rollouts()
            .next()
            .expect("a plan is on offer")
            .plan;
        let request = Request::Apply {
            generation: plan.generation,
        };
        let input = Input::Operator {
            id: u64::MAX,
            principal: Member::new(Role::Operator, "tester"),
            request,
        };
        self.core.handle(self.now, input);
        while let Some(effect) = self.core.poll_effect() {
            match effect {
                Effect::Reply {
                    id: u64::MAX,
                    response,
                } => return response,
                Effect::Append(command) => self.core.apply(command),
                _ => {}
            }
        }
        panic!("no answer");
    }
}
