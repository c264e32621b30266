//! A link fails without an operator, in automatic mode.

use libtest_mimic::Trial;
use reweave_common::operator::{Finding, Hop, Outcome};
use reweave_tests::{Leadership, Loss, NO_RATE_ROLLBACK_POLICY, STAGE_TIMEOUT, wait_for};

use crate::drained::watched;
use crate::needs::trial;
use crate::play::{STAGE_NEEDS, WATCH_TIME, ended, must};
use crate::scene::{leaf_spine, led, sent_bytes};

const FAILING_LINK: &str = "leaf0-spine1";
/// More than probes send.
const MAX_IDLE_BYTES: u64 = 10_000;

pub(crate) fn tests() -> Vec<Trial> {
    let name = "auto_mode_drains_lossy_link";
    vec![trial(name, STAGE_NEEDS, drained)]
}

fn job() -> String {
    "[[job]]\nname = \"train\"\npattern = \"streams\"\nhosts = [\"h0\", \"h1\", \"h2\", \"h3\"]\n\
     pairs = [[0, 2], [1, 3]]\nbytes = 200_000\ncompute_ms = 5\niterations = 1_000_000\n\
     paths = \"spread\"\n"
        .to_owned()
}

fn drained() {
    let leadership = Leadership {
        auto: true,
        policy: format!("drain_failing_after_ms = 5000\n{NO_RATE_ROLLBACK_POLICY}"),
        ..Leadership::default()
    };
    let stage = led(&leaf_spine(4, 2, 2), &job(), &leadership);
    let _loss = must(Loss::on(&stage, ["leaf0", "spine1"], 20));
    must(wait_for("the link is drained", STAGE_TIMEOUT, || {
        let links = stage.operator().status()?.links;
        let is_it = |hop: &Hop| hop.from == "leaf0" && hop.to == "spine1";
        Ok(links
            .into_iter()
            .find(|link| link.drained && is_it(&link.hop)))
    }));
    let record = ended(&stage);
    println!("{record:#?}");
    assert_eq!(
        (&record.outcome, &record.proposed_by[..]),
        (&Outcome::Committed, "policy")
    );
    let [Finding::Cause(cause)] = &record.plan.report.findings[..] else {
        panic!("one finding: {record:#?}")
    };
    assert!(cause.subject.to_string().contains(FAILING_LINK), "{cause}");
    let mut job = must(stage.job("train"));
    must(job.wait_until("it sends", |progress| progress.iterations >= 2));
    let sent = || sent_bytes(&stage, "leaf0", "spine1");
    let before = sent();
    watched(&mut job, WATCH_TIME);
    let crossed = sent() - before;
    println!("{crossed} bytes crossed it");
    assert!(crossed < MAX_IDLE_BYTES, "{crossed}");
    assert!(must(job.stop()).kept_all_sessions());
}
