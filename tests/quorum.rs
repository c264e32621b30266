//! Three coordinators as processes in network namespaces of their own, under faults: cut links, packet loss, paused
//! processes, failing disks, wrong clocks. Operators make decisions meanwhile. Every acknowledged decision must
//! survive, and every client that asks later must see it.

#[path = "quorum/clocks.rs"]
mod clocks;
#[path = "quorum/cluster.rs"]
mod cluster;
#[path = "quorum/disks.rs"]
mod disks;
#[path = "quorum/full.rs"]
mod full;
#[path = "lab/tests/support/needs.rs"]
mod needs;
#[path = "quorum/networks.rs"]
mod networks;
#[path = "deploy/promtool.rs"]
mod promtool;
#[path = "quorum/served.rs"]
mod served;
mod skew;
#[path = "quorum/standstill.rs"]
mod standstill;
#[path = "quorum/witness.rs"]
mod witness;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let tests = [
        networks::tests(),
        standstill::tests(),
        disks::tests(),
        full::tests(),
        clocks::tests(),
        served::tests(),
    ];
    // Each test keeps the machine busy, so they run one after the other.
    let arguments = Arguments {
        test_threads: Some(1),
        ..Arguments::from_args()
    };
    let tests = tests.into_iter().flatten().collect();
    libtest_mimic::run(&arguments, tests).exit_code()
}
