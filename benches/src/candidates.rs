//! A thousand candidate plans for a shared cluster of 432 servers and 16 jobs of 27 servers. The models have the
//! proportions of a published evaluation of such clusters: DLRM, BERT, CANDLE and VGG with 35, 30, 25 and 10 %.
//!
//! A search varies the best known plan in many small ways, and continues with the best variant: ten rounds of a
//! hundred.

use reweave_common::explicit_paths::{ExplicitPaths, GroupRing};
use reweave_common::fabric::Fabric;
use reweave_common::ids::{NodeId, Rank};
use reweave_common::iteration::Iteration;
use reweave_common::split_mix::SplitMix64;
use reweave_sim::workload::Settings;
use reweave_sim::workload::candidates::{Candidate, Jobs, Judge, Seat};
use reweave_sim::workload::job::preset::{Batch, Preset};

use crate::cost::{peak_mib, timed};

const SERVER_COUNT: usize = 432;
const SERVERS_PER_JOB: usize = 27;
const MODELS: [(&str, u64, usize); 4] = [
    ("dlrm", 128, 6),
    ("bert", 16, 5),
    ("candle", 256, 4),
    ("vgg16", 64, 1),
];
const ROUNDS: usize = 10;
const PLANS_PER_ROUND: usize = 100;
/// Maximum number of plans simulated per round.
const MAX_SIMULATED_PLANS: usize = 5;
const MAX_TIME_S: f64 = 60.0;
const SEED: u64 = 1;

pub(crate) fn measure_all(words: &[String]) {
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    println!("name plans simulated jobs_simulated first_ms best_ms took_s goal_s peak_mib");
    if wanted("candidates-direct") {
        measure("candidates-direct", Box::new(Wiring::default()));
    }
    if wanted("candidates-leaf-spine") {
        measure("candidates-leaf-spine", Box::new(Placing::new()));
    }
}

/// Plans, and their variation.
trait Search {
    /// Changes the plan slightly.
    fn change(&mut self, rng: &mut SplitMix64);
    fn fabric(&self) -> Fabric;
    fn candidate<'f>(&self, fabric: &'f Fabric) -> Candidate<'f>;
    fn copy(&self) -> Box<dyn Search>;
}

fn jobs() -> Vec<Iteration> {
    let jobs = MODELS.into_iter().flat_map(|(name, batch, count)| {
        let preset = Preset::named(name, None, Batch::PerReplica(batch)).expect("a known model");
        let iteration = preset.iteration(SERVERS_PER_JOB).expect("the job fits");
        std::iter::repeat_n(iteration, count)
    });
    jobs.collect()
}

fn measure(name: &str, mut search: Box<dyn Search>) {
    let mut rng = SplitMix64::new(SEED);
    let (iterations, settings) = (jobs(), Settings::default());
    let jobs = Jobs {
        iterations: &iterations,
        settings: &settings,
        limit: u64::MAX,
    };
    let mut judge = Judge::new(jobs);
    let (mut took_s, mut simulated, mut first_ms, mut best_ms) = (0.0, 0, f64::NAN, f64::NAN);
    for round in 0..ROUNDS {
        let mut plans = vec![search.copy()];
        while plans.len() < PLANS_PER_ROUND {
            let mut plan = search.copy();
            plan.change(&mut rng);
            plans.push(plan);
        }
        let fabrics: Vec<_> = plans.iter().map(|plan| plan.fabric()).collect();
        let candidates: Vec<_> = plans
            .iter()
            .zip(&fabrics)
            .map(|(plan, fabric)| plan.candidate(fabric))
            .collect();
        let (choice, took) = timed(|| judge.best(&candidates, MAX_SIMULATED_PLANS));
        let choice = choice.expect("all plans can be applied");
        took_s += took;
        simulated += choice.simulated;
        best_ms = mean_ms(&choice.times);
        if round == 0 {
            let times = judge.times(&candidates[0]).expect("it can be applied");
            first_ms = mean_ms(&times);
        }
        search = plans.swap_remove(choice.best);
    }
    println!(
        "{name} {} {simulated} {} {first_ms:.3} {best_ms:.3} {took_s:.2} {MAX_TIME_S} {:.0}",
        ROUNDS * PLANS_PER_ROUND,
        judge.effort().simulated,
        peak_mib(),
    );
}

fn mean_ms(times: &[reweave_sim::engine::SimTime]) -> f64 {
    times.iter().map(|time| time.millis()).sum::<f64>() / times.len() as f64
}

fn seats(fabric: &Fabric, order: &[usize]) -> Vec<Seat> {
    let hosts: Vec<NodeId> = fabric.endpoints().collect();
    let seat = |of: &[usize]| Seat {
        placement: of.iter().map(|&nth| hosts[nth]).collect(),
        carriage: ExplicitPaths::default(),
    };
    order.chunks(SERVERS_PER_JOB).map(seat).collect()
}

/// Each job has eight ports of its servers wired as rings of four strides. A change gives one job another stride.
#[derive(Clone)]
struct Wiring {
    strides: Vec<[usize; 4]>,
}

impl Default for Wiring {
    fn default() -> Self {
        Self {
            strides: vec![[1, 2, 3, 4]; SERVER_COUNT / SERVERS_PER_JOB],
        }
    }
}

impl Search for Wiring {
    fn change(&mut self, rng: &mut SplitMix64) {
        let job = rng.below(self.strides.len());
        let strides = &mut self.strides[job];
        let stride = 2 + rng.below(SERVERS_PER_JOB / 2 - 1);
        if !strides.contains(&stride) {
            strides[1 + rng.below(3)] = stride;
        }
    }

    fn fabric(&self) -> Fabric {
        let links = self.strides.iter().enumerate().flat_map(|(job, strides)| {
            let server = move |nth: usize| job * SERVERS_PER_JOB + nth % SERVERS_PER_JOB;
            let around = move |&stride: &usize| {
                (0..SERVERS_PER_JOB)
                    .map(move |nth| format!("[{}, {}]", server(nth), server(nth + stride)))
            };
            strides.iter().flat_map(around)
        });
        let links: Vec<_> = links.collect();
        let links = links.join(", ");
        parsed(&format!(
            "kind = \"direct\"\nhosts = {SERVER_COUNT}\nlink_gbps = 100\nlinks = [{links}]"
        ))
    }

    /// All-reduces use every ring that visits all servers.
    fn candidate<'f>(&self, fabric: &'f Fabric) -> Candidate<'f> {
        let order: Vec<_> = (0..SERVER_COUNT).collect();
        let mut seats = seats(fabric, &order);
        for (seat, strides) in seats.iter_mut().zip(&self.strides) {
            let wide = strides.iter().filter(|&stride| !stride.is_multiple_of(3));
            let rings: Vec<_> = wide.map(|&stride| ring(stride)).collect();
            let group = (0..SERVERS_PER_JOB).map(Rank::from_index).collect();
            seat.carriage.rings.insert(group, rings);
        }
        Candidate { fabric, seats }
    }

    fn copy(&self) -> Box<dyn Search> {
        Box::new(self.clone())
    }
}

/// Servers of 800 Gb/s on leaves with half of that rate upwards, assigned at random. A change swaps two of them.
#[derive(Clone)]
struct Placing {
    order: Vec<usize>,
}

impl Placing {
    fn new() -> Self {
        let mut order: Vec<_> = (0..SERVER_COUNT).collect();
        SplitMix64::new(SEED).shuffle(&mut order);
        Self { order }
    }
}

impl Search for Placing {
    fn change(&mut self, rng: &mut SplitMix64) {
        let [a, b] = [(); 2].map(|()| rng.below(SERVER_COUNT));
        self.order.swap(a, b);
    }

    fn fabric(&self) -> Fabric {
        parsed(
            "kind = \"leaf-spine\"\nleaves = 27\nspines = 8\nhosts_per_leaf = 16\nhost_gbps = 800\n\
             uplink_gbps = 800",
        )
    }

    fn candidate<'f>(&self, fabric: &'f Fabric) -> Candidate<'f> {
        Candidate {
            fabric,
            seats: seats(fabric, &self.order),
        }
    }

    fn copy(&self) -> Box<dyn Search> {
        Box::new(self.clone())
    }
}

/// Returns a ring of 27 servers, whose only prime factor is 3.
fn ring(stride: usize) -> GroupRing {
    let member = |nth| Rank::from_index(nth * stride % SERVERS_PER_JOB);
    GroupRing {
        members: (0..SERVERS_PER_JOB).map(member).collect(),
        legs: vec![None; SERVERS_PER_JOB],
        weight: 1.0,
    }
}

fn parsed(text: &str) -> Fabric {
    Fabric::parse("fabric", text).expect("the fabric is sound")
}
