//! Measurements between hosts: by probes, packet trains, and RDMA.

use reweave_common::bandwidth::Bandwidth;
use reweave_common::operator::{PairStatus, PathBandwidth, ProbeCoverage, ProbeStatus, RdmaStatus};
use reweave_common::probing::Summary;

use super::{dash, hop};
use crate::page::{Ink, Page, age};

/// Maximum number of pairs in text output; JSON has all.
const MAX_WORST_PAIRS: usize = 5;

/// Adds one row for all pairs of hosts, and then the worst pairs.
pub(super) fn probes(page: &mut Page, probes: &ProbeStatus) {
    let Some(all) = &probes.all else {
        return;
    };
    page.heading("Probes of the last minute");
    let all = probe_row(page, format!("all {} pairs", probes.pairs), all);
    let worst = probes.worst.iter().take(MAX_WORST_PAIRS);
    let row = |it: &PairStatus| probe_row(page, format!("{} > {}", it.from, it.to), &it.summary);
    let rows: Vec<_> = [all].into_iter().chain(worst.map(row)).collect();
    page.table(
        ["hosts", "probes", "lost", "loss", "round trip", "p99"],
        rows,
    );
    if let Some(coverage) = probes.coverage.as_ref().filter(|it| it.seldom > 0) {
        seldom(page, coverage);
    }
}

fn seldom(page: &mut Page, coverage: &ProbeCoverage) {
    let hops = coverage.seldom_hops.iter().take(MAX_WORST_PAIRS);
    let hops: Vec<_> = hops.map(hop).collect();
    let more = if coverage.seldom > hops.len() {
        ", ..."
    } else {
        ""
    };
    page.line(&format!(
        "  {} of {} directions of links are crossed by fewer than {} flows of probes: {}{more}",
        coverage.seldom,
        coverage.directions,
        coverage.wanted,
        hops.join(", ")
    ));
}

/// Adds the slowest paths.
pub(super) fn bandwidths(page: &mut Page, paths: &[PathBandwidth]) {
    if paths.is_empty() {
        return;
    }
    page.heading("Bandwidth, by trains of packets in idle gaps");
    let rows = paths.iter().take(MAX_WORST_PAIRS).map(bandwidth_row);
    let headings = [
        "hosts",
        "over",
        "from port",
        "bandwidth",
        "95 %",
        "trains",
        "last",
    ];
    page.table(headings, rows);
}

fn bandwidth_row(it: &PathBandwidth) -> [String; 7] {
    let (bandwidth, bounds, trains) = match it.bandwidth {
        Bandwidth::Known {
            rate,
            least,
            most,
            trains,
        } => (rate.to_string(), format!("{least} .. {most}"), trains),
        Bandwidth::AtLeast { rate, trains } => (format!("at least {rate}"), dash(), trains),
        Bandwidth::Unknown { why, trains } => (format!("unknown: {why}"), dash(), trains),
    };
    [
        format!("{} > {}", it.from, it.to),
        it.over.as_ref().map_or_else(dash, |over| over.join(" > ")),
        it.flow.source.port().to_string(),
        bandwidth,
        bounds,
        trains.to_string(),
        age(it.age_ms),
    ]
}

pub(super) fn rdma(page: &mut Page, pairs: &[RdmaStatus]) {
    if pairs.is_empty() {
        return;
    }
    page.heading("Over RDMA, the slowest first");
    let micros = |micros: Option<f64>| micros.map_or_else(dash, |it| format!("{it:.1} us"));
    let row = |it: &RdmaStatus| {
        let lost = format!("{} of {}", it.lost, it.sent);
        [
            format!("{} > {}", it.from, it.to),
            micros(it.ud_us),
            micros(it.rc_us),
            it.rate_bits_per_s
                .map_or_else(dash, |rate| rate.to_string()),
            if it.lost > 0 {
                page.ink(Ink::Red, &lost)
            } else {
                lost
            },
            age(it.age_ms),
        ]
    };
    let rows: Vec<_> = pairs.iter().take(MAX_WORST_PAIRS).map(row).collect();
    page.table(
        [
            "hosts",
            "UD there and back",
            "RC",
            "writes at",
            "lost",
            "heard",
        ],
        rows,
    );
}

fn probe_row(page: &Page, hosts: String, it: &Summary) -> [String; 6] {
    let loss = it.loss.map_or_else(dash, |loss| {
        let [least, most] = [loss.least, loss.most].map(|share| share * 100.0);
        let words = format!("{least:.2} .. {most:.2} %");
        if it.lost > 0 {
            page.ink(Ink::Red, &words)
        } else {
            words
        }
    });
    let micros = |micros: Option<f64>| micros.map_or_else(dash, |it| format!("{it:.0} us"));
    [
        hosts,
        it.sent.to_string(),
        it.lost.to_string(),
        loss,
        micros(it.network_us.map(|it| it.median)),
        micros(it.network_us.map(|it| it.p99)),
    ]
}
