//! The rank orders of registered jobs, as plans have made them.

use reweave_common::plan::{Plan, RankOrder};

use super::State;
use crate::log::reason::Reason;

impl State {
    /// A plan that leaves everything as it is.
    pub(crate) fn as_it_is(&self) -> Plan {
        let in_force = &self.in_force;
        Plan {
            pins: in_force.pins.clone(),
            tables: in_force.tables.clone(),
            circuits: in_force.circuits.clone(),
            ..Plan::empty(self.next_generation(), in_force.generation)
        }
    }

    /// Whether the job still has the order that this was made for.
    pub(crate) fn fits(&self, order: &RankOrder) -> bool {
        let told = self.registered.get(&order.job);
        told.and_then(|job| job.order.as_ref()) == Some(&order.before)
    }

    /// Jobs of the plan that are over, or have another order by now.
    pub(crate) fn other_ranks(&self, plan: &Plan) -> Vec<Reason> {
        let unfit = plan.orders.iter().filter(|order| !self.fits(order));
        unfit
            .map(|order| Reason::OtherRanks {
                job: order.job.clone(),
            })
            .collect()
    }

    /// Where ranks are now is not touched: they stay there until the orchestrator that starts them asks again.
    pub(super) fn reorder(&mut self, orders: Vec<RankOrder>) {
        for RankOrder { job, after, .. } in orders {
            if let Some(told) = self.registered.get_mut(&job) {
                told.order = Some(after);
            }
        }
    }
}
