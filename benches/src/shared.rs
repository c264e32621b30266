//! A shared cluster of 432 servers, on five fabrics: jobs of 16 servers in the proportions of the published evaluation
//! (DLRM, BERT, CANDLE and VGG with 35, 30, 25 and 10 %), from 5 jobs to 27.
//!
//! A server has four GPUs and eight ports of 100 Gb/s. On an ideal switch and on shards, jobs do not share links. On
//! the two fat trees and on the expander, jobs get random free servers, and begin their iterations at the same time.
//! The fat tree of equal cost gives a server 250 Gb/s: the published cost of one switch for all ports is 3.2 times that
//! of circuits.

use reweave_common::explicit_paths::ExplicitPaths;
use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::iteration::Iteration;
use reweave_common::split_mix::SplitMix64;
use reweave_common::units::Rate;
use reweave_design::topology::{self, Job, Limits, Request, families};
use reweave_repair::paths::ecmp::Ecmp;
use reweave_sim::workload::candidates::{Candidate, Jobs, Judge, Seat};
use reweave_sim::workload::job::preset::{Batch, Gpu, Preset};
use reweave_sim::workload::{Settings, Spreading};

use crate::cost::{peak_mib, timed};

const SERVER_COUNT: usize = 432;
const SERVERS_PER_JOB: usize = 16;
const GPUS_PER_SERVER: usize = 4;
const PORTS_PER_SERVER: usize = 8;
const JOB_COUNTS: [usize; 5] = [5, 11, 16, 22, 27];
const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];
/// Rate of a GPU to the three others of its server.
const INTRA_SERVER_GBPS: f64 = 2400.0;
/// Models of twenty jobs in the order of arrival, with the samples of each.
const MODELS: [(&str, u64); 4] = [("dlrm", 128), ("bert", 16), ("candle", 256), ("vgg16", 64)];
const MODEL_ORDER: [usize; 20] = [0, 1, 2, 0, 1, 0, 2, 1, 3, 0, 1, 2, 0, 1, 2, 0, 1, 0, 2, 3];

pub(crate) fn measure_all(words: &[String]) {
    if !words.is_empty()
        && !words
            .iter()
            .any(|word| "shared-cluster".contains(word.as_str()))
    {
        return;
    }
    println!(
        "# shared cluster, seeds {SEEDS:?}: iterations of the jobs, ms, and between which means"
    );
    println!("name jobs mean_ms least_ms most_ms slower_than_shards took_s peak_mib");
    let models = MODELS.map(|(name, batch)| iteration(name, batch));
    let alone = [
        ("ideal", models.each_ref().map(ideal_ms)),
        ("reweave", models.each_ref().map(shard_ms)),
    ];
    for (name, times) in &alone {
        println!("# {name} alone: {}", times_line(times));
    }
    for jobs in JOB_COUNTS {
        let turn = || MODEL_ORDER.iter().cycle().take(jobs);
        let of = |times: &[f64; 4]| turn().map(|&model| times[model]).collect::<Vec<_>>();
        let shards = of(&alone[1].1);
        for (name, times) in &alone {
            show(name, &[of(times)], &shards, 0.0);
        }
        let iterations: Vec<_> = turn().map(|&model| models[model].clone()).collect();
        for rival in RIVAL_FABRICS {
            let of_seed = |seed| together(&rival.fabric(seed), &iterations, rival.hashes, seed);
            let (all, took_s) = timed(|| SEEDS.map(of_seed));
            show(rival.name, &all, &shards, took_s);
        }
    }
}

fn times_line(times: &[f64; 4]) -> String {
    let each = MODELS
        .iter()
        .zip(times)
        .map(|((name, _), ms)| format!("{name} {ms:.2} ms"));
    each.collect::<Vec<_>>().join(", ")
}

/// Prints the result of one or several draws.
fn show(name: &str, draws: &[Vec<f64>], shards: &[f64], took_s: f64) {
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    let means: Vec<_> = draws.iter().map(|times| mean(times)).collect();
    let least = means.iter().copied().fold(f64::INFINITY, f64::min);
    let most = means.iter().copied().fold(0.0, f64::max);
    let slower = |times: &Vec<f64>| {
        let each = times.iter().zip(shards).map(|(ms, shard)| ms / shard);
        mean(&each.collect::<Vec<_>>())
    };
    let slower: Vec<_> = draws.iter().map(slower).collect();
    println!(
        "shared-cluster-{name} {} {:.2} {least:.2} {most:.2} {:.2} {took_s:.2} {:.0}",
        shards.len(),
        mean(&means),
        mean(&slower),
        peak_mib()
    );
}

fn iteration(name: &str, batch: u64) -> Iteration {
    let mut preset = Preset::named(name, None, Batch::PerReplica(batch)).expect("a known model");
    preset.gpu = Gpu::named("a100").expect("a known processor");
    preset
        .iteration(SERVERS_PER_JOB * GPUS_PER_SERVER)
        .expect("the job fits")
}

fn settings(spreading: Spreading) -> Settings {
    Settings {
        inside: Rate::from_gbps(INTRA_SERVER_GBPS),
        spreading,
        ..Settings::default()
    }
}

fn shard_ms(iteration: &Iteration) -> f64 {
    let place: Vec<_> = (0..SERVERS_PER_JOB * GPUS_PER_SERVER)
        .map(|rank| (rank / GPUS_PER_SERVER) as u32)
        .collect();
    let settings = settings(Spreading::Even);
    let job = Job {
        iteration,
        place: &place,
        settings: &settings,
    };
    let request = Request {
        limits: Limits::plain(SERVERS_PER_JOB, PORTS_PER_SERVER),
        degree: PORTS_PER_SERVER,
        rate: Rate::from_bits_per_s(100_000_000_000),
        seed: SEEDS[0],
        work: u64::MAX,
        relay: None,
        interval: false,
    };
    let proposal = topology::plan(&job, &request).expect("there is a topology");
    proposal.evaluation.iteration_ms
}

fn ideal_ms(iteration: &Iteration) -> f64 {
    let fabric = parsed(&format!(
        "kind = \"ideal\"\nhosts = {SERVERS_PER_JOB}\nnic_gbps = 800"
    ));
    let hosts: Vec<_> = fabric.endpoints().collect();
    times(
        &fabric,
        std::slice::from_ref(iteration),
        vec![seat(&hosts)],
        Spreading::Even,
    )[0]
}

/// Another fabric that joins all servers.
#[derive(Clone, Copy)]
struct Rival {
    name: &'static str,
    /// Whether switches hash each pair of GPUs to one uplink.
    hashes: bool,
    joined: Joined,
}

#[derive(Clone, Copy)]
enum Joined {
    EqualCost,
    HalfUp,
    Expander,
}

/// Each tree twice: switches spray packets over all uplinks, or hash.
const RIVAL_FABRICS: [Rival; 5] = [
    Rival {
        name: "equal-cost",
        hashes: false,
        joined: Joined::EqualCost,
    },
    Rival {
        name: "equal-cost-hashed",
        hashes: true,
        joined: Joined::EqualCost,
    },
    Rival {
        name: "2-to-1",
        hashes: false,
        joined: Joined::HalfUp,
    },
    Rival {
        name: "2-to-1-hashed",
        hashes: true,
        joined: Joined::HalfUp,
    },
    Rival {
        name: "expander",
        hashes: false,
        joined: Joined::Expander,
    },
];

impl Rival {
    fn fabric(self, seed: u64) -> Fabric {
        match self.joined {
            Joined::EqualCost => tree(16, 250, 250),
            Joined::HalfUp => tree(8, 800, 800),
            Joined::Expander => expander(seed),
        }
    }
}

fn tree(spines: usize, host: u32, uplink: u32) -> Fabric {
    parsed(&format!(
        "kind = \"leaf-spine\"\nleaves = 27\nspines = {spines}\nhosts_per_leaf = 16\n\
         host_gbps = {host}\nuplink_gbps = {uplink}"
    ))
}

fn expander(seed: u64) -> Fabric {
    let design = families::random(
        SERVER_COUNT,
        PORTS_PER_SERVER / 2,
        &Limits::plain(SERVER_COUNT, PORTS_PER_SERVER),
        seed,
    );
    let wiring = design.expect("there is an expander").wiring;
    let rate = Rate::from_bits_per_s(100_000_000_000);
    let fabric = wiring.fabric(rate, std::time::Duration::ZERO);
    fabric.expect("the wiring is sound")
}

/// Simulates all jobs at the same time, on random servers.
fn together(fabric: &Fabric, iterations: &[Iteration], hashed: bool, seed: u64) -> Vec<f64> {
    let mut hosts: Vec<_> = fabric.endpoints().collect();
    SplitMix64::new(seed).shuffle(&mut hosts);
    let seats = hosts
        .chunks(SERVERS_PER_JOB)
        .take(iterations.len())
        .map(seat);
    let spreading = if hashed {
        Spreading::Hashed(Ecmp::Mixed { seed })
    } else {
        Spreading::Even
    };
    times(fabric, iterations, seats.collect(), spreading)
}

fn seat(hosts: &[NodeId]) -> Seat {
    let each = hosts
        .iter()
        .flat_map(|&host| std::iter::repeat_n(host, GPUS_PER_SERVER));
    Seat {
        placement: each.collect(),
        carriage: ExplicitPaths::default(),
    }
}

fn times(
    fabric: &Fabric,
    iterations: &[Iteration],
    seats: Vec<Seat>,
    spreading: Spreading,
) -> Vec<f64> {
    let settings = settings(spreading);
    let mut judge = Judge::new(Jobs {
        iterations,
        settings: &settings,
        limit: u64::MAX,
    });
    let times = judge.times(&Candidate { fabric, seats });
    times
        .expect("it can be applied")
        .iter()
        .map(|time| time.millis())
        .collect()
}

fn parsed(text: &str) -> Fabric {
    Fabric::parse("fabric", text).expect("the fabric is sound")
}
