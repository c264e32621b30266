//! The whole product on a virtual cluster: does it find, plan, carry out, verify and remember?
//!
//! The stories with faults in them have a file of their own.

#[path = "system/cluster.rs"]
mod cluster;
#[path = "system/history.rs"]
mod history;
#[path = "system/mending.rs"]
mod mending;
#[path = "lab/tests/support/needs.rs"]
mod needs;
mod play;
#[path = "lab/tests/support/timed.rs"]
mod timed;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let tests = [cluster::tests(), mending::tests(), history::tests()];
    // Each measures rates, so none may have another beside it.
    let arguments = Arguments {
        test_threads: Some(1),
        ..Arguments::from_args()
    };
    let tests = tests.into_iter().flatten().collect();
    libtest_mimic::run(&arguments, tests).exit_code()
}
