//! RDMA between two virtual machines with Soft-RoCE, whose packets cross a leaf-spine of the lab. What the
//! agent says there is held against perftest, in the same run and over the same way.
//!
//! The machines are emulated, a hundred times slower than real ones and with a clock that ticks every
//! 4 ms, so figures are compared with each other only.

mod absent;
mod clocks;
mod cluster;
mod machine;
mod measures;
#[path = "../lab/tests/support/needs.rs"]
mod needs;
mod perftest;
mod reconfigured;
mod scene;
mod watch;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args().skip(1).collect();
    if let [helper, port] = &words[..]
        && helper == watch::WATCH_ARGUMENT
    {
        return watch::watch(port);
    }
    let tests = [
        absent::tests(),
        clocks::tests(),
        measures::tests(),
        cluster::tests(),
        reconfigured::tests(),
    ];
    // All are in the same two machines.
    let arguments = Arguments {
        test_threads: Some(1),
        ..Arguments::from_args()
    };
    let tests = tests.into_iter().flatten().collect();
    let conclusion = libtest_mimic::run(&arguments, tests);
    scene::clear();
    conclusion.exit_code()
}
