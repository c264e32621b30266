//! The client of both systems: makes decisions one after another with the member that accepts them.

mod asking;
mod etcd;
mod order;
mod reweave;

pub(crate) use order::Order;
pub(crate) use running::Running;

mod running;

use tokio::runtime::Builder;

/// Runs inside the lab: follows its order, and prints start and acknowledgement of each decision.
pub(crate) fn run(order: &str) {
    let order: Order = serde_json::from_str(order).expect("an order");
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(order.carry_out());
}
