//! The agent against real kernels: a small leaf-spine fabric of network namespaces, with packets.
//!
//! The whole program moves into namespaces of its own before it starts, so an ordinary user may run
//! it and nothing is left behind. Where the machine allows no such thing, its tests are reported
//! as ignored, with the reason.

#[path = "kernel/fabric.rs"]
mod fabric;
#[path = "kernel/flows.rs"]
mod flows;
#[path = "kernel/gap.rs"]
mod gap;
#[path = "kernel/pins.rs"]
mod pins;
#[path = "kernel/sandbox.rs"]
mod sandbox;
#[path = "kernel/scratch.rs"]
mod scratch;
#[path = "kernel/start.rs"]
mod start;
#[path = "kernel/traces.rs"]
mod traces;
#[path = "kernel/traffic.rs"]
mod traffic;

use libtest_mimic::{Arguments, Trial};

fn main() {
    let mut arguments = Arguments::from_args();
    // Fabrics share names, and measurements disturb one another.
    arguments.test_threads = Some(1);
    let missing = sandbox::enter().err();
    let tests = [
        pins::tests(),
        gap::tests(),
        start::tests(),
        flows::tests(),
        traces::tests(),
    ];
    let trials = tests
        .into_iter()
        .flatten()
        .map(|(name, test)| trial(name, test, missing.as_deref()));
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

type Test = (&'static str, fn());

fn trial(name: &str, test: fn(), missing: Option<&str>) -> Trial {
    let trial = Trial::test(name, move || {
        test();
        Ok(())
    });
    match missing {
        Some(reason) => trial.with_kind(reason).with_ignored_flag(true),
        None => trial,
    }
}
