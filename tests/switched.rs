//! Switched fabrics with real traffic: faults are named, colliding flows are separated, imbalance matches the
//! counters, ranks are placed where their traffic crosses racks least, and sessions survive every change.

#[path = "switched/clean.rs"]
mod clean;
#[path = "switched/daemons.rs"]
mod daemons;
#[path = "switched/drained.rs"]
mod drained;
#[path = "switched/failing.rs"]
mod failing;
#[path = "switched/flows.rs"]
mod flows;
#[path = "switched/hardware.rs"]
mod hardware;
#[path = "switched/hashed.rs"]
mod hashed;
#[path = "recorded/life.rs"]
mod life;
#[path = "switched/looked.rs"]
mod looked;
#[path = "switched/losses.rs"]
mod losses;
#[path = "switched/maintained.rs"]
mod maintained;
mod mpi;
#[path = "switched/nccl_settings.rs"]
mod nccl_settings;
#[path = "lab/tests/support/needs.rs"]
mod needs;
#[path = "switched/nics.rs"]
mod nics;
#[path = "switched/pairs.rs"]
mod pairs;
#[path = "switched/parallel.rs"]
mod parallel;
mod play;
#[path = "switched/probed.rs"]
mod probed;
#[path = "switched/rails.rs"]
mod rails;
#[path = "switched/ranks.rs"]
mod ranks;
#[path = "switched/resting.rs"]
mod resting;
#[path = "prediction_accuracy/running.rs"]
mod running;
#[path = "switched/scene.rs"]
mod scene;
mod session_jobs;
#[path = "switched/sessions.rs"]
mod sessions;
mod skew;
#[path = "switched/slowed.rs"]
mod slowed;
#[path = "switched/stopped.rs"]
mod stopped;
#[path = "recorded/thin.rs"]
mod thin;
#[path = "lab/tests/support/timed.rs"]
mod timed;
#[path = "switched/troubles.rs"]
mod troubles;
#[path = "switched/unwelcome.rs"]
mod unwelcome;
#[path = "switched/weighed.rs"]
mod weighed;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let tests = [
        flows::tests(),
        hashed::tests(),
        looked::tests(),
        losses::tests(),
        parallel::tests(),
        troubles::tests(),
        hardware::tests(),
        nccl_settings::tests(),
        slowed::tests(),
        drained::tests(),
        nics::tests(),
        daemons::tests(),
        failing::tests(),
        weighed::tests(),
        maintained::tests(),
        clean::tests(),
        rails::tests(),
        ranks::tests(),
        pairs::tests(),
        probed::tests(),
        resting::tests(),
        sessions::tests(),
        stopped::tests(),
    ];
    // Each test measures rates, so they run one after the other.
    let arguments = Arguments {
        test_threads: Some(1),
        ..Arguments::from_args()
    };
    let tests = tests.into_iter().flatten().collect();
    libtest_mimic::run(&arguments, tests).exit_code()
}
