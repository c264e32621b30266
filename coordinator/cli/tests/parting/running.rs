//! `reweave run`: a command runs as if nothing had happened, also when the coordinator fails.

use std::io::Read;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{ChildStdin, Command, Output, Stdio};
use std::time::{Duration, Instant};

use reweave_common::operator::{
    Allocation, JobOrder, Refused, RegisteredJob, Request, Response, StartedJob,
};
use reweave_link::{Channel, Session};
use tokio::time::timeout;

use crate::scene::{Program, Scene, request};
use crate::timed::timed;

/// No command waits longer for a coordinator, where nothing else was asked for.
const MAX_DELAY: Duration = Duration::from_secs(2);
/// Far more than anything takes here, on a machine that has other things to do.
const TEST_TIMEOUT: Duration = Duration::from_mins(2);
/// A command that waits until it is answered, on a busy machine too.
const MAX_WAIT_OPTIONS: [&str; 2] = ["--max-wait-ms", "120000"];

/// As if no scheduler had started it.
fn run(to: SocketAddr, identity: &Path, hosts: &[&str], command: &[&str]) -> Command {
    let mut program = Command::new("env");
    for variable in [
        "SLURM_JOB_NODELIST",
        "SLURM_JOB_ID",
        "SLURM_NODEID",
        "SLURMD_NODENAME",
    ] {
        program.args(["-u", variable]);
    }
    program
        .args(["--default-signal", env!("CARGO_BIN_EXE_reweave")])
        .args(["--coordinator", &to.to_string(), "--identity"])
        .arg(identity)
        .args(["run", "--job", "train"])
        .args(hosts)
        .arg("--")
        .args(command)
        .stdin(Stdio::null());
    program
}

/// An address where nothing listens.
pub(crate) fn unused_address() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap()
}

fn alone(command: &[&str]) -> Output {
    let nowhere = Path::new("/nonexistent");
    run(unused_address(), nowhere, &[], command)
        .output()
        .unwrap()
}

#[test]
fn run_exits_as_command_does() {
    let code = |script: &str| alone(&["sh", "-c", script]).status.code();
    assert_eq!(code("exit 0"), Some(0));
    assert_eq!(code("exit 3"), Some(3));
    assert_eq!(code("kill -KILL $$"), Some(128 + 9));
    assert_eq!(code("kill -TERM $$"), Some(128 + 15));
    let nothing = alone(&["no-such-program"]);
    assert_eq!(nothing.status.code(), Some(127));
    let words = String::from_utf8(nothing.stderr).unwrap();
    assert!(words.contains("cannot run no-such-program"), "{words}");
    assert_eq!(alone(&["/"]).status.code(), Some(126));
}

#[test]
fn run_passes_signals_to_command() {
    for signal in ["TERM", "INT", "HUP", "USR1", "USR2"] {
        let script = format!("trap 'kill $!; exit 9' {signal}; sleep 60 & echo ready; wait");
        let nowhere = Path::new("/nonexistent");
        let mut command = run(unused_address(), nowhere, &[], &["bash", "-c", &script]);
        let mut program = Program(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut ready = [0; 6];
        let stdout = program.0.stdout.as_mut().unwrap();
        stdout.read_exact(&mut ready).unwrap();
        let id = program.0.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(sent.unwrap().success());
        assert_eq!(program.exit_code(), Some(9), "{signal}");
    }
}

#[track_caller]
fn expect_open(output: &Output) {
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(output.stdout, b"none\n");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(
        words.contains("warning: the command runs unchanged"),
        "{words}"
    );
}

const PRINT_JOB_COMMAND: [&str; 3] = ["sh", "-c", "echo ${REWEAVE_JOB-none}; exit 3"];
const HOSTS_OPTIONS: [&str; 4] = ["--hosts", "h[0-1]", "--node", "h1"];
/// As on the first of them, which ends the job.
const FIRST_HOST_OPTIONS: [&str; 4] = ["--hosts", "h[0-1]", "--node", "h0"];

/// What a scheduler sets is no input of the user.
#[test]
fn bad_scheduler_hostlist_only_warns() {
    let nowhere = Path::new("/nonexistent");
    let list = |list: &str| {
        let assigned = format!("SLURM_JOB_NODELIST={list} exec \"$@\"");
        let mut command = Command::new("sh");
        command.args([
            "-c",
            &assigned,
            "sh",
            env!("CARGO_BIN_EXE_reweave"),
            "--identity",
        ]);
        command
            .arg(nowhere)
            .args(["run", "--"])
            .args(PRINT_JOB_COMMAND);
        command.output().unwrap()
    };
    let report = list("'n[3-1]'");
    assert_eq!(report.status.code(), Some(3));
    let words = String::from_utf8(report.stderr).unwrap();
    assert!(
        words.contains("n[3-1]: 3-1 ends before it begins"),
        "{words}"
    );
    let nothing = list("''");
    assert_eq!((nothing.status.code(), nothing.stderr.len()), (Some(3), 0));
}

#[tokio::test]
async fn run_works_without_coordinator() {
    let scene = Scene::new();
    for identity in [&*scene.identity(), Path::new("/nonexistent")] {
        expect_open(
            &run(
                unused_address(),
                identity,
                &HOSTS_OPTIONS,
                &PRINT_JOB_COMMAND,
            )
            .output()
            .unwrap(),
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_coordinator_does_not_delay_run() {
    let mut scene = Scene::new();
    let mut command = run(
        scene.address,
        &scene.identity(),
        &HOSTS_OPTIONS,
        &PRINT_JOB_COMMAND,
    );
    let mut ended = tokio::task::spawn_blocking(move || command.output().unwrap());
    // It may be over before it was heard.
    let output = tokio::select! {
        _unanswered = asked(&mut scene) => ended.await,
        output = &mut ended => output,
    };
    expect_open(&output.unwrap());
}

/// Nothing listens there, or a coordinator that never answers.
#[tokio::test]
async fn timed_absent_coordinator_delays_no_command() {
    let scene = Scene::new();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    for to in [unused_address(), silent.local_addr().unwrap()] {
        timed("a command without a coordinator", MAX_DELAY, || {
            let began = Instant::now();
            expect_open(
                &run(to, &scene.identity(), &HOSTS_OPTIONS, &PRINT_JOB_COMMAND)
                    .output()
                    .unwrap(),
            );
            began.elapsed()
        });
    }
}

/// None where the client has not waited.
async fn asked(scene: &mut Scene) -> Option<(Session, Request)> {
    let session = scene.listener.accept().await.unwrap().ok()?;
    let request = request(&session).await.ok()?;
    Some((session, request))
}

/// What a command that waits until it is answered asks.
async fn heard(scene: &mut Scene) -> (Session, Request) {
    let asked = timeout(TEST_TIMEOUT, asked(scene)).await;
    asked.ok().flatten().expect("it waits until it is heard")
}

fn order(request: Request) -> JobOrder {
    match request {
        Request::Job { job, order } if job == "train" => order,
        other => panic!("{other:?}"),
    }
}

/// None where no client waits for it any longer.
async fn answer(session: &Session, response: Response) -> Option<()> {
    session.send(Channel::Commands, &response).await.ok()
}

fn texts(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

pub(crate) fn registered(job: &str) -> Response {
    Response::Registered(vec![RegisteredJob {
        job: job.to_owned(),
        hosts: texts(&["h0", "h1"]),
        by: "ann".to_owned(),
        age_ms: 0,
        silent_ms: 0,
        phase: None,
    }])
}

/// That the hosts are good in the other order.
pub(crate) fn started() -> Response {
    let allocation = Allocation {
        is_good: true,
        against: vec![],
        order: texts(&["h1", "h0"]),
        groups: vec![],
        ring_bits_per_s: None,
    };
    Response::Started(Box::new(StartedJob {
        allocation,
        generation: None,
        because: Some("no changes requested for it".to_owned()),
    }))
}

/// What `run` on this node prints of what it was given, where the coordinator answers all that it is asked. With what was
/// asked, and all that was said.
async fn lived(node: &str, tells: &str) -> (Vec<JobOrder>, Output) {
    let mut scene = Scene::new();
    let hosts = [
        &["--hosts", "h[0-1]", "--node", node],
        &MAX_WAIT_OPTIONS[..],
    ]
    .concat();
    let command = ["sh", "-c", tells];
    let mut command = run(scene.address, &scene.identity(), &hosts, &command);
    let mut ended = tokio::task::spawn_blocking(move || command.output().unwrap());
    let mut report = Vec::new();
    let output = tokio::select! {
        biased;
        _sessions = answers(&mut scene, &mut report) => ended.await,
        output = &mut ended => output,
    };
    (report, output.unwrap())
}

/// All that a command asks from its beginning to its end; the sessions last.
async fn answers(scene: &mut Scene, job_order: &mut Vec<JobOrder>) -> Option<[Session; 2]> {
    let (begun, request) = asked(scene).await?;
    job_order.push(order(request));
    answer(&begun, registered("train")).await?;
    job_order.push(order(begun.receive(Channel::Commands).await.ok()?));
    answer(&begun, started()).await?;
    let (over, request) = asked(scene).await?;
    job_order.push(order(request));
    answer(&over, Response::Registered(vec![])).await?;
    Some([begun, over])
}

#[tokio::test(flavor = "multi_thread")]
async fn run_registers_job_until_command_ends() {
    let tells = "echo $REWEAVE_JOB $REWEAVE_HOSTS $PET_NODE_RANK $MASTER_ADDR; cat $REWEAVE_HOSTFILE; exit 3";
    let (report, output) = lived("h0", tells).await;
    let (hosts, may_reorder) = (texts(&["h0", "h1"]), true);
    let register = JobOrder::Register { hosts, may_reorder };
    let start = JobOrder::Start { may_change: false };
    assert_eq!(report, [register, start, JobOrder::End]);
    assert_eq!(output.status.code(), Some(3));
    let words = String::from_utf8(output.stdout).unwrap();
    assert_eq!(words, "train h1,h0 1 h1\nh1 slots=1\nh0 slots=1\n");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

/// A command that lasts until its input is closed.
fn lasting(scene: &Scene) -> (Program, ChildStdin) {
    let hosts = [&FIRST_HOST_OPTIONS[..], &MAX_WAIT_OPTIONS].concat();
    let mut command = run(scene.address, &scene.identity(), &hosts, &["cat"]);
    let child = command.stdin(Stdio::piped()).spawn();
    let mut program = Program(child.unwrap());
    let input = program.0.stdin.take().unwrap();
    (program, input)
}

fn refused() -> Response {
    Response::Refused(Refused::NoPlan)
}

/// The command ends now, and the coordinator hears that.
async fn expect_end(scene: &mut Scene, mut program: Program, input: ChildStdin) {
    drop(input);
    let (session, request) = heard(scene).await;
    assert_eq!(order(request), JobOrder::End);
    answer(&session, Response::Registered(vec![])).await;
    assert_eq!(program.exit_code(), Some(0));
}

/// Its registration fails at first, as while coordinators elect a leader.
#[tokio::test(flavor = "multi_thread")]
async fn late_registered_job_is_ended() {
    let mut scene = Scene::new();
    let (program, input) = lasting(&scene);
    let (session, _) = asked(&mut scene).await.unwrap();
    answer(&session, refused()).await.unwrap();
    let (late, _) = asked(&mut scene).await.unwrap();
    answer(&late, registered("train")).await.unwrap();
    let _start: Request = late.receive(Channel::Commands).await.unwrap();
    answer(&late, started()).await.unwrap();
    late.closed().await;
    expect_end(&mut scene, program, input).await;
}

/// It is registered, whatever happened to the rest.
#[tokio::test(flavor = "multi_thread")]
async fn job_without_order_is_ended() {
    let mut scene = Scene::new();
    let (program, input) = lasting(&scene);
    let (session, _) = asked(&mut scene).await.unwrap();
    answer(&session, registered("train")).await.unwrap();
    let _start: Request = session.receive(Channel::Commands).await.unwrap();
    answer(&session, refused()).await.unwrap();
    session.closed().await;
    expect_end(&mut scene, program, input).await;
}

/// As `nohup` starts it, for the command as well.
#[test]
fn ignored_signal_is_ignored_by_command() {
    let lives = "kill -HUP $PPID; kill -HUP $$; echo lives; exit 3";
    let ignoring = "trap '' HUP; exec \"$@\"";
    let reweave = env!("CARGO_BIN_EXE_reweave");
    let output = Command::new("sh")
        .args([
            "-c", ignoring, "sh", reweave, "run", "--", "sh", "-c", lives,
        ])
        .output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(output.stdout, b"lives\n");
}

/// It does not begin, and the job does not stay behind.
#[tokio::test(flavor = "multi_thread")]
async fn early_signal_leaves_no_job() {
    let mut scene = Scene::new();
    let (mut program, _input) = lasting(&scene);
    let (session, _) = asked(&mut scene).await.unwrap();
    let id = program.0.id().to_string();
    let sent = Command::new("kill").args(["-s", "TERM", &id]).status();
    assert!(sent.unwrap().success());
    answer(&session, registered("train")).await.unwrap();
    let _start: Request = session.receive(Channel::Commands).await.unwrap();
    answer(&session, started()).await.unwrap();
    let (over, request) = heard(&mut scene).await;
    assert_eq!(order(request), JobOrder::End);
    answer(&over, Response::Registered(vec![])).await.unwrap();
    assert_eq!(program.exit_code(), Some(128 + 15));
}

const PRINT_RANKS_SCRIPT: &str =
    "echo ${PET_MASTER_ADDR-none} ${PET_NNODES-none} ${PET_NODE_RANK-none}";

#[tokio::test(flavor = "multi_thread")]
async fn run_knows_rank_by_full_name() {
    let (report, output) = lived("h1.cluster.example", PRINT_RANKS_SCRIPT).await;
    assert_eq!(report.len(), 2, "{report:?}");
    assert_eq!(output.stdout, b"h1 2 0\n", "of the ranks it is the first");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn host_outside_job_gets_no_rank() {
    let (_, output) = lived("h7", PRINT_RANKS_SCRIPT).await;
    assert_eq!(output.stdout, b"none none none\n");
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(
        words.contains("warning: h7 is not one of the job's hosts, h1, h0"),
        "{words}"
    );
}

/// All have the same list, with or without an answer: none takes itself for the only one.
#[tokio::test]
async fn without_answer_listed_order_holds() {
    let scene = Scene::new();
    for (node, ranks) in [("h0", "h0 2 0\n"), ("h1", "h0 2 1\n")] {
        let hosts = ["--hosts", "h[0-1]", "--node", node];
        let command = ["sh", "-c", PRINT_RANKS_SCRIPT];
        let output = run(unused_address(), &scene.identity(), &hosts, &command).output();
        assert_eq!(String::from_utf8(output.unwrap().stdout).unwrap(), ranks);
    }
}

const PRINT_NCCL_SCRIPT: &str = "echo ${NCCL_IB_HCA-none} ${NCCL_IB_QPS_PER_CONNECTION-none} $(env | sed -n 's/^OMPI_MCA_.*_env_list=//p')";

/// What a command of this name, which is a shell's script, says of NCCL's settings; and what is said meanwhile.
async fn nccl_variables(name: &str, release: &str, set: &[(&str, &str)]) -> (String, String) {
    let mut scene = Scene::new();
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join(name);
    std::os::unix::fs::symlink("/bin/sh", &program).unwrap();
    let options = [
        &FIRST_HOST_OPTIONS[..],
        &["--nccl", release],
        &MAX_WAIT_OPTIONS,
    ]
    .concat();
    let command = [program.to_str().unwrap(), "-c", PRINT_NCCL_SCRIPT];
    let mut command = run(scene.address, &scene.identity(), &options, &command);
    for name in [
        "NCCL_IB_HCA",
        "NCCL_IB_QPS_PER_CONNECTION",
        "NCCL_CONF_FILE",
    ] {
        command.env_remove(name);
    }
    command.env("HOME", folder.path()).envs(set.iter().copied());
    let ended = tokio::task::spawn_blocking(move || command.output().unwrap());
    let _last_until_then = answers_of_lanes(&mut scene).await;
    let output = ended.await.unwrap();
    let [out, words] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
    (out, words)
}

async fn answers_of_lanes(scene: &mut Scene) -> [Session; 3] {
    let (session, _) = heard(scene).await;
    answer(&session, registered("train")).await.unwrap();
    let _start: Request = session.receive(Channel::Commands).await.unwrap();
    answer(&session, started()).await.unwrap();
    let (other, request) = heard(scene).await;
    let hosts = texts(&["h1", "h0"]);
    assert_eq!(
        request,
        Request::Lanes { hosts },
        "in the order of its ranks"
    );
    answer(&other, crate::orders::lanes()).await.unwrap();
    let (over, request) = heard(scene).await;
    assert_eq!(order(request), JobOrder::End);
    answer(&over, Response::Registered(vec![])).await.unwrap();
    [session, other, over]
}

#[tokio::test(flavor = "multi_thread")]
async fn single_launcher_sets_common_nccl_settings() {
    let (out, words) = nccl_variables("mpirun", "2.28", &[]).await;
    let carried = "NCCL_IB_HCA;NCCL_IB_QPS_PER_CONNECTION;REWEAVE_JOB;REWEAVE_HOSTS;MASTER_ADDR";
    assert_eq!(out, format!("=mlx5_0,mlx5_2 4 {carried}\n"));
    assert!(words.contains("NCCL: left out: mlx5_1"), "{words}");
    let (out, words) = nccl_variables("torchrun", "2.28", &[]).await;
    assert_eq!(out, "=mlx5_0,mlx5_2 none\n");
    assert!(words.contains("queue pairs stay NCCL's"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn existing_nccl_settings_are_kept() {
    let (out, words) = nccl_variables("mpirun", "2.28", &[("NCCL_IB_HCA", "mlx5_9")]).await;
    assert!(out.starts_with("mlx5_9 4 "), "{out}");
    assert!(
        words.contains("NCCL_IB_HCA is already set in the environment and stays"),
        "{words}"
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "NCCL_IB_QPS_PER_CONNECTION=2\n").unwrap();
    let place = file.path().to_str().unwrap();
    let (out, words) = nccl_variables("mpirun", "2.28", &[("NCCL_CONF_FILE", place)]).await;
    assert!(out.starts_with("=mlx5_0,mlx5_2 none "), "{out}");
    assert!(
        words.contains("NCCL_IB_QPS_PER_CONNECTION is already set in "),
        "{words}"
    );
    let (out, words) = nccl_variables("mpirun", "2.9", &[]).await;
    assert!(out.starts_with("none none "), "{out}");
    assert!(words.contains("came with 2.10"), "{words}");
}
