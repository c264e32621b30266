//! Hosts that are cut off from one another.

use libtest_mimic::Trial;

use crate::PING_NEEDS;
use crate::play::{Play, address, break_program};
use crate::support::{Home, Lab, run, trial, wait_until};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("partition_cuts_both_directions", PING_NEEDS, || {
            partition_cuts_both_directions();
        }),
        trial(
            "partition_may_cut_one_direction",
            PING_NEEDS,
            partition_may_cut_one_direction,
        ),
        trial(
            "unsupported_fault_is_refused",
            PING_NEEDS,
            unsupported_fault_is_refused,
        ),
    ]
}

/// A ring of four hosts that pass on what is not for them.
fn ring(fault: &str) -> String {
    format!(
        "name = 'play'\n[fabric]\nkind = 'direct'\nhosts = 4\nlink_gbps = 0.1\nstrides = [1]\n\
         [[fault]]\nkind = 'partition'\nat_s = 0.5\nfor_s = 16\n{fault}\n"
    )
}

fn partition_cuts_both_directions() {
    let play = Play::begin(&ring("a = ['h0']\nb = ['h1', 'h2']"));
    let lab = &play.lab;
    assert_eq!(
        play.step(),
        ["h0 does not hear h1 h2, h1 does not hear h0, h2 does not hear h0"]
    );
    for (from, to) in [("h0", "h1"), ("h0", "h2"), ("h1", "h0"), ("h2", "h0")] {
        assert!(!reaches(lab, from, to), "{from} reaches {to}");
        assert_eq!(heard(lab, from, to), 0, "{to} hears {from}");
    }
    // The only paths between these two lead through a host of each side.
    for (from, to) in [("h1", "h3"), ("h3", "h1"), ("h0", "h3"), ("h1", "h2")] {
        wait_until(&format!("{from} reaches {to}"), || reaches(lab, from, to));
    }
    assert_eq!(play.step(), ["h0 hears all, h1 hears all, h2 hears all"]);
    wait_until("all reach all again", || {
        reaches(lab, "h0", "h1") && reaches(lab, "h2", "h0")
    });
    let rules = lab.output("h0", &["nft", "list", "ruleset"]);
    assert_eq!(rules.trim(), "", "nothing is left of it");
}

fn partition_may_cut_one_direction() {
    let play = Play::begin(&ring("a = ['h0']\nb = ['h1']\none_way = true"));
    let lab = &play.lab;
    assert_eq!(play.step(), ["h1 does not hear h0"]);
    assert_eq!(heard(lab, "h0", "h1"), 0, "nothing passes from a to b");
    assert_eq!(heard(lab, "h1", "h0"), 3, "everything passes from b to a");
    assert_eq!(play.step(), ["h1 hears all"]);
    assert_eq!(heard(lab, "h0", "h1"), 3);
}

fn unsupported_fault_is_refused() {
    let home = Home::new();
    let file = home.file("play.toml", &ring("a = ['h0']\nb = ['h1']"));
    let mut up = home.lab(&["up"]);
    up.arg(file);
    break_program(&mut up, &home, "nft");
    let said = run(up).expect_code(1);
    let errors: Vec<_> = said
        .stderr
        .lines()
        .filter(|line| line.starts_with("error: "))
        .collect();
    let [error] = errors[..] else {
        panic!("one error is enough: {said:?}")
    };
    assert!(
        error.starts_with("error: this kernel has no nft-input-drop: "),
        "{error}"
    );
    assert!(home.labs().is_empty());
}

fn reaches(lab: &Lab, from: &str, to: &str) -> bool {
    let to = address(lab, to);
    lab.exec(from, &["ping", "-q", "-c1", "-W0.3", &to]).code == Some(0)
}

/// Returns how many of three requests from one host arrive at the other, answered or not.
fn heard(lab: &Lab, from: &str, to: &str) -> u64 {
    let requests = || {
        let counts = lab.output(to, &["cat", "/proc/net/snmp"]);
        let lines: Vec<_> = counts
            .lines()
            .filter(|line| line.starts_with("Icmp:"))
            .collect();
        let [names, values] = lines[..] else {
            panic!("{counts}")
        };
        let place = names.split(' ').position(|name| name == "InEchos");
        let value = values
            .split(' ')
            .nth(place.expect("the kernel counts them"));
        value
            .and_then(|value| value.parse::<u64>().ok())
            .expect("a number")
    };
    let before = requests();
    lab.exec(
        from,
        &["ping", "-q", "-c3", "-i0.01", "-W0.3", &address(lab, to)],
    );
    requests() - before
}
