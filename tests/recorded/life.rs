//! A core that lives through what was recorded of a clean cluster for an hour: it must find nothing wrong.
//! In the second half of that single probes get lost, here and there, as they do anywhere.
//!
//! Kernels of a machine that is busy stamp probes off by more than any link of a cluster takes, and so
//! nothing is concluded from small rises. Where cards stamp them it is; so the same probes are also lived
//! through with the times that cards would tell, with all that makes these wander on a clean cluster.

use std::sync::Arc;
use std::time::Duration;

use reweave_common::fabric::Fabric;
use reweave_common::flow::FlowKey;
use reweave_common::member::{Member, Role};
use reweave_common::moment::Moment;
use reweave_common::operator::{AgentState, Request, Response};
use reweave_common::probing::{ProbePart, ProbeTally, Stamped, Times};
use reweave_common::sample::Reading;
use reweave_core::{Core, Effect, Input, Policy, Recorded};
use serde_json::Value;

pub(crate) const ONE_HOUR: Duration = Duration::from_secs(3600);
const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);
/// One probe of this many, whichever way it goes.
const STRAY_DIVISOR: u64 = 500;

/// What the coordinator wrote down of a run, but for what it was asked. What was being written at its
/// end counts no more.
pub(crate) struct Run {
    pub(crate) fabric: Fabric,
    pub(crate) inputs: Vec<Recorded>,
}

impl Run {
    pub(crate) fn read(text: &str) -> Self {
        let first = text.lines().next().map(serde_json::from_str::<Value>);
        let first = first.expect("it is not empty").expect("it is whole");
        let fabric = first["beginning"]["fabric"].as_str();
        let fabric = fabric.expect("a recording begins with the fabric");
        Self {
            fabric: Fabric::parse("recorded", fabric).expect("it was one"),
            inputs: inputs(text).collect(),
        }
    }

    pub(crate) fn lasted(&self) -> Duration {
        let [first, .., last] = &self.inputs[..] else {
            return Duration::ZERO;
        };
        last.at.since(first.at)
    }
}

/// All of a recording's, but for what was asked.
pub(crate) fn inputs(text: &str) -> impl Iterator<Item = Recorded> {
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let inputs = lines.filter_map(|mut line| line.get_mut("input").map(Value::take));
    let inputs = inputs.map(serde_json::from_value::<Recorded>);
    let inputs = inputs.map(|it| it.expect("inputs are as they were when this was recorded"));
    inputs.filter(|it| !matches!(it.input, Input::Operator { .. }))
}

/// Who stamps probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stamper {
    AsRecorded,
    Cards,
}

/// How often was looked in that time. Who sees nothing raises no alarm either: nearly always all links were
/// known and probed, and flows were seen while the job was there.
pub(crate) fn live(run: &Run, stamper: Stamper) -> usize {
    let lasted = run.lasted();
    assert!(lasted >= ONE_HOUR, "{lasted:?} were recorded");
    let mut life = Life::on(&run.fabric, stamper);
    life.live(&run.inputs);
    let Life {
        looks,
        clear,
        busy,
        strays,
        ..
    } = life;
    println!("{looks} looks: {clear} saw everything, {busy} large flows; {strays} probes got lost");
    assert!(strays > 50, "{strays} probes got lost");
    assert!(clear * 10 >= looks * 9, "{clear} of {looks} saw everything");
    assert!(busy * 2 >= looks, "{busy} of {looks} saw flows");
    looks
}

struct Life {
    core: Core,
    stamper: Stamper,
    now: Moment,
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
    fn on(fabric: &Fabric, stamper: Stamper) -> Self {
        Self {
            stamper,
            core: Core::new(Policy::default(), Arc::new(fabric.clone())),
            now: Moment::default(),
            looked: Moment::default(),
            looks: 0,
            clear: 0,
            busy: 0,
            dice: 1,
            strays: 0,
        }
    }

    fn live(&mut self, inputs: &[Recorded]) {
        let began = inputs[0].at;
        for Recorded { at, input } in inputs {
            self.now = *at;
            let mut input = input.clone();
            if self.stamper == Stamper::Cards {
                self.stamp(&mut input);
            }
            if at.since(began) >= ONE_HOUR / 2 {
                self.stray(&mut input);
            }
            self.hand_in(input);
            if self.now.since(self.looked) >= SAMPLE_INTERVAL {
                self.look();
            }
        }
    }

    /// Of what an agent tells of its probes, some were lost instead.
    fn stray(&mut self, input: &mut Input) {
        for (_, tally) in tallies(input) {
            let rolled =
                (0..tally.answered).filter(|_| roll(&mut self.dice).is_multiple_of(STRAY_DIVISOR));
            let lost = rolled.count() as u32;
            tally.answered -= lost;
            tally.lost.there += lost;
            self.strays += lost;
        }
    }

    /// The answers that came took what cards would say.
    fn stamp(&mut self, input: &mut Input) {
        for (flow, tally) in tallies(input) {
            let mut times = Times::default();
            for _ in 0..tally.answered {
                let took = crossed(flow, self.now, &mut self.dice);
                times.record(ProbePart::Network, took);
            }
            tally.times = times;
            tally.stamped = Stamped {
                hardware: tally.answered,
                ..Stamped::default()
            };
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
        assert_eq!(found.not_seen.doubts, [""; 0]);
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

fn tallies(input: &mut Input) -> impl Iterator<Item = (&FlowKey, &mut ProbeTally)> {
    let readings = match input {
        Input::Sample { sample, .. } => &mut sample.readings[..],
        _ => &mut [],
    };
    readings.iter_mut().filter_map(|reading| match reading {
        Reading::Probes(probes) => Some((&probes.flow, &mut probes.tally)),
        _ => None,
    })
}

/// A few microseconds, by way, which wander with the warmth of the room; now and then a queue, and seldom one of those
/// unexplained pauses.
fn crossed(flow: &FlowKey, now: Moment, dice: &mut u64) -> Duration {
    let ends = [flow.source, flow.destination].map(|end| u64::from(u32::from(*end.ip())));
    let way_ns = 4000 + (ends[0] * 31 + ends[1] * 17 + u64::from(flow.source.port())) % 8 * 700;
    let minutes = now.since(Moment::default()).as_secs_f64() / 60.0;
    let wander_ns = 80.0 * (1.0 + minutes.sin());
    let mut below = |most: u64| roll(dice) % most;
    let cards_ns = below(120) + below(120);
    let queued_ns = match below(100) {
        0 => 50_000 + below(2_000_000),
        1..=30 => below(30_000),
        _ => 0,
    };
    Duration::from_nanos(way_ns + wander_ns as u64 + cards_ns + queued_ns)
}

/// Marsaglia's xorshift.
fn roll(dice: &mut u64) -> u64 {
    *dice ^= *dice << 13;
    *dice ^= *dice >> 7;
    *dice ^= *dice << 17;
    *dice
}
