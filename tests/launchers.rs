//! Do those who start jobs elsewhere take what Reweave hands them? Slurm's own daemons run its scripts here, and
//! PyTorch's launcher its ranks.

#[path = "lab/tests/support/needs.rs"]
mod needs;
#[path = "launchers/shared_key.rs"]
mod shared_key;
#[path = "launchers/slurm.rs"]
mod slurm;
#[path = "launchers/torchrun.rs"]
mod torchrun;

use std::process::ExitCode;

use libtest_mimic::Arguments;

/// Hosts with even numbers are in one rack, those with odd ones in the other: an order by name goes from rack to rack.
const FABRIC: &str = "
    kind = \"graph\"
    node = [
        { name = \"h0\", role = \"host\" }, { name = \"h1\", role = \"host\" },
        { name = \"h2\", role = \"host\" }, { name = \"h3\", role = \"host\" },
        { name = \"leaf0\", role = \"switch\" }, { name = \"leaf1\", role = \"switch\" },
    ]
    link = [
        { a = \"h0\", b = \"leaf0\", gbps = 0.1 }, { a = \"h2\", b = \"leaf0\", gbps = 0.1 },
        { a = \"h1\", b = \"leaf1\", gbps = 0.1 }, { a = \"h3\", b = \"leaf1\", gbps = 0.1 },
        { a = \"leaf0\", b = \"leaf1\", gbps = 0.1 },
    ]
";
const HOSTS: &str = "h[0-3]";

fn main() -> ExitCode {
    // Both are full of programs that take their time to start.
    let arguments = Arguments {
        test_threads: Some(1),
        ..Arguments::from_args()
    };
    let tests = vec![slurm::test(), shared_key::test(), torchrun::test()];
    libtest_mimic::run(&arguments, tests).exit_code()
}

/// Where ranks are, by what each says of itself: its number, its host and whom it meets.
fn places(said: &str) -> Vec<(usize, String, String)> {
    let mut places: Vec<_> = said.lines().map(place).collect();
    places.sort();
    places
}

fn place(line: &str) -> (usize, String, String) {
    let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
    let rank = words.first().and_then(|rank| rank.parse().ok());
    let rank = rank.unwrap_or_else(|| panic!("no rank: {line}"));
    let word = |at: usize| words.get(at).cloned().unwrap_or_default();
    (rank, word(1), word(2))
}

/// Each rank is on the host of this order, all meet at the first, and the ring crosses from rack to rack but twice.
fn are_in_order(places: &[(usize, String, String)], order: &[&str]) {
    let expected = order.iter().enumerate();
    let expected: Vec<_> = expected
        .map(|(rank, host)| (rank, (*host).to_owned(), order[0].to_owned()))
        .collect();
    assert_eq!(places, expected);
    let racks: Vec<_> = order
        .iter()
        .map(|host| matches!(*host, "h0" | "h2"))
        .collect();
    let next = racks.iter().cycle().skip(1);
    let crossings = racks.iter().zip(next).filter(|(one, other)| one != other);
    assert_eq!((racks.len(), crossings.count()), (4, 2), "{order:?}");
}
