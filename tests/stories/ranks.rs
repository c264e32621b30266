//! Jobs whose traffic no kernel sees: NCCL's plugin tells the agents of it, and they the coordinator. NCCL is
//! played by a program in C.

use std::collections::BTreeSet;
use std::env;
use std::path::Path;
use std::process::Command;

use libtest_mimic::Trial;
use reweave_common::cause::{Cause, Class};
use reweave_common::operator::Explanation;
use reweave_tests::{Leadership, Loss, Program, STAGE_TIMEOUT, Stage, wait_for};
use serde_json::Value;
use tempfile::TempDir;

use crate::needs::trial;
use crate::play::{STAGE_NEEDS, causes, led, must};

const HOSTS: [&str; 4] = ["h0", "h1", "h4", "h5"];
/// It computes for longer than the others, which wait for it in each collective.
const STRAGGLER_HOST: &str = "h4";
const SHORT_COMPUTE_US: &str = "5000";
const LONG_COMPUTE_US: &str = "15000";
const ENDLESS_ITERATIONS: &str = "1000000";
/// What the first sends the second is longer on its way than what others send.
const SLOW_PAIR: [&str; 2] = ["h1", STRAGGLER_HOST];
const EXTRA_DELAY_US: &str = "1000";

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "kernel_bypass_job_is_diagnosed",
            STAGE_NEEDS,
            ring_is_explained,
        ),
        trial(
            "rank_reports_name_job_troubles",
            STAGE_NEEDS,
            each_is_named_alone,
        ),
    ]
}

/// Agents that hear jobs on some hosts, and what plays NCCL there.
struct Play {
    stage: Stage,
    scratch: TempDir,
    harness: String,
}

impl Play {
    fn on(hosts: &[&str]) -> Self {
        let scratch = tempfile::tempdir().expect("a folder");
        let mut stage = led(&Leadership::default());
        for host in hosts {
            let hear = format!("exec \"$@\" --collectives {}", place(&scratch, host));
            must(stage.start_agent_under(host, &["sh", "-c", &hear, "sh"]));
        }
        must(stage.wait_until_known());
        let harness = compiled(&scratch);
        Self {
            stage,
            scratch,
            harness,
        }
    }

    /// One rank of this many, on its host.
    fn rank(&self, job: &str, [rank, ranks]: [usize; 2], host: &str, lasts: &[&str]) -> Program {
        let this = env::current_exe().expect("this test has a place");
        let plugin = this.with_file_name("libnccl_profiler_reweave.so");
        let tells = format!("REWEAVE_COLLECTIVES={}", place(&self.scratch, host));
        let mut command = self.stage.enter(host);
        command.args(["env", &tells, &self.harness]).arg(plugin);
        let [rank, ranks] = [rank, ranks].map(|it| it.to_string());
        command.args(["5", job, &ranks, &rank, ENDLESS_ITERATIONS]);
        command.args(lasts);
        must(self.stage.start(&format!("{job}-{rank}"), command))
    }
}

fn ring_is_explained() {
    let play = Play::on(&HOSTS);
    let ranks = HOSTS.iter().enumerate();
    let _ranks: Vec<_> = ranks.map(|(rank, host)| ring(&play, rank, host)).collect();
    let operator = play.stage.operator();
    must(wait_for("the job is known", STAGE_TIMEOUT, || {
        let answer: Value = operator.ask(&["jobs"])?;
        let hosts = Value::from(HOSTS.map(Value::from).to_vec());
        Ok((answer["jobs"][0]["hosts"] == hosts).then_some(()))
    }));
    must(wait_for(
        "who is waited for is named",
        STAGE_TIMEOUT,
        || {
            let is_it = |it: &Cause| {
                (it.class, it.subject.to_string()) == (Class::Straggler, STRAGGLER_HOST.to_owned())
            };
            Ok(causes(&play.stage).iter().any(is_it).then_some(()))
        },
    ));
    is_explained(&play.stage);
}

fn ring(play: &Play, rank: usize, host: &str) -> Program {
    let [computes, waits] = if host == STRAGGLER_HOST {
        [LONG_COMPUTE_US, SHORT_COMPUTE_US]
    } else {
        [SHORT_COMPUTE_US, LONG_COMPUTE_US]
    };
    let [sends, receives] = SLOW_PAIR.map(|slow| if host == slow { EXTRA_DELAY_US } else { "0" });
    let lasts = [computes, waits, sends, receives];
    play.rank("ring", [rank, HOSTS.len()], host, &lasts)
}

/// From its name to the cause: ranks tell of the collective and of the pair, and probes of the ways between them.
fn is_explained(stage: &Stage) {
    let operator = stage.operator();
    let hosts = HOSTS.join(",");
    must(operator.shown(&["job", "start", "train", "--hosts", &hosts]));
    let _loss = must(Loss::on(stage, ["leaf0", "spine0"], 10));
    let explanation = must(wait_for("its cause is named", STAGE_TIMEOUT, || {
        let explanation: Explanation = operator.ask(&["explain", "train"])?;
        // Until the link is found, what it knows of is whom the job waits for.
        let class = explanation.cause.as_ref().map(|cause| cause.class);
        Ok((class == Some(Class::LossyLink)).then_some(explanation))
    }));
    println!("{explanation:?}");
    assert_eq!(
        explanation.collective.as_deref(),
        Some("AllReduce RING SIMPLE")
    );
    assert_eq!(explanation.ranks, Some([1, 2]));
    assert_eq!(explanation.hosts, SLOW_PAIR);
    assert_eq!(
        explanation.path,
        [SLOW_PAIR[0], "leaf0", "spine0", "leaf1", SLOW_PAIR[1]]
    );
    let link = explanation
        .link
        .map(|it| it.to_string())
        .unwrap_or_default();
    assert!(link.contains("leaf0-spine0"), "{link}");
}

/// What is played, on which hosts by rank, and what should be found of the job by this name: stages that go to the
/// other rack and back, tensors that two hosts split, and all-reduces by two, four and eight ranks.
const ISOLATED_JOBS: [(&str, &[&str], Class, &str); 3] = [
    (
        "pipeline",
        &["h0", "h4", "h1"],
        Class::PipelineAcrossSpine,
        "job h0 and 2 others",
    ),
    (
        "tensor",
        &["h2", "h3"],
        Class::TensorAcrossHosts,
        "job h2 and h3",
    ),
    (
        "sizes",
        &["h5", "h6", "h7", "h5", "h6", "h7", "h5", "h6"],
        Class::AllreduceLinear,
        "job h5 and 2 others",
    ),
];

/// Three jobs beside each other, each of which has one trouble.
fn each_is_named_alone() {
    let hosts = ISOLATED_JOBS.iter().flat_map(|(_, hosts, ..)| *hosts);
    let hosts: BTreeSet<_> = hosts.copied().collect();
    let play = Play::on(&hosts.into_iter().collect::<Vec<_>>());
    let jobs = ISOLATED_JOBS.iter();
    let _ranks: Vec<_> = jobs
        .map(|(job, hosts, ..)| all_of(&play, job, hosts))
        .collect();
    let expected = ISOLATED_JOBS.map(|(.., class, subject)| (class, subject.to_owned()));
    let expected = BTreeSet::from(expected);
    let mut last = vec![];
    let found = wait_for("each is named, and nothing else", STAGE_TIMEOUT, || {
        last = causes(&play.stage);
        // A machine that is busy may be slow as well.
        last.retain(|it| it.class != Class::Latency);
        let named = last.iter().map(|it| (it.class, it.subject.to_string()));
        Ok((named.collect::<BTreeSet<_>>() == expected).then_some(()))
    });
    assert!(found.is_ok(), "{expected:?} where there are {last:#?}");
    last.iter().for_each(|cause| println!("{cause}"));
}

fn all_of(play: &Play, job: &str, hosts: &[&str]) -> Vec<Program> {
    let ranks = hosts.iter().enumerate();
    let start = |(rank, host): (usize, &&str)| {
        play.rank(
            job,
            [rank, hosts.len()],
            host,
            &[SHORT_COMPUTE_US, LONG_COMPUTE_US],
        )
    };
    ranks.map(start).collect()
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
