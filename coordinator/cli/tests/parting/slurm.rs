//! The scripts for Slurm, with the variables that it sets.

use std::env;
use std::path::Path;
use std::process::{Command, Output};

use reweave_common::operator::{JobOrder, Request, Response};
use reweave_link::{Channel, Session};

use crate::running::{nobody, registered, started};
use crate::scene::Scene;

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
        .env_remove("SLURM_PROCID");
    command
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What the script asked for first, answered so, and its end.
async fn played(name: &str, answer: Response) -> (Request, Output, Session) {
    let mut scene = Scene::new();
    let mut command = script(name, &scene.address.to_string(), &scene.identity());
    command.env("SLURM_NTASKS_PER_NODE", "2");
    let ended = tokio::task::spawn_blocking(move || command.output().unwrap());
    let session = scene.listener.accept().await.unwrap().unwrap();
    let request = session.receive(Channel::Commands).await.unwrap();
    session.send(Channel::Commands, &answer).await.unwrap();
    (request, ended.await.unwrap(), session)
}

fn told(order: JobOrder) -> Request {
    let job = "slurm-7".to_owned();
    Request::Job { job, order }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_registered_before_it_begins_and_over_when_it_has_ended() {
    let hosts = ["h0", "h1"].map(str::to_owned).to_vec();
    let (request, output, _session) = played("prolog.sh", registered("slurm-7")).await;
    assert_eq!(request, told(JobOrder::Register { hosts }));
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        words(&output.stderr)
    );
    let over = Response::Registered(vec![]);
    let (request, output, _session) = played("epilog.sh", over).await;
    assert_eq!(request, told(JobOrder::End));
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        words(&output.stderr)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_given_the_order_of_the_gate() {
    let Response::Started(started) = started() else {
        panic!("no start")
    };
    let answer = Response::Allocation(Box::new(started.allocation));
    let (request, output, _session) = played("task-prolog.sh", answer).await;
    let hosts = ["h0", "h1"].map(str::to_owned).to_vec();
    assert_eq!(request, Request::Gate { hosts });
    let said = words(&output.stdout);
    let file = said
        .lines()
        .find_map(|line| line.strip_prefix("export SLURM_HOSTFILE="));
    let file = file.unwrap_or_else(|| panic!("{said}{}", words(&output.stderr)));
    let ranks = std::fs::read_to_string(file).unwrap();
    std::fs::remove_file(file).unwrap();
    assert_eq!(ranks, "h1\nh1\nh0\nh0\n");
    assert!(said.contains("export MASTER_ADDR=h1\n"), "{said}");
}

#[tokio::test]
async fn no_job_fails_for_want_of_a_coordinator() {
    let scene = Scene::new();
    for name in ["prolog.sh", "task-prolog.sh"] {
        let output = script(name, &nobody().to_string(), &scene.identity()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{name}");
        assert_eq!(words(&output.stdout), "", "{name}");
    }
}

#[tokio::test]
async fn nccl_is_told_of_the_plugin_where_there_is_one_and_nobody_has_chosen() {
    let scene = Scene::new();
    let told = |plugin: &str, chosen: Option<&str>| {
        let mut command = script("task-prolog.sh", &nobody().to_string(), &scene.identity());
        command.env("REWEAVE_NCCL_PLUGIN", plugin);
        command.envs(chosen.map(|name| ("NCCL_PROFILER_PLUGIN", name)));
        words(&command.output().unwrap().stdout)
    };
    let plugin = env!("CARGO_BIN_EXE_reweave");
    let line = format!("export NCCL_PROFILER_PLUGIN={plugin}\n");
    assert_eq!(told(plugin, None), line);
    assert_eq!(told(plugin, Some("other")), "");
    assert_eq!(told("/nowhere/plugin.so", None), "");
}
