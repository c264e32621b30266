//! Uplinks of unequal rates, and flows too many and too small to be moved one by one.

use libtest_mimic::Trial;
use reweave_common::operator::Outcome;
use reweave_tests::{Job, Leadership, NO_RATE_ROLLBACK_POLICY, Stage};

use crate::needs::trial;
use crate::play::{STAGE_NEEDS, WATCH_TIME, must};
use crate::scene::{carried_out, led};
use crate::timed::timed_value;

/// With equally many flows on both links, those on the slow link get a quarter of the others' rate; with weights all
/// get the same, up to the variation of hashing.
const MIN_GAIN: f64 = 1.15;

pub(crate) fn tests() -> Vec<Trial> {
    let name = "timed_ucmp_on_uneven_uplinks";
    vec![trial(name, STAGE_NEEDS, || {
        timed_value("gain by weights", weighed, |gain| *gain >= MIN_GAIN);
    })]
}

/// The second spine has a quarter of the first one's rate.
fn fabric() -> String {
    let hosts = (0..8).map(|host| (format!("h{host}"), "host"));
    let switches = ["leaf0", "leaf1", "spine0", "spine1"];
    let switches = switches.map(|name| (name.to_owned(), "switch"));
    let nodes = hosts.chain(switches);
    let nodes =
        nodes.map(|(name, role)| format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n"));
    let down = (0..8).map(|host| (format!("h{host}"), format!("leaf{}", host / 4), 0.2));
    let up = [(0, 0, 0.1), (0, 1, 0.025), (1, 0, 0.1), (1, 1, 0.025)];
    let up = up.map(|(leaf, spine, gbps)| (format!("leaf{leaf}"), format!("spine{spine}"), gbps));
    let links = down.chain(up);
    let links =
        links.map(|(a, b, gbps)| format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\ngbps = {gbps}\n"));
    "kind = \"graph\"\n".to_owned() + &nodes.chain(links).collect::<String>()
}

/// Flows from each of four hosts to each of four others.
fn job(name: &str) -> String {
    let pairs: Vec<_> = (0..16)
        .map(|it| format!("[{}, {}]", it / 4, 4 + it % 4))
        .collect();
    let hosts: Vec<_> = (0..8).map(|it| format!("\"h{it}\"")).collect();
    format!(
        "[[job]]\nname = \"{name}\"\npattern = \"streams\"\nhosts = [{}]\npairs = [{}]\n\
         bytes = 20_000_000\ncompute_ms = 5\niterations = 1_000_000\n",
        hosts.join(", "),
        pairs.join(", ")
    )
}

/// The mean rate of the slower half of all flows.
fn slower_half_mbps(jobs: &mut [Job]) -> f64 {
    let of_one = |job: &mut Job| {
        let seen = must(job.watch(WATCH_TIME));
        let flows = seen.first().map_or(0, |progress| progress.flows.len());
        let mean = move |flow: usize| {
            let rates = seen.iter().map(|progress| progress.flows[flow].rate_mbps);
            rates.sum::<f64>() / seen.len() as f64
        };
        (0..flows).map(mean).collect::<Vec<_>>()
    };
    let mut rates: Vec<_> = jobs.iter_mut().flat_map(of_one).collect();
    rates.sort_by(f64::total_cmp);
    let half = &rates[..rates.len() / 2];
    half.iter().sum::<f64>() / half.len() as f64
}

fn routes(stage: &Stage) -> String {
    must(stage.output("leaf0", &["ip", "nexthop"]))
}

fn weighed() -> f64 {
    let names = ["first", "second", "third"];
    let jobs: String = names.map(job).concat();
    let leadership = Leadership {
        // A flow that briefly has less than half of a link is no elephant.
        policy: format!("elephant_share = 0.5\n{NO_RATE_ROLLBACK_POLICY}"),
        ..Leadership::default()
    };
    let stage = led(&fabric(), &jobs, &leadership);
    let mut jobs = names.map(|name| must(stage.job(name)));
    for job in &mut jobs {
        must(job.wait_until("it sends", |progress| progress.slowest_mbps() > 0.2));
    }
    let before = slower_half_mbps(&mut jobs);
    assert_eq!(
        carried_out(&stage, &["plan", "weights"], false),
        Outcome::Committed
    );
    let held = routes(&stage);
    assert!(
        held.lines()
            .any(|line| line.contains("group") && line.contains(",4/")),
        "{held}"
    );
    let after = slower_half_mbps(&mut jobs);
    println!("the slower half has {before:.2} Mb/s a flow, and by weights {after:.2}");
    assert_eq!(
        carried_out(&stage, &["plan", "weights", "--none"], false),
        Outcome::Committed
    );
    for job in jobs {
        let report = must(job.stop());
        assert!(report.kept_all_sessions(), "{report:#?}");
    }
    after / before
}
