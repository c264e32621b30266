//! A recording of an hour, made small enough to lie in the tree. Flows are reported as they were. All else that a node
//! reported within two seconds becomes one sample that says the same: of what is reported again and again the last
//! stays, what was counted meanwhile is added up, and no probe is left out.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::health::Health;
use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::sample::{HostReading, Reading, Sample};
use reweave_core::{Input, Recorded};
use serde_json::json;

use crate::life::inputs;

const THINNING_INTERVAL: Duration = Duration::from_secs(2);
/// Ticks that are closer than this tell nothing new.
const MIN_TICK_INTERVAL: Duration = Duration::from_millis(500);

/// The lines of a recording as few as they may be: how it began, and its inputs.
pub(crate) fn thinned(text: &str) -> String {
    let mut thinning = Thinning::default();
    let mut now = Moment::default();
    for Recorded { at, input } in inputs(text) {
        now = at;
        thinning.close(now, |first| now.since(first) >= THINNING_INTERVAL);
        thinning.take(now, input);
    }
    thinning.close(now, |_| true);
    let beginning = text.lines().next().unwrap_or_default().to_owned();
    let inputs = thinning
        .thin
        .iter()
        .map(|it| json!({ "input": it }).to_string());
    let lines = [beginning].into_iter().chain(inputs);
    lines.map(|line| line + "\n").collect()
}

#[derive(Default)]
struct Thinning {
    /// What each node reported, since the first of it came.
    open: BTreeMap<NodeId, (Moment, Sample)>,
    ticked: Moment,
    thin: Vec<Recorded>,
}

impl Thinning {
    fn take(&mut self, at: Moment, input: Input) {
        match input {
            Input::Sample { node, sample } => return self.hear(node, at, sample),
            Input::Tick if at.since(self.ticked) < MIN_TICK_INTERVAL => return,
            Input::Tick => self.ticked = at,
            // What was reported in a session stays in it.
            Input::AgentUp { .. } | Input::AgentDown { .. } => self.close(at, |_| true),
            _ => {}
        }
        self.thin.push(Recorded { at, input });
    }

    fn hear(&mut self, node: NodeId, at: Moment, sample: Sample) {
        let Sample { taken, readings } = sample;
        let (readings, others) = readings.into_iter().partition(is_of_a_flow);
        self.join(
            node,
            at,
            Sample {
                taken,
                readings: others,
            },
        );
        if !readings.is_empty() {
            let sample = Sample { taken, readings };
            let input = Input::Sample { node, sample };
            self.thin.push(Recorded { at, input });
        }
    }

    fn join(&mut self, node: NodeId, at: Moment, sample: Sample) {
        let Sample { taken, readings } = sample;
        let nothing = || {
            (
                at,
                Sample {
                    taken,
                    readings: Vec::new(),
                },
            )
        };
        let (_, open) = self.open.entry(node).or_insert_with(nothing);
        open.taken = taken;
        readings
            .into_iter()
            .for_each(|new| add(&mut open.readings, new));
    }

    fn close(&mut self, at: Moment, is_old: impl Fn(Moment) -> bool) {
        let old = self.open.extract_if(.., |_, (first, _)| is_old(*first));
        let inputs = old.map(|(node, (_, sample))| Input::Sample { node, sample });
        self.thin.extend(inputs.map(|input| Recorded { at, input }));
    }
}

fn is_of_a_flow(reading: &Reading) -> bool {
    use Reading::{Bandwidth, Flow, FlowEnded, Path};
    matches!(reading, Flow(_) | FlowEnded(_) | Path(_) | Bandwidth(_))
}

/// Into the reading of the same thing, if there is one.
fn add(readings: &mut Vec<Reading>, new: Reading) {
    let same = readings.iter().position(|old| is_of_the_same(old, &new));
    let Some(place) = same else {
        readings.push(new);
        return;
    };
    let old = readings.remove(place);
    readings.push(merged(old, new));
}

fn is_of_the_same(old: &Reading, new: &Reading) -> bool {
    match (old, new) {
        (Reading::Interface(old), Reading::Interface(new)) => old.name == new.name,
        (Reading::Counters(old), Reading::Counters(new)) => old.interface == new.interface,
        (Reading::Probes(old), Reading::Probes(new)) => old.flow == new.flow,
        (Reading::Holds { .. }, Reading::Holds { .. }) => true,
        (Reading::Host(old), Reading::Host(new)) => is_of_the_same_part(old, new),
        _ => false,
    }
}

fn is_of_the_same_part(old: &HostReading, new: &HostReading) -> bool {
    match (old, new) {
        (HostReading::Health(old), HostReading::Health(new)) => {
            let kinds = |health: &Health| health.signals.iter().map(|it| it.signal).collect();
            let [before, after]: [Vec<_>; 2] = [kinds(old), kinds(new)];
            old.place == new.place && before == after
        }
        (HostReading::Spare(old), HostReading::Spare(new)) => old.interface == new.interface,
        (HostReading::Traffic(_), HostReading::Traffic(_))
        | (HostReading::Machine(_), HostReading::Machine(_))
        | (HostReading::Strays(_), HostReading::Strays(_)) => true,
        _ => false,
    }
}

fn merged(old: Reading, new: Reading) -> Reading {
    match (old, new) {
        (Reading::Probes(mut sum), Reading::Probes(more)) => {
            sum.tally.merge(&more.tally);
            Reading::Probes(sum)
        }
        (Reading::Host(HostReading::Health(old)), Reading::Host(HostReading::Health(new))) => {
            Reading::Host(HostReading::Health(grown(&old, new)))
        }
        (_, new) => new,
    }
}

/// Growth over both times.
fn grown(old: &Health, mut new: Health) -> Health {
    new.over += old.over;
    for (new, old) in new.signals.iter_mut().zip(&old.signals) {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        new.grown = sum(old.grown, new.grown);
        new.of = sum(old.of, new.of);
    }
    new
}
