//! Cost of thousands of agents for their coordinator, and their time to reconnect when it is lost.
//!
//!     reweave-bench-crowd load [AGENTS]         one coordinator, for half a minute
//!     reweave-bench-crowd reconnect [AGENTS]    three, of which the leader is killed
//!     reweave-bench-crowd flood [AGENTS]        delay of decisions during a flood by malicious agents
//!     reweave-bench-crowd face [AGENTS]         latency of the API, and cost of viewers
//!     reweave-bench-crowd look [AGENTS]         CPU time of the core for one status
//!     reweave-bench-crowd rollout [PART]        time to apply a plan: circuits, repair, tables
//!     reweave-bench-crowd page [AGENTS]         time until a browser shows them (default 1024)
//!
//! (`hostile ADDRESS IDENTITY...` runs the malicious agents.) Each agent has the session code of the product and a
//! socket of its own; only its reports are synthetic: probes to 64 peers, once a second.

mod agents;
mod face;
mod flood;
mod load;
mod look;
#[path = "../machine.rs"]
mod machine;
mod members;
mod page;
mod process;
mod reconnect;
mod reports;
mod rollout;
#[path = "../coordinators/times.rs"]
mod times;
mod web;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

/// Same allocator as in the coordinator; thousands of agents are one process here.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const DEFAULT_AGENTS: usize = 4096;
/// A matrix of all pairs of hosts: a million pairs.
const DEFAULT_PAGE_AGENTS: usize = 1024;

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    if let ["hostile", address, identities @ ..] = &words[..]
        && let Ok(address) = address.parse()
    {
        let identities: Vec<_> = identities.iter().map(PathBuf::from).collect();
        flood::be_hostile(address, &identities);
        return ExitCode::SUCCESS;
    }
    if let ["rollout", parts @ ..] = &words[..] {
        return rollout::measure(parts);
    }
    let (what, count) = match words[..] {
        ["flood"] => ("flood", Some(1)),
        ["page"] => ("page", Some(DEFAULT_PAGE_AGENTS)),
        [what] => (what, Some(DEFAULT_AGENTS)),
        [what, count] => (what, count.parse().ok()),
        _ => ("", None),
    };
    match (what, count) {
        ("flood", Some(agents)) => flood::measure(agents),
        ("face", Some(agents)) => face::measure(agents),
        ("load", Some(agents)) => load::measure(agents),
        ("look", Some(agents)) => look::measure(agents),
        ("page", Some(agents)) => page::measure(agents),
        ("reconnect", Some(agents)) => reconnect::measure(agents),
        _ => {
            eprintln!("usage: reweave-bench-crowd load|face|reconnect|flood|look|page [AGENTS]");
            eprintln!("       reweave-bench-crowd rollout [circuits|pins|repair|tables]");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
