//! Invalid input leads to one error with its place, never to a panic.

use proptest::prelude::*;
use reweave_common::fabric::Fabric;
use reweave_common::input::InputError;
use reweave_common::split_mix::SplitMix64;
use reweave_repair::paths::ecmp::Ecmp;

use super::super::network::{Costs, Network};
use super::super::{SimTime, flows, raw, simulate};
use super::seeded;

const RAW_PROBLEM: &str =
    "# two links\ncap 100\ncap 25\nflow 1000000 0.5 0 1\nflow 10 0 1\ndep 0 1\n";

const FABRIC: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\n\
                      host_gbps = 100\nuplink_gbps = 100\nlatency_us = 1";

const FLOWS: &str = "src,dst,bytes,start_us,after,path,sport,dport,proto\n\
                     h0,h3,1000000,0,,,,,\nh3,h0,1000,2.5,0,h3>leaf1>spine0>leaf0>h0,,,\n\
                     h1,h2,5,0,0;1,,7,9,tcp\n";

fn parse_flows(text: &str) -> Result<flows::Flows, InputError> {
    let fabric = Fabric::parse("fabric.toml", FABRIC).unwrap();
    let network = Network::of(&fabric, Costs::default());
    flows::parse("f.csv", text, &fabric, &network, &Ecmp::default())
}

fn raw_error(from: &str, to: &str) -> String {
    let text = RAW_PROBLEM.replace(from, to);
    assert_ne!(text, RAW_PROBLEM, "{from:?} is not there");
    raw::parse("p.raw", &text).unwrap_err().to_string()
}

fn flows_error(from: &str, to: &str) -> String {
    let text = FLOWS.replace(from, to);
    assert_ne!(text, FLOWS, "{from:?} is not there");
    parse_flows(&text).unwrap_err().to_string()
}

#[test]
fn valid_raw_problem_is_read() {
    let problem = raw::parse("p.raw", RAW_PROBLEM).unwrap();
    let outcome = simulate(&problem, 1000).unwrap();
    assert_eq!(outcome.finishes[0], SimTime::from_seconds(0.50032).unwrap());
    let flows = parse_flows(FLOWS).unwrap();
    let outcome = simulate(&flows.problem, 1000).unwrap();
    let times = flows.completion_times(&outcome);
    // Four hops of 1 us; then what waited begins.
    assert_eq!(times[0].micros(), 84.0);
    assert_eq!(outcome.starts[1].micros(), 84.0 + 2.5 + 4.0);
}

/// Replaced text, its replacement, and the expected error.
const RAW_MISTAKES: &[[&str; 3]] = &[
    [
        "cap 25",
        "cap 0",
        "p.raw:3: cap: 0 Gb/s is not a rate a link can have",
    ],
    [
        "cap 25",
        "cap -1",
        "p.raw:3: cap: -1 Gb/s is not a rate a link can have",
    ],
    ["cap 25", "cap", "p.raw:3: cap: GBPS is missing"],
    [
        "cap 25",
        "cap 25 25",
        "p.raw:3: cap: nothing is to follow here, not \"25\" either",
    ],
    [
        "cap 25",
        "cup 25",
        "p.raw:3: \"cup\" begins no line; use cap, flow or dep",
    ],
    [
        "1000000",
        "nan",
        "p.raw:4: flow: NaN bytes is not a flow size",
    ],
    [
        "1000000",
        "-5",
        "p.raw:4: flow: -5.0 bytes is not a flow size",
    ],
    [
        "1000000",
        "1e300",
        "p.raw:4: flow: 1e300 bytes is not a flow size",
    ],
    ["1000000", "many", "p.raw:4: flow: BYTES cannot be \"many\""],
    [
        "0.5",
        "-0.5",
        "p.raw:4: flow: -0.5 s is not a delay: 0 s to 51 hours",
    ],
    [
        "0.5",
        "inf",
        "p.raw:4: flow: inf s is not a delay: 0 s to 51 hours",
    ],
    ["0 1\nflow", "0 7\nflow", "p.raw:4: flow: no link 7"],
    [
        "0 1\nflow",
        "0 99999999999\nflow",
        "p.raw:4: flow: LINK cannot be \"99999999999\"",
    ],
    [
        "0 1\nflow",
        "0 1 0\nflow",
        "p.raw:4: flow: the path crosses link 0 twice",
    ],
    [
        "flow 10 0 1",
        "flow 10 0",
        "p.raw:5: flow: a flow crosses at least one link",
    ],
    ["dep 0 1", "dep 0 2", "p.raw:6: dep: no flow 2"],
    [
        "dep 0 1",
        "dep 1 1",
        "p.raw:6: dep: flow 1 waits for itself",
    ],
    ["dep 0 1", "dep 0", "p.raw:6: dep: B is missing"],
];

#[test]
fn raw_problem_errors_name_line() {
    for [from, to, said] in RAW_MISTAKES {
        assert_eq!(raw_error(from, to), *said);
    }
    let circle = raw_error("dep 0 1\n", "dep 0 1\ndep 1 0\n");
    assert!(
        circle.starts_with("p.raw:7: dep: flows wait for one another in a circle: ")
            || circle.starts_with("p.raw:6: dep: flows wait for one another in a circle: "),
        "{circle}"
    );
}

#[test]
fn flow_list_errors_name_line_column() {
    for (from, to, said) in [
        (
            "h0,h3",
            "h9,h3",
            "f.csv:2: src: the fabric has no node named \"h9\"",
        ),
        (
            "h0,h3",
            "leaf0,h3",
            "f.csv:2: src: leaf0 is a switch; flows go from host to host",
        ),
        ("1000000", "", "f.csv:2: bytes: this cell is empty"),
        (
            "1000000",
            "-1",
            "f.csv:2: bytes: -1.0 bytes is not a flow size",
        ),
        ("2.5", "x", "f.csv:3: start_us: it cannot be \"x\""),
        (
            "2.5",
            "-2.5",
            "f.csv:3: start_us: -2.5 us is not a delay: 0 us to 51 hours",
        ),
        (",0,h3>", ",9,h3>", "f.csv:3: after: no flow 9"),
        (",0,h3>", ",2,h3>", "f.csv:"),
        (
            ">spine0>",
            ">",
            "f.csv:3: path: two nodes that follow each other are not linked",
        ),
        (
            ">h0,",
            ">h1,",
            "f.csv:3: path: it does not lead from src to dst",
        ),
        ("tcp", "icmp", "f.csv:4: proto: it cannot be \"icmp\""),
        (",7,9", ",70000,9", "f.csv:4: sport: it cannot be \"70000\""),
        (
            ",7,9,tcp",
            "",
            "f.csv:4: 6 cells, but the table has 9 columns",
        ),
        (
            "src,dst",
            "src,dest",
            "f.csv:1: dest: no such column; known are ",
        ),
        (
            "src,dst,bytes",
            "src,dst,dst",
            "f.csv:1: dst: this column is a duplicate",
        ),
    ] {
        let error = flows_error(from, to);
        assert!(error.starts_with(said), "{error}");
    }
    let error = parse_flows("").unwrap_err().to_string();
    assert!(error.starts_with("f.csv:1: "), "{error}");
}

/// Cuts, doubles, swaps or spoils a few octets.
fn mutated(text: &str, seed: u64) -> String {
    let mut rng = SplitMix64::new(seed);
    let mut octets = text.as_bytes().to_vec();
    for _ in 0..=rng.below(4) {
        if octets.is_empty() {
            break;
        }
        let at = rng.below(octets.len());
        match rng.below(5) {
            0 => octets.truncate(at),
            1 => octets[at] = b"0123456789 -.eE\n,#>;xnaif\xff"[rng.below(26)],
            2 => octets.insert(at, b"0123456789 -.eE\n,"[rng.below(17)]),
            3 => drop(octets.remove(at)),
            _ => {
                let rest = octets[at..].to_vec();
                octets.extend(rest);
            }
        }
    }
    String::from_utf8_lossy(&octets).into_owned()
}

fn is_in_text(error: &InputError, text: &str) -> bool {
    (1..=text.lines().count().max(1)).contains(&error.line)
}

proptest! {
    #![proptest_config(seeded(3000))]

    #[test]
    fn mutated_problems_are_simulated_or_refused(seed: u64) {
        let text = mutated(RAW_PROBLEM, seed);
        match raw::parse("p.raw", &text) {
            Ok(problem) => drop(simulate(&problem, 10_000)),
            Err(error) => prop_assert!(is_in_text(&error, &text), "{error}"),
        }
    }
}

proptest! {
    #![proptest_config(seeded(1000))]

    #[test]
    fn mutated_lists_are_simulated_or_refused(seed: u64) {
        let text = mutated(FLOWS, seed);
        match parse_flows(&text) {
            Ok(flows) => drop(simulate(&flows.problem, 10_000)),
            Err(error) => prop_assert!(is_in_text(&error, &text), "{error}"),
        }
    }
}
