//! Switched fabrics with real traffic: what Reweave says of it, held against the counters of links.

#[path = "switched/flows.rs"]
mod flows;
#[path = "lab/tests/support/needs.rs"]
mod needs;
mod play;
#[path = "switched/scene.rs"]
mod scene;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let tests = [flows::tests()];
    // Each measures rates, so none may have another beside it.
    let arguments = Arguments {
        test_threads: Some(1),
        ..Arguments::from_args()
    };
    let tests = tests.into_iter().flatten().collect();
    libtest_mimic::run(&arguments, tests).exit_code()
}
