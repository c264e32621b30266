//! `reweave run`: a command runs as if nothing had been, whatever becomes of the coordinator.

use std::io::Read;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use reweave_common::operator::{
    Allocation, JobOrder, RegisteredJob, Request, Response, StartedJob,
};
use reweave_link::{Channel, Session};

use crate::scene::{Program, Scene};

/// No command waits longer for a coordinator.
const FAILS_OPEN_WITHIN: Duration = Duration::from_secs(2);

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

/// Where nobody listens.
pub(crate) fn nobody() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap()
}

fn alone(command: &[&str]) -> Output {
    let nowhere = Path::new("/nonexistent");
    run(nobody(), nowhere, &[], command).output().unwrap()
}

#[test]
fn it_exits_as_the_command_does() {
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
fn signals_are_passed_on_to_the_command() {
    for signal in ["TERM", "INT", "HUP", "USR1", "USR2"] {
        let script = format!("trap 'kill $!; exit 9' {signal}; sleep 60 & echo ready; wait");
        let nowhere = Path::new("/nonexistent");
        let mut command = run(nobody(), nowhere, &[], &["bash", "-c", &script]);
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

/// When the command began, and all there is to see of its end.
fn timed(mut command: Command) -> (Duration, Output) {
    let begin = Instant::now();
    let output = command.output().unwrap();
    (begin.elapsed(), output)
}

#[track_caller]
fn expect_open((took, output): (Duration, Output)) {
    assert!(took < FAILS_OPEN_WITHIN, "{took:?}");
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(output.stdout, b"none\n");
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(
        words.contains("warning: the command runs as it is"),
        "{words}"
    );
}

const TELLS: [&str; 3] = ["sh", "-c", "echo ${REWEAVE_JOB-none}; exit 3"];
const HOSTS: [&str; 4] = ["--hosts", "h[0-1]", "--node", "h1"];

/// What a scheduler sets is no word of whoever runs the command.
#[test]
fn a_mistake_in_the_schedulers_hostlist_is_told_and_the_command_runs() {
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
        command.arg(nowhere).args(["run", "--"]).args(TELLS);
        command.output().unwrap()
    };
    let told = list("'n[3-1]'");
    assert_eq!(told.status.code(), Some(3));
    let words = String::from_utf8(told.stderr).unwrap();
    assert!(
        words.contains("n[3-1]: 3-1 ends before it begins"),
        "{words}"
    );
    let nothing = list("''");
    assert_eq!((nothing.status.code(), nothing.stderr.len()), (Some(3), 0));
}

#[tokio::test]
async fn without_a_coordinator_the_command_runs_as_if_nothing_had_been() {
    let scene = Scene::new();
    expect_open(timed(run(nobody(), &scene.identity(), &HOSTS, &TELLS)));
    expect_open(timed(run(
        nobody(),
        Path::new("/nonexistent"),
        &HOSTS,
        &TELLS,
    )));
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_does_one_that_never_answers_hold_it_up() {
    let mut scene = Scene::new();
    let command = run(scene.address, &scene.identity(), &HOSTS, &TELLS);
    let ended = tokio::task::spawn_blocking(|| timed(command));
    let (session, _) = asked(&mut scene).await;
    expect_open(ended.await.unwrap());
    drop(session);
}

async fn asked(scene: &mut Scene) -> (Session, Request) {
    let session = scene.listener.accept().await.unwrap().unwrap();
    let request = session.receive(Channel::Commands).await.unwrap();
    (session, request)
}

fn order(request: Request) -> JobOrder {
    match request {
        Request::Job { job, order } if job == "train" => order,
        other => panic!("{other:?}"),
    }
}

async fn answer(session: &Session, response: Response) {
    session.send(Channel::Commands, &response).await.unwrap();
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
        because: Some("nothing is to be changed for it".to_owned()),
    }))
}

/// What `run` on this node prints of what it was given, where the coordinator answers all that it is asked. With what
/// was asked, and all that was said.
async fn lived(node: &str, tells: &str) -> (Vec<JobOrder>, Output) {
    let mut scene = Scene::new();
    let hosts = ["--hosts", "h[0-1]", "--node", node];
    let command = ["sh", "-c", tells];
    let mut command = run(scene.address, &scene.identity(), &hosts, &command);
    let ended = tokio::task::spawn_blocking(move || command.output().unwrap());
    let (session, request) = asked(&mut scene).await;
    let mut told = vec![order(request)];
    answer(&session, registered("train")).await;
    told.push(order(session.receive(Channel::Commands).await.unwrap()));
    answer(&session, started()).await;
    let over = async {
        let (session, request) = asked(&mut scene).await;
        answer(&session, Response::Registered(vec![])).await;
        (order(request), session)
    };
    tokio::pin!(ended);
    tokio::select! {
        (order, _session) = over => {
            told.push(order);
            (told, ended.await.unwrap())
        }
        output = &mut ended => (told, output.unwrap()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_job_is_registered_knows_its_place_and_ends_with_the_command() {
    let tells = "echo $REWEAVE_JOB $REWEAVE_HOSTS $PET_NODE_RANK $MASTER_ADDR; cat $REWEAVE_HOSTFILE; exit 3";
    let (told, output) = lived("h1", tells).await;
    let (hosts, may_reorder) = (texts(&["h0", "h1"]), true);
    let register = JobOrder::Register { hosts, may_reorder };
    let start = JobOrder::Start { may_change: false };
    assert_eq!(told, [register, start, JobOrder::End]);
    assert_eq!(output.status.code(), Some(3));
    let words = String::from_utf8(output.stdout).unwrap();
    assert_eq!(words, "train h1,h0 0 h1\nh1 slots=1\nh0 slots=1\n");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

const RANKS: &str = "echo ${PET_MASTER_ADDR-none} ${PET_NNODES-none} ${PET_NODE_RANK-none}";

#[tokio::test(flavor = "multi_thread")]
async fn a_host_knows_its_place_by_its_full_name_and_ends_no_job_whose_first_host_it_is_not() {
    let (told, output) = lived("h0.cluster.example", RANKS).await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(output.stdout, b"h1 2 1\n");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_not_among_them_is_told_and_gets_no_rank() {
    let (_, output) = lived("h7", RANKS).await;
    assert_eq!(output.stdout, b"none none none\n");
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(
        words.contains("warning: h7 is not one of the job's hosts, h1, h0"),
        "{words}"
    );
}

/// All have the same list, whoever of them was answered or not: none takes itself for the only one.
#[tokio::test]
async fn without_an_answer_all_have_the_listed_order() {
    let scene = Scene::new();
    for (node, ranks) in [("h0", "h0 2 0\n"), ("h1", "h0 2 1\n")] {
        let hosts = ["--hosts", "h[0-1]", "--node", node];
        let command = ["sh", "-c", RANKS];
        let output = run(nobody(), &scene.identity(), &hosts, &command).output();
        assert_eq!(String::from_utf8(output.unwrap().stdout).unwrap(), ranks);
    }
}
