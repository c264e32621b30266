//! Sessions that cross circuits while those are moved: first the routes leave the fibres, then the
//! mirrors move, then the routes come back.

use libtest_mimic::Trial;
use reweave_tests::{Job, JobReport, PATIENCE, wait_for};

use crate::LAB;
use crate::needs::trial;
use crate::scene::{Over, Scene, Thirds};

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "sessions_outlive_circuits_that_move",
        LAB,
        sessions_outlive,
    )]
}

/// How often the circuits are moved there and back.
const ROUNDS: usize = 5;

fn sessions_outlive() {
    let scene = Scene::up(Over::Restconf);
    scene.route(Thirds::Across);
    let running = Running::begin(&scene);
    let (mut from, before) = (Thirds::Across, scene.thrown_away());
    for to in [Thirds::Along, Thirds::Across]
        .into_iter()
        .cycle()
        .take(2 * ROUNDS)
    {
        scene.route(Thirds::Unused);
        scene.wait_until_drained();
        let (expected, desired) = (from.circuits(), to.circuits());
        scene.drive(&[
            "apply",
            "ocs0",
            "--expected",
            &expected,
            "--desired",
            &desired,
        ]);
        scene.wait_for_light();
        scene.route(to);
        running.go_on(10);
        from = to;
    }
    assert_eq!(scene.thrown_away(), before, "packets were thrown away");
    running.end_without_loss();
}

/// Sessions of every kind, from every host to every other: 204 over TCP, 60 over QUIC, and 24 of datagrams.
pub(crate) struct Running([Job; 3]);

const JOBS: [&str; 3] = ["tcp", "quic", "udp"];

impl Running {
    pub(crate) fn begin(scene: &Scene) -> Self {
        let running = Self(JOBS.map(|name| scene.0.job(name).expect("the job starts")));
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
        for (name, report) in JOBS.into_iter().zip(&reports) {
            tell(name, report);
            assert!(report.kept_all_sessions(), "{name}: {report:#?}");
        }
        let [tcp, quic, udp] = &reports;
        assert!(tcp.flows.len() >= 200 && quic.flows.len() >= 50);
        let lost = udp
            .flows
            .iter()
            .map(|flow| flow.lost.expect("it is counted"));
        assert_eq!(lost.sum::<u64>(), 0, "{udp:#?}");
        reports
    }
}

/// Waits until the job has done so many more iterations.
fn go_on(job: &Job, iterations: usize) {
    let done = || job.latest().map_or(0, |progress| progress.iterations);
    let before = done();
    let enough = || Ok((done() >= before + iterations).then_some(()));
    wait_for("the job goes on", PATIENCE, enough)
        .unwrap_or_else(|error| panic!("{error}: {before} and then {:#?}", job.latest()));
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
