//! Hosts that die or stand still.

use libtest_mimic::Trial;

use crate::LAB;
use crate::play::{
    Beside, Play, address, answer_times, is_on_time, is_within, longest_gap, plays_right_once,
};
use crate::support::{Lab, trial, wait_until};

/// Stands in the command lines of the processes that are to be found again.
const MARK: &str = "86399.25";

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "a_killed_host_loses_all_processes_and_its_links",
            LAB,
            || {
                a_killed_host_loses_all_processes_and_its_links();
            },
        ),
        trial(
            "a_stopped_host_stands_still_and_its_kernel_goes_on",
            LAB,
            || plays_right_once(a_stopped_host_stands_still_and_its_kernel_goes_on),
        ),
    ]
}

fn cluster(fault: &str) -> Play {
    Play::begin(&format!(
        "name = 'play'\n[fabric]\nkind = 'leaf-spine'\nleaves = 1\nspines = 1\nhosts_per_leaf = 2\n\
         host_gbps = 0.4\nuplink_gbps = 0.2\n[[fault]]\n{fault}\n"
    ))
}

fn a_killed_host_loses_all_processes_and_its_links() {
    let play = cluster("kind = 'host-kill'\nat_s = 5\nfor_s = 5\nhost = 'h0'");
    let lab = &play.lab;
    let sleeper = |node| Beside::start(lab.command(node, &["sleep", MARK]));
    let (doomed, spared) = (sleeper("h0"), sleeper("h1"));
    // One that nobody waits for, and one that starts others all the time.
    lab.output(
        "h0",
        &["sh", "-c", &format!("setsid sleep {MARK} >&- 2>&- & true")],
    );
    let restless = format!(": {MARK}; while :; do sleep 0.001; done");
    let restless = Beside::start(lab.command("h0", &["sh", "-c", &restless]));
    wait_until("all run", || marked(lab).len() == 4);

    play.wait_for("all processes of h0 killed");
    assert_eq!(marked(lab).len(), 1, "only that of the other host lives");
    assert_eq!(doomed.finish().code, Some(128 + 9));
    assert_eq!(restless.finish().code, Some(128 + 9));
    play.wait_for("h0-leaf0 down");
    wait_until("the carrier is lost", || !has_carrier(lab, "h0"));
    play.wait_for("h0-leaf0 up");
    wait_until("the carrier returns", || has_carrier(lab, "h0"));
    lab.output("h1", &["ping", "-q", "-c1", "-W5", &address(lab, "h0")]);
    assert_eq!(marked(lab).len(), 1, "the dead do not come back");
    drop(spared);
}

fn a_stopped_host_stands_still_and_its_kernel_goes_on() -> bool {
    let play = cluster("kind = 'host-stop'\nat_s = 3\nfor_s = 1\nhost = 'h0'");
    let lab = &play.lab;
    let ping = |from, to| {
        let to = address(lab, to);
        Beside::start(lab.command(from, &["ping", "-D", "-i", "0.01", &to]))
    };
    let (on_it, towards_it) = (ping("h0", "h1"), ping("h1", "h0"));
    play.wait_for("all processes of h0 stopped");
    let is_on_time = is_on_time(play.wait_for("all processes of h0 continued"), 4.0);
    lab.output("h0", &["ping", "-q", "-c10", "-i0.01", &address(lab, "h1")]);
    let stood_still = longest_gap(&answer_times(&on_it.interrupt()));
    let unanswered = longest_gap(&answer_times(&towards_it.interrupt()));
    is_on_time
        & is_within("it stood still", stood_still, 0.95..1.2)
        & is_within("its kernel was silent", unanswered, 0.0..0.5)
}

/// The marked processes of the whole lab, without the visitors that wait for theirs outside.
fn marked(lab: &Lab) -> Vec<String> {
    let list =
        format!("for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done | grep '{MARK}'");
    let seen = lab.exec("leaf0", &["sh", "-c", &list]).stdout;
    let others = seen.lines().filter(|line| !line.contains("grep"));
    others.map(str::to_owned).collect()
}

fn has_carrier(lab: &Lab, node: &str) -> bool {
    lab.output(node, &["cat", "/sys/class/net/eth0/carrier"])
        .trim()
        == "1"
}
