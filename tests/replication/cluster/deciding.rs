//! What leaders decide by themselves: the commands of the product.

use std::collections::BTreeMap;

use std::time::Duration;

use reweave_common::plan::{Plan, Report};
use reweave_common::units::Rate;
use reweave_core::{Author, Change as Decision, Command};
use reweave_replica::RequestId;

use super::{Cluster, Event};
use crate::machine::{Machine, Payload};

pub(super) const DECIDES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(120)];

impl Cluster {
    /// Whoever leads, or thinks so, decides something.
    pub(super) fn decide(&mut self) {
        self.after(DECIDES, Event::Decide);
        if self.is_closing || !self.is_deciding {
            return;
        }
        let leaders = self
            .nodes
            .iter()
            .filter_map(|(&id, node)| Some((id, node.leads()?)));
        for (id, term) in leaders.collect::<Vec<_>>() {
            self.decide_at(id, term);
        }
    }

    fn decide_at(&mut self, id: u64, term: u64) {
        let today = self.nodes[&id].time_of_day(self.now());
        let running = self.running(id);
        running.said = running.said.max(today);
        running.proposed += 1;
        let request = RequestId {
            client: id,
            number: (term << 32) + running.proposed,
        };
        let command = Command {
            at: running.said,
            change: decision(&running.machine),
        };
        let payload = Payload::Decided(Box::new(command));
        let payload = postcard::to_stdvec(&payload).expect("it can be written");
        // A node that stands still has led, and will find out.
        let _ = running.replica.propose(request, payload);
        self.carry_out(id);
    }
}

/// A plan on offer, or the end of the one there is.
fn decision(machine: &Machine) -> Decision {
    if let Some(rollout) = machine.state.rollout() {
        let generation = rollout.plan.generation;
        return Decision::PlanWithdrawn {
            generation,
            reasons: vec![],
        };
    }
    let plan = Plan {
        generation: machine.state.next_generation(),
        parent: machine.state.in_force().generation,
        pins: vec![],
        tables: BTreeMap::new(),
        circuits: BTreeMap::new(),
        moves: vec![],
        predictions: vec![],
        report: Report {
            findings: vec![],
            slowest_before: Rate::from_bits_per_s(1),
            slowest_after: Rate::from_bits_per_s(2),
            alternatives: vec![],
        },
    };
    Decision::PlanProposed {
        plan: Box::new(plan),
        by: Author::Policy,
    }
}
