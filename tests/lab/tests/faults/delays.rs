//! Links that take time.

use std::iter;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use nix::poll::ppoll;
use nix::sys::prctl;

use crate::play::{Play, iperf};
use crate::support::timed::{timed_throughput, timed_value};
use crate::support::trial;
use crate::{IPERF3_NEEDS, PING_NEEDS};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "timed_link_delay_matches_scenario",
            PING_NEEDS,
            link_delay_matches_scenario,
        ),
        trial(
            "timed_delayed_link_carries_full_rate",
            IPERF3_NEEDS,
            delayed_link_carries_full_rate,
        ),
        trial(
            "delay_too_short_is_reported",
            PING_NEEDS,
            delay_too_short_is_reported,
        ),
    ]
}

fn two_hosts(latency_us: u32, gbps: f64) -> Play {
    Play::begin(&format!(
        "name = 'play'\n[fabric]\nkind = 'graph'\n\
         node = [{{ name = 'a', role = 'host' }}, {{ name = 'b', role = 'host' }}]\n\
         link = [{{ a = 'a', b = 'b', gbps = {gbps}, latency_us = {latency_us} }}]\n"
    ))
}

/// The delay of each direction, as ping sees it: no more exact than this machine wakes up.
fn link_delay_matches_scenario() {
    let without = median_round_trip_us(&two_hosts(0, 1.0));
    for latency_us in [50, 200, 1000, 5000] {
        let asked = f64::from(latency_us);
        let allowed = f64::max(0.05 * asked, 50.0);
        let play = two_hosts(latency_us, 1.0);
        let measure = || {
            let late = median_lateness_us(Duration::from_micros(u64::from(latency_us)));
            let added = (median_round_trip_us(&play) - without) / 2.0;
            println!(
                "asked for {asked} us, got {added:.0} us; a rest of that length ends {late:.0} us late"
            );
            let off = added - asked;
            (off - off.clamp(0.0, late)).abs()
        };
        let name = format!("error of a delay of {asked} us, in us");
        timed_value(&name, measure, |off| *off < allowed);
    }
}

/// Returns the median lateness of a sleep of this length: an idle processor needs time to wake up.
fn median_lateness_us(rest: Duration) -> f64 {
    prctl::set_timerslack(1).expect("a thread may ask for exact timers");
    let slept = iter::repeat_with(|| {
        let began = Instant::now();
        let woken = ppoll(&mut [], Some(rest.into()), None);
        assert_eq!(woken, Ok(0), "nothing is waited for");
        began.elapsed().saturating_sub(rest).as_secs_f64() * 1e6
    });
    let mut late: Vec<_> = slept.take(100).collect();
    late.sort_by(f64::total_cmp);
    late[50]
}

/// Five hundred packets in a second.
fn median_round_trip_us(play: &Play) -> f64 {
    let said = play
        .lab
        .output("a", &["ping", "-i", "0.002", "-c", "500", "b"]);
    let times = said.lines().filter_map(|line| {
        let (_, time) = line.split_once("time=")?;
        time.strip_suffix(" ms")?.parse::<f64>().ok()
    });
    let mut times: Vec<_> = times.collect();
    assert_eq!(times.len(), 500, "{said}");
    times.sort_by(f64::total_cmp);
    times[250] * 1e3
}

fn delayed_link_carries_full_rate() {
    let play = two_hosts(2000, 0.2);
    let measure = || {
        let measured = iperf(&play.lab, "a", "b", &["-t", "3", "-O", "1"]);
        let received = measured["end"]["sum_received"]["bits_per_second"].as_f64();
        let share = received.expect("iperf3 measured it") / 200e6;
        assert!(share < 1.05, "{share} of the rate");
        share
    };
    timed_throughput("share of 200 Mb/s of a delayed link", 0.95, measure);
}

fn delay_too_short_is_reported() {
    let play = two_hosts(5, 1.0);
    let means = play.means();
    let report = if play.kernel_has("netem") {
        "delay: netem on 1 link"
    } else {
        "delay: none on 1 link, whose 5µs is less than a user-space wire can keep"
    };
    assert!(means.contains(&report), "{means:?}");
}
