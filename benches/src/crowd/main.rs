//! What thousands of agents cost the coordinator they report to, and how soon they are with another
//! when it is lost.
//!
//!     reweave-bench-crowd load [AGENTS]         one coordinator, for half a minute
//!     reweave-bench-crowd reconnect [AGENTS]    three, of which the leader is killed
//!     reweave-bench-crowd flood [AGENTS]        one or more who mean harm, and decisions meanwhile
//!     reweave-bench-crowd face [AGENTS]         what the API answers meanwhile, and what viewers cost
//!     reweave-bench-crowd look [AGENTS]         how long the core works on one look at all of them
//!     reweave-bench-crowd rollout [PART]        how soon a plan is in force: circuits, repair, tables
//!     reweave-bench-crowd page [AGENTS]         how soon a browser shows them (1024 unless said otherwise)
//!
//! (`hostile ADDRESS IDENTITY...` are those.) Each agent is the real one's line with a session and a
//! socket of its own; only what it reports is made up: the probes to 64 peers, once a second.

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

/// As in the coordinator: thousands of agents are one process here.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const DEFAULT_AGENTS: usize = 4096;
/// Hosts against hosts, that is a million pairs.
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
