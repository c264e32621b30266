//! Stories of the whole product with something going wrong in each: predictions that do not hold,
//! switches that refuse, flows that end, coordinators that die. In each the network must end no
//! worse than it was.

#[path = "stories/alone.rs"]
mod alone;
#[path = "stories/bereft.rs"]
mod bereft;
mod collector;
#[path = "stories/deaths.rs"]
mod deaths;
#[path = "stories/doubles.rs"]
mod doubles;
#[path = "stories/jobs.rs"]
mod jobs;
#[path = "stories/loops.rs"]
mod loops;
#[path = "stories/mistaken.rs"]
mod mistaken;
#[path = "lab/tests/support/needs.rs"]
mod needs;
mod play;
#[path = "stories/ranks.rs"]
mod ranks;
#[path = "stories/replays.rs"]
mod replays;
#[path = "stories/severed.rs"]
mod severed;
#[path = "stories/thwarted.rs"]
mod thwarted;
#[path = "lab/tests/support/timed.rs"]
mod timed;
#[path = "stories/upgraded.rs"]
mod upgraded;
#[path = "stories/webhook.rs"]
mod webhook;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let tests = [
        alone::tests(),
        mistaken::tests(),
        thwarted::tests(),
        deaths::tests(),
        bereft::tests(),
        replays::tests(),
        loops::tests(),
        severed::tests(),
        doubles::tests(),
        webhook::tests(),
        jobs::tests(),
        ranks::tests(),
        upgraded::tests(),
    ];
    // Each measures rates, so none may have another beside it.
    let arguments = Arguments {
        test_threads: Some(1),
        ..Arguments::from_args()
    };
    let tests = tests.into_iter().flatten().collect();
    libtest_mimic::run(&arguments, tests).exit_code()
}
