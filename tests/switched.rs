//! Switched fabrics with real traffic: what is wrong is named, what collides is parted, imbalance is
//! what counters say, ranks are put where their traffic crosses racks least, and sessions outlive it all.

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
#[path = "lab/tests/support/needs.rs"]
mod needs;
#[path = "switched/pairs.rs"]
mod pairs;
#[path = "switched/parallel.rs"]
mod parallel;
mod play;
#[path = "switched/probed.rs"]
mod probed;
#[path = "switched/ranks.rs"]
mod ranks;
#[path = "switched/resting.rs"]
mod resting;
#[path = "foretold/running.rs"]
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
#[path = "switched/told.rs"]
mod told;
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
        told::tests(),
        slowed::tests(),
        drained::tests(),
        daemons::tests(),
        failing::tests(),
        weighed::tests(),
        maintained::tests(),
        clean::tests(),
        ranks::tests(),
        pairs::tests(),
        probed::tests(),
        resting::tests(),
        sessions::tests(),
        stopped::tests(),
    ];
    // Each measures rates, so none may have another beside it.
    let arguments = Arguments {
        test_threads: Some(1),
        ..Arguments::from_args()
    };
    let tests = tests.into_iter().flatten().collect();
    libtest_mimic::run(&arguments, tests).exit_code()
}
