//! The rank orders of registered jobs that plans change.

use reweave_common::plan::{Plan, RankOrder};

use super::State;
use crate::log::reason::Reason;

impl State {
    /// A plan that changes nothing.
    pub(crate) fn as_it_is(&self) -> Plan {
        let in_force = &self.in_force;
        Plan {
            pins: in_force.pins.clone(),
            tables: in_force.tables.clone(),
            circuits: in_force.circuits.clone(),
            ..Plan::empty(self.next_generation(), in_force.generation)
        }
    }

    /// Whether the job still has the order that this change was made for.
    pub(crate) fn fits(&self, order: &RankOrder) -> bool {
        let registration = self.registered.get(&order.job);
        registration.and_then(|job| job.order.as_ref()) == Some(&order.before)
    }

    /// Jobs of the plan that are over or have another order by now.
    pub(crate) fn other_ranks(&self, plan: &Plan) -> Vec<Reason> {
        let unfit = plan.orders.iter().filter(|order| !self.fits(order));
        unfit
            .map(|order| Reason::OtherRanks {
                job: order.job.clone(),
            })
            .collect()
    }

    /// Records the new orders. Running ranks stay where they are until the orchestrator starts them again.
    pub(super) fn reorder(&mut self, orders: Vec<RankOrder>) {
        for RankOrder { job, after, .. } in orders {
            if let Some(report) = self.registered.get_mut(&job) {
                report.order = Some(after);
            }
        }
    }
}
