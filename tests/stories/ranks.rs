//! A job whose traffic no kernel sees: NCCL's plugin tells the agents of it, and they the coordinator. NCCL is
//! played by a program in C.

use std::env;
use std::path::Path;
use std::process::Command;

use libtest_mimic::Trial;
use reweave_common::cause::Class;
use reweave_common::operator::Finding;
use reweave_tests::{Leadership, PATIENCE, Program, Stage, wait_for};
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

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "a_job_that_no_kernel_sees_is_known_and_who_it_waits_for_is_named",
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
    command.args([computes, waits]);
    must(stage.start(&format!("rank-{host}"), command))
}
