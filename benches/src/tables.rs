//! Jobs of 128 servers with four A100 each: parallelism and topology are searched together, and compared with other
//! fabrics. These are the rows of the table in docs/planning.md.

use reweave_common::units::Bytes;
use reweave_design::crew::Alone;
use reweave_design::parallel::presets::{Search, Words};
use reweave_design::parallel::together::{self, Dealing, Pairing};
use reweave_design::parallel::{Help, Progress, others};
use reweave_design::topology::prices::PUBLISHED_PRICES;
use reweave_design::topology::{Job, Request, Rival};
use reweave_sim::workload::Settings;
use reweave_sim::workload::job::preset::{Batch, Gpu, Parallelism, Preset};

use crate::cost::{peak_mib, timed};
use crate::topology::request;

const SERVER_COUNT: usize = 128;
const GPUS_PER_SERVER: usize = 4;
const PORT_COUNTS: [usize; 2] = [4, 8];
/// Time limit of each search.
const MAX_TIME_S: f64 = 10.0;
const SEED: u64 = 1;

/// Models with the samples per GPU, and the number of tables, if any.
const JOBS: [(&str, u64, Option<usize>); 11] = [
    ("vgg16", 64, None),
    ("resnet50", 128, None),
    ("bert", 16, None),
    ("candle", 256, None),
    ("ncf", 128, None),
    ("dlrm", 64, Some(128)),
    ("dlrm", 128, Some(128)),
    ("dlrm", 256, Some(128)),
    ("dlrm", 512, Some(128)),
    ("dlrm", 1024, Some(128)),
    ("dlrm", 2048, Some(128)),
];

/// Runs the benchmarks whose names contain one of the words; all without words.
pub(crate) fn measure_all(words: &[String]) {
    let is_asked = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    println!("# seed: {SEED}; milliseconds of an iteration, 100 Gb/s a port");
    println!(
        "| job | degree | spread | topology | as given | planned | bound | tax | ideal switch | \
         fat tree of equal cost | fat tree 2:1 | expander | took_s | goal_s | interval_s | peak_mib |"
    );
    for (model, batch, tables) in JOBS {
        for degree in PORT_COUNTS {
            if is_asked(&format!("table-{model}-{batch}-d{degree}")) {
                row(model, batch, tables, degree);
            }
        }
    }
}

fn row(model: &str, batch: u64, tables: Option<usize>, degree: usize) {
    let mut preset =
        Preset::named(model, None, Batch::PerReplica(batch)).expect("a model that is known");
    preset.gpu = Gpu::named("a100").expect("a processor that is known");
    preset.gpus_per_host = GPUS_PER_SERVER;
    preset.tables = tables;
    let memory = Bytes::new(preset.gpu.memory_gb * 1_000_000_000);
    let search = Search::new(&preset, SERVER_COUNT, Some(memory));
    let (request, settings) = (request(SERVER_COUNT, degree), Settings::default());
    let (mut found, took_s) = timed(|| planned(&search, &settings, &request));
    eprintln!("{model}, batch {batch}, degree {degree}: {took_s:.2} s");
    let (interval, interval_s) = timed(|| interval(&search, &mut found, &settings, &request));
    eprintln!("between {interval:?} ms: {interval_s:.2} s");
    let fat_tree = PUBLISHED_PRICES.fat_tree;
    let deal = &found.deal;
    let others = others::at_their_best(&search, deal, &settings, &request, fat_tree, alone());
    let others = others.expect("others can be built");
    let proposal = &found.proposal;
    let cells = [
        format!("{model}, batch {batch}"),
        degree.to_string(),
        Words(found.deal).to_string(),
        proposal.design.family.word().to_owned(),
        format!("{:.2}", found.course[0]),
        format!("{:.2}", proposal.evaluation.iteration_ms),
        format!("{:.2}", proposal.bound_ms),
        format!("{:.3}", proposal.bandwidth_tax),
    ];
    let others = Rival::ALL.map(|rival| {
        let other = others.iter().find(|it| it.rival == rival);
        let best = other.and_then(|it| it.best.as_ref());
        best.map_or("-".to_owned(), |(deal, ms)| {
            if *deal == found.deal {
                format!("{ms:.2}")
            } else {
                format!("{ms:.2} ({})", Words(*deal))
            }
        })
    });
    let effort = [
        format!("{took_s:.2}"),
        MAX_TIME_S.to_string(),
        format!("{interval_s:.2}"),
        format!("{:.0}", peak_mib()),
    ];
    let cells: Vec<_> = cells.into_iter().chain(others).chain(effort).collect();
    println!("| {} |", cells.join(" | "));
}

fn planned(search: &Search, settings: &Settings, request: &Request) -> Pairing<Parallelism> {
    let start = search.start().expect("there is room");
    together::search(search, start, settings, request, alone()).expect("there is a topology")
}

/// Returns the interval of an iteration time, unless that takes too much work.
fn interval(
    search: &Search,
    found: &mut Pairing<Parallelism>,
    settings: &Settings,
    request: &Request,
) -> Option<[f64; 2]> {
    let job = Job {
        iteration: &search.iteration(&found.deal).expect("it was simulated"),
        place: &search.place(),
        settings,
    };
    let report = found.proposal.interval_of(&job, request, &mut |_| true);
    report.expect("it was simulated");
    let interval = found.proposal.interval.as_ref();
    interval.map(|it| [it.low_ms, it.high_ms])
}

fn alone() -> Help<'static> {
    Help {
        crew: &Alone,
        go_on: &|_: &Progress| true,
        in_time: &|| true,
    }
}
