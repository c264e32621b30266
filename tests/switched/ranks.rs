//! Ranks in an order that crosses racks least, for a job that nobody here wrote: Open MPI, and a loop of
//! all-reduces in Python.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use libtest_mimic::Trial;
use reweave_tests::{Labs, Setting, Stage, wait_for};

use crate::needs::{Need, trial};
use crate::play::{must, once_right};

const WITH_MPI: &[Need] = &[
    Need::Lab,
    Need::Program("mpirun"),
    Need::Program("/usr/lib/python3/dist-packages/mpi4py/__init__.py"),
];
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
/// What mpirun takes for a remote shell: it leaves the command where the test finds it, and waits until
/// it has ended there.
const SHELL: &str = "\
#!/bin/sh
spool=$(dirname \"$0\")/spool; host=$1; shift
echo \"$*\" > \"$spool/.$host\"; mv \"$spool/.$host\" \"$spool/$host\"
while [ -e \"$spool/$host\" ]; do sleep 0.1; done
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
    let place = stage.path("mpi");
    let spool = place.join("spool");
    fs::create_dir_all(&spool).expect("a folder can be made");
    for (name, text) in [("hosts", hosts), ("loop.py", LOOP), ("shell", SHELL)] {
        fs::write(place.join(name), text).expect("a file can be made");
    }
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(place.join("shell"), executable).expect("it is ours");
    let first = hosts.split(' ').next().expect("there are hosts");
    let mut mpirun = mpirun(stage, first, &place);
    let mut running = BTreeMap::new();
    let ended = wait_for("the loop ends", LONGEST_RUN, || {
        serve(stage, &spool, &mut running);
        Ok(mpirun.try_wait().expect("it is ours"))
    });
    running.into_values().for_each(end);
    if ended.is_err() {
        let _ = mpirun.kill();
    }
    let output = mpirun.wait_with_output().expect("it has ended");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    must(ended);
    said.trim().parse().unwrap_or_else(|_| panic!("{output:?}"))
}

fn mpirun(stage: &Stage, host: &str, place: &Path) -> Child {
    let mut command = stage.inside(host, stage.programs().reweave());
    // It only has to be there: NCCL is not.
    command.env("REWEAVE_NCCL_PLUGIN", place.join("loop.py"));
    command.args(["run", "--", "mpirun"]);
    let shell = place.join("shell");
    let settings = [
        ("plm_rsh_agent", &*shell.to_string_lossy()),
        ("plm_rsh_no_tree_spawn", "1"),
        ("routed", "direct"),
        ("oob_tcp_if_include", "eth0"),
        ("btl_tcp_if_include", "eth0"),
        ("btl", "tcp,self"),
        ("mpi_yield_when_idle", "1"),
        // Else it uses a link in one direction at a time, whatever the order of ranks.
        ("btl_tcp_flags", "send"),
    ];
    command.arg("--allow-run-as-root");
    command.args(
        settings
            .iter()
            .flat_map(|(name, value)| ["--mca", name, value]),
    );
    command
        .arg("--hostfile")
        .arg(place.join("hosts"))
        .args(["-np", "8", "/usr/bin/python3"]);
    command.arg(place.join("loop.py")).stdout(Stdio::piped());
    command.spawn().expect("the lab's tool can be run")
}

/// Starts what was left to be started, and tells of what has ended.
fn serve(stage: &Stage, spool: &Path, running: &mut BTreeMap<PathBuf, Child>) {
    let entries = fs::read_dir(spool).expect("it is there").flatten();
    for path in entries.map(|entry| entry.path()) {
        let host = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if !host.starts_with('.') && !running.contains_key(&path) {
            let words = fs::read_to_string(&path).unwrap_or_default();
            let mut command = stage.inside(&host, "sh");
            command.args(["-c", &words]).stdout(Stdio::null());
            running.insert(path, command.spawn().expect("the lab's tool can be run"));
        }
    }
    running.retain(|path, child| {
        let runs = child.try_wait().is_ok_and(|ended| ended.is_none());
        runs || fs::remove_file(path).is_err()
    });
}

fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}
