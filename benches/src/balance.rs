//! Imbalance of many flows, and the moves that repair it.

use reweave_common::fabric::Fabric;
use reweave_common::split_mix::SplitMix64;
use reweave_repair::assign::Work;
use reweave_repair::fim::of_listed;
use reweave_repair::paths::Atlas;
use reweave_repair::paths::ecmp::Ecmp;
use reweave_repair::paths::listed::{self, Listed};
use reweave_repair::rebalance::{Options, rebalance};

use crate::cost::{peak_mib, timed};

const HOSTS: usize = 1024;
const FLOWS: usize = 8192;
const MAX_TIME_S: f64 = 0.1;
const RUN_COUNT: usize = 5;
const FABRIC: &str = "kind = \"leaf-spine\"\nleaves = 32\nspines = 64\nhosts_per_leaf = 32\n\
                      host_gbps = 400\nuplink_gbps = 400";

/// Runs the benchmarks whose names contain one of the words; all without words.
pub(crate) fn measure_all(words: &[String]) {
    let name = "balance-1024-hosts-8192-flows-64-spines";
    if !words.is_empty() && !words.iter().any(|word| name.contains(word)) {
        return;
    }
    let fabric = Fabric::parse("fabric.toml", FABRIC).expect("the fabric is sound");
    println!(
        "name sizes fim_s both_s goal_s before bound after gap_percent moves least_moves peak_mib"
    );
    let leisure = Options {
        work: Work::at_leisure(),
        ..Options::default()
    };
    let at_once = Options::default();
    for (sizes, most, options) in [
        ("equal", 1, &at_once),
        ("1-to-8", 8, &at_once),
        ("1-to-8-at-leisure", 8, &leisure),
    ] {
        let flows = flows(&fabric, most);
        let measure = |_| measure(&fabric, &flows, options);
        let mut runs: Vec<_> = (0..RUN_COUNT).map(measure).collect();
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (took_s, report) = &runs[RUN_COUNT / 2];
        let (_, fim_s) = timed(|| of_listed(&mut Atlas::new(&fabric), &flows));
        println!(
            "{name} {sizes} {fim_s:.4} {took_s:.4} {MAX_TIME_S} {report} {:.0}",
            peak_mib()
        );
    }
}

/// Returns hashed flows between hosts of different leaves, whose sizes differ by up to this factor.
fn flows(fabric: &Fabric, most: u64) -> Vec<Listed> {
    let mut rng = SplitMix64::new(1);
    let row = |nth: usize, rng: &mut SplitMix64| {
        let from = nth % HOSTS;
        let to = (from + 32 + rng.below(HOSTS - 64)) % HOSTS;
        let bytes = 1_000_000 * (1 + rng.below_u64(most));
        format!("h{from},h{to},{bytes},{}\n", 1024 + nth)
    };
    let rows: String = (0..FLOWS).map(|nth| row(nth, &mut rng)).collect();
    let text = format!("src,dst,bytes,sport\n{rows}");
    let table = listed::parse(
        "flows.csv",
        &text,
        &mut Atlas::new(fabric),
        &Ecmp::default(),
    );
    table.expect("the table is sound").flows
}

/// Measures FIM before and after the moves of flows with known paths.
fn measure(fabric: &Fabric, flows: &[Listed], options: &Options) -> (f64, String) {
    let (plan, took_s) = timed(|| {
        let mut atlas = Atlas::new(fabric);
        rebalance(&mut atlas, flows, &Ecmp::default(), options)
    });
    let solution = &plan.solution;
    let text = format!(
        "{:.2} {:.2} {:.2} {:.2} {} {}",
        solution.before.over_mean,
        solution.bound.over_mean,
        solution.after.over_mean,
        100.0 * solution.gap,
        solution.moves,
        solution.least_moves
    );
    (took_s, text)
}
