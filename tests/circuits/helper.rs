//! This program as a helper inside a node: it installs a forwarding state in the kernel there, by the agent's own
//! code.

use std::io;
use std::process::ExitCode;

use reweave_agent::netlink::RouteSocket;
use reweave_common::error::error_chain;
use reweave_common::forwarding_state::ForwardingState;

/// The argument that selects the helper.
pub(crate) const HOLD_ARGUMENT: &str = "--hold";

/// Reads the desired state from standard input, and writes the state that the kernel holds afterwards.
pub(crate) fn hold() -> ExitCode {
    let desired: ForwardingState =
        serde_json::from_reader(io::stdin()).expect("its input says what to hold");
    let held = RouteSocket::open().and_then(|mut route| {
        if let Err(error) = route.hold_all(&desired) {
            eprintln!("error: {}", error_chain(&error));
        }
        route.holding()
    });
    let held = held.expect("what is held can be read");
    println!("{}", serde_json::json!(held));
    ExitCode::SUCCESS
}
