//! Does each fault do what it says, when it says, and is all as before when it is over?

#[path = "faults/delays.rs"]
mod delays;
#[path = "faults/hosts.rs"]
mod hosts;
#[path = "faults/kept.rs"]
mod kept;
#[path = "faults/links.rs"]
mod links;
#[path = "faults/losses.rs"]
mod losses;
#[path = "faults/partitions.rs"]
mod partitions;
#[path = "faults/play.rs"]
mod play;
#[path = "faults/processes.rs"]
mod processes;
#[path = "faults/rates.rs"]
mod rates;

mod support;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use support::Need;

/// Requirements of every lab with faults.
const PING_NEEDS: &[Need] = &[Need::Lab, Need::Program("ping")];
const IPERF3_NEEDS: &[Need] = &[Need::Lab, Need::Program("iperf3")];
const TCPDUMP_NEEDS: &[Need] = &[Need::Lab, Need::Program("ping"), Need::Program("tcpdump")];

fn main() -> ExitCode {
    let tests = [
        links::tests(),
        losses::tests(),
        rates::tests(),
        delays::tests(),
        hosts::tests(),
        processes::tests(),
        partitions::tests(),
        kept::tests(),
    ];
    let tests = tests.into_iter().flatten().collect();
    // Tests run one at a time, because parallel ones would distort measurements.
    let arguments = Arguments {
        test_threads: Some(1),
        ..Arguments::from_args()
    };
    libtest_mimic::run(&arguments, tests).exit_code()
}
