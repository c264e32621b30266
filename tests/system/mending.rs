//! One value walks through all eight stages, on a job that runs.

use std::fs;

use libtest_mimic::Trial;
use reweave_common::flow::FlowKey;
use reweave_common::operator::{FlowChange, FlowOutcome, FlowStatus, Mode, Outcome};
use reweave_tests::{Applied, Leadership, STAGE_TIMEOUT, Stage, wait_for};

use crate::needs::trial;
use crate::play::{
    MAX_STALL_MS, MIN_GAIN, STAGE_NEEDS, WATCH_TIME, collide, led, must, planned, slowest_over,
};
use crate::timed::timed_value;

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "timed_operator_repairs_collision",
        STAGE_NEEDS,
        || {
            timed_value(
                "a collision that an operator mends",
                mended_by_an_operator,
                |figures| {
                    figures.is_committed
                        && figures.gain >= MIN_GAIN
                        && figures.longest_stall_ms <= MAX_STALL_MS
                },
            );
        },
    )]
}

/// Whether the receiver's agent has traced what the receiver sends, over the spine that the kernel of
/// its leaf sends it over.
fn comes_back(stage: &Stage, flow: &FlowStatus) -> bool {
    let Some([first, second, .., last]) = flow.path_back.as_deref() else {
        return false;
    };
    let ends = (&first.from, &last.to);
    ends == (&flow.to, &flow.from) && second.to == spine_of(stage, &first.to, flow.flow.reversed())
}

/// Whom a leaf's kernel hands a flow that one of its hosts sends.
fn spine_of(stage: &Stage, leaf: &str, flow: FlowKey) -> String {
    let FlowKey {
        protocol,
        source,
        destination,
    } = flow;
    let ask = format!(
        "enters=$(ip route get {sender} | sed -n 's/.* dev \\([^ ]*\\).*/\\1/p')\n\
         ip route get {to} from {sender} iif $enters ipproto {protocol} sport {sport} dport {dport}",
        sender = source.ip(),
        to = destination.ip(),
        sport = source.port(),
        dport = destination.port(),
    );
    let said = must(stage.output(leaf, &["sh", "-c", &ask]));
    let (_, via) = said.split_once(" via ").expect("a spine lies between");
    let gateway = via.split(' ').next().unwrap_or_default();
    let owns = |node: &&str| {
        let addresses = must(stage.output(node, &["ip", "-4", "-o", "address"]));
        addresses.contains(&format!(" {gateway}/"))
    };
    let spine = stage.nodes().find(owns);
    spine.expect("a node has that address").to_owned()
}

#[derive(Debug)]
struct Figures {
    /// And both flows are judged to be faster.
    is_committed: bool,
    gain: f64,
    longest_stall_ms: f64,
}

/// As it was shown, or not at all.
fn applied_from_a_file(stage: &Stage) -> Applied {
    let (operator, file) = (stage.operator(), stage.path("plan.json"));
    let edited = stage.path("edited.json");
    let applied = must(wait_for("a plan is as it was shown", STAGE_TIMEOUT, || {
        operator.keep(&file)?;
        let shown = fs::read_to_string(&file).expect("it was written");
        let other = shown.replacen("\"parent\": 0", "\"parent\": 1", 1);
        assert_ne!(shown, other);
        fs::write(&edited, other).expect("a file can be made");
        let refused = operator.apply_from(&edited)?;
        assert!(
            refused.code == Some(2) && refused.words.contains("edited after the plan was shown"),
            "{refused:?}"
        );
        let applied = operator.apply_from(&file)?;
        let is_stale = applied.words.contains("have changed since you reviewed it");
        Ok((!is_stale).then_some(applied))
    }));
    let again = must(operator.apply_from(&file));
    assert!(again.code == Some(1) && again.record.is_none(), "{again:?}");
    applied
}

fn mended_by_an_operator() -> Figures {
    let stage = led(&Leadership::default());
    let mut job = collide(&stage);
    let before = slowest_over(&mut job, WATCH_TIME);
    let plan = planned(&stage);
    assert_eq!((plan.generation.0, plan.moves.len()), (1, 1), "{plan:#?}");

    let applied = applied_from_a_file(&stage);
    let record = applied.record.expect("what was applied is on record");
    let is_committed = record.outcome == Outcome::Committed;
    assert_eq!(applied.code == Some(0), is_committed, "{}", applied.words);
    let is_faster = |flow: &FlowOutcome| flow.change == FlowChange::Faster;
    let is_committed = is_committed && record.flows.iter().all(is_faster);

    let after = slowest_over(&mut job, WATCH_TIME);
    let status = must(stage.operator().status());
    assert_eq!((status.generation.0, status.mode), (1, Mode::Manual));
    assert_eq!(status.pins.len(), usize::from(is_committed));
    assert!(
        status.flows.len() >= 2 && status.flows.iter().all(|flow| comes_back(&stage, flow)),
        "{status:#?}"
    );
    let report = must(job.stop());
    assert!(report.kept_all_sessions(), "{report:#?}");
    Figures {
        is_committed,
        gain: after / before,
        longest_stall_ms: report.longest_stall_ms().expect("both ends have reported"),
    }
}
