//! Optical switches that hold other circuits than they were ordered to: a circuit has failed, or an operator has changed
//! it on the device.

use reweave_common::cause::{Cause, Class, Subject};
use reweave_common::circuit::{Circuit, CircuitSet};
use reweave_common::fabric::{Crossing, Fabric};
use reweave_common::ids::OpticalId;
use reweave_common::plan::Generation;

use crate::log::state::{Outcome, State};

/// More circuits of a switch are counted but not named.
const MAX_NAMED_CIRCUITS: usize = 5;
/// A command with more circuits is not written out.
const MAX_COMMAND_CIRCUITS: usize = 32;

/// The difference between what a switch was ordered to hold and what it holds.
pub(crate) struct CircuitDrift<'f> {
    fabric: &'f Fabric,
    optical: OpticalId,
    ordered: CircuitSet,
    lost: Vec<(Circuit, SetBy)>,
    unordered: Vec<Circuit>,
}

/// What ordered a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SetBy {
    Plan(Generation),
    FabricFile,
    /// The history has forgotten the plan.
    EarlierPlan,
}

/// The switches whose circuits differ. While a plan moves circuits of a switch, the plan says what is wrong there.
pub(crate) fn drifts<'f>(fabric: &'f Fabric, state: &State) -> Vec<CircuitDrift<'f>> {
    let held = state.in_force().circuits_of(fabric);
    let ordered = state.tail().ordered.iter();
    let ordered = ordered.filter(|(optical, _)| !state.is_moving(**optical));
    let drifts = ordered.filter_map(|(&optical, ordered)| {
        let first = fabric.first_circuits().get(&optical)?;
        let (ordered, held) = (ordered.as_ref().unwrap_or(first), held.get(&optical)?);
        let lost = ordered.iter().filter(|it| !held.contains(*it));
        let unordered = held.iter().filter(|it| !ordered.contains(*it));
        let drift = CircuitDrift {
            fabric,
            optical,
            ordered: ordered.clone(),
            lost: lost
                .map(|circuit| (circuit, set_by(fabric, state, optical, circuit)))
                .collect(),
            unordered: unordered.collect(),
        };
        (ordered != held).then_some(drift)
    });
    drifts.collect()
}

/// The first of the kept plans since which the circuit was in force without a break.
fn set_by(fabric: &Fabric, state: &State, optical: OpticalId, circuit: Circuit) -> SetBy {
    let kept = state.history().rev();
    let kept = kept.filter(|ended| ended.outcome == Outcome::Committed);
    let mut earliest = None;
    for ended in kept {
        let circuits = ended.plan.circuits.get(&optical);
        match (circuits.map(|set| set.contains(circuit)), earliest) {
            (Some(true), _) => earliest = Some(ended.plan.generation),
            (Some(false), Some(generation)) => return SetBy::Plan(generation),
            // A plan since the circuit was lost, or one before any plan moved circuits of the switch.
            (Some(false) | None, _) => {}
        }
    }
    let first = fabric.first_circuits().get(&optical);
    let is_whole = state.history().count() as u64 == state.ended();
    match earliest {
        _ if first.is_some_and(|first| first.contains(circuit)) => SetBy::FabricFile,
        Some(generation) if is_whole => SetBy::Plan(generation),
        _ => SetBy::EarlierPlan,
    }
}

impl CircuitDrift<'_> {
    /// The difference and what sets it right.
    pub(crate) fn alarm(&self) -> String {
        let lost = match self.lost.as_slice() {
            [] => None,
            [one] => Some(format!("has lost {}", lost_words(one))),
            lost => {
                let circuits = lost.iter().map(|(circuit, _)| *circuit);
                Some(format!("has lost circuits {}", listed(circuits)))
            }
        };
        let unordered = match self.unordered.as_slice() {
            [] => None,
            [one] => Some(format!("has {}", unordered_words(*one))),
            all => {
                let circuits = listed(all.iter().copied());
                Some(format!("has circuits {circuits}, which no plan set"))
            }
        };
        let differences: Vec<_> = [lost, unordered].into_iter().flatten().collect();
        let (name, differences) = (self.name(), differences.join(" and "));
        format!("{name} {differences}; {}", self.remedy())
    }

    /// A finding for each link that a lost circuit made, or that a circuit makes which no plan set.
    pub(crate) fn causes(&self) -> Vec<Cause> {
        let lost = self.lost.iter();
        let lost = lost.map(|one| (one.0, format!("has lost {}", lost_words(one))));
        let unordered = self.unordered.iter();
        let unordered = unordered.map(|&one| (one, format!("has {}", unordered_words(one))));
        let causes = lost.chain(unordered).filter_map(|(circuit, words)| {
            let evidence = format!("{} {words}", self.name());
            let cause = Class::ConfigurationMismatch.cause(self.link(circuit)?, 1.0, evidence);
            Some(Cause {
                remedy: self.remedy(),
                ..cause
            })
        });
        causes.take(MAX_NAMED_CIRCUITS).collect()
    }

    fn name(&self) -> &str {
        &self.fabric.optical(self.optical).name
    }

    fn remedy(&self) -> String {
        let name = self.name();
        if self.ordered.len() > MAX_COMMAND_CIRCUITS {
            return format!(
                "set what was ordered on the device, or with `reweave plan circuits {name}=...`"
            );
        }
        let ordered = self.ordered.iter().map(|circuit| circuit.to_string());
        let ordered = ordered.collect::<Vec<_>>().join(",");
        format!("`reweave plan circuits {name}={ordered}` sets what was ordered")
    }

    /// The link over this circuit. A port without a fibre makes none.
    fn link(&self, circuit: Circuit) -> Option<Subject> {
        let crossing = Crossing {
            optical: self.optical,
            circuit,
        };
        let mut links = self.fabric.links();
        let (id, link) = links.find(|(id, _)| self.fabric.crossing(*id) == Some(crossing))?;
        let ends = link.ports();
        Some(Subject::Link {
            ends: ends.map(|port| self.fabric.name(port.node).to_owned()),
            link: self.fabric.link_name(id),
        })
    }
}

fn lost_words((circuit, set_by): &(Circuit, SetBy)) -> String {
    match set_by {
        SetBy::Plan(generation) => format!("circuit {circuit}, which plan {generation} set"),
        SetBy::FabricFile => format!("circuit {circuit}, which is in the fabric's file"),
        SetBy::EarlierPlan => format!("circuit {circuit}, which an earlier plan set"),
    }
}

fn unordered_words(circuit: Circuit) -> String {
    format!("circuit {circuit}, which no plan set")
}

fn listed(circuits: impl ExactSizeIterator<Item = Circuit>) -> String {
    let more = circuits.len().saturating_sub(MAX_NAMED_CIRCUITS);
    let named = circuits.take(MAX_NAMED_CIRCUITS);
    let named: Vec<_> = named.map(|circuit| circuit.to_string()).collect();
    match more {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
