//! Ranks in an order that crosses racks least, for a job that nobody here wrote: Open MPI, and a loop of
//! all-reduces in Python.

use std::fs;
use std::process::Command;
use std::time::Duration;

use libtest_mimic::Trial;
use reweave_tests::{Labs, Setting, Stage, wait_for};

use crate::mpi::{Mpi, WITH_MPI};
use crate::needs::trial;
use crate::play::{must, once_right};

const LEAST_GAIN: f64 = 1.5;
const LONGEST_RUN: Duration = Duration::from_secs(120);
/// Names of the hosts, rack by rack: whoever takes them by name goes from rack to rack.
const RACKS: [[&str; 4]; 2] = [["h0", "h2", "h4", "h6"], ["h1", "h3", "h5", "h7"]];
const JOB: &str = "model = \"gpt\"\nsize = \"125m\"\nbatch = 8\n[parallelism]\ndata = 8\n";
/// Prints how long the loop took. Each rank finds in its environment what our wrapper has given mpirun: the remote shell
/// below carries none of it.
const LOOP: &str = "\
from mpi4py import MPI
import array, os, time
assert os.environ['NCCL_PROFILER_PLUGIN'], 'it is started by our wrapper'
comm = MPI.COMM_WORLD
ones, sums = (array.array('d', [it]) * 500000 for it in (1.0, 0.0))
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
    vec![trial(
        "open_mpi_is_faster_by_our_hostfile_than_by_names",
        WITH_MPI,
        || once_right(compared, |gain| *gain >= LEAST_GAIN),
    )]
}

/// Two racks of four hosts, each with one link to the other as wide as a host's.
fn fabric() -> String {
    let node = |name: &str, role: &str| format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n");
    let link = |a: &str, b: &str| format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\ngbps = 0.02\n");
    let mut text = "kind = \"graph\"\n".to_owned();
    text.extend(RACKS.iter().flatten().map(|host| node(host, "host")));
    text.extend(["leaf0", "leaf1", "spine0"].map(|switch| node(switch, "switch")));
    for (rack, leaf) in RACKS.iter().zip(["leaf0", "leaf1"]) {
        text.extend(rack.iter().map(|host| link(host, leaf)));
        text += &link(leaf, "spine0");
    }
    text
}

fn compared() -> f64 {
    let fabric = fabric();
    let setting = Setting {
        scenario: "name = \"ranks\"\nseed = 1\nmanagement = true\nfabric = \"two-leaves.toml\"\n",
        fabric: &fabric,
    };
    let stage = must(Stage::up(setting, Labs::Hidden));
    let by_name: String = (0..8).map(|host| format!("h{host} slots=1\n")).collect();
    let ours = planned(&stage);
    assert_eq!(ours.lines().count(), 8);
    let [by_name_s, ours_s] = [by_name, ours].map(|hosts| loop_s(&stage, &hosts));
    println!("{by_name_s:.1} s by name, {ours_s:.1} s by our hostfile");
    by_name_s / ours_s
}

fn planned(stage: &Stage) -> String {
    fs::write(stage.path("job.toml"), JOB).expect("a file can be made");
    let mut command = Command::new(stage.programs().reweave());
    command.args(["plan", "ranks", "--output", "hostfile", "--fabric"]);
    command.arg(stage.path("two-leaves.toml")).arg("--job");
    let output = command.arg(stage.path("job.toml")).output();
    String::from_utf8(output.expect("it can be run").stdout).expect("names are text")
}

/// What the loop takes with ranks on hosts in this order.
fn loop_s(stage: &Stage, hosts: &str) -> f64 {
    let mut running = Mpi::start(stage, hosts, LOOP);
    let said = must(wait_for("the loop ends", LONGEST_RUN, || {
        Ok(running.looked_after().then(|| running.said()))
    }));
    said.trim().parse().unwrap_or_else(|_| panic!("{said:?}"))
}
