//! The timeline judged without a kernel: by the words of what it would do.

use std::time::Duration;

use reweave_common::scenario::Scenario;

use super::timeline::Timeline;
use super::wording::words;

const CLUSTER_SCENARIO: &str = r#"
name = "n"
[fabric]
kind = "direct"
hosts = 4
link_gbps = 1
strides = [1]
[[job]]
name = "train"
pattern = "all-to-all"
hosts = ["h0", "h1"]
bytes = 1
iterations = 1
"#;

/// Returns a scenario with these faults, each written as comma-separated pairs.
fn scenario(faults: &[&str]) -> Scenario {
    let tables = faults
        .iter()
        .map(|fault| format!("[[fault]]\n{}\n", fault.replace(", ", "\n")));
    let text = format!("{CLUSTER_SCENARIO}{}", tables.collect::<String>());
    Scenario::parse("s.toml", &text, |_| Err(String::new())).unwrap()
}

/// `1.5 h0-h1 down` for every change.
fn played(faults: &[&str]) -> Vec<String> {
    let scenario = scenario(faults);
    let moments = Timeline::new(&scenario).take(20);
    let said = moments.flat_map(|moment| {
        let at_s = moment.at.as_secs_f64();
        let changes = moment.changes.into_iter();
        let scenario = &scenario;
        changes.map(move |change| format!("{at_s} {}", words(&change, scenario)))
    });
    said.collect()
}

#[test]
fn fault_begins_and_ends() {
    let down = "kind = 'link-down', at_s = 1, for_s = 0.5, link = ['h0','h1']";
    assert_eq!(played(&[down]), ["1 h0-h1 down", "1.5 h0-h1 up"]);
    let forever = "kind = 'link-down', at_s = 1, link = ['h0','h1']";
    assert_eq!(played(&[forever]), ["1 h0-h1 down"]);
}

#[test]
fn link_returns_after_its_last_fault() {
    let first = "kind = 'link-down', at_s = 1, for_s = 2, link = ['h0','h1']";
    let second = "kind = 'link-down', at_s = 2, for_s = 3, link = ['h0','h1']";
    assert_eq!(played(&[first, second]), ["1 h0-h1 down", "5 h0-h1 up"]);
    let within = "kind = 'link-down', at_s = 1.5, for_s = 0.5, link = ['h0','h1']";
    assert_eq!(played(&[first, within]), ["1 h0-h1 down", "3 h0-h1 up"]);
    let next = "kind = 'link-down', at_s = 3, for_s = 1, link = ['h0','h1']";
    assert_eq!(played(&[first, next]), ["1 h0-h1 down", "4 h0-h1 up"]);
}

#[test]
fn flap_repeats_each_period_until_up() {
    let flap = "kind = 'link-flap', at_s = 1, for_s = 2.25, period_s = 1, link = ['h0','h1']";
    assert_eq!(
        played(&[flap]),
        [
            "1 h0-h1 down",
            "1.5 h0-h1 up",
            "2 h0-h1 down",
            "2.5 h0-h1 up",
            "3 h0-h1 down",
            "3.25 h0-h1 up"
        ]
    );
}

#[test]
fn endless_flap_never_ends() {
    let flap = "kind = 'link-flap', at_s = 0, period_s = 0.5, link = ['h0','h1']";
    let scenario = scenario(&[flap]);
    let thousandth = Timeline::new(&scenario).nth(1000).unwrap();
    assert_eq!(thousandth.at, Duration::from_secs(250));
}

#[test]
fn flaps_and_falls_compose() {
    let flap = "kind = 'link-flap', at_s = 0, for_s = 4, period_s = 2, link = ['h0','h1']";
    let down = "kind = 'link-down', at_s = 0.5, for_s = 2, link = ['h0','h1']";
    assert_eq!(played(&[flap, down]), ["0 h0-h1 down", "3 h0-h1 up"]);
}

#[test]
fn overlapping_losses_combine() {
    let half = "kind = 'link-loss', at_s = 1, for_s = 3, percent = 50, link = ['h0','h1']";
    let tenth = "kind = 'link-loss', at_s = 2, for_s = 1, percent = 10, link = ['h0','h1']";
    assert_eq!(
        played(&[half, tenth]),
        [
            "1 h0-h1 loses 50 % of all packets",
            "2 h0-h1 loses 55 % of all packets",
            "3 h0-h1 loses 50 % of all packets",
            "4 h0-h1 loses 0 % of all packets"
        ]
    );
}

#[test]
fn slowest_link_rate_wins() {
    let slow = "kind = 'link-rate', at_s = 1, for_s = 3, gbps = 0.1, link = ['h0','h1']";
    let faster = "kind = 'link-rate', at_s = 2, for_s = 3, gbps = 0.5, link = ['h0','h1']";
    assert_eq!(
        played(&[slow, faster]),
        [
            "1 h0-h1 runs at 100.0 Mb/s",
            "4 h0-h1 runs at 500.0 Mb/s",
            "5 h0-h1 runs at 1.0 Gb/s"
        ]
    );
}

#[test]
fn killed_host_gets_links_back() {
    let kill = "kind = 'host-kill', at_s = 1, for_s = 1, host = 'h0'";
    assert_eq!(
        played(&[kill]),
        [
            "1 all processes of h0 killed",
            "1 h0-h1, h3-h0 down",
            "2 h0-h1, h3-h0 up"
        ]
    );
    let flash = "kind = 'host-kill', at_s = 1, for_s = 0, host = 'h0'";
    assert_eq!(played(&[flash]), ["1 all processes of h0 killed"]);
}

#[test]
fn killed_process_stays_dead() {
    let kill = "kind = 'process-kill', at_s = 1, job = 'train', rank = 1";
    assert_eq!(played(&[kill]), ["1 rank 1 of train killed"]);
}

#[test]
fn stopped_process_continues_after_both_stops() {
    let host = |at, lasts| format!("kind = 'host-stop', at_s = {at}, for_s = {lasts}, host = 'h1'");
    let rank = |at, lasts| {
        format!("kind = 'process-stop', at_s = {at}, for_s = {lasts}, job = 'train', rank = 1")
    };
    assert_eq!(
        played(&[&host(1, 3), &rank(2, 1)]),
        [
            "1 all processes of h1 stopped",
            "2 rank 1 of train stopped",
            "4 all processes of h1 continued"
        ]
    );
    let longer_than_its_host = scenario(&[&host(1, 1), &rank(1, 3)]);
    let last = Timeline::new(&longer_than_its_host).nth(1).unwrap();
    let super::conditions::Change::Continue(_, held) = &last.changes[0] else {
        panic!("{last:?}")
    };
    assert_eq!(held.len(), 1, "the rank stays stopped");
}

#[test]
fn partitions_compose_in_each_direction() {
    let both = "kind = 'partition', at_s = 1, for_s = 2, a = ['h0'], b = ['h1','h2']";
    let one_way = "kind = 'partition', at_s = 2, for_s = 2, a = ['h3'], b = ['h1'], one_way = true";
    assert_eq!(
        played(&[both, one_way]),
        [
            "1 h0 does not hear h1 h2, h1 does not hear h0, h2 does not hear h0",
            "2 h1 does not hear h0 h3",
            "3 h0 hears all, h1 does not hear h3, h2 hears all",
            "4 h1 hears all"
        ]
    );
}

#[test]
fn zero_length_fault_changes_nothing() {
    let nothing = "kind = 'link-down', at_s = 1, for_s = 0, link = ['h0','h1']";
    assert_eq!(played(&[nothing]), [""; 0]);
}
