//! Does the lab come up, is it what the scenario says, and is nothing of it left afterwards?
//!
//! Fast enough to run with every change; the long tests of the lab have files of their own.

#[path = "smoke/commands.rs"]
mod commands;
#[path = "smoke/leftovers.rs"]
mod leftovers;
#[path = "smoke/rails.rs"]
mod rails;
#[path = "smoke/refusals.rs"]
mod refusals;
#[path = "smoke/size.rs"]
mod size;
#[path = "smoke/station.rs"]
mod station;
#[path = "smoke/wiring.rs"]
mod wiring;

mod support;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use support::Need;

/// Requirements of every lab.
const LAB_NEEDS: &[Need] = &[Need::Lab];
/// Requirements of a lab whose hosts exchange packets.
const PING_NEEDS: &[Need] = &[Need::Lab, Need::Program("ping")];

fn main() -> ExitCode {
    let tests = [
        commands::tests(),
        wiring::tests(),
        leftovers::tests(),
        rails::tests(),
        refusals::tests(),
        size::tests(),
        station::tests(),
    ];
    let tests = tests.into_iter().flatten().collect();
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}
