//! An orchestrator that starts and ends a job: what slows it is mended, and nothing is left behind.

use libtest_mimic::Trial;
use reweave_tests::Leadership;
use serde_json::Value;

use crate::needs::{Need, trial};
use crate::play::{STAGE, collide, led, must, status_when};

/// Where ranks would run, and nothing is started.
const MAP: &str = "\
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_plm_rsh_agent=true OMPI_MCA_oob_tcp_if_include=lo
    mpirun -n 4 --do-not-launch --display-map true";
const HOSTS: &str = "h[0-1,4-5]";

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "job_start_mends_and_job_end_releases",
            STAGE,
            started_and_ended,
        ),
        trial(
            "open_mpi_deals_ranks_out_in_the_order_of_the_run",
            &[Need::Lab, Need::Program("mpirun")],
            dealt_out,
        ),
    ]
}

fn started_and_ended() {
    let stage = led(&Leadership::default());
    let operator = stage.operator();
    let mut job = collide(&stage);
    let words = ["job", "start", "train", "--hosts", HOSTS, "--within", "30"];
    let started: Value = must(operator.ask(&words));
    assert_eq!(started["change"]["outcome"], "committed", "{started:#}");
    assert_eq!(started["allocation"]["is_good"], true, "{started:#}");
    must(job.wait_until("its two flows go up apart", |progress| {
        let [one, other] = &progress.flows[..] else {
            return false;
        };
        one.path
            .iter()
            .all(|node| !node.starts_with("spine") || !other.path.contains(node))
    }));
    assert!(must(job.stop()).kept_all_sessions());
    let told: Value = must(operator.ask(&["jobs"]));
    assert_eq!(told["registered"][0]["job"], "train", "{told:#}");
    must(operator.shown(&["job", "end", "train"]));
    status_when(&stage, "its pins are gone", |status| status.pins.is_empty());
}

/// Listed from rack to rack; each rack's hosts follow each other afterwards.
fn dealt_out() {
    let stage = led(&Leadership::default());
    let words = [
        "run",
        "--job",
        "mpi",
        "--hosts",
        "h[0,4,1,5]",
        "--",
        "sh",
        "-c",
        MAP,
    ];
    let output = stage.operator().command(&words).output();
    let output = output.expect("it can be run");
    let said = String::from_utf8_lossy(&output.stdout);
    let nodes = said
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Data for node: "));
    let nodes = nodes.filter_map(|rest| rest.split_whitespace().next());
    let racks: Vec<_> = nodes.map(|node| node < "h4").collect();
    let next = racks.iter().cycle().skip(1);
    let crossings = racks.iter().zip(next).filter(|(one, other)| one != other);
    assert!(
        racks.len() == 4 && crossings.count() == 2,
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let told: Value = must(stage.operator().ask(&["jobs"]));
    assert_eq!(told["registered"], Value::Array(vec![]), "it is over");
}
