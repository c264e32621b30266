//! What thousands of agents cost the coordinator they report to, and how soon they are with another
//! when it is lost.
//!
//!     reweave-bench-crowd load [AGENTS]         one coordinator, for half a minute
//!     reweave-bench-crowd reconnect [AGENTS]    three, of which the leader is killed
//!     reweave-bench-crowd flood [AGENTS]        one or more who mean harm, and decisions meanwhile
//!     reweave-bench-crowd look [AGENTS]         how long the core works on one look at all of them
//!
//! (`hostile ADDRESS IDENTITY...` are those.) Each agent is the real one's line with a session and a
//! socket of its own; only what it reports is made up: the probes to 64 peers, once a second.

mod agents;
mod flood;
mod load;
mod look;
#[path = "../machine.rs"]
mod machine;
mod members;
mod process;
mod reconnect;
mod reports;
#[path = "../coordinators/times.rs"]
mod times;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

const AGENTS: usize = 4096;

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
    let (what, count) = match words[..] {
        ["flood"] => ("flood", Some(1)),
        [what] => (what, Some(AGENTS)),
        [what, count] => (what, count.parse().ok()),
        _ => ("", None),
    };
    match (what, count) {
        ("flood", Some(agents)) => flood::measure(agents),
        ("load", Some(agents)) => load::measure(agents),
        ("look", Some(agents)) => look::measure(agents),
        ("reconnect", Some(agents)) => reconnect::measure(agents),
        _ => {
            eprintln!("usage: reweave-bench-crowd load|reconnect|flood|look [AGENTS]");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
