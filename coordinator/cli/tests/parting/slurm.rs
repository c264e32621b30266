//! The scripts for Slurm, with the variables that it sets.

use std::env;
use std::path::Path;
use std::process::{Command, Output};

use reweave_common::operator::{JobOrder, Request, Response};
use reweave_link::{Channel, Session};

use crate::executable::write_executable;
use crate::running::{registered, started, unused_address};
use crate::scene::{Scene, request};

fn script(name: &str, to: &str, identity: &Path) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_reweave")).parent().unwrap();
    let path = env::var_os("PATH").unwrap_or_default();
    let paths = [program.to_owned()]
        .into_iter()
        .chain(env::split_paths(&path));
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/slurm");
    let mut command = Command::new(Path::new(folder).join(name));
    command
        .env("PATH", env::join_paths(paths).unwrap())
        .env("REWEAVE_COORDINATOR", to)
        .env("REWEAVE_IDENTITY", identity)
        .env("SLURM_JOB_ID", "7")
        .env("SLURM_JOB_NODELIST", "h[0-1]")
        .env("REWEAVE_NCCL_PLUGIN", "")
        .env_remove("NCCL_PROFILER_PLUGIN")
        .env_remove("SLURM_HOSTFILE")
        .env_remove("SLURM_NTASKS")
        .env_remove("SLURM_STEP_NODELIST")
        .env_remove("SLURM_TASKS_PER_NODE")
        .env_remove("SLURMD_NODENAME")
        .env_remove("MASTER_ADDR");
    command
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What the script asked for first, answered so, and its end.
async fn played(
    name: &str,
    variables: &[(&str, &str)],
    answer: Response,
) -> (Request, Output, Session) {
    let mut scene = Scene::new();
    let mut command = script(name, &scene.address.to_string(), &scene.identity());
    command.envs(variables.iter().copied());
    let ended = tokio::task::spawn_blocking(move || command.output().unwrap());
    let session = scene.listener.accept().await.unwrap().unwrap();
    let request = request(&session).await.unwrap();
    session.send(Channel::Commands, &answer).await.unwrap();
    (request, ended.await.unwrap(), session)
}

fn job_request(order: JobOrder) -> Request {
    let job = "slurm-7".to_owned();
    Request::Job { job, order }
}

#[tokio::test(flavor = "multi_thread")]
async fn slurm_job_registers_and_ends() {
    let hosts = ["h0", "h1"].map(str::to_owned).to_vec();
    let (request, output, _session) = played("prolog.sh", &[], registered("slurm-7")).await;
    let may_reorder = true;
    assert_eq!(
        request,
        job_request(JobOrder::Register { hosts, may_reorder })
    );
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        words(&output.stderr)
    );
    let over = Response::Registered(vec![]);
    let (request, output, _session) = played("epilog.sh", &[], over).await;
    assert_eq!(request, job_request(JobOrder::End));
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        words(&output.stderr)
    );
}

/// What a batch script on two nodes, of two tasks each, is given, and its ranks.
async fn batch(variables: &[(&str, &str)]) -> (Request, String, String) {
    let Response::Started(started) = started() else {
        panic!("no start")
    };
    let answer = Response::Allocation(Box::new(started.allocation));
    let shape = [("SLURM_TASKS_PER_NODE", "2(x2)"), ("SLURM_NTASKS", "4")];
    let variables = [&shape, variables].concat();
    let (request, output, _session) = played("task-prolog.sh", &variables, answer).await;
    let said = words(&output.stdout);
    let file = said
        .lines()
        .find_map(|line| line.strip_prefix("export SLURM_HOSTFILE="));
    let file = file.unwrap_or_else(|| panic!("{said}{}", words(&output.stderr)));
    let ranks = std::fs::read_to_string(file).unwrap();
    (request, said, ranks)
}

/// These tests may run without root; what is theirs goes all the same.
fn over(job: &str) -> usize {
    let nowhere = Path::new("/nonexistent");
    let mut epilog = script("node-epilog.sh", "127.0.0.1:1", nowhere);
    let ended = epilog.env("SLURM_JOB_ID", job).status();
    assert!(ended.unwrap().success());
    let begin = format!("reweave-ranks-{job}.");
    let left = std::fs::read_dir("/tmp").unwrap();
    let left = left.filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    left.filter(|name| name.starts_with(&begin)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_script_gets_order_of_job() {
    // No other process has a job of this number.
    let number = format!("1{}", std::process::id());
    let (request, said, ranks) = batch(&[("SLURM_JOB_ID", &number)]).await;
    let hosts = ["h0", "h1"].map(str::to_owned).to_vec();
    let job = Some(format!("slurm-{number}"));
    assert_eq!(request, Request::Gate { hosts, job });
    assert_eq!(ranks, "h1\nh1\nh0\nh0\n");
    assert!(said.contains("export MASTER_ADDR=h1\n"), "{said}");
    assert_eq!(over(&number), 0);
}

/// All that they compute from Slurm's list of nodes begins with it.
#[tokio::test(flavor = "multi_thread")]
async fn ring_begins_at_batch_host() {
    let number = format!("2{}", std::process::id());
    let own = [
        ("SLURM_JOB_ID", &*number),
        ("SLURMD_NODENAME", "h0"),
        ("MASTER_ADDR", "10.0.0.7"),
    ];
    let (_, said, ranks) = batch(&own).await;
    assert_eq!(ranks, "h0\nh0\nh1\nh1\n");
    assert!(!said.contains("MASTER_ADDR"), "{said}");
    assert_eq!(over(&number), 0);
}

/// The order is there for any program that asks, and nothing is left in the way of srun.
#[test]
fn unfitting_hostfile_is_not_given() {
    let folder = tempfile::tempdir().unwrap();
    let answers = folder.path().join("reweave");
    write_executable(&answers, "#!/bin/sh\nprintf 'h1\\nh1\\nh0\\nh0\\n'\n");
    let path = format!("{}:{}", folder.path().display(), env::var("PATH").unwrap());
    let number = format!("3{}", std::process::id());
    let said = |variables: &[(&str, &str)]| {
        let mut command = script("task-prolog.sh", "127.0.0.1:1", folder.path());
        command.env("SLURM_JOB_ID", &number).env("PATH", &path);
        command.envs(variables.iter().copied());
        let output = command.output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty());
        words(&output.stdout)
    };
    let even = ("SLURM_TASKS_PER_NODE", "2(x2)");
    assert!(said(&[even]).contains("SLURM_HOSTFILE"));
    assert_eq!(said(&[]), "");
    assert_eq!(said(&[("SLURM_TASKS_PER_NODE", "4")]), "");
    assert_eq!(said(&[("SLURM_TASKS_PER_NODE", "2(x3),1")]), "");
    assert_eq!(
        said(&[("SLURM_TASKS_PER_NODE", "2(x3)")]),
        "",
        "it is not complete"
    );
    assert_eq!(said(&[even, ("SLURM_NTASKS", "3")]), "");
    assert_eq!(said(&[even, ("SLURM_HOSTFILE", "/theirs")]), "");
    assert_eq!(said(&[even, ("SLURM_STEP_NODELIST", "h[0-1]")]), "");
    assert_eq!(over(&number), 0);
}

#[tokio::test]
async fn slurm_job_survives_missing_coordinator() {
    let scene = Scene::new();
    for name in ["prolog.sh", "task-prolog.sh"] {
        let mut command = script(name, &unused_address().to_string(), &scene.identity());
        let number = format!("4{}", std::process::id());
        command.env("SLURM_JOB_ID", &number);
        command.env("SLURM_TASKS_PER_NODE", "2(x2)");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{name}");
        assert_eq!(words(&output.stdout), "", "{name}");
        assert_eq!(over(&number), 0);
    }
}

#[tokio::test]
async fn plugin_set_if_present_and_unchosen() {
    let scene = Scene::new();
    let describe = |plugin: &str, chosen: Option<&str>| {
        let mut command = script(
            "task-prolog.sh",
            &unused_address().to_string(),
            &scene.identity(),
        );
        command.env("REWEAVE_NCCL_PLUGIN", plugin);
        command.envs(chosen.map(|name| ("NCCL_PROFILER_PLUGIN", name)));
        words(&command.output().unwrap().stdout)
    };
    let plugin = env!("CARGO_BIN_EXE_reweave");
    let line = format!("export NCCL_PROFILER_PLUGIN={plugin}\n");
    assert_eq!(describe(plugin, None), line);
    assert_eq!(describe(plugin, Some("other")), "");
    assert_eq!(describe("/nowhere/plugin.so", None), "");
}
