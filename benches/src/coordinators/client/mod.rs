//! The one client for both: it decides something, again and again, with whichever member takes it.

mod asking;
mod etcd;
mod order;
mod reweave;

pub(crate) use order::Order;
pub(crate) use running::Running;

mod running;

use tokio::runtime::Builder;

/// Inside the lab: follows its order, and prints when each decision began and was acknowledged.
pub(crate) fn run(order: &str) {
    let order: Order = serde_json::from_str(order).expect("an order");
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(order.carry_out());
}
