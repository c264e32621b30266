//! Maintenance of a spine under a running job: its routing daemon is replaced, and the job loses nothing. If the new
//! daemon does not start, the spine stays drained, and the job still loses nothing.

use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reweave_common::operator::{MaintenanceStage, MaintenanceStatus};
use reweave_tests::{Job, Leadership, STAGE_TIMEOUT, Stage, wait_for};
use serde::Deserialize;

use crate::drained::watched;
use crate::needs::{Need, trial};
use crate::play::must;
use crate::scene::{leaf_spine, led, sent_bytes};

const MAINTAINED_SPINE: &str = "spine1";
const FRR_DAEMONS: [&str; 2] = ["zebra", "staticd"];
/// More than probes send.
const MAX_IDLE_BYTES: u64 = 10_000;
const WATCH_TIME: Duration = Duration::from_secs(2);

pub(crate) fn tests() -> Vec<Trial> {
    let needs = &[Need::Lab, Need::Root, Need::Program("vtysh")];
    let name = "frr_restart_under_maintenance_spares_job";
    vec![trial(name, needs, exchanged)]
}

/// Both flows have room on one spine.
fn job() -> String {
    "[[job]]\nname = \"train\"\npattern = \"streams\"\nhosts = [\"h0\", \"h1\", \"h2\", \"h3\"]\n\
     pairs = [[0, 2], [1, 3]]\nbytes = 50_000\ncompute_ms = 30\niterations = 1_000_000\n\
     paths = \"spread\"\n"
        .to_owned()
}

/// FRR in place of the routes that the lab installed on the spine.
struct Frr<'s> {
    stage: &'s Stage,
    routes: Vec<String>,
}

impl<'s> Frr<'s> {
    fn in_charge(stage: &'s Stage) -> Self {
        let shown = must(stage.output(MAINTAINED_SPINE, &["ip", "-4", "route", "show"]));
        let is_to_host = |line: &&str| line.starts_with("10.0.0.");
        let lines: Vec<_> = shown.lines().filter(is_to_host).collect();
        let frr = Self {
            stage,
            routes: lines
                .iter()
                .filter_map(|line| in_frrs_words(line))
                .collect(),
        };
        assert_eq!(frr.routes.len(), 4, "to each host: {shown}");
        fs::create_dir_all(frr.folder()).expect("a folder");
        let owned = Command::new("chown")
            .args(["frr:frr", &frr.folder()])
            .status();
        assert!(owned.is_ok_and(|it| it.success()), "a user frr");
        frr.start(&frr.routes.join("\n"));
        for line in lines {
            let route: Vec<_> = line.split_whitespace().take(5).collect();
            must(stage.output(
                MAINTAINED_SPINE,
                &[&["ip", "route", "del"], &route[..]].concat(),
            ));
        }
        frr.wait_for_routes();
        frr
    }

    fn folder(&self) -> String {
        self.stage.path("frr").display().to_string()
    }

    fn start(&self, configuration: &str) {
        let folder = self.folder();
        let file = format!("{folder}/frr.conf");
        fs::write(&file, configuration.to_owned() + "\n").expect("a file");
        for daemon in FRR_DAEMONS {
            let program = format!("/usr/lib/frr/{daemon}");
            let api = format!("{folder}/zserv.api");
            let number = format!("{folder}/{daemon}.pid");
            let words = ["-d", "-u", "frr", "-g", "frr", "--vty_socket", &folder];
            let files = ["-f", &file, "-z", &api, "-i", &number];
            must(self.stage.output(
                MAINTAINED_SPINE,
                &[&[&program[..]], &words[..], &files[..]].concat(),
            ));
        }
    }

    /// Stops the daemon cleanly, which removes its routes.
    fn stop(&self) {
        for daemon in ["staticd", "zebra"] {
            let kill = format!("kill $(cat {}/{daemon}.pid)", self.folder());
            must(self.stage.output(MAINTAINED_SPINE, &["sh", "-c", &kill]));
        }
        must(wait_for(
            "FRR and its routes are gone",
            STAGE_TIMEOUT,
            || {
                let is_gone = self.held()? == 0 && !self.runs()?;
                Ok(is_gone.then_some(()))
            },
        ));
    }

    /// Routes disappear before the daemon that installed them; a second daemon must not start beside it.
    fn runs(&self) -> Result<bool, reweave_tests::StageError> {
        let runs = |daemon| format!("test -e /proc/$(cat {}/{daemon}.pid)/exe", self.folder());
        let script = format!(
            "{{ {}; }} && echo yes || true",
            FRR_DAEMONS.map(runs).join(" || ")
        );
        let said = self
            .stage
            .output(MAINTAINED_SPINE, &["sh", "-c", &script])?;
        Ok(!said.trim().is_empty())
    }

    fn wait_for_routes(&self) {
        must(wait_for("FRR's routes", STAGE_TIMEOUT, || {
            Ok((self.held()? == self.routes.len()).then_some(()))
        }));
    }

    fn held(&self) -> Result<usize, reweave_tests::StageError> {
        let shown = self
            .stage
            .output(MAINTAINED_SPINE, &["ip", "-4", "route", "show"])?;
        let by_frr = |line: &&str| line.contains("proto static");
        Ok(shown.lines().filter(by_frr).count())
    }
}

/// `10.0.0.1 via 10.192.0.10 dev swp1 ...`
fn in_frrs_words(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let to = words.next()?;
    let words: Vec<_> = words.collect();
    let after = |key: &str| {
        let place = words.iter().position(|word| *word == key)?;
        words.get(place + 1)
    };
    let (gateway, port) = (after("via")?, after("dev")?);
    Some(format!("ip route {to}/32 {gateway} {port} onlink"))
}

#[derive(Debug, Deserialize)]
struct Report {
    stopped_because: Option<String>,
    what_to_do: Option<String>,
}

/// `reweave maintenance`, whose command waits until the test has done the work.
struct Work<'s> {
    stage: &'s Stage,
    program: Child,
}

impl<'s> Work<'s> {
    fn begin(stage: &'s Stage, options: &[&str]) -> Self {
        let [begun, done] = files(stage);
        for file in [&begun, &done] {
            let _ = fs::remove_file(file);
        }
        let script = format!(
            "test \"$REWEAVE_NODE\" = {MAINTAINED_SPINE} || exit 9; touch {begun}; \
             until test -s {done}; do sleep 0.05; done; exit $(cat {done})"
        );
        let words = ["--output", "json", "maintenance", MAINTAINED_SPINE];
        let mut command = stage
            .operator()
            .command(&[&words[..], options, &["--", "sh", "-c", &script]].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let program = command.spawn().expect("it starts");
        let mut work = Self { stage, program };
        let has_ended = must(wait_for("work begins, or ends", STAGE_TIMEOUT, || {
            let has_ended = matches!(work.program.try_wait(), Ok(Some(_)));
            let has_begun = fs::exists(&begun).unwrap_or(false);
            Ok((has_begun || has_ended).then_some(has_ended))
        }));
        if has_ended {
            panic!("it did not begin: {:?}", work.finish());
        }
        work
    }

    fn end(self, code: u8) -> (Option<i32>, Report) {
        self.tell(code);
        let output = self.finish();
        let report = serde_json::from_slice(&output.stdout);
        let report = report.unwrap_or_else(|error| panic!("{error}: {output:?}"));
        (output.status.code(), report)
    }

    fn tell(&self, code: u8) {
        let [_, done] = files(self.stage);
        fs::write(done, code.to_string()).expect("a file");
    }

    fn finish(self) -> Output {
        let output = self.program.wait_with_output().expect("it ends");
        eprintln!("{}", String::from_utf8_lossy(&output.stderr));
        output
    }
}

fn files(stage: &Stage) -> [String; 2] {
    ["begun", "done"].map(|name| stage.path(name).display().to_string())
}

#[derive(Deserialize)]
struct Listed {
    maintenance: Vec<MaintenanceStatus>,
}

fn stage_of_work(stage: &Stage) -> Option<MaintenanceStage> {
    let listed: Listed = must(stage.operator().ask(&["maintenance"]));
    listed.maintenance.first().map(|it| it.stage)
}

/// How many bytes the spine sends meanwhile.
fn carried(stage: &Stage, job: &mut Job) -> u64 {
    let sum = || {
        ["leaf0", "leaf1"]
            .map(|leaf| sent_bytes(stage, MAINTAINED_SPINE, leaf))
            .iter()
            .sum::<u64>()
    };
    let before = sum();
    watched(job, WATCH_TIME);
    sum() - before
}

fn exchanged() {
    let mut stage = led(
        &leaf_spine(2, 2, 2),
        &job(),
        &Leadership::without_rate_rollback(),
    );
    let frr = Frr::in_charge(&stage);
    let mut job = must(stage.job("train"));
    must(job.wait_until("it sends", |progress| progress.iterations >= 2));
    assert!(carried(&stage, &mut job) > MAX_IDLE_BYTES);
    let routes = frr.routes.clone();
    does_not_come_up(&stage, &frr, &mut job);
    drop(frr);
    is_interrupted_and_its_leader_dies(&mut stage, &mut job);
    let frr = Frr {
        stage: &stage,
        routes,
    };
    is_exchanged(&stage, &frr, &mut job);
    let report = must(job.stop());
    eprintln!("longest stall: {:?} ms", report.longest_stall_ms());
    assert!(report.kept_all_sessions(), "{report:#?}");
}

/// The daemon rejects its new configuration, and installs no routes.
fn does_not_come_up(stage: &Stage, frr: &Frr<'_>, job: &mut Job) {
    let work = Work::begin(stage, &[]);
    frr.stop();
    frr.start("ip root to nowhere");
    let left = carried(stage, job);
    assert!(left < MAX_IDLE_BYTES, "{left}");
    assert_eq!(must(frr.held()), 0);
    let (code, report) = work.end(1);
    assert_eq!(code, Some(1), "{report:?}");
    assert!(
        report
            .stopped_because
            .is_some_and(|it| it.contains(" failed: "))
    );
    assert!(report.what_to_do.is_some_and(|it| it.contains("--finish")));
    assert_eq!(stage_of_work(stage), Some(MaintenanceStage::Draining));
    let left = carried(stage, job);
    assert!(left < MAX_IDLE_BYTES, "{left}");
}

/// The leader dies while the maintenance command runs, and the next leader knows the maintenance.
fn is_interrupted_and_its_leader_dies(stage: &mut Stage, job: &mut Job) {
    let mut work = Work::begin(stage, &[]);
    let pid = Pid::from_raw(work.program.id().cast_signed());
    kill(pid, Signal::SIGTERM).expect("it runs");
    must(job.watch(WATCH_TIME));
    assert!(
        matches!(work.program.try_wait(), Ok(None)),
        "its command runs"
    );
    work.tell(0);
    let output = work.finish();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && said.contains("interrupted: "),
        "{said}"
    );
    must(stage.coordinator()).kill();
    must(stage.lead(&Leadership::without_rate_rollback()));
    must(stage.wait_until_known());
    assert_eq!(stage_of_work(stage), Some(MaintenanceStage::Working));
    let left = carried(stage, job);
    assert!(left < MAX_IDLE_BYTES, "{left}");
}

/// The command fails first: the daemon is up and its agent is not.
fn is_exchanged(stage: &Stage, frr: &Frr<'_>, job: &mut Job) {
    let words = ["maintenance", MAINTAINED_SPINE, "--", "true"];
    let second = stage.operator().command(&words).output().expect("it runs");
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(
        !second.status.success() && said.contains("--take-over"),
        "the interrupted command may still run: {said}"
    );
    let options = [
        "--take-over",
        "--expect-version",
        "0.0.0",
        "--within-s",
        "2",
    ];
    let work = Work::begin(stage, &options);
    frr.stop();
    // The same routes in another order, as the next configuration.
    let other = frr.routes.iter().rev().map(|it| format!("{it} 7"));
    frr.start(&other.collect::<Vec<_>>().join("\n"));
    frr.wait_for_routes();
    let (code, report) = work.end(0);
    let why = report.stopped_because.unwrap_or_default();
    assert!(code == Some(1) && why.contains("instead of 0.0.0"), "{why}");
    let left = carried(stage, job);
    assert!(left < MAX_IDLE_BYTES, "{left}");
    finish_maintenance(stage);
    assert_eq!(stage_of_work(stage), None);
    assert!(carried(stage, job) > MAX_IDLE_BYTES, "it carries again");
}

fn finish_maintenance(stage: &Stage) {
    let words = [
        "maintenance",
        MAINTAINED_SPINE,
        "--finish",
        "--watch-s",
        "3",
    ];
    must(stage.operator().shown(&words));
}
