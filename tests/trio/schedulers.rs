//! Schedulers and launchers that ask the cluster while it elects a new leader.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::timed::timed_value;
use super::{Trio, wait};

/// How long a job start waits for a coordinator before it starts without one.
const JOB_START_TIMEOUT: Duration = Duration::from_secs(2);

#[test]
fn schedulers_are_answered_after_election() {
    let mut trio = Trio::started();
    let (first, term) = trio.leader_after(0);
    trio.answers();
    trio.kill(first);
    let gate = asks(&trio, &["job", "gate", "--hosts", "h[0-1]"]);
    let register = asks(&trio, &["job", "register", "one", "--hosts", "h0"]);
    let start = asks(&trio, &["job", "start", "two", "--hosts", "h1"]);
    let [gate, register, start] = [gate, register, start].map(answer);
    // No agent is connected, which is an objection against these hosts.
    let (report, said) = answer_of(&gate);
    assert_eq!(
        (gate.status.code(), &report["is_good"]),
        (Some(3), &false.into()),
        "{said}"
    );
    assert_eq!(report["order"], serde_json::json!(["h0", "h1"]), "{said}");
    for asked in [&register, &start] {
        assert!(asked.status.success(), "{asked:?}");
    }
    let (second, _) = trio.leader_after(term);
    assert_ne!(second, first);
    assert_eq!(
        registered(&trio),
        ["one", "two"],
        "what was answered is decided"
    );
}

/// The new leader gets the job's start and its end. Without a leader, the job starts unregistered after the timeout.
#[test]
fn timed_job_start_during_election_fails_open() {
    let mut trio = Trio::started();
    let is_open = |delay: &Duration| *delay <= JOB_START_TIMEOUT;
    let measure = || begins_in_an_election(&mut trio);
    timed_value("a command in an election", measure, is_open);
    let (leader, _) = trio.leader_after(0);
    trio.kill(leader);
    trio.kill((leader + 1) % 3);
    let measure = || {
        let (child, hold, began_after) = begun(&trio, "two");
        let over = Instant::now();
        ends(child, hold);
        began_after.max(over.elapsed())
    };
    timed_value("a command without a leader", measure, is_open);
}

/// How long a job start takes during an election. All three coordinators run before it and after it.
fn begins_in_an_election(trio: &mut Trio) -> Duration {
    let (leader, _) = trio.leader_after(0);
    trio.answers();
    trio.kill(leader);
    let (child, hold, began_after) = begun(trio, "one");
    wait(|| (registered(trio) == ["one"]).then_some(()));
    ends(child, hold);
    wait(|| registered(trio).is_empty().then_some(()));
    trio.start(leader);
    began_after
}

fn asks(trio: &Trio, words: &[&str]) -> Child {
    let mut asked = trio.reweave();
    asked
        .args(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    asked.spawn().expect("it was built")
}

fn answer(asked: Child) -> Output {
    asked.wait_with_output().expect("it is ours")
}

fn answer_of(output: &Output) -> (Value, String) {
    let said = format!("{output:?}");
    let answer = serde_json::from_slice(&output.stdout);
    (answer.unwrap_or_else(|_| panic!("{said}")), said)
}

/// The names of the registered jobs.
fn registered(trio: &Trio) -> Vec<String> {
    let (report, said) = answer_of(&answer(asks(trio, &["jobs"])));
    let jobs = report["registered"]
        .as_array()
        .unwrap_or_else(|| panic!("{said}"));
    let name = |job: &Value| job["job"].as_str().expect("a name").to_owned();
    jobs.iter().map(name).collect()
}

/// Starts a job whose command reports that it runs and ends when its input closes; returns it with the time that the
/// start took.
fn begun(trio: &Trio, name: &str) -> (Child, ChildStdin, Duration) {
    let mut run: Command = trio.reweave_in_words();
    run.args([
        "run", "--job", name, "--hosts", "h[0-1]", "--node", "h0", "--",
    ]);
    run.args([
        "sh",
        "-c",
        "echo \"$PET_NODE_RANK of $PET_NNODES\"; read line; exit 7",
    ]);
    let asked = Instant::now();
    let piped = run.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.spawn().expect("it was built");
    let said = child.stdout.take().expect("it is piped");
    let mut line = String::new();
    BufReader::new(said)
        .read_line(&mut line)
        .expect("it says so");
    let took = asked.elapsed();
    assert_eq!(line, "0 of 2\n", "each knows which it is");
    let hold = child.stdin.take().expect("it is piped");
    (child, hold, took)
}

fn ends(mut child: Child, mut hold: ChildStdin) {
    hold.write_all(b"\n").expect("it reads");
    let status = child.wait().expect("it is ours");
    assert_eq!(status.code(), Some(7), "it ends as the command does");
}
