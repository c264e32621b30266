//! slurmctld and four slurmd, which trust each other by munge: they run the scripts of deploy/slurm by themselves.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use libtest_mimic::Trial;
use reweave_tests::Programs;
use serde_json::{Value, json};

use crate::needs::{Need, trial};
use crate::{FABRIC, are_in_order, places};

pub(crate) const COORDINATOR_TOML: &str = "\
    fabric = \"fabric.toml\"\nlisten = \"127.0.0.1:7332\"\nidentity = \"certificates/coordinator\"\ndata = \"data\"\n";
/// Each task tells who it is, and whom it would meet.
const TASK_SCRIPT: &str = "#!/bin/sh\necho $SLURM_PROCID $SLURMD_NODENAME $MASTER_ADDR\n";
const HOSTS_FILE: &str = "127.0.0.1 localhost\n192.0.2.1 controller h0 h1 h2 h3\n";

pub(crate) fn test() -> Trial {
    let programs = ["slurmctld", "slurmd", "munged", "srun", "ip", "unshare"];
    let needs: Vec<_> = [Need::Root]
        .into_iter()
        .chain(programs.map(Need::Program))
        .collect();
    trial("slurm_scripts_order_ranks", &needs, dealt_out)
}

fn dealt_out() {
    let folder = tempfile::tempdir().expect("a folder of our own");
    let place = folder.path();
    laid_out(place);
    if let Err(said) = lived(place) {
        panic!("{said}");
    }

    let text = |name: &str| fs::read_to_string(place.join(name)).expect("it was written");
    let meanwhile: Value = serde_json::from_str(&text("jobs-meanwhile")).expect("it is JSON");
    let job = &meanwhile["registered"][0];
    assert_eq!(job["job"], "slurm-1", "{meanwhile:#}");
    let order = text("order");
    let mut order: Vec<_> = order.lines().collect();
    assert_eq!(job["hosts"], json!(order), "{meanwhile:#}");
    // The ring begins where the batch script runs.
    let first = order.iter().position(|host| *host == "h0");
    order.rotate_left(first.expect("all of them"));
    are_in_order(&places(&text("tasks")), &order);
    assert_eq!(places(&text("tasks-one")).len(), 1);
    let both = order.iter().flat_map(|host| [host, host]).enumerate();
    let both: Vec<_> = both.map(|(rank, host)| at(rank, host, "h0")).collect();
    assert_eq!(places(&text("tasks-8")), both);
    no_order_is_given_where_none_fits(&text);
    // As Slurm has them, without a place to meet.
    let alone = (0..4).map(|rank| at(rank, &format!("h{rank}"), ""));
    let alone: Vec<_> = alone.collect();
    assert_eq!(places(&text("tasks-alone")), alone);
    assert_eq!(places(&text("tasks-direct")), alone);
    assert_eq!(text("left"), "", "no file outlives its job");
}

/// One node has a task less than the others.
fn no_order_is_given_where_none_fits(text: &dyn Fn(&str) -> String) {
    let uneven = places(&text("tasks-7"));
    assert_eq!(uneven.len(), 7, "{}", text("shape-7.log"));
    let hosts: Vec<_> = uneven.iter().map(|(_, host, _)| host).collect();
    assert!(hosts.is_sorted(), "as Slurm has them: {uneven:?}");
    assert!(uneven.iter().all(|(_, _, meets)| meets.is_empty()));
}

fn at(rank: usize, host: &str, meets: &str) -> (usize, String, String) {
    (rank, host.to_owned(), meets.to_owned())
}

/// All that the daemons read.
fn laid_out(place: &Path) {
    fs::create_dir(place.join("state")).expect("a folder for its state");
    let settings = include_str!("slurm.conf").replace("@FOLDER@", &place.display().to_string());
    for (name, text) in [
        ("slurm.conf", &*settings),
        ("fabric.toml", FABRIC),
        ("coordinator.toml", COORDINATOR_TOML),
        ("hosts", HOSTS_FILE),
    ] {
        fs::write(place.join(name), text).expect("a file of our own");
    }
    executable(&place.join("batch"), include_str!("batch.sh"));
    executable(&place.join("shape"), include_str!("shape.sh"));
    executable(&place.join("tell"), TASK_SCRIPT);
    certified(place);
    scripts(place, "controller", "operator", &["prolog.sh", "epilog.sh"]);
    scripts(
        place,
        "node",
        "viewers/rank",
        &["task-prolog.sh", "node-epilog.sh"],
    );
    let ask = format!(
        "#!/bin/sh\nset -a\n. {}/controller/environment\nexec timeout 5 reweave \"$@\"\n",
        place.display()
    );
    executable(&place.join("ask"), &ask);
}

pub(crate) fn certified(place: &Path) {
    let certificates = place.join("certificates");
    let made = |words: &[&str], last: &[&str]| {
        let mut command = reweave();
        let output = command.args(words).arg(&certificates).args(last).output();
        let output = output.expect("it can be run");
        assert!(output.status.success(), "{output:?}");
    };
    made(&["cluster", "init", "--name", "lab"], &[]);
    let issue = ["cluster", "issue", "--role", "viewer", "--dir"];
    made(&issue, &["--name", "rank"]);
}

pub(crate) fn reweave() -> Command {
    Command::new(Programs::beside_this().expect("programs").reweave())
}

/// As an administrator lays them out: with a file beside them that names the cluster.
fn scripts(place: &Path, folder: &str, identity: &str, names: &[&str]) {
    let folder = place.join(folder);
    fs::create_dir(&folder).expect("a folder of our own");
    let deployed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/slurm");
    for name in names {
        fs::copy(deployed.join(name), folder.join(name)).expect("a script is there");
    }
    let programs = reweave().get_program().to_owned();
    let programs = Path::new(&programs).parent().expect("a folder");
    let environment = format!(
        "REWEAVE_COORDINATOR=127.0.0.1:7332\nREWEAVE_IDENTITY={}\nPATH={}:$PATH\n",
        place.join("certificates").join(identity).display(),
        programs.display(),
    );
    fs::write(folder.join("environment"), environment).expect("a file of our own");
}

fn executable(path: &Path, text: &str) {
    fs::write(path, text).expect("a file of our own");
    fs::set_permissions(path, Permissions::from_mode(0o755)).expect("it is ours");
}

/// What was said where it did not get to its end.
fn lived(place: &Path) -> Result<(), String> {
    let mut cluster = Command::new("unshare");
    cluster.args(["--net", "--uts", "--mount", "--pid", "--fork"]);
    cluster.args(["--kill-child", "--mount-proc", "--", "bash", "-c"]);
    cluster.args([include_str!("slurm.sh"), "slurm"]).arg(place);
    let programs = reweave().get_program().to_owned();
    let output = cluster.arg(Path::new(&programs).parent().expect("a folder"));
    let output = output
        .env_remove("REWEAVE_IDENTITY")
        .env_remove("REWEAVE_COORDINATOR")
        .output()
        .expect("it starts");
    let said = || format!("{}{}", text(&output.stdout), text(&output.stderr));
    output.status.success().then_some(()).ok_or_else(said)
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
