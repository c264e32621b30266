//! Compares three coordinators with three members of etcd, on one machine with one client: time without decisions after
//! the loss of a leader, and time per decision.
//!
//!     reweave-bench-coordinators failover [ROUNDS [LOSS]]     leaders killed, paused and cut-off
//!     reweave-bench-coordinators commits                      1, 10 and 50 clients
//!
//! Both have the same timers (50 ms and 300 ms, with pre-vote), TLS, and a disk.

mod certificates;
mod client;
mod commits;
mod failover;
#[path = "../machine.rs"]
mod machine;
mod system;
mod times;
mod trio;

use std::env;
use std::process::ExitCode;

use failover::Loss;
use reweave_common::error::error_chain;

const DEFAULT_ROUNDS: usize = 50;

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["failover"] => failover::race(&Loss::ALL, DEFAULT_ROUNDS),
        ["failover", rounds] => match rounds.parse() {
            Ok(rounds) => failover::race(&Loss::ALL, rounds),
            Err(_) => return usage(),
        },
        ["failover", rounds, loss] => match (rounds.parse(), Loss::named(loss)) {
            (Ok(rounds), Some(loss)) => failover::race(&[loss], rounds),
            _ => return usage(),
        },
        ["commits"] => commits::race(),
        // Runs inside the lab.
        ["client", order] => {
            client::run(order);
            Ok(())
        }
        _ => return usage(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", error_chain(&error));
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!(
        "usage: reweave-bench-coordinators failover [ROUNDS [killed|paused|cut-off]] | commits"
    );
    ExitCode::from(2)
}
