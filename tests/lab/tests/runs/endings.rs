//! However a run ends, it is reported truly, and nothing that was found out is lost.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command};

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::report::{flows, jobs, not_met, report, report_text, start, word};
use crate::support::{Home, Said, find, finish, run, trial, wait_until};
use crate::{ENDLESS_JOB, FABRIC, LAB_NEEDS};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("killed_process_is_named", LAB_NEEDS, a_killed_process),
        trial(
            "unresponsive_rank_fails_limits",
            LAB_NEEDS,
            a_rank_that_does_not_answer,
        ),
        trial("unplayed_faults_fail_run", LAB_NEEDS, faults_never_played),
        trial("ctrl_c_ends_run_with_report", LAB_NEEDS, ctrl_c_ends_a_run),
        trial(
            "ctrl_c_ends_run_before_jobs",
            LAB_NEEDS,
            ctrl_c_before_the_beginning,
        ),
        trial("run_needs_job", LAB_NEEDS, nothing_to_run),
        trial(
            "unsaved_report_is_still_shown",
            LAB_NEEDS,
            shown_though_not_kept,
        ),
        trial(
            "aborted_run_keeps_artifacts",
            LAB_NEEDS,
            kept_when_it_cannot_go_on,
        ),
    ]
}

fn complaints(job: &Value) -> Vec<(u64, &str)> {
    let broken = job["broken"].as_array().expect("a list");
    broken
        .iter()
        .map(|rank| (rank["rank"].as_u64().expect("a rank"), word(&rank["why"])))
        .collect()
}

fn a_killed_process() {
    let report = report_text(
        &format!(
            "limit_s = 10\n{FABRIC}[[job]]\nname = 'other'\npattern = 'all-to-all'\nhosts = ['h2', 'h1', 'h0']\n\
             bytes = 100_000\ncompute_ms = 50\niterations = 30\n{ENDLESS_JOB}\
             [[fault]]\nkind = 'process-kill'\nat_s = 0.5\njob = 'train'\nrank = 1\n\
             [[expect]]\njob = 'train'\ncompletes = false\nmax_resets = 0\n\
             [[expect]]\njob = 'other'\nmax_resets = 0\n"
        ),
        1,
    );
    // Rank 1 receives from rank 0 and sends to rank 2.
    assert_eq!(not_met(&report), ["resets <= 0: 2"]);
    assert_eq!(report["ended"], "done");
    let [other, train] = &jobs(&report)[..] else {
        panic!("{report}")
    };
    assert_eq!(
        (&other["iterations"], complaints(other)),
        (&30.into(), vec![])
    );
    assert!(
        complaints(train).contains(&(1, "its process is gone")),
        "{train}"
    );
    for flow in flows(train) {
        let known = flow["to"] != "h1";
        assert_eq!(flow["longest_stall_ms"].is_number(), known, "{flow}");
        assert_eq!(flow["corrupted"].is_number(), known, "{flow}");
        assert!(flow["bytes"].as_u64() > Some(0), "{flow}");
    }
}

fn a_rank_that_does_not_answer() {
    let report = report_text(
        &format!(
            "limit_s = 2\n{FABRIC}{ENDLESS_JOB}\
             [[fault]]\nkind = 'process-stop'\nat_s = 0.5\njob = 'train'\nrank = 1\n\
             [[expect]]\njob = 'train'\ncompletes = false\nmax_resets = 0\nmax_stall_ms = 60_000\n\
             max_retransmits = 1000\nmin_flow_gbps = 0.000_001\n"
        ),
        1,
    );
    assert_eq!(report["ended"], "limit");
    let unknown = [
        "retransmits <= 1000: unknown",
        "longest stall ms <= 60000: unknown",
        "slowest flow Mb/s >= 0.001: unknown",
    ];
    assert_eq!(not_met(&report), unknown);
    assert_eq!(complaints(&jobs(&report)[0]), [(1, "it did not answer")]);
}

fn faults_never_played() {
    let home = Home::new();
    let text = format!(
        "{FABRIC}{}\
         [[fault]]\nkind = 'link-rate'\nat_s = 0\ngbps = 0.05\nlink = ['h3', 'switch']\n\
         [[fault]]\nkind = 'host-kill'\nat_s = 500\nhost = 'h1'\n",
        ENDLESS_JOB.replace("1_000_000", "3")
    );
    let mut command = home.lab(&["run"]);
    command
        .arg(home.file("run.toml", &text))
        .current_dir(&home.path);
    let said = run(command).expect_code(1);
    let line = "NOT PLAYED  500.000 s  all processes of h1 killed";
    assert!(said.stdout.contains(line), "{said:#?}");
    let report = report(&home, &home.path.join("run.toml"), 1);
    assert_eq!(report["faults"].as_array().map(Vec::len), Some(1));
    let not_played = report["faults_not_played"].as_array().expect("a list");
    assert_eq!(
        (not_played.len(), &not_played[0]["at_s"]),
        (1, &500.0.into())
    );
    assert_eq!(
        (&report["passed"], &report["ended"]),
        (&false.into(), &"done".into())
    );
}

fn interrupt(child: &Child) {
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("it is there");
}

fn ctrl_c_ends_a_run() {
    let home = Home::new();
    let running = start(
        &home,
        &home.file("run.toml", &format!("{FABRIC}{ENDLESS_JOB}")),
    );
    home.wait_until_ready("run");
    let port = || {
        let words = ["exec", "--lab", "run", "h1", "--", "cat", "/proc/net/dev"];
        let table = run(home.lab(&words)).stdout;
        let line = table.lines().find(|line| line.trim().starts_with("eth0:"));
        let sent = line.and_then(|line| line.split_whitespace().nth(9)?.parse::<u64>().ok());
        sent.unwrap_or(0)
    };
    wait_until("the job sends", || port() > 2_000_000);
    interrupt(&running);
    let report = finish(running, "reweave-lab run").expect_code(1).json();
    assert_eq!(
        (&report["passed"], &report["ended"]),
        (&false.into(), &"interrupted".into())
    );
    let job = &jobs(&report)[0];
    assert!(job["iterations"].as_u64() > Some(0), "{job}");
    assert_eq!(complaints(job), []);
    assert!(flows(job).iter().all(|flow| flow["resets"] == 0), "{job}");
}

fn ctrl_c_before_the_beginning() {
    let home = Home::new();
    let text = format!("limit_s = 900\n{FABRIC}{ENDLESS_JOB}start_s = 800\n");
    let running = start(&home, &home.file("run.toml", &text));
    home.wait_until_ready("run");
    interrupt(&running);
    let said = finish(running, "reweave-lab run").expect_code(1);
    if !said.stdout.is_empty() {
        assert_eq!(said.json()["ended"], "interrupted");
    }
}

fn nothing_to_run() {
    let home = Home::new();
    let bare = "kind = 'ideal'\nhosts = 2\nnic_gbps = 0.1\n";
    for text in [FABRIC, bare] {
        let said = finish(start(&home, &home.file("run.toml", text)), "run").expect_code(2);
        assert_eq!(said.stdout, "");
        assert_eq!(said.stderr.lines().count(), 1, "{said:#?}");
        assert!(said.stderr.contains("no [[job]]"), "{said:#?}");
    }
}

fn shown_though_not_kept() {
    let home = Home::new();
    home.file("artifacts", "in the way of a folder\n");
    let text = format!(
        "{FABRIC}{}[[expect]]\njob = 'train'\nmax_iteration_ms = 1\n",
        ENDLESS_JOB.replace("1_000_000", "2")
    );
    let said = finish(start(&home, &home.file("run.toml", &text)), "run").expect_code(1);
    let report = said.json();
    assert_eq!(
        (&report["passed"], &report["artifacts"]),
        (&false.into(), &Value::Null)
    );
    assert!(
        said.stderr
            .contains("warning: cannot keep artifacts in artifacts"),
        "{said:#?}"
    );
    let mut kept = home.lab(&["run", "--keep"]);
    let text = text.replace("max_iteration_ms = 1", "");
    kept.arg(home.file("run.toml", &text))
        .current_dir(&home.path);
    let said: Said = run(kept).expect_code(1);
    assert!(said.stdout.contains("2 of 2 iterations"), "{said:#?}");
}

/// A link's new rate is refused by tc, while all else that tc is asked is done.
fn kept_when_it_cannot_go_on() {
    let home = Home::new();
    let tc = find("tc").expect("every lab needs it");
    let script = format!(
        "#!/bin/sh\nasked=$(cat)\ncase $asked in *'rate 77000000bit'*) echo no >&2; exit 1;; esac\n\
         printf '%s\\n' \"$asked\" | {} \"$@\"\n",
        tc.display()
    );
    let wrapper = home.file("tc", &script);
    fs::set_permissions(wrapper, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let text = format!(
        "limit_s = 2\n{FABRIC}{ENDLESS_JOB}\
         [[fault]]\nkind = 'link-rate'\nat_s = 0.2\ngbps = 0.077\nlink = ['h3', 'switch']\n"
    );
    let mut command: Command = home.lab(&["run"]);
    command
        .arg(home.file("run.toml", &text))
        .current_dir(&home.path);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(home.path.clone()).chain(std::env::split_paths(&path));
    command.env(
        "PATH",
        std::env::join_paths(path).expect("they were joined before"),
    );
    let said = run(command).expect_code(1);
    assert!(
        said.stderr.contains("error: cannot play the fault"),
        "{said:#?}"
    );
    let kept = home.path.join("artifacts/run-1");
    for name in ["scenario.toml", "h3.txt"] {
        assert!(kept.join(name).is_file(), "{name}: {said:#?}");
    }
}
