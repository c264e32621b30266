//! This program as a helper inside a node: it makes the kernel there hold what an instruction says,
//! by the agent's own code.

use std::io;
use std::process::ExitCode;

use reweave_agent::netlink::RouteSocket;
use reweave_common::error::error_chain;
use reweave_common::forwarding_state::ForwardingState;

/// The argument that makes it one.
pub(crate) const HOLD_ARGUMENT: &str = "--hold";

/// Reads what to hold from standard input and writes what is held then.
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
