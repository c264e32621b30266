//! The agent against real kernels: a small leaf-spine fabric of network namespaces, with packets.
//!
//! The program moves into namespaces of its own before it starts, and each thread that runs tests into a network of its
//! own: an ordinary user may run it, nothing is left behind, and tests may run at once. Where the machine allows no such
//! thing, its tests are reported as ignored, with the reason.

#[path = "kernel/by_hand.rs"]
mod by_hand;
#[path = "kernel/commands.rs"]
mod commands;
#[path = "kernel/counting.rs"]
mod counting;
#[path = "kernel/discovery.rs"]
mod discovery;
#[path = "kernel/drivers.rs"]
mod drivers;
#[path = "../../tests/lab/tests/support/executable.rs"]
mod executable;
#[path = "kernel/fabric.rs"]
mod fabric;
#[path = "kernel/fibres.rs"]
mod fibres;
#[path = "kernel/flows.rs"]
mod flows;
#[path = "kernel/frr.rs"]
mod frr;
#[path = "kernel/frr_routes.rs"]
mod frr_routes;
#[path = "kernel/gap.rs"]
mod gap;
#[path = "kernel/pins.rs"]
mod pins;
#[path = "../../tests/lab/tests/support/poll.rs"]
mod poll;
#[path = "kernel/probing.rs"]
mod probing;
#[path = "kernel/rates.rs"]
mod rates;
#[path = "kernel/routes.rs"]
mod routes;
#[path = "kernel/sandbox.rs"]
mod sandbox;
#[path = "kernel/serving.rs"]
mod serving;
#[path = "kernel/sonic.rs"]
mod sonic;
#[path = "kernel/start.rs"]
mod start;
#[path = "../../tests/lab/tests/support/timed.rs"]
mod timed;
#[path = "kernel/traces.rs"]
mod traces;
#[path = "kernel/traffic.rs"]
mod traffic;
#[path = "kernel/trains.rs"]
mod trains;
#[path = "kernel/transport.rs"]
mod transport;
#[path = "kernel/trouble.rs"]
mod trouble;

use libtest_mimic::{Arguments, Trial};

/// A test, and what it takes besides `ip`: a tool, or `bpf`, to load programs into the kernel.
struct Test {
    name: &'static str,
    run: fn(),
    needs: &'static [&'static str],
}

/// Names tests by their functions, which lie in this module.
macro_rules! tests {
    ($($run:ident $(needs $tool:literal)?),* $(,)?) => {
        pub(crate) fn tests() -> Vec<crate::Test> {
            vec![$(crate::Test {
                name: concat!(module_path!(), "::", stringify!($run)),
                run: $run,
                needs: &[$($tool)?],
            }),*]
        }
    };
}
pub(crate) use tests;

fn main() {
    let mut arguments = Arguments::from_args();
    // Measurements disturb one another. `make test` runs several at once: none of its tests measures.
    arguments.test_threads.get_or_insert(1);
    let sandbox = sandbox::enter();
    let tests = [
        pins::tests(),
        routes::tests(),
        frr::tests(),
        frr_routes::tests(),
        sonic::tests(),
        gap::tests(),
        start::tests(),
        fibres::tests(),
        flows::tests(),
        traces::tests(),
        counting::tests(),
        commands::tests(),
        by_hand::tests(),
        discovery::tests(),
        drivers::tests(),
        probing::tests(),
        rates::tests(),
        serving::tests(),
        trains::tests(),
        transport::tests(),
        trouble::tests(),
    ];
    let trials = tests
        .into_iter()
        .flatten()
        .map(|test| trial(&test, &sandbox));
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

fn trial(test: &Test, sandbox: &Result<(), String>) -> Trial {
    let run = test.run;
    let name = test.name.trim_start_matches("kernel::");
    let trial = Trial::test(name, move || {
        sandbox::enter_thread()?;
        run();
        Ok(())
    });
    let tools = || test.needs.iter().try_for_each(|tool| sandbox::has(tool));
    match sandbox.clone().and_then(|()| tools()) {
        Err(missing) => trial.with_kind(missing).with_ignored_flag(true),
        Ok(()) => trial,
    }
}
