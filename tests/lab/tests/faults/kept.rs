//! Records of a lab, and the times of its faults.

use std::fs;

use libtest_mimic::Trial;

use crate::play::{Play, address};
use crate::support::timed::timed_value;
use crate::support::{find, run, trial};
use crate::{PING_NEEDS, TCPDUMP_NEEDS};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "artifacts_never_overwrite_older_ones",
            TCPDUMP_NEEDS,
            artifacts_never_overwrite_older_ones,
        ),
        trial("timed_faults_start_on_schedule", PING_NEEDS, || {
            timed_value(
                "seconds by which faults are late",
                max_fault_delay_s,
                |late| *late < 0.05,
            );
        }),
    ]
}

const SCENARIO: &str = "name = 'play'\ncapture = ['leaf0']\n\
    [fabric]\nkind = 'leaf-spine'\nleaves = 1\nspines = 1\nhosts_per_leaf = 2\nhost_gbps = 0.4\n\
    uplink_gbps = 0.2\n\
    [[fault]]\nkind = 'link-down'\nat_s = 0.2\nfor_s = 0.2\nlink = ['h1', 'leaf0']\n";

/// Returns the delay of the latest fault of a flapping link. None comes early.
fn max_fault_delay_s() -> f64 {
    let flap = "name = 'play'\n[fabric]\nkind = 'leaf-spine'\nleaves = 1\nspines = 1\n\
        hosts_per_leaf = 2\nhost_gbps = 0.4\nuplink_gbps = 0.2\n\
        [[fault]]\nkind = 'link-flap'\nat_s = 0.5\nfor_s = 1.5\nperiod_s = 0.3\n\
        link = ['h1', 'leaf0']\n";
    let play = Play::begin_with(flap, |_, _| ());
    let falls = (0..5).map(|fall| 0.5 + 0.3 * f64::from(fall));
    let events = falls.flat_map(|due| [("h1-leaf0 down", due), ("h1-leaf0 up", due + 0.15)]);
    let late = events.map(|(event, due)| play.wait_for(event) - due);
    late.inspect(|late| assert!(*late > -0.001, "a fault comes {late} s after its time"))
        .fold(0.0, f64::max)
}

fn artifacts_never_overwrite_older_ones() {
    let mut play = Play::begin_with(SCENARIO, |up, home| {
        fs::create_dir_all(home.path.join("artifacts/play-1")).expect("it is ours");
        up.arg("--keep");
    });
    play.wait_for("h1-leaf0 up");
    let refused = run(play.lab.home.lab(&["step"])).expect_code(1).stderr;
    assert!(refused.contains("--stepped"), "{refused}");
    let to = address(&play.lab, "h1");
    play.lab
        .output("h0", &["ping", "-q", "-c", "20", "-i", "0.01", &to]);
    assert_eq!(play.end(), 0);

    let artifacts = play.lab.home.path.join("artifacts");
    let earlier = fs::read_dir(artifacts.join("play-1")).expect("it was there before");
    assert_eq!(
        earlier.count(),
        0,
        "nothing was added to what was kept earlier"
    );
    let kept = artifacts.join("play-2");
    let read = |name: &str| {
        let text = fs::read_to_string(kept.join(name));
        text.unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    assert_eq!(read("scenario.toml"), SCENARIO);
    assert!(read("events.txt").contains(" s: h1-leaf0 down\n"));
    for node in ["h0", "h1", "leaf0", "spine0"] {
        let state = read(&format!("{node}.txt"));
        for part in [
            "$ ip route show table all\n",
            "qdisc tbf",
            "Icmp: ",
            "permanent",
        ] {
            let found = state.to_lowercase().contains(&part.to_lowercase());
            assert!(found, "{node} says nothing of {part:?}:\n{state}");
        }
    }
    assert!(read("wires.txt").contains("fwd to \"w1b\""));

    let mut tcpdump = std::process::Command::new(find("tcpdump").expect("it is needed"));
    tcpdump.arg("-nr").arg(kept.join("leaf0.pcapng"));
    let seen = run(tcpdump).expect_code(0).stdout;
    for (kind, count) in [("ICMP echo request", 40), ("ICMP echo reply", 40)] {
        assert_eq!(
            seen.matches(kind).count(),
            count,
            "in and out, each once:\n{seen}"
        );
    }
}
