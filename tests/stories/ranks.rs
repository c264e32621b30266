//! A job whose traffic no kernel sees: NCCL's plugin tells the agents of it, and they the coordinator. NCCL is
//! played by a program in C.

use std::env;
use std::path::Path;
use std::process::Command;

use libtest_mimic::Trial;
use reweave_common::cause::Class;
use reweave_common::operator::{Explanation, Finding};
use reweave_tests::{Leadership, Loss, PATIENCE, Program, Stage, wait_for};
use serde_json::Value;
use tempfile::TempDir;

use crate::needs::trial;
use crate::play::{STAGE, led, must};

const HOSTS: [&str; 4] = ["h0", "h1", "h4", "h5"];
/// It computes for longer than the others, which wait for it in each collective.
const LATE: &str = "h4";
const SHORT_US: &str = "5000";
const LONG_US: &str = "15000";
const WITHOUT_END: &str = "1000000";
/// What the first sends the second is longer on its way than what others send.
const SLOW: [&str; 2] = ["h1", LATE];
const ON_WAY_US: &str = "1000";

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "a_job_that_no_kernel_sees_is_known_and_what_it_waits_for_is_named",
        STAGE,
        told,
    )]
}

fn told() {
    let scratch = tempfile::tempdir().expect("a folder");
    let mut stage = led(&Leadership::default());
    for host in HOSTS {
        let hear = format!("exec \"$@\" --collectives {}", place(&scratch, host));
        must(stage.start_agent_under(host, &["sh", "-c", &hear, "sh"]));
    }
    must(stage.wait_until_known());
    let harness = compiled(&scratch);
    let play = |(rank, host)| played(&stage, &scratch, &harness, (rank, host));
    let _ranks: Vec<_> = (0..).zip(HOSTS).map(play).collect();
    let operator = stage.operator();
    must(wait_for("the job is known", PATIENCE, || {
        let told: Value = operator.ask(&["jobs"])?;
        let hosts = Value::from(HOSTS.map(Value::from).to_vec());
        Ok((told["jobs"][0]["hosts"] == hosts).then_some(()))
    }));
    must(wait_for("who is waited for is named", PATIENCE, || {
        let found = operator.diagnose()?.findings;
        let is_it = |finding: &Finding| match finding {
            Finding::Cause(cause) => {
                (cause.class, cause.subject.to_string()) == (Class::Straggler, LATE.to_owned())
            }
            _ => false,
        };
        Ok(found.iter().any(is_it).then_some(()))
    }));
    is_explained(&stage);
}

/// From its name to the cause: ranks tell of the collective and of the pair, and probes of the ways between them.
fn is_explained(stage: &Stage) {
    let operator = stage.operator();
    let hosts = HOSTS.join(",");
    must(operator.shown(&["job", "start", "train", "--hosts", &hosts]));
    let _loss = must(Loss::on(stage, ["leaf0", "spine0"], 10));
    let told = must(wait_for("its cause is named", PATIENCE, || {
        let told: Explanation = operator.ask(&["explain", "train"])?;
        // Until the link is found, what it knows of is whom the job waits for.
        let class = told.cause.as_ref().map(|cause| cause.class);
        Ok((class == Some(Class::LossyLink)).then_some(told))
    }));
    println!("{told:?}");
    assert_eq!(told.collective.as_deref(), Some("AllReduce RING SIMPLE"));
    assert_eq!(told.ranks, Some([1, 2]));
    assert_eq!(told.hosts, SLOW);
    assert_eq!(told.path, [SLOW[0], "leaf0", "spine0", "leaf1", SLOW[1]]);
    let link = told.link.map(|it| it.to_string()).unwrap_or_default();
    assert!(link.contains("leaf0-spine0"), "{link}");
}

fn place(scratch: &TempDir, host: &str) -> String {
    scratch.path().join(host).display().to_string()
}

fn compiled(scratch: &TempDir) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../agent/nccl/tests/harness.c");
    let harness = place(scratch, "harness");
    let mut compile = Command::new("cc");
    compile.args(["-O2", "-o", &harness]).arg(source);
    let status = compile.args(["-ldl", "-lpthread"]).status();
    assert!(status.expect("cc runs").success());
    harness
}

/// One rank, on its host.
fn played(stage: &Stage, scratch: &TempDir, harness: &str, (rank, host): (u32, &str)) -> Program {
    let this = env::current_exe().expect("this test has a place");
    let plugin = this.with_file_name("libnccl_profiler_reweave.so");
    let tells = format!("REWEAVE_COLLECTIVES={}", place(scratch, host));
    let mut command = stage.enter(host);
    command.args(["env", &tells, harness]).arg(plugin);
    command.args(["5", "ring", "4", &rank.to_string(), WITHOUT_END]);
    let [computes, waits] = match host == LATE {
        true => [LONG_US, SHORT_US],
        false => [SHORT_US, LONG_US],
    };
    let on_way = SLOW.map(|slow| if host == slow { ON_WAY_US } else { "0" });
    command.args([computes, waits]).args(on_way);
    must(stage.start(&format!("rank-{host}"), command))
}
