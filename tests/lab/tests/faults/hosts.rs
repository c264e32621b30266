//! Hosts that die or stand still.

use libtest_mimic::Trial;

use crate::PING_NEEDS;
use crate::play::{Beside, Play, address};
use crate::support::{Lab, trial, wait_until};

/// Stands in the command lines of the processes that are to be found again.
const SLEEP_MARK: &str = "86399.25";

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "killed_host_loses_processes_and_links",
            PING_NEEDS,
            killed_host_loses_processes_and_links,
        ),
        trial(
            "stopped_host_keeps_its_kernel",
            PING_NEEDS,
            stopped_host_keeps_its_kernel,
        ),
    ]
}

fn cluster(fault: &str) -> Play {
    Play::begin(&format!(
        "name = 'play'\n[fabric]\nkind = 'leaf-spine'\nleaves = 1\nspines = 1\nhosts_per_leaf = 2\n\
         host_gbps = 0.4\nuplink_gbps = 0.2\n[[fault]]\n{fault}\n"
    ))
}

fn killed_host_loses_processes_and_links() {
    let play = cluster("kind = 'host-kill'\nat_s = 5\nfor_s = 5\nhost = 'h0'");
    let lab = &play.lab;
    let sleeper = |node| Beside::start(lab.command(node, &["sleep", SLEEP_MARK]));
    let (doomed, spared) = (sleeper("h0"), sleeper("h1"));
    // One that nothing waits for, and one that starts others all the time.
    lab.output(
        "h0",
        &[
            "sh",
            "-c",
            &format!("setsid sleep {SLEEP_MARK} >&- 2>&- & true"),
        ],
    );
    let restless = format!(": {SLEEP_MARK}; while :; do sleep 0.001; done");
    let restless = Beside::start(lab.command("h0", &["sh", "-c", &restless]));
    wait_until("all run", || marked(lab).len() == 4);

    assert_eq!(play.step(), ["all processes of h0 killed", "h0-leaf0 down"]);
    assert_eq!(marked(lab).len(), 1, "only that of the other host lives");
    assert_eq!(doomed.finish().code, Some(128 + 9));
    assert_eq!(restless.finish().code, Some(128 + 9));
    wait_until("the carrier is lost", || !has_carrier(lab, "h0"));
    assert_eq!(play.step(), ["h0-leaf0 up"]);
    wait_until("the carrier returns", || has_carrier(lab, "h0"));
    lab.output("h1", &["ping", "-q", "-c1", "-W5", &address(lab, "h0")]);
    assert_eq!(marked(lab).len(), 1, "the dead do not come back");
    drop(spared);
}

fn stopped_host_keeps_its_kernel() {
    let play = cluster("kind = 'host-stop'\nat_s = 3\nfor_s = 1\nhost = 'h0'");
    let lab = &play.lab;
    let sleeper = |node| Beside::start(lab.command(node, &["sleep", SLEEP_MARK]));
    let (_stopped, _spared) = (sleeper("h0"), sleeper("h1"));
    wait_until("both run", || marked(lab).len() == 2);
    assert_eq!(count_stopped(lab), 0);

    assert_eq!(play.step(), ["all processes of h0 stopped"]);
    assert_eq!(count_stopped(lab), 1, "only that of h0 stands still");
    let ping = ["ping", "-q", "-c5", "-i0.01", "-W5", &address(lab, "h0")];
    let said = lab.output("h1", &ping);
    assert!(said.contains(" 5 received"), "{said}");

    assert_eq!(play.step(), ["all processes of h0 continued"]);
    assert_eq!(count_stopped(lab), 0);
    assert_eq!(marked(lab).len(), 2);
}

/// Returns the number of marked processes that are stopped: state T, the third field of /proc/PID/stat.
fn count_stopped(lab: &Lab) -> usize {
    let list = format!(
        "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline | grep -q '^sleep {SLEEP_MARK}' && cat $p/stat; done; true"
    );
    let stats = lab.output("leaf0", &["sh", "-c", &list]);
    let states = stats.lines().filter_map(|stat| stat.rsplit_once(") "));
    states.filter(|(_, fields)| fields.starts_with('T')).count()
}

/// The marked processes of the whole lab, without the visitors that wait for theirs outside.
fn marked(lab: &Lab) -> Vec<String> {
    let list = format!(
        "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done | grep '{SLEEP_MARK}'"
    );
    let seen = lab.exec("leaf0", &["sh", "-c", &list]).stdout;
    let others = seen.lines().filter(|line| !line.contains("grep"));
    others.map(str::to_owned).collect()
}

fn has_carrier(lab: &Lab, node: &str) -> bool {
    lab.output(node, &["cat", "/sys/class/net/eth0/carrier"])
        .trim()
        == "1"
}
