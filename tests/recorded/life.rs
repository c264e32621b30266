//! A core that lives through what was recorded of a clean cluster, again and again, each time from where
//! its clock stands, until an hour is over: it must find nothing wrong. In the second half of it single
//! probes get lost, here and there, as they do anywhere.

use std::sync::Arc;
use std::time::Duration;

use reweave_common::fabric::Fabric;
use reweave_common::member::{Member, Role};
use reweave_common::moment::Moment;
use reweave_common::operator::{AgentState, Request, Response};
use reweave_common::sample::Reading;
use reweave_core::{Core, Effect, Input, Policy, Recorded};
use serde_json::Value;

const AN_HOUR: Duration = Duration::from_secs(3600);
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// One probe of so many, whichever way it goes.
const STRAYS: u64 = 500;

/// What the coordinator wrote down of a run, but for what it was asked. What was being written at its
/// end counts no more.
pub(crate) struct Run {
    pub(crate) fabric: Fabric,
    pub(crate) inputs: Vec<Recorded>,
}

impl Run {
    pub(crate) fn read(text: &str) -> Self {
        let lines = text.lines();
        let lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let lines: Vec<_> = lines.collect();
        let fabric = lines[0]["beginning"]["fabric"].as_str();
        let fabric = fabric.expect("a recording begins with the fabric");
        let inputs = lines.iter().filter_map(|line| line.get("input"));
        let inputs = inputs.map(|it| serde_json::from_value(it.clone()));
        let inputs: Result<Vec<Recorded>, _> = inputs.collect();
        let mut inputs = inputs.expect("inputs are as they were when this was recorded");
        inputs.retain(|it| !matches!(it.input, Input::Operator { .. }));
        Self {
            fabric: Fabric::parse("recorded", fabric).expect("it was one"),
            inputs,
        }
    }
}

/// How often was looked in the hour. Who sees nothing raises no alarm either: nearly always all links were
/// known and probed, and flows were seen while the job was there.
pub(crate) fn live_an_hour(run: &Run) -> usize {
    let mut life = Life::on(&run.fabric);
    while life.lived < AN_HOUR {
        life.live(&run.inputs);
    }
    let Life {
        looks,
        clear,
        busy,
        strays,
        ..
    } = life;
    println!("{looks} looks: {clear} saw everything, {busy} large flows; {strays} probes got lost");
    assert!(strays > 100, "{strays} probes got lost");
    assert!(clear * 10 >= looks * 9, "{clear} of {looks} saw everything");
    assert!(busy * 2 >= looks, "{busy} of {looks} saw flows");
    looks
}

struct Life {
    core: Core,
    now: Moment,
    lived: Duration,
    looked: Moment,
    looks: usize,
    /// Of these, those that saw all links, and probes.
    clear: usize,
    /// Those that saw flows, and where they go.
    busy: usize,
    dice: u64,
    strays: u32,
}

impl Life {
    fn on(fabric: &Fabric) -> Self {
        Self {
            core: Core::new(Policy::default(), Arc::new(fabric.clone())),
            now: Moment::default(),
            lived: Duration::ZERO,
            looked: Moment::default(),
            looks: 0,
            clear: 0,
            busy: 0,
            dice: 1,
            strays: 0,
        }
    }

    /// All inputs once more, from now on.
    fn live(&mut self, inputs: &[Recorded]) {
        let (began, first) = (self.now, inputs[0].at);
        for Recorded { at, input } in inputs {
            self.now = began + at.since(first);
            let mut input = input.clone();
            if self.lived >= AN_HOUR / 2 {
                self.stray(&mut input);
            }
            self.hand_in(input);
            if self.now.since(self.looked) >= LOOK_EVERY {
                self.look();
            }
        }
        self.lived += self.now.since(began);
    }

    /// Of what an agent tells of its probes, some were lost instead.
    fn stray(&mut self, input: &mut Input) {
        let Input::Sample { sample, .. } = input else {
            return;
        };
        for reading in &mut sample.readings {
            if let Reading::Probes(probes) = reading {
                let tally = &mut probes.tally;
                let rolled = (0..tally.answered).filter(|_| is_rolled(&mut self.dice));
                let lost = rolled.count() as u32;
                tally.answered -= lost;
                tally.lost.there += lost;
                self.strays += lost;
            }
        }
    }

    fn hand_in(&mut self, input: Input) -> Vec<Response> {
        self.core.handle(self.now, input);
        let mut said = Vec::new();
        while let Some(effect) = self.core.poll_effect() {
            match effect {
                Effect::Append(command) => self.core.apply(command),
                Effect::Reply { response, .. } => said.push(response),
                _ => {}
            }
        }
        said
    }

    fn look(&mut self) {
        self.looked = self.now;
        self.looks += 1;
        let Response::Findings(found) = self.ask(Request::Diagnose) else {
            panic!("no findings");
        };
        assert_eq!(found.findings, [], "after {:?}", self.now);
        assert_eq!(found.not_seen.unfit, None);
        let Response::Status(status) = self.ask(Request::Status) else {
            panic!("no status");
        };
        let mut agents = status.agents.iter();
        let all_known = agents.all(|it| it.state == AgentState::Up && it.known_links == it.links);
        self.clear += usize::from(all_known && status.probes.all.is_some());
        self.busy += usize::from(status.flows.iter().any(|flow| flow.path.is_some()));
    }

    fn ask(&mut self, request: Request) -> Response {
        let mut said = self.hand_in(Input::Operator {
            id: 1,
            principal: Member::new(Role::Operator, "ada"),
            request,
        });
        said.pop().expect("it is answered at once")
    }
}

/// Marsaglia's xorshift.
fn is_rolled(dice: &mut u64) -> bool {
    *dice ^= *dice << 13;
    *dice ^= *dice >> 7;
    *dice ^= *dice << 17;
    dice.is_multiple_of(STRAYS)
}
