//! Are the agent's figures right? Each is held against a tool of another maker, or against the
//! counters of the links that the packets pass.

#[path = "accuracy/bandwidth.rs"]
mod bandwidth;
#[path = "accuracy/costs.rs"]
mod costs;
#[path = "accuracy/flows.rs"]
mod flows;
#[path = "accuracy/latency.rs"]
mod latency;
#[path = "accuracy/loss.rs"]
mod loss;
#[path = "accuracy/matrix.rs"]
mod matrix;
#[path = "lab/tests/support/needs.rs"]
mod needs;
mod play;
#[path = "accuracy/rhythm.rs"]
mod rhythm;
#[path = "accuracy/scene.rs"]
mod scene;
#[path = "accuracy/shark.rs"]
mod shark;
#[path = "lab/tests/support/timed.rs"]
mod timed;
#[path = "accuracy/traces.rs"]
mod traces;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    // In a node of a lab, this program sends the packets of a flow.
    if let Some(flow) = flows::asked_for() {
        return flow.send();
    }
    let tests = [
        latency::tests(),
        loss::tests(),
        traces::tests(),
        bandwidth::tests(),
        costs::tests(),
        matrix::tests(),
        rhythm::tests(),
    ];
    // Each measures times, so none may have another beside it.
    let arguments = Arguments {
        test_threads: Some(1),
        ..Arguments::from_args()
    };
    let tests = tests.into_iter().flatten().collect();
    libtest_mimic::run(&arguments, tests).exit_code()
}
