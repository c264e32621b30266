//! The published models, operator by operator: on 128 servers, and on the 16 of the publication. They are found through
//! REWEAVE_REFERENCE_DATA.
//!
//! On 128 servers the batch is eight times as large, so that its parts have the measured sizes.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use reweave_common::timings::Timings;
use reweave_design::crew::Alone;
use reweave_design::parallel::operators::Search;
use reweave_design::parallel::together::Pairing;
use reweave_design::parallel::{Help, Progress, together};
use reweave_design::topology::Request;
use reweave_formats::topoopt;
use reweave_sim::workload::job::JobFile;
use reweave_sim::workload::job::operators::{Model, Split};
use reweave_sim::workload::{Choices, Settings};

use crate::cost::{peak_mib, timed};
use crate::topology::request;

const DATA_VARIABLE: &str = "REWEAVE_REFERENCE_DATA";
const MODELS: [&str; 4] = ["vgg16", "transformer16", "dlrm16", "candle16"];
/// Number of servers, and factor of the batch.
const CLUSTER_SIZES: [(usize, u64); 2] = [(16, 1), (128, 8)];
const PORTS_PER_SERVER: usize = 4;
/// Time limit of each search.
const MAX_TIME_S: f64 = 10.0;
const SEED: u64 = 1;
/// Published results for 16 servers, which the median over some seeds must reach.
const PUBLISHED_MS: [f64; 4] = [100.56, 62.8, 26.0, 225.2];
const SEEDS: std::ops::RangeInclusive<u64> = 1..=10;

pub(crate) fn measure_all(words: &[String]) {
    let is_asked = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    let medians = MODELS.into_iter().zip(PUBLISHED_MS);
    let medians = medians.map(|(model, most_ms)| (format!("medians-{model}"), model, most_ms));
    let medians: Vec<_> = medians.filter(|(name, ..)| is_asked(name)).collect();
    let asked = CLUSTER_SIZES.iter().flat_map(|&(servers, times)| {
        let name = move |model| {
            (
                format!("operators-{model}-{servers}"),
                model,
                servers,
                times,
            )
        };
        MODELS.map(name)
    });
    let asked: Vec<_> = asked.filter(|(name, ..)| is_asked(name)).collect();
    let Some(data) = env::var_os(DATA_VARIABLE).map(PathBuf::from) else {
        let names = asked.iter().map(|(name, ..)| name);
        let names = names.chain(medians.iter().map(|(name, ..)| name));
        names.for_each(|name| println!("# {name} needs {DATA_VARIABLE}"));
        return;
    };
    println!("# 16 servers, {PORTS_PER_SERVER} ports of 100 Gb/s, seeds {SEEDS:?}");
    println!("name median_ms least_ms most_ms published_ms median_s longest_s");
    for (name, model, published_ms) in medians {
        median(&name, &data, model, published_ms);
    }
    println!("# seed {SEED}, {PORTS_PER_SERVER} ports of 100 Gb/s");
    println!("name data_parallel_ms planned_ms ideal_ms bound_ms tried took_s goal_s peak_mib");
    for (name, model, servers, times) in asked {
        measure(&name, &data, model, servers, times);
    }
}

fn median(name: &str, data: &Path, model: &str, published_ms: f64) {
    let (servers, times) = CLUSTER_SIZES[0];
    let found = SEEDS.map(|seed| {
        let (found, took_s) = timed(|| search(data, model, servers, times, seed));
        (found.proposal.evaluation.iteration_ms, took_s)
    });
    let (mut ms, mut took_s): (Vec<_>, Vec<_>) = found.unzip();
    ms.sort_by(f64::total_cmp);
    took_s.sort_by(f64::total_cmp);
    let [middle, last] = [ms.len() / 2, ms.len() - 1];
    println!(
        "{name} {:.2} {:.2} {:.2} {published_ms} {:.2} {:.2}",
        (ms[middle - 1] + ms[middle]) / 2.0,
        ms[0],
        ms[last],
        took_s[middle],
        took_s[last],
    );
}

fn measure(name: &str, data: &Path, model: &str, servers: usize, times: u64) {
    let (found, took_s) = timed(|| search(data, model, servers, times, SEED));
    let proposal = &found.proposal;
    println!(
        "{name} {:.2} {:.2} {:.2} {:.2} {} {took_s:.2} {MAX_TIME_S} {:.0}",
        found.course[0],
        proposal.evaluation.iteration_ms,
        proposal.ideal.iteration_ms,
        proposal.bound_ms,
        found.tried,
        peak_mib(),
    );
}

/// Searches splits and topology, including the time to read the model.
fn search(data: &Path, model: &str, servers: usize, times: u64, seed: u64) -> Pairing<Vec<Split>> {
    let (model, timings, choices) = read(data, model, times);
    let settings = Settings {
        choices,
        ..Settings::default()
    };
    let search = Search {
        model: &model,
        timings: &timings,
        servers,
        memory: None,
        seed,
        tries: None,
    };
    let start = model.data_parallel(&timings, servers);
    let start = start.expect("all operators were measured");
    let request = Request {
        seed,
        ..request(servers, PORTS_PER_SERVER)
    };
    let found = together::search(&search, start, &settings, &request, alone());
    found.expect("there is a topology")
}

/// Reads the model, with a batch larger by this factor.
fn read(data: &Path, model: &str, times: u64) -> (Model, Timings, Choices) {
    let file = data.join(format!("topoopt/models/{model}.toml"));
    let text = fs::read_to_string(&file).expect("the model can be read");
    let job = JobFile::parse(model, &text).expect("the model is sound");
    let JobFile::Operators {
        mut model,
        profile,
        choices,
    } = job
    else {
        panic!("{} is no model of operators", file.display());
    };
    model.batch *= times;
    let profile = file.with_file_name(profile);
    let text = fs::read_to_string(profile).expect("the profile can be read");
    let timings = topoopt::read_profile(&text, model.batch).expect("the profile is sound");
    (model, timings, choices)
}

fn alone() -> Help<'static> {
    Help {
        crew: &Alone,
        go_on: &|_: &Progress| true,
        in_time: &|| true,
    }
}
