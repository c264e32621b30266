//! Circuits of an optical switch that move while sessions cross them, by hand and by plans: what the driver reads,
//! does and refuses, and that no session loses a packet.

#[path = "circuits/alone.rs"]
mod alone;
#[path = "circuits/bench.rs"]
mod bench;
#[path = "circuits/cluster.rs"]
mod cluster;
#[path = "circuits/driver.rs"]
mod driver;
#[path = "circuits/fixed.rs"]
mod fixed;
#[path = "circuits/helper.rs"]
mod helper;
#[path = "lab/tests/support/needs.rs"]
mod needs;
#[path = "circuits/netconfd.rs"]
mod netconfd;
#[path = "circuits/plans.rs"]
mod plans;
#[path = "circuits/records.rs"]
mod records;
#[path = "circuits/scene.rs"]
mod scene;
mod session_jobs;
#[path = "circuits/sessions.rs"]
mod sessions;
#[path = "circuits/suited.rs"]
mod suited;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use needs::Need;

const LAB_NEEDS: &[Need] = &[Need::Lab, Need::Program("curl")];

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some(helper::HOLD_ARGUMENT) => return helper::hold(),
        Some(fixed::SEND_ARGUMENT) => return fixed::send(&words[1..]),
        Some(fixed::COUNT_ARGUMENT) => return fixed::count(),
        _ => {}
    }
    let tests = [
        driver::tests(),
        sessions::tests(),
        plans::tests(),
        records::tests(),
        alone::tests(),
        suited::tests(),
    ];
    // Sessions are measured, so the tests run one after the other.
    let arguments = Arguments {
        test_threads: Some(1),
        ..Arguments::from_args()
    };
    let tests = tests.into_iter().flatten().collect();
    libtest_mimic::run(&arguments, tests).exit_code()
}
