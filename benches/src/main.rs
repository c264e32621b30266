//! How long the planner's parts take, on one core each, beside what is asked of them.
//!
//!     reweave-bench                   all measurements
//!     reweave-bench NAME...           those whose names contain one of these words
//!     reweave-bench --peers PROGRAM   against SimGrid, driven by this program

mod machine;
mod peers;
mod sim;
mod topology;

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    machine::introduce();
    match &arguments[..] {
        [option, program] if option == "--peers" => peers::compare(program),
        words => {
            sim::measure_all(words);
            topology::measure_all(words);
            ExitCode::SUCCESS
        }
    }
}
