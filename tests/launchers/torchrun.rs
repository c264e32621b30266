//! torchrun on four hosts of the lab, each started by `reweave run`: its static ranks are those of our order, and
//! gloo sums over the fabric.

use std::fs;
use std::path::PathBuf;
use std::process::Child;

use libtest_mimic::Trial;
use reweave_tests::{Labs, Leadership, Setting, Stage};
use serde_json::Value;

use crate::needs::{Need, trial};
use crate::{FABRIC, HOSTS, are_in_order, places};

const NEEDS: &[Need] = &[
    Need::Lab,
    Need::Program("torchrun"),
    Need::Program("/usr/lib/python3/dist-packages/torch/__init__.py"),
];
const SCENARIO: &str =
    "name = \"torch\"\nseed = 1\nmanagement = true\nfabric = \"two-leaves.toml\"\n";
/// Where the stage has it.
const COORDINATOR_ADDRESS: &str = "10.255.0.1:7332";
/// Four launchers and four ranks read all of PyTorch at once.
const LAUNCH_TIMEOUT_S: &str = "180";
/// Each rank prints who it is, once all have met; a rank with another number ends otherwise.
const LOOP_PROGRAM: &str = "\
import os, sys, torch, torch.distributed as dist
dist.init_process_group('gloo')
numbers = torch.full((250000,), float(dist.get_rank() + 1))
for _ in range(3):
    dist.all_reduce(numbers)
    numbers /= dist.get_world_size()
assert dist.get_world_size() == 4 and numbers[0] == 2.5, numbers
host, said, code = sys.argv[1:]
with open(said, 'w') as file:
    print(dist.get_rank(), host, os.environ['MASTER_ADDR'], file=file)
dist.barrier()
sys.exit(int(code))
";

pub(crate) fn test() -> Trial {
    trial("torchrun_takes_ranks_and_exit_code", NEEDS, || {
        let setting = Setting {
            scenario: SCENARIO,
            fabric: FABRIC,
        };
        let mut stage = Stage::up(setting, Labs::Hidden).expect("a cluster");
        stage.lead(&Leadership::default()).expect("a coordinator");
        stage
            .write("loop.py", LOOP_PROGRAM)
            .expect("a file of our own");
        ranks_are_ours(&stage);
        its_end_is_ours(&stage);
    })
}

fn ranks_are_ours(stage: &Stage) {
    let words = ["--output", "json", "job", "gate", "--hosts", HOSTS];
    let gate = stage.operator().command(&words).output();
    // That hosts have no agents speaks against them, and does not keep an orchestrator from putting them in order.
    let gate: Value = serde_json::from_slice(&gate.expect("it can be run").stdout).expect("JSON");
    let order = gate["order"].as_array().expect("an order").iter();
    let order: Vec<_> = order.map(|host| host.as_str().expect("a name")).collect();
    let (said, codes) = ran(stage, "0");
    assert_eq!(codes, [0; 4], "{said}");
    are_in_order(&places(&said), &order);
}

/// torchrun says 1 where a rank has failed.
fn its_end_is_ours(stage: &Stage) {
    let (said, codes) = ran(stage, "3");
    assert_eq!(codes, [1; 4], "{said}");
}

/// What ranks have said, and how each host's command has ended.
fn ran(stage: &Stage, code: &str) -> (String, Vec<i32>) {
    let running =
        ["h0", "h1", "h2", "h3"].map(|host| (said_by(stage, host), started(stage, host, code)));
    let ended = running.map(|(said, mut child)| {
        let ended = child.wait().expect("it has ended");
        let said = fs::read_to_string(said).unwrap_or_default();
        (said, ended.code().unwrap_or(-1))
    });
    ended.into_iter().unzip()
}

fn said_by(stage: &Stage, host: &str) -> PathBuf {
    stage.path(&format!("said-{host}"))
}

fn started(stage: &Stage, host: &str, code: &str) -> Child {
    let mut command = stage.inside(host, "timeout");
    command
        .arg(LAUNCH_TIMEOUT_S)
        .arg(stage.programs().reweave());
    command.args(["--coordinator", COORDINATOR_ADDRESS, "--identity"]);
    command.arg(stage.path("certificates/operator"));
    command.args(["run", "--job", "torch", "--hosts", HOSTS, "--node", host]);
    command.args(["--", "torchrun", "--nproc_per_node=1"]);
    // What ranks say is kept and shown: PyTorch 1.13 cannot leave it alone with Python 3.11.
    command.args(["--master_port=29500", "--redirects=1", "--tee=1"]);
    command
        .arg("--log_dir")
        .arg(stage.path(&format!("log-{host}")));
    command.arg(stage.path("loop.py")).arg(host);
    command.arg(said_by(stage, host)).arg(code);
    command.env("GLOO_SOCKET_IFNAME", "eth0");
    command.env("OMP_NUM_THREADS", "1");
    command.spawn().expect("the lab's tool can be run")
}
