//! An order of ranks that crosses racks least, for jobs of other launchers: Open MPI, and a loop of all-reduces in
//! Python. Host names say nothing about racks: the racks are assigned at random by seed.

use std::fmt;
use std::fs;
use std::process::Command;
use std::time::Duration;

use libtest_mimic::Trial;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;
use reweave_tests::{Labs, Setting, Stage, wait_for};

use crate::mpi::{MPI_NEEDS, Mpi};
use crate::needs::trial;
use crate::play::must;
use crate::scene::sent_bytes;
use crate::timed::timed_value;

const MIN_GAIN: f64 = 1.5;
/// A ring by name that crosses less often is good already, and there is nothing to gain.
const MIN_CROSSINGS: usize = 2;
/// The tolerance between measured bytes and the number of crossings: the launcher sends a little too.
const MAX_RELATIVE_ERROR: f64 = 0.1;
const RUN_TIMEOUT: Duration = Duration::from_secs(120);
const FIRST_SEED: u64 = 1;
/// This many random clusters are checked where time is not measured.
const RANDOM_CLUSTERS: usize = 6;
const HOSTS: usize = 8;
const LEAVES: [&str; 2] = ["leaf0", "leaf1"];
const JOB: &str = "model = \"gpt\"\nsize = \"125m\"\nbatch = 8\n[parallelism]\ndata = 8\n";
/// Prints how long the loop took. Each rank gets the variables that our wrapper gave mpirun through its environment:
/// the remote shell below passes none on.
const LOOP_PROGRAM: &str = "\
from mpi4py import MPI
import array, os, time
assert os.environ['NCCL_PROFILER_PLUGIN'], 'it is started by our wrapper'
comm = MPI.COMM_WORLD
ones, sums = (array.array('d', [it]) * 250000 for it in (1.0, 0.0))
comm.allreduce(1)
comm.Barrier()
began = time.monotonic()
for _ in range(2):
    comm.Allreduce(ones, sums)
comm.Barrier()
assert sums[0] == comm.size
if comm.rank == 0:
    print(time.monotonic() - began, flush=True)
";

pub(crate) fn tests() -> Vec<Trial> {
    let several = "timed_open_mpi_on_several_clusters";
    vec![
        trial("timed_open_mpi_with_our_hostfile", MPI_NEEDS, || {
            is_faster(1);
        }),
        trial(several, MPI_NEEDS, || is_faster(RANDOM_CLUSTERS)).with_ignored_flag(true),
    ]
}

/// The first clusters for which an order can gain anything.
fn is_faster(clusters: usize) {
    let placement = (FIRST_SEED..).map(RandomRacks::by);
    for placement in placement.filter(RandomRacks::is_in_disorder).take(clusters) {
        let gain = "gain of Open MPI by our hostfile";
        timed_value(gain, || compared(&placement), |gain| *gain >= MIN_GAIN);
    }
}

/// Two racks of four hosts. Each rack's uplink is as fast as one host's link.
struct RandomRacks {
    seed: u64,
    /// The rack of each host.
    racks: [usize; HOSTS],
}

impl RandomRacks {
    fn by(seed: u64) -> Self {
        let mut racks = std::array::from_fn(|host| host % LEAVES.len());
        racks.shuffle(&mut Pcg64Mcg::seed_from_u64(seed));
        Self { seed, racks }
    }

    fn is_in_disorder(&self) -> bool {
        let crossings = self.crossings(&by_name());
        println!("{self}: a ring by name crosses {crossings} times each way");
        crossings >= MIN_CROSSINGS
    }

    /// How often a ring in the order of this hostfile goes from the first rack to the other, and so back.
    fn crossings(&self, hostfile: &str) -> usize {
        let host = |line: &str| {
            let number = line.strip_prefix('h')?.split(' ').next()?;
            number.parse::<usize>().ok()
        };
        let hosts = hostfile
            .lines()
            .map(|line| host(line).unwrap_or_else(|| panic!("{line}")));
        let racks: Vec<_> = hosts.map(|host| self.racks[host]).collect();
        let next = racks.iter().cycle().skip(1);
        racks
            .iter()
            .zip(next)
            .filter(|(from, to)| from < to)
            .count()
    }

    fn fabric(&self) -> String {
        let node =
            |name: &str, role: &str| format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n");
        let link = |a: &str, b: &str| format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\ngbps = 0.02\n");
        let mut text = "kind = \"graph\"\n".to_owned();
        text.extend((0..HOSTS).map(|host| node(&format!("h{host}"), "host")));
        text.extend(
            LEAVES
                .iter()
                .chain(&["spine0"])
                .map(|switch| node(switch, "switch")),
        );
        let hosts = self.racks.iter().enumerate();
        text.extend(hosts.map(|(host, &rack)| link(&format!("h{host}"), LEAVES[rack])));
        text.extend(LEAVES.map(|leaf| link(leaf, "spine0")));
        text
    }
}

impl fmt::Display for RandomRacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, racks of h0 to h7 {:?}", self.seed, self.racks)
    }
}

fn by_name() -> String {
    (0..HOSTS)
        .map(|host| format!("h{host} slots=1\n"))
        .collect()
}

/// The time of the loop in order of names, relative to that in our order.
fn compared(placement: &RandomRacks) -> f64 {
    let fabric = placement.fabric();
    let setting = Setting {
        scenario: "name = \"ranks\"\nseed = 1\nmanagement = true\nfabric = \"two-leaves.toml\"\n",
        fabric: &fabric,
    };
    let stage = must(Stage::up(setting, Labs::Hidden));
    let hostfiles = [by_name(), planned(&stage)];
    let crossings = hostfiles.each_ref().map(|it| placement.crossings(it));
    assert_eq!(crossings[1], 1, "of all orders: {}", hostfiles[1]);
    let [by_name, ours] = hostfiles.map(|hosts| Run::of(&stage, &hosts));
    let (longer, more) = (by_name.took_s / ours.took_s, by_name.crossed / ours.crossed);
    println!("by name {by_name}, by our hostfile {ours}: {longer:.2} and {more:.2} times as much");
    let off = more / crossings[0] as f64 - 1.0;
    assert!(
        off.abs() <= MAX_RELATIVE_ERROR,
        "it crosses {crossings:?} times"
    );
    longer
}

fn planned(stage: &Stage) -> String {
    fs::write(stage.path("job.toml"), JOB).expect("a file can be made");
    let mut command = Command::new(stage.programs().reweave());
    command.args(["plan", "ranks", "--output", "hostfile", "--fabric"]);
    command.arg(stage.path("two-leaves.toml")).arg("--job");
    let output = command.arg(stage.path("job.toml")).output();
    let hostfile = String::from_utf8(output.expect("it can be run").stdout);
    let hostfile = hostfile.expect("names are text");
    let lines = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(lines(&hostfile), lines(&by_name()));
    hostfile
}

/// The time of a loop, and the bytes that crossed the spine meanwhile.
struct Run {
    took_s: f64,
    crossed: f64,
}

impl Run {
    /// Runs the loop with ranks on hosts in this order.
    fn of(stage: &Stage, hosts: &str) -> Self {
        let before = crossed_bytes(stage);
        let mut running = Mpi::start(stage, hosts, LOOP_PROGRAM);
        let said = must(wait_for("the loop ends", RUN_TIMEOUT, || {
            Ok(running.looked_after().then(|| running.said()))
        }));
        Self {
            took_s: said.trim().parse().unwrap_or_else(|_| panic!("{said:?}")),
            crossed: (crossed_bytes(stage) - before) as f64,
        }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s and {:.1} MB", self.took_s, self.crossed / 1e6)
    }
}

/// The bytes that leaves have sent to the spine so far.
fn crossed_bytes(stage: &Stage) -> u64 {
    LEAVES
        .iter()
        .map(|leaf| sent_bytes(stage, leaf, "spine0"))
        .sum()
}
