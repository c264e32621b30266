//! An orchestrator that starts and ends a job: what slows it is repaired, and nothing is left
//! behind.

use std::collections::BTreeSet;

use libtest_mimic::Trial;
use reweave_tests::{FlowProgress, Leadership, Progress};
use serde_json::Value;

use crate::needs::{Need, trial};
use crate::play::{STAGE_NEEDS, collide, led, must, status_when};

/// Where ranks would run, and nothing is started.
const RANK_MAP_SCRIPT: &str = "\
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_plm_rsh_agent=true OMPI_MCA_oob_tcp_if_include=lo
    mpirun -n 4 --do-not-launch --display-map true";
const HOSTS: &str = "h[0-1,4-5]";

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "job_start_pins_job_end_unpins",
            STAGE_NEEDS,
            job_start_pins_job_end_unpins,
        ),
        trial(
            "open_mpi_follows_rank_order",
            &[Need::Lab, Need::Program("mpirun")],
            dealt_out,
        ),
    ]
}

fn job_start_pins_job_end_unpins() {
    let stage = led(&Leadership::without_rate_rollback());
    let operator = stage.operator();
    let job = collide(&stage);
    must(job.wait_until("both flows share a spine", |it| spines_used(it) == Some(1)));
    let words = ["job", "start", "train", "--hosts", HOSTS, "--within", "30s"];
    let started: Value = must(operator.ask(&words));
    assert_eq!(started["change"]["outcome"], "committed", "{started:#}");
    assert_eq!(started["allocation"]["is_good"], true, "{started:#}");
    let separated = must(job.wait_until("each flow has a spine", |it| spines_used(it) == Some(2)));
    must(job.wait_until("the job goes on", |it| it.iterations > separated.iterations));
    assert!(must(job.stop()).kept_all_sessions());
    let answer: Value = must(operator.ask(&["jobs"]));
    assert_eq!(answer["registered"][0]["job"], "train", "{answer:#}");
    must(operator.shown(&["job", "end", "train"]));
    status_when(&stage, "its pins are gone", |status| status.pins.is_empty());
}

/// Over how many spines the kernels route the job's two flows; unknown while a node knows no route.
fn spines_used(progress: &Progress) -> Option<usize> {
    let spine = |flow: &FlowProgress| flow.path.iter().find(|it| it.starts_with("spine")).cloned();
    let spines: Option<BTreeSet<_>> = progress.flows.iter().map(spine).collect();
    spines
        .filter(|_| progress.flows.len() == 2)
        .map(|it| it.len())
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
        RANK_MAP_SCRIPT,
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
    let answer: Value = must(stage.operator().ask(&["jobs"]));
    assert_eq!(answer["registered"], Value::Array(vec![]), "it is over");
}
