//! Sessions of every kind between four hosts, under reconfigurations, and for as long without them: the control.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::time::Instant;

use reweave_tests::{Job, JobReport, Stage};

/// Their jobs, as tables of a scenario. Each session carries about 1 kB at a time: with more, the packets of all
/// sessions overflow a busy kernel's backlog (`net.core.netdev_max_backlog`).
pub(crate) const JOB_TABLES: &str = r#"
[[job]]
name = "tcp"
pattern = "all-to-all"
hosts = ["h0", "h1", "h2", "h3"]
flows_per_pair = 17
bytes = 68_000
compute_ms = 5
iterations = 1_000_000
[[job]]
name = "quic"
pattern = "all-to-all"
transport = "quic"
hosts = ["h0", "h1", "h2", "h3"]
flows_per_pair = 5
bytes = 20_000
compute_ms = 5
iterations = 1_000_000
[[job]]
name = "udp"
pattern = "all-to-all"
transport = "udp"
hosts = ["h0", "h1", "h2", "h3"]
flows_per_pair = 2
bytes = 20_000
compute_ms = 5
iterations = 1_000_000
"#;
const SESSION_JOB_NAMES: [&str; 3] = ["tcp", "quic", "udp"];

/// Reconfigurations under one run of the jobs; `REWEAVE_RECONFIGURATIONS` overrides the default.
pub(crate) fn reconfigurations(default: usize) -> usize {
    let count = std::env::var("REWEAVE_RECONFIGURATIONS").ok();
    count.map_or(default, |count| count.parse().expect("a number"))
}

/// Sessions from every host to every other: 204 over TCP, 60 over QUIC, and 24 of datagrams.
pub(crate) struct Running([Job; 3]);

impl Running {
    pub(crate) fn begin(stage: &Stage) -> Self {
        let running = Self(SESSION_JOB_NAMES.map(|name| stage.job(name).expect("the job starts")));
        running.go_on(20);
        running
    }

    pub(crate) fn go_on(&self, iterations: usize) {
        self.0.iter().for_each(|job| go_on(job, iterations));
    }

    /// No session was cut off, and no packet lost.
    #[track_caller]
    pub(crate) fn end_without_loss(self) -> [JobReport; 3] {
        let reports = self.0.map(|job| job.stop().expect("the job ends"));
        for (name, report) in SESSION_JOB_NAMES.into_iter().zip(&reports) {
            tell(name, report);
            assert!(report.kept_all_sessions(), "{name}: {report:#?}");
        }
        let [tcp, quic, udp] = &reports;
        assert!(tcp.flows.len() >= 200 && quic.flows.len() >= 50);
        assert_eq!(lost(udp), 0, "{udp:#?}");
        reports
    }
}

/// All sessions outlive the changes. Their longest stalls are printed beside those of a control without changes that
/// takes as long.
pub(crate) fn outlive(stage: &Stage, changes: impl FnOnce(&Running)) {
    let (running, began) = (Running::begin(stage), Instant::now());
    changes(&running);
    let took = began.elapsed();
    let changed = running.end_without_loss();
    let (running, began) = (Running::begin(stage), Instant::now());
    while began.elapsed() < took {
        running.go_on(1);
    }
    let control = running.end_without_loss();
    eprintln!(
        "longest stalls in ms of {SESSION_JOB_NAMES:?} in {took:.0?} of changes: {:.0?}; in the control: {:.0?}",
        longest_stalls(&changed),
        longest_stalls(&control)
    );
}

/// Waits until the job has done this many more iterations.
#[track_caller]
pub(crate) fn go_on(job: &Job, iterations: usize) {
    if let Err(error) = job.go_on(iterations) {
        panic!("{error}");
    }
}

/// Of a job that counts its packets.
pub(crate) fn lost(report: &JobReport) -> u64 {
    let lost = report.flows.iter().map(|flow| flow.lost);
    lost.map(|lost| lost.expect("it is counted")).sum()
}

fn longest_stalls(reports: &[JobReport; 3]) -> [Option<f64>; 3] {
    reports.each_ref().map(JobReport::longest_stall_ms)
}

fn tell(name: &str, report: &JobReport) {
    let retransmits: u64 = report
        .flows
        .iter()
        .filter_map(|flow| flow.retransmits)
        .sum();
    let mut stalls_ms: Vec<_> = report
        .flows
        .iter()
        .filter_map(|flow| flow.longest_stall_ms)
        .collect();
    stalls_ms.sort_by(f64::total_cmp);
    let at = |share: f64| stalls_ms[((stalls_ms.len() - 1) as f64 * share) as usize];
    eprintln!(
        "{name}: {} sessions, {} iterations, {retransmits} sent again; of the longest stall of each \
         session, half are at most {:.0} ms, the longest is {:.0} ms",
        report.flows.len(),
        report.iterations,
        at(0.5),
        at(1.0),
    );
}
