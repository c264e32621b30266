//! Does a run say what happened, all of it, and nothing that it does not know?

mod support;

#[path = "runs/endings.rs"]
mod endings;
#[path = "runs/figures.rs"]
mod figures;

use std::process::ExitCode;

use libtest_mimic::Arguments;

use support::Need;

const LAB_NEEDS: &[Need] = &[Need::Lab];

/// Four hosts on one switch.
const FABRIC: &str =
    "name = 'run'\nseed = 3\n[fabric]\nkind = 'ideal'\nhosts = 4\nnic_gbps = 0.1\n";

/// An endless ring of three.
const ENDLESS_JOB: &str = "[[job]]\nname = 'train'\npattern = 'ring-allreduce'\n\
    hosts = ['h0', 'h1', 'h2']\nbytes = 300_000\ncompute_ms = 10\niterations = 1_000_000\n";

fn main() -> ExitCode {
    let tests = [endings::tests(), figures::tests()];
    // Some tests measure rates, so none may run in parallel.
    let arguments = Arguments {
        test_threads: Some(1),
        ..Arguments::from_args()
    };
    let tests = tests.into_iter().flatten().collect();
    libtest_mimic::run(&arguments, tests).exit_code()
}
