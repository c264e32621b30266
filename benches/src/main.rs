//! Times of the planner's parts, on one core each, with their limits.
//!
//!     reweave-bench                     all measurements
//!     reweave-bench NAME...             measurements whose names contain one of these words
//!     reweave-bench --race PROGRAM ...  the same, and a comparison of speed with SimGrid, driven by this program
//!     reweave-bench --peers PROGRAM     comparison of results and times with SimGrid

mod balance;
mod candidates;
mod cost;
mod importers;
mod judge;
mod machine;
mod operators;
mod peers;
mod regional;
mod shapes;
mod shared;
mod sim;
mod switched;
mod tables;
mod topology;

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    machine::introduce();
    match &arguments[..] {
        [option, program] if option == "--peers" => peers::compare(program),
        [option, program, words @ ..] if option == "--race" => {
            measure_all(words);
            peers::race(program);
            ExitCode::SUCCESS
        }
        words => {
            measure_all(words);
            ExitCode::SUCCESS
        }
    }
}

fn measure_all(words: &[String]) {
    sim::measure_all(words);
    candidates::measure_all(words);
    importers::measure_all(words);
    topology::measure_all(words);
    shared::measure_all(words);
    regional::measure_all(words);
    tables::measure_all(words);
    operators::measure_all(words);
    balance::measure_all(words);
    switched::measure_all(words);
    judge::measure_all(words);
}
