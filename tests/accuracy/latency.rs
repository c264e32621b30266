//! Round trips, against ping.

use libtest_mimic::Trial;
use reweave_tests::Stage;

use crate::needs::{Need, trial};
use crate::scene::{Responder, agent, host, lab, pair};
use crate::timed::timed_value;

const NEEDS: &[Need] = &[Need::Lab, Need::Program("ping")];

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial("timed_latency_matches_ping", NEEDS, || {
        let without = round_trip(&lab(&pair(0, 1.0), ""));
        for latency_us in [200, 1000, 5000] {
            let with = lab(&pair(latency_us, 1.0), "");
            let measure = || {
                let with = round_trip(&with);
                println!("{latency_us} us each way were asked for");
                Added {
                    ours_us: with.ours_us - without.ours_us,
                    pings_us: with.pings_us - without.pings_us,
                    lost: with.lost,
                }
            };
            timed_value("an added delay", measure, Added::agree);
        }
    })]
}

#[derive(Debug)]
struct Added {
    ours_us: f64,
    pings_us: f64,
    /// What comes so late that it counts as lost, the wire of the lab has held back: it is a program.
    lost: u64,
}

impl Added {
    fn agree(&self) -> bool {
        let allowed = f64::max(0.05 * self.pings_us, 50.0);
        self.lost == 0 && (self.ours_us - self.pings_us).abs() <= allowed
    }
}

struct RoundTrip {
    ours_us: f64,
    pings_us: f64,
    lost: u64,
}

/// The medians of both, measured beside each other.
fn round_trip(stage: &Stage) -> RoundTrip {
    let _responder = Responder::start(stage, "b", "a");
    let mut ping = stage.inside("a", "ping");
    ping.args(["-i", "0.01", "-c", "500", "b"]);
    let ping = ping.stdout(std::process::Stdio::piped()).spawn();
    let ping = ping.expect("ping starts");
    let words = [
        "probe",
        "b",
        "--over-ms",
        "5000",
        "--rate",
        "100",
        "--paths",
        "1",
    ];
    let ours = agent(stage, "a", &words);
    let summary = &ours["hosts"][0]["summary"];
    assert_eq!(ours["hosts"][0]["host"], host(1).to_string());
    let said = ping.wait_with_output().expect("ping ends");
    RoundTrip {
        ours_us: summary["network_us"]["median"].as_f64().expect("a median"),
        pings_us: median_us(&String::from_utf8_lossy(&said.stdout)),
        lost: summary["lost"].as_u64().expect("a count"),
    }
}

fn median_us(said: &str) -> f64 {
    let times = said.lines().filter_map(|line| {
        let (_, time) = line.split_once("time=")?;
        time.strip_suffix(" ms")?.parse::<f64>().ok()
    });
    let mut times: Vec<_> = times.collect();
    assert!(times.len() > 490, "{said}");
    times.sort_by(f64::total_cmp);
    times[times.len() / 2] * 1e3
}
