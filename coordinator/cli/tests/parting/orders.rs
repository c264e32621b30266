//! What orchestrators and schedulers ask by `reweave job`, and how that ends.

use std::process::{Command, Output};

use reweave_common::operator::{Allocation, JobOrder, Lane, Lanes, Refused, Request, Response};
use reweave_link::Channel;

use crate::running::{registered, started, unused_address};
use crate::scene::{Scene, request};

pub(crate) fn reweave(scene: &Scene, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reweave"));
    command
        .args(["--coordinator", &scene.address.to_string(), "--identity"])
        .arg(scene.identity())
        .args(words);
    command
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Each answer to one question, each in a session of its own where `reconnects`.
pub(crate) async fn played(
    words: &[&str],
    answers: &[Response],
    reconnects: bool,
) -> (Vec<Request>, Output) {
    let mut scene = Scene::new();
    let mut command = reweave(&scene, words);
    let ended = tokio::task::spawn_blocking(move || command.output().unwrap());
    let mut session = scene.listener.accept().await.unwrap().unwrap();
    let mut asked = Vec::new();
    for (nth, answer) in answers.iter().enumerate() {
        if nth > 0 && reconnects {
            session = scene.listener.accept().await.unwrap().unwrap();
        }
        asked.push(request(&session).await.unwrap());
        session.send(Channel::Commands, answer).await.unwrap();
    }
    (asked, ended.await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn request_during_election_is_answered() {
    let leaderless = Response::Refused(Refused::NotLeading { leader: None });
    let answers = [leaderless.clone(), leaderless, registered("train")];
    let words = ["job", "register", "train", "--hosts", "h[0-1]"];
    let (asked, output) = played(&words, &answers, true).await;
    let hosts = ["h0", "h1"].map(str::to_owned).to_vec();
    let may_reorder = false;
    let order = JobOrder::Register { hosts, may_reorder };
    let job = "train".to_owned();
    assert_eq!(
        asked,
        [(); 3].map(|()| Request::Job {
            job: job.clone(),
            order: order.clone()
        })
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "train is registered on h0, h1\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn conflicting_job_registration_is_refused() {
    let [has, wanted] = ["h5", "h0"].map(|host| vec![host.to_owned()]);
    let job = "train".to_owned();
    let refused = Response::Refused(Refused::OtherJob { job, has, wanted });
    let words = ["job", "register", "train", "--hosts", "h0"];
    let (_, output) = played(&words, &[refused], false).await;
    assert_eq!(output.status.code(), Some(1));
    let words = text(&output.stderr);
    assert!(
        words.contains("train is registered on h5, not on h0"),
        "{words}"
    );
}

pub(crate) fn gated(is_good: bool) -> Response {
    let Response::Started(started) = started() else {
        panic!("no start")
    };
    let allocation = Allocation {
        is_good,
        ..started.allocation
    };
    Response::Allocation(Box::new(allocation))
}

#[tokio::test(flavor = "multi_thread")]
async fn gate_exit_code_reflects_host_health() {
    for (is_good, code) in [(true, 0), (false, 3)] {
        let words = [
            "job", "gate", "--hosts", "h[0-1]", "--output", "hostfile", "--slots", "4",
        ];
        let (_, output) = played(&words, &[gated(is_good)], false).await;
        assert_eq!(output.status.code(), Some(code));
        assert_eq!(text(&output.stdout), "h1 slots=4\nh0 slots=4\n");
    }
}

#[tokio::test]
async fn hostlist_error_names_its_place() {
    let scene = Scene::new();
    for (list, place) in [
        ("n[01-04,x]", "n[01-04,x]: x is not a number"),
        ("a,n[07-05]", "n[07-05]: 07-05 ends before it begins"),
        ("n[01", "n[01: a bracket that is not closed"),
        ("", "a name is empty"),
    ] {
        let mut command = reweave(&scene, &["job", "gate", "--hosts", list]);
        let output = command
            .env("REWEAVE_COORDINATOR", unused_address().to_string())
            .output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(2), "{list}");
        let words = text(&output.stderr);
        assert!(words.contains(place), "{words}");
    }
}

pub(crate) fn lanes() -> Response {
    let lane = |device: &str, ways| Lane {
        device: device.to_owned(),
        ways,
    };
    Response::Lanes(Lanes {
        lanes: vec![lane("mlx5_0", 4), lane("mlx5_2", 2)],
        left_out: vec!["mlx5_1: h0-leaf1 of h0 is down, or drained".to_owned()],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn nccl_export_uses_links_of_job() {
    let describe = |at: &'static str, more: &'static [&'static str]| async move {
        let words = ["export", "nccl", "--hosts", "h[0-1]", "--nccl", at];
        played(&[&words[..], more].concat(), &[lanes()], false).await
    };
    let (asked, output) = describe("2.28", &[]).await;
    let hosts = ["h0", "h1"].map(str::to_owned).to_vec();
    assert_eq!(asked, [Request::Lanes { hosts }]);
    let expected = "NCCL_IB_HCA==mlx5_0,mlx5_2\nNCCL_IB_QPS_PER_CONNECTION=4\n";
    assert_eq!(text(&output.stdout), expected);
    let why = "left out: mlx5_1: h0-leaf1 of h0 is down, or drained";
    assert!(
        text(&output.stderr).contains(why),
        "{}",
        text(&output.stderr)
    );
    let (_, output) = describe("2.28", &["--queue-pairs", "1", "--hca", "mlx5_9"]).await;
    let expected = "NCCL_IB_HCA==mlx5_9\nNCCL_IB_QPS_PER_CONNECTION=1\n";
    assert_eq!(text(&output.stdout), expected);
    let (_, output) = describe("2.9", &[]).await;
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert!(text(&output.stderr).contains("came with 2.10"));
}

/// Two devices are in use: a third rail without one lets NCCL change rails.
#[tokio::test(flavor = "multi_thread")]
async fn nccl_export_follows_rails_of_file() {
    let folder = tempfile::tempdir().unwrap();
    for (rails, cross_nic) in [(2, 0), (3, 2)] {
        let file = folder.path().join(format!("{rails}.toml"));
        let fabric = format!(
            "kind = \"rails\"\npods = 1\nhosts_per_pod = 2\nrails = {rails}\nspines = 1\n\
             host_gbps = 100\nuplink_gbps = 100\n"
        );
        std::fs::write(&file, fabric).unwrap();
        let file = file.display().to_string();
        let words = ["export", "nccl", "--hosts", "h[0-1]", "--fabric", &file];
        let (_, output) = played(&words, &[lanes()], false).await;
        let expected = format!(
            "NCCL_IB_HCA==mlx5_0,mlx5_2\nNCCL_CROSS_NIC={cross_nic}\nNCCL_IB_QPS_PER_CONNECTION=4\n"
        );
        assert_eq!(text(&output.stdout), expected);
    }
}

/// Schedulers end some jobs twice.
#[tokio::test(flavor = "multi_thread")]
async fn end_of_unknown_job_says_so() {
    let answers = [Response::Registered(vec![])];
    let (_, output) = played(&["job", "end", "nosuch"], &answers, false).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    let words = "no job nosuch is registered: it is over, or never was\n";
    assert_eq!(text(&output.stdout), words);
    let (_, output) = played(&["job", "end", "train"], &[registered("train")], false).await;
    assert_eq!(text(&output.stdout), "train is over\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_names_are_bad_input() {
    let job = "nosuch".to_owned();
    for (words, answer, message) in [
        (
            &["job", "phase", "nosuch", "forward"][..],
            Response::Refused(Refused::NotRegistered { job }),
            "error: no job nosuch is registered\n",
        ),
        (
            &["job", "thaw", "h0"],
            Response::Refused(Refused::NothingToChange),
            "error: no job on h0 is frozen; `reweave status` lists frozen jobs\n",
        ),
        (
            &["cluster", "revoke", "nosuch"],
            Response::Status(Box::new(crate::printed::status())),
            "error: the fabric has no node nosuch: nothing is revoked; `reweave hosts` lists \
             nodes, --force revokes certificates of any name\n",
        ),
    ] {
        let (_, output) = played(words, &[answer], false).await;
        assert_eq!(text(&output.stderr), message);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
    }
}
